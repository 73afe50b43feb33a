// The charts, as plain SVG in the current size of their element.

import { clock, count, quantile, seconds } from "./parts.js";

const LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 22;
const NICE = [1, 2, 5, 10];

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

function timeAxis(svg, from, to, { right, bottom }) {
  const format = to - from < 900 ? { hour: "2-digit", minute: "2-digit", second: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
  const steps = right < 420 ? 2 : 4;
  for (let i = 0; i <= steps; i++) {
    const anchor = i === 0 ? "start" : i === steps ? "end" : "middle";
    const x = LEFT + ((right - LEFT) * i) / steps;
    shape(svg, "text", { x, y: bottom + 16, "text-anchor": anchor }, clock(from + ((to - from) * i) / steps, format));
  }
}

function noData(svg, { right, bottom }) {
  shape(svg, "text", { x: (LEFT + right) / 2, y: bottom / 2, "text-anchor": "middle" }, "no data yet");
}

/** Start and duration of each request: a dot if it was served, a cross if not. */
export function latency(svg, rows, from, to) {
  const area = clear(svg), { right, bottom } = area;
  const shown = rows.filter((row) => row.duration > 0 && row.outcome !== "refused");
  timeAxis(svg, from, to, area);
  if (!shown.length) {
    svg.setAttribute("aria-label", "Latency: no data yet");
    return noData(svg, area);
  }
  const sorted = shown.map((row) => row.duration).sort((a, b) => a - b);
  const low = Math.floor(Math.log10(sorted[0])), high = Math.max(low + 1, Math.ceil(Math.log10(sorted.at(-1))));
  const y = (value) => bottom - ((Math.log10(value) - low) / (high - low)) * (bottom - TOP);
  const x = (moment) => LEFT + ((moment - from) / (to - from)) * (right - LEFT);
  for (let power = low; power <= high; power++) gridLine(svg, y(10 ** power), right, seconds(10 ** power).replace(".0", ""));
  for (const row of shown) {
    const cx = x(row.started_at), cy = y(row.duration);
    const dot = row.outcome === "served" ? shape(svg, "circle", { cx, cy, r: 3.2 })
      : shape(svg, "path", { class: `cross ${row.outcome}`, d: `M${cx - 3} ${cy - 3}l6 6m0-6l-6 6` });
    shape(dot, "title", {}, `${clock(row.started_at)}  ${row.target || row.model}  ${seconds(row.duration)}  ${row.outcome}`);
  }
  const marks = [["median", quantile(sorted, 0.5)], ["95th percentile", quantile(sorted, 0.95)]];
  marks.forEach(([name, value], index) => {
    shape(svg, "line", { class: "mark", x1: LEFT, x2: right, y1: y(value), y2: y(value) });
    shape(svg, "text", { class: "mark-name", x: LEFT + 4, y: y(value) + (index ? -4 : 13) }, name);
  });
  svg.setAttribute("aria-label", `Latency of ${shown.length} requests: ${marks.map(([name, value]) => `${name} ${seconds(value)}`).join(", ")}`);
}

/** Stacked bars of {name, input, output}; `drawAxis` draws the axis below them. */
export function bars(svg, items, drawAxis) {
  const area = clear(svg), { right, bottom } = area;
  const max = Math.max(0, ...items.map((bar) => bar.input + bar.output));
  drawAxis(svg, area);
  const sum = (name) => items.reduce((total, bar) => total + bar[name], 0);
  svg.setAttribute("aria-label", `Tokens: ${count(sum("input"))} in, ${count(sum("output"))} out`);
  if (!max) return noData(svg, area);
  const unit = 10 ** Math.floor(Math.log10(max / 3 || 1));
  const step = Math.max(1, unit * NICE.find((nice) => unit * nice >= max / 3));
  const top = Math.ceil(max / step) * step, height = (value) => (value / top) * (bottom - TOP);
  for (let value = 0; value <= top; value += step) gridLine(svg, bottom - height(value), right, count(value));
  const width = (right - LEFT) / items.length, gap = Math.min(2, width / 4);
  items.forEach((bar, index) => {
    const x = LEFT + index * width + gap / 2, input = height(bar.input), output = height(bar.output);
    if (!input && !output) return;
    const group = shape(svg, "g", {});
    shape(group, "title", {}, `${bar.name}: ${count(bar.input)} in, ${count(bar.output)} out`);
    shape(group, "rect", { class: "bar-input", x, y: bottom - input, width: width - gap, height: input });
    shape(group, "rect", { class: "bar-output", x, y: bottom - input - output, width: width - gap, height: output });
  });
}

/** Tokens over time, in as many bars as fit. */
export function tokens(svg, rows, from, to) {
  const number = Math.max(12, Math.floor((svg.clientWidth || 300) / 12)), size = (to - from) / number;
  const items = Array.from({ length: number }, (_, i) => ({ name: clock(from + i * size), input: 0, output: 0 }));
  for (const row of rows) {
    const bar = items[Math.min(number - 1, Math.floor((row.started_at - from) / size))];
    bar.input += row.input || 0;
    bar.output += row.output || 0;
  }
  bars(svg, items, (node, area) => timeAxis(node, from, to, area));
}

/** Tokens per day, also for days without requests. */
export function days(svg, sums, first, last) {
  const byDay = new Map(sums.map((day) => [day.name, day])), items = [];
  for (let day = new Date(first); day <= new Date(last); day.setUTCDate(day.getUTCDate() + 1)) {
    const name = day.toISOString().slice(0, 10);
    items.push({ input: 0, output: 0, ...byDay.get(name), name });
  }
  bars(svg, items, (node, { right, bottom }) => {
    shape(node, "text", { x: LEFT, y: bottom + 16 }, first);
    shape(node, "text", { x: right, y: bottom + 16, "text-anchor": "end" }, last);
  });
}
