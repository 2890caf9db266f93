// Small helpers that make elements. Every text enters the page here, by textContent.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Make an element with a text; `isolated` keeps right-to-left names from turning their line around. */
export function made(tag, className = "", text = "", isolated = false) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (isolated) element.dir = "auto";
  element.textContent = text;
  return element;
}

/** Set a text if it is another: what did not change is not announced, nor laid out again. */
export function write(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

export const show = (id, isShown) => { byId(id).hidden = !isShown; };

/** Put elements into a list in order, and move none that is there already: it may have the focus. */
export function place(list, elements) {
  const wanted = new Set(elements);
  for (const one of [...list.children]) if (!wanted.has(one)) one.remove();
  elements.forEach((one, index) => { if (list.children[index] !== one) list.insertBefore(one, list.children[index] ?? null); });
}

/** Clear a canvas, sized for the screen; return {context, width, height, color}, null if it is not shown.
 * `color` reads a color of the page's style. */
export function sketch(canvas) {
  const [width, height, density] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  if (!width) return null;
  [canvas.width, canvas.height] = [Math.round(width * density), Math.round(height * density)];
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  const style = getComputedStyle(document.documentElement);
  return { context, width, height, color: (name) => style.getPropertyValue(name) };
}

/** Draw rates, [ms ago, value] oldest first, as a line over a span of time. */
export function drawLine(id, rates, spanMs, label) {
  const svg = byId(id);
  const [width, height] = [240, 44];
  const most = Math.max(1, ...rates.map(([, value]) => value));
  const points = rates.map(([ago, value]) =>
    `${(width * (1 - ago / spanMs)).toFixed(1)},${(height - 1 - (height - 3) * (value / most)).toFixed(1)}`);
  if (!svg.firstChild) {
    for (const name of ["area", "stroke"]) {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", name);
      svg.append(path);
    }
  }
  const line = points.length > 1 ? `M${points.join("L")}` : "";
  const first = points.length ? points[0].split(",")[0] : 0;
  svg.firstChild.setAttribute("d", line && `${line}L${width},${height}L${first},${height}Z`);
  svg.lastChild.setAttribute("d", line);
  svg.setAttribute("aria-label", label);
}
