// Draws the figures of a report from the JSON in the page, and offers their data.
"use strict";
(() => {
  const ROWS_MAX = 1000;
  const figures = JSON.parse(document.getElementById("data").textContent);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // As in placet/schemas/printable.py; the data and its CSV have the characters themselves.
  const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;
  const printable = (text) => text.replace(UNSEEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const shown = (value) => {
    if (value === null || value === undefined) return "";
    if (!isNumber(value)) return printable(typeof value === "object" ? JSON.stringify(value) : String(value));
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
  };
  const charts = [];

  function draw(figure, place, width) {
    const [x, ...names] = figure.names.map(printable);
    const shade = (k) => color(figure.band && k !== 1 ? "--band" : figure.band ? "--s1" : `--s${(k % 8) + 1}`);
    const axis = { stroke: () => color("--quiet"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { show: false } };
    const font = "11px system-ui, sans-serif";
    const series = names.map((label, k) => ({
      label, stroke: () => shade(k), width: figure.band && k !== 1 ? 0 : 1.5, points: { show: figure.columns[0].length < 2 },
      value: (_, value) => (value === null || value === undefined ? "" : shown(value)),
      paths: figure.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
    }));
    return new uPlot({
      width, height: 230, series: [{ label: x, value: (_, v) => (v === null || v === undefined ? "" : shown(v)) }, ...series],
      scales: { x: { time: false }, y: figure.range ? { range: figure.range } : {} },
      axes: [{ ...axis, font, size: 34, label: x, labelSize: 18, labelFont: font }, { ...axis, font, size: 52, values: (_, vs) => vs.map((v) => (Math.abs(v) >= 1e4 ? `${shown(v / 1e3)}k` : shown(v))) }],
      bands: figure.band ? [{ series: [3, 1], fill: () => color("--band") }] : [],
      cursor: { points: { size: 6 } }, legend: { live: true, markers: { width: 0, fill: (_, k) => shade(k - 1) } },
    }, figure.columns, place);
  }

  function rowsOf(figure) {
    return (figure.columns[0] ?? []).map((_, row) => figure.columns.map((column) => column[row]));
  }

  function fillTable(figure, place) {
    if (place.childElementCount) return;
    const table = document.createElement("table");
    const isText = figure.columns.map((column) => column.some((v) => v !== null && !isNumber(v)));
    const cells = (row, values, kind) => values.forEach((value, k) => {
      const cell = document.createElement(kind);
      cell.textContent = shown(value);
      if (isText[k]) { cell.className = "text"; cell.title = cell.textContent; }
      if (kind === "th") cell.scope = "col";
      row.append(cell);
    });
    cells(table.createTHead().insertRow(), figure.names, "th");
    const body = table.createTBody();
    const rows = rowsOf(figure);
    rows.slice(0, ROWS_MAX).forEach((values) => cells(body.insertRow(), values, "td"));
    place.append(table);
    if (rows.length > ROWS_MAX) {
      const more = document.createElement("p");
      more.textContent = `and ${rows.length - ROWS_MAX} more rows, in the CSV file`;
      place.append(more);
    }
  }

  function asCsv(figure) {
    const cell = (value) => {
      if (value === null || value === undefined) return "";
      if (typeof value === "number" || typeof value === "boolean") return String(value);
      const text = typeof value === "object" ? JSON.stringify(value) : value;
      return `"${text.replaceAll('"', '""')}"`;
    };
    return [figure.names, ...rowsOf(figure)].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  }

  function download(figure, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([asCsv(figure)], { type: "text/csv" }));
    link.download = `${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  const resized = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => {
    const chart = charts.find((one) => one.place === target);
    if (chart && contentRect.width && Math.abs(contentRect.width - chart.plot.width) > 1) {
      chart.plot.setSize({ width: contentRect.width, height: 230 });
    }
  }));

  document.querySelectorAll("figure[data-figure]").forEach((element) => {
    const figure = figures[Number(element.dataset.figure)];
    const place = element.querySelector(".chart.lines");
    if (place) {
      place.replaceChildren();
      charts.push({ place, plot: draw(figure, place, place.clientWidth || 320) });
      resized.observe(place);
    }
    const details = element.querySelector("details");
    const fill = () => details.open && fillTable(figure, details.querySelector(".scroll"));
    details.addEventListener("toggle", fill);
    fill();
    element.querySelector("button").addEventListener("click", () => download(figure, element.dataset.name));
  });
  const redraw = () => charts.forEach(({ plot }) => plot.redraw(false, true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
