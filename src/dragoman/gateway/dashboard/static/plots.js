// The charts, as plain SVG in the current size of their element.

import { clock, date, el } from "./parts.js";

const LEFT = 52, RIGHT = 8, TOP = 8, BOTTOM = 22;
const NICE = [1, 2, 2.5, 5, 10];
const DAY = 86400;

/** Days are those of UTC, other times are local. */
const zone = (size) => (size >= DAY ? "UTC" : undefined);

function shape(parent, tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function clear(svg) {
  svg.replaceChildren();
  const width = svg.clientWidth || 300, height = svg.clientHeight || 190;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { right: width - RIGHT, bottom: height - BOTTOM };
}

function gridLine(svg, y, right, label) {
  shape(svg, "line", { class: "grid", x1: LEFT, x2: right, y1: y, y2: y });
  shape(svg, "text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, label);
}

function timeAxis(svg, { since: from, until: to, size }, { right, bottom }) {
  const steps = right < 420 ? 2 : 4, isLong = to - from > 2 * DAY;
  for (let i = 0; i <= steps; i++) {
    const anchor = i === 0 ? "start" : i === steps ? "end" : "middle";
    const x = LEFT + ((right - LEFT) * i) / steps, moment = from + ((to - from) * i) / steps;
    shape(svg, "text", { x, y: bottom + 16, "text-anchor": anchor }, isLong ? date(moment, zone(size)) : clock(moment, { hour: "2-digit", minute: "2-digit" }));
  }
}

/** The grid of a chart up to `max`; returns the height of a value. */
function scale(svg, max, { right, bottom }, format) {
  const unit = 10 ** Math.floor(Math.log10(max / 3));
  const step = unit * NICE.find((nice) => unit * nice >= max / 3);
  const lines = Math.ceil(max / step - 1e-9), height = (value) => (value / (lines * step)) * (bottom - TOP);
  for (let i = 0; i <= lines; i++) gridLine(svg, bottom - height(i * step), right, format(i * step).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, ""));
  return height;
}

export const name = (start, size) => (size >= DAY ? date(start, "UTC") : `${date(start)}, ${clock(start, { hour: "2-digit", minute: "2-digit" })}`);

/**
 * Stacked bars over time. `series` are {name, class}; `values(bucket)` gives one number for each of them.
 * `sums` is the answer of usage/sums with the size of its buckets in seconds.
 */
export function bars(svg, sums, series, values, format) {
  const area = clear(svg), { right, bottom } = area, { since, until, size } = sums;
  timeAxis(svg, sums, area);
  const columns = new Map();
  for (const bucket of sums.buckets) {
    const column = columns.get(bucket.start) || columns.set(bucket.start, series.map(() => 0)).get(bucket.start);
    values(bucket).forEach((value, i) => (column[i] += value));
  }
  const total = (column) => column.reduce((sum, value) => sum + value, 0);
  const max = Math.max(0, ...[...columns.values()].map(total));
  const all = series.map(({ name }, i) => `${format(total([...columns.values()].map((column) => column[i])))} ${name}`);
  svg.setAttribute("aria-label", `${svg.dataset.title}: ${max ? all.join(", ") : "no data yet"}`);
  if (!max) return shape(svg, "text", { x: (LEFT + right) / 2, y: bottom / 2, "text-anchor": "middle" }, "no data yet");
  const height = scale(svg, max, area, format);
  const per = (right - LEFT) / (until - since), width = Math.max(1.5, Math.min(48, size * per - Math.min(2, (size * per) / 4)));
  for (const [start, column] of columns) {
    const group = shape(svg, "g", {}), x = LEFT + (start - since) * per + (size * per - width) / 2;
    shape(group, "title", {}, `${name(start, size)}: ${series.map((each, i) => `${format(column[i])} ${each.name}`).join(", ")}`);
    let top = bottom;
    column.forEach((value, i) => {
      top -= height(value);
      if (value) shape(group, "rect", { class: series[i].class, x, y: top, width, height: height(value) });
    });
  }
  return null;
}

/** Lines over time: `lines` are {name, class, value(bucket)}; a value of null is a gap. */
export function lines(svg, sums, series, format) {
  const area = clear(svg), { right, bottom } = area, { since, until, size } = sums;
  timeAxis(svg, sums, area);
  const points = series.map(({ value }) => sums.buckets.map((bucket) => [bucket.start, value(bucket)]).filter((point) => point[1] != null));
  const max = Math.max(0, ...points.flat().map((point) => point[1]));
  const mean = (list) => (list.length ? format(list.reduce((sum, point) => sum + point[1], 0) / list.length) : "–");
  svg.setAttribute("aria-label", `${svg.dataset.title}: ${max ? series.map((each, i) => `${each.name} ${mean(points[i])}`).join(", ") : "no data yet"}`);
  if (!max) return shape(svg, "text", { x: (LEFT + right) / 2, y: bottom / 2, "text-anchor": "middle" }, "no data yet");
  const height = scale(svg, max, area, format);
  const x = (start) => LEFT + ((start + size / 2 - since) / (until - since)) * (right - LEFT);
  series.forEach((each, i) => {
    const path = points[i].map(([start, value], j) => `${j ? "L" : "M"}${x(start).toFixed(1)} ${(bottom - height(value)).toFixed(1)}`).join("");
    shape(svg, "path", { class: `line ${each.class}`, d: path });
    for (const [start, value] of points[i]) {
      const dot = shape(svg, "circle", { class: each.class, cx: x(start), cy: bottom - height(value), r: points[i].length > 60 ? 1.5 : 3 });
      shape(dot, "title", {}, `${name(start, size)}: ${format(value)} ${each.name}`);
    }
  });
  return null;
}

/** A card with a chart and its legend. */
export function figure(id, title, more, series) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [attribute, value] of Object.entries({ id, role: "img", "aria-label": title, "data-title": title })) svg.setAttribute(attribute, value);
  return el("figure", { class: "card" }, el("figcaption", {}, title, el("span", { class: "soft" }, more)), svg, legend(series));
}

export function legend(series) {
  return el("p", { class: "key" }, series.map((each) => el("span", {}, el("i", { class: each.class }), each.name)));
}
