// Reads Prometheus' text, and what can be told from two readings of it.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** Give name → [{labels, value}] of a text. */
export function parseMetrics(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const parts = line.startsWith("#") ? null : LINE.exec(line);
    if (parts === null) continue;
    const labels = {};
    for (const [, name, value] of (parts[2] ?? "").matchAll(LABEL)) {
      labels[name] = value.replace(/\\(.)/g, (_, one) => (one === "n" ? "\n" : one));
    }
    if (!found.has(parts[1])) found.set(parts[1], []);
    found.get(parts[1]).push({ labels, value: Number(parts[3].replace("Inf", "Infinity")) });
  }
  return found;
}

/** Sum the samples of a name whose labels are as wanted; null where there are none. */
export function total(metrics, name, wanted = {}) {
  const samples = (metrics.get(name) ?? []).filter(({ labels }) =>
    Object.entries(wanted).every(([key, value]) => labels[key] === value));
  return samples.length ? samples.reduce((sum, { value }) => sum + value, 0) : null;
}

/** Give what a moment is remembered by: counts that only grow. */
export function reading(metrics, atMs) {
  const refusals = new Map();
  for (const { labels, value } of metrics.get("placet_refusals_total") ?? []) {
    if (value > 0) refusals.set(`${labels.stage}/${labels.code}`, value);
  }
  return {
    atMs,
    admitted: total(metrics, "placet_intents_total", { outcome: "admitted" }) ?? 0,
    refused: total(metrics, "placet_intents_total", { outcome: "refused" }) ?? 0,
    refusals,
    times: {
      decide: histogram(metrics, "placet_decide_seconds"),
      commit: histogram(metrics, "placet_commit_seconds"),
      verdict: histogram(metrics, "placet_submit_to_verdict_seconds"),
    },
  };
}

function histogram(metrics, name) {
  const buckets = (metrics.get(`${name}_bucket`) ?? [])
    .map(({ labels, value }) => [Number(labels.le.replace("+Inf", "Infinity")), value])
    .sort(([one], [other]) => one - other);
  return { buckets, sum: total(metrics, `${name}_sum`) ?? 0, count: total(metrics, `${name}_count`) ?? 0 };
}

/** Give mean and a bound of 99 in 100, seconds, of what came between two readings of a histogram. */
export function between(before, after) {
  const count = after.count - before.count;
  if (count <= 0) return null;
  const early = new Map(before.buckets);
  const bound = after.buckets.find(([le, value]) => value - (early.get(le) ?? 0) >= 0.99 * count);
  return { mean: (after.sum - before.sum) / count, bound: bound ? bound[0] : Infinity };
}

/** Readings of the last two minutes. A server that began again begins them again. */
export class History {
  constructor(spanMs) {
    this.spanMs = spanMs;
    this.readings = [];
  }

  add(one) {
    const last = this.readings.at(-1);
    if (last && (one.admitted < last.admitted || one.refused < last.refused)) this.readings = [];
    this.readings.push(one);
    while (this.readings[0].atMs < one.atMs - this.spanMs) this.readings.shift();
  }

  get last() { return this.readings.at(-1); }

  /** Give the oldest reading of the last so many milliseconds; the last one if it is alone. */
  since(ms) {
    return this.readings.find(({ atMs }) => atMs >= this.last.atMs - ms) ?? this.last;
  }

  /** Give [ms before the last, per second] between each two readings. */
  rates(field) {
    const found = [];
    for (let index = 1; index < this.readings.length; index += 1) {
      const [one, next] = [this.readings[index - 1], this.readings[index]];
      const seconds = (next.atMs - one.atMs) / 1000;
      found.push([this.last.atMs - next.atMs, seconds > 0 ? (next[field] - one[field]) / seconds : 0]);
    }
    return found;
  }
}
