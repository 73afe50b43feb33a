// The time range of a view, and the parameters of the address that hold it and the filters.

import { api, el, query } from "./parts.js";

const SIZES = { minute: 60, hour: 3600, day: 86400 };
const CHOICES = [
  ["1h", "last hour"], ["6h", "last 6 hours"], ["24h", "last 24 hours"], ["7d", "last 7 days"],
  ["30d", "last 30 days"], ["90d", "last 90 days"], ["365d", "last year"], ["custom", "from … to …"],
];
const UNITS = { m: 60, h: 3600, d: 86400 };

/** The view of the address, what follows it, and its parameters: #/requests/ID?key=alice */
export function address() {
  const [path, text = ""] = location.hash.slice(2).split("?");
  const [view = "", ...rest] = path.split("/");
  return { view, rest: decodeURIComponent(rest.join("/")), params: Object.fromEntries(new URLSearchParams(text)) };
}

/** Change parameters of the address without a new entry in the history, and tell the page. */
export function setParams(changes) {
  const { view, params } = address(), text = query({ ...params, ...changes });
  history.replaceState(null, "", `#/${view}${text ? `?${text}` : ""}`);
  dispatchEvent(new Event("paramschange"));
}

/** The length of a range in seconds. */
function length({ since, until }) {
  const ago = /^(\d+)([mhd])$/.exec(since);
  if (ago) return Number(ago[1]) * UNITS[ago[2]];
  return (until ? Number(until) : Date.now() / 1000) - Number(since);
}

/** since, until and by of the address. */
export function range(fallback = "24h") {
  const { params } = address(), since = params.since || fallback, until = params.until || "";
  const seconds = length({ since, until });
  const finest = seconds <= 2 * 86400 ? "minute" : seconds <= 92 * 86400 ? "hour" : "day";
  const fitting = seconds <= 6 * 3600 ? "minute" : seconds <= 3 * 86400 ? "hour" : "day";
  const wanted = SIZES[params.by] >= SIZES[finest] ? params.by : fitting;
  return { since, until, by: wanted, finest };
}

export async function sums(more = {}, fallback = "24h") {
  const { since, until, by } = range(fallback);
  const answer = await api(`usage/sums?${query({ since, until, by, ...more })}`);
  const size = SIZES[answer.by];
  return { ...answer, size, since: Math.floor(answer.since / size) * size, until: Math.ceil(answer.until / size) * size };
}

const local = (moment) => new Date(moment * 1000 - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16);

/** The controls of a range. `prefix` makes their ids; `withGrain` adds minute, hour, day. */
export function picker(prefix, fallback = "24h", withGrain = true) {
  const moment = (event) => String(new Date(event.target.value).getTime() / 1000);
  const span = el("select", { id: `${prefix}-span`, onchange: () => {
    if (span.value !== "custom") return setParams({ since: span.value, until: "", by: "" });
    const now = Date.now() / 1000;
    return setParams({ since: String(Math.floor(now - 86400)), until: String(Math.ceil(now)), by: "" });
  } }, CHOICES.map(([value, text]) => el("option", { value }, text)));
  const from = el("input", { id: `${prefix}-from`, type: "datetime-local", ariaLabel: "From", onchange: (event) => event.target.value && setParams({ since: moment(event) }) });
  const to = el("input", { id: `${prefix}-to`, type: "datetime-local", ariaLabel: "To", onchange: (event) => event.target.value && setParams({ until: moment(event) }) });
  const by = el("select", { id: `${prefix}-by`, ariaLabel: "One bar for each", onchange: () => setParams({ by: by.value }) },
    Object.keys(SIZES).map((each) => el("option", { value: each }, `by ${each}`)));
  const update = () => {
    const now = range(fallback), isCustom = !CHOICES.some(([value]) => value === now.since);
    span.value = isCustom ? "custom" : now.since;
    from.hidden = to.hidden = !isCustom;
    if (isCustom && document.activeElement !== from) from.value = local(Number(now.since));
    if (isCustom && document.activeElement !== to) to.value = local(Number(now.until) || Date.now() / 1000);
    for (const option of by.options) option.disabled = SIZES[option.value] < SIZES[now.finest];
    by.value = now.by;
  };
  const node = el("div", { class: "range" }, el("label", { htmlFor: span.id }, "Time"), span, from, to, withGrain ? by : null);
  return { node, update };
}
