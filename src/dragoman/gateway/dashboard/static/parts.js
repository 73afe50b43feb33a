// Helpers of the other files: elements, number formats, calls to the gateway.

const KEY = "dragoman.key";

export const $ = (id) => document.getElementById(id);

/** An element: el("p", {class: "soft"}, "text", child). Content is always text, never markup. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && name !== "list") node[name] = value;
    else if (value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

/** Set the text of a node only if it changes, so that screen readers announce it once. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const say = (text) => put($("news"), text);

export const key = {
  read: () => sessionStorage.getItem(KEY),
  write: (value) => sessionStorage.setItem(KEY, value),
  drop: () => sessionStorage.removeItem(KEY),
};

export class HttpError extends Error {
  constructor(response, body) {
    super(body?.error?.message || `the gateway answered ${response.status}`);
    this.status = response.status;
    this.param = body?.error?.param;
    this.id = response.headers.get("x-request-id");
  }
}

export async function call(path, body, { method, signal, headers: more } = {}) {
  const headers = { ...more };
  if (key.read()) headers.authorization = `Bearer ${key.read()}`;
  const verb = method || (body === undefined ? "GET" : "POST");
  if (verb !== "GET") headers["content-type"] = "application/json";
  const response = await fetch(path, { method: verb, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!response.ok) throw new HttpError(response, await response.json().catch(() => null));
  return response;
}

/** An operation of the admin API. */
export const api = async (path, body, options) => (await call(`admin/api/${path}`, body, options)).json();

export const post = (path, body = {}) => api(path, body, { method: "POST" });

/** The path of something with a name. */
export const named = (kind, name, action) => [kind, encodeURIComponent(name), action].filter(Boolean).join("/");

export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value != null && value !== "");
  return new URLSearchParams(set).toString();
}

/** Save what an operation returns as a file. */
export async function download(path, name) {
  const blob = await (await call(`admin/api/${path}`)).blob();
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
  say(`${name} is saved`);
}

export async function copy(text, button) {
  await navigator.clipboard.writeText(text);
  const before = button.textContent;
  put(button, "Copied");
  setTimeout(() => put(button, before), 1500);
}

// Number formats ----------------------------------------------------------------------------------------------------

export function seconds(value) {
  if (value == null) return "–";
  if (value === 0) return "0 s";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} days`;
}

export const many = (number, one) => `${number} ${one}${number === 1 ? "" : "s"}`;

export function count(value) {
  if (value == null) return "–";
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return `${(value / size).toFixed(value < 10 * size ? 1 : 0).replace(/\.0$/, "")}${letter}`;
  }
  return String(Math.round(value * 100) / 100);
}

export function dollars(value) {
  if (!value) return "$0";
  return `$${value.toFixed(value < 0.01 ? 5 : value < 1 ? 4 : 2)}`;
}

/** Billionths of a dollar. */
export const money = (nano) => (nano ? dollars(nano / 1e9) : "–");

export const clock = (moment, format = { hour: "2-digit", minute: "2-digit", second: "2-digit" }) =>
  new Date(moment * 1000).toLocaleTimeString([], { ...format, hourCycle: "h23" });

export const date = (moment, timeZone) => new Date(moment * 1000).toLocaleDateString([], { month: "short", day: "numeric", timeZone });

export const when = (moment) => `${date(moment)}, ${clock(moment)}`;
