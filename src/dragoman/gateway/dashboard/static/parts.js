// Helpers of the other files: elements, number formats, calls to the gateway.

const KEY = "dragoman.key";

export const $ = (id) => document.getElementById(id);

/** An element: el("p", {class: "soft"}, "text", child). Content is always text, never markup. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name === "class" ? "class" : name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** Set the text of a node only if it changes, so that screen readers announce it once. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const key = {
  read: () => sessionStorage.getItem(KEY),
  write: (value) => sessionStorage.setItem(KEY, value),
  drop: () => sessionStorage.removeItem(KEY),
};

export class HttpError extends Error {
  constructor(status, body) {
    super(body?.error?.message || `the gateway answered ${status}`);
    this.status = status;
  }
}

export async function call(path, body, { signal, headers: more } = {}) {
  const headers = { ...more };
  if (key.read()) headers.authorization = `Bearer ${key.read()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body), signal };
  const response = await fetch(path, options);
  if (!response.ok) throw new HttpError(response.status, await response.json().catch(() => null));
  return response;
}

export const api = async (path, body, headers) => (await call(`admin/api/${path}`, body, { headers })).json();

// Number formats ----------------------------------------------------------------------------------------------------

export function seconds(value) {
  if (value == null) return "–";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return `${Math.round(value / 60)} min`;
}

export function count(value) {
  if (value == null) return "–";
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return `${(value / size).toFixed(value < 10 * size ? 1 : 0).replace(/\.0$/, "")}${letter}`;
  }
  return String(value);
}

/** Billionths of a dollar. */
export const money = (nano) => (nano ? `$${(nano / 1e9).toFixed(nano < 1e9 ? 4 : 2)}` : "–");

export const clock = (moment, format = { hour: "2-digit", minute: "2-digit", second: "2-digit" }) =>
  new Date(moment * 1000).toLocaleTimeString([], { ...format, hourCycle: "h23" });

export function quantile(sorted, part) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] : null;
}
