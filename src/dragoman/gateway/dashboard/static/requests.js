// Requests of the usage log: filters, pages, the live tail, and one request with its attempts and bodies.

import { $, api, clock, count, date, download, el, money, put, query, seconds, when } from "./parts.js";
import { showProblem } from "./forms.js";
import { address, picker, range, setParams } from "./range.js";

const PAGE = 50, MAX_LIVE = 500, TOLERANCE = 5; // seconds by which the clocks of gateways may differ
const FILTERS = ["key", "team", "model", "target", "user", "dialect", "status"];
const OUTCOMES = [["", "any outcome"], ["served", "served"], ["failed", "failed"], ["refused", "refused"], ["client_disconnected", "client disconnected"], ["unknown", "in flight"]];

const rows = new Map();
let times = null, next = null, shown = "", isAdmin = false;

export const title = "Requests", role = null, id = "requests", interval = 1000;

export function mount(root) {
  times = picker("requests", "24h", false);
  const field = (name) => el("input", { id: `filter-${name}`, type: name === "status" ? "number" : "search", placeholder: name, ariaLabel: name, spellcheck: false,
    onchange: (event) => setParams({ [name]: event.target.value.trim() }) });
  const outcome = el("select", { id: "filter-outcome", ariaLabel: "outcome", onchange: (event) => setParams({ outcome: event.target.value }) },
    OUTCOMES.map(([value, text]) => el("option", { value }, text)));
  root.append(
    el("div", { class: "head" }, el("h2", {}, "Requests"), times.node,
      el("label", { class: "check" }, el("input", { id: "live", type: "checkbox", checked: true }), "Live"),
      el("button", { id: "requests-csv", class: "quiet", onclick: save }, "Export CSV")),
    el("div", { class: "filters", role: "search", ariaLabel: "Filters" }, outcome, FILTERS.map(field),
      el("button", { class: "quiet", onclick: () => setParams(Object.fromEntries([...FILTERS, "outcome"].map((name) => [name, ""]))) }, "Clear")),
    el("div", { class: "request titles", ariaHidden: "true" }, ["Time", "Key", "Model", "Target", "Duration", "Tokens", "Cost", "Outcome"].map((text) => el("span", {}, text))),
    el("div", { id: "rows" }), el("p", { id: "no-rows", class: "soft" }),
    el("button", { id: "older", class: "quiet", hidden: true, onclick: () => load(next).catch((error) => showProblem(error.message)) }, "Older requests"),
    el("div", { id: "one-request", hidden: true }));
}

function filters() {
  const { params } = address(), { since, until } = range("24h");
  return { since, until, outcome: params.outcome, ...Object.fromEntries(FILTERS.map((name) => [name, params[name]])) };
}

const save = () => download(`usage/requests.csv?${query(filters())}`, "requests.csv").catch((error) => showProblem(error.message));

export async function refresh({ me, isTick }) {
  isAdmin = me.role === "admin";
  const { rest, params } = address();
  for (const node of $("requests").children) node.hidden = (node.id === "one-request") !== Boolean(rest) || (node.id === "older" && !next);
  if (rest) return isTick ? null : showOne(rest);
  times.update();
  for (const name of [...FILTERS, "outcome"]) if (document.activeElement !== $(`filter-${name}`)) $(`filter-${name}`).value = params[name] || "";
  const wanted = query(filters());
  if (wanted !== shown || !isTick) {
    if (wanted !== shown) rows.clear();
    shown = wanted;
    return load("");
  }
  return $("live").checked && !range().until ? tail() : null;
}

/** One page of older requests, or the first one. */
async function load(before) {
  const page = await api(`usage/requests?${query({ ...filters(), limit: PAGE, before })}`);
  if (before || rows.size <= PAGE) next = page.next;
  add(page.requests);
}

/** What came since the newest request, and what has ended of those that were in flight. */
async function tail() {
  const open = [...rows.values()].filter((row) => row.outcome === "unknown").map((row) => row.started_at);
  const newest = Math.max(0, ...[...rows.values()].map((row) => row.started_at));
  if (!newest) return load("");
  const since = Math.min(newest - TOLERANCE, ...open.filter((moment) => moment > newest - 3600));
  const page = await api(`usage/requests?${query({ ...filters(), since: String(since.toFixed(3)), limit: MAX_LIVE })}`);
  return add(page.requests);
}

function add(found) {
  for (const row of found) rows.set(row.id, row);
  const list = $("rows"), sorted = [...rows.values()].sort((a, b) => b.started_at - a.started_at);
  const old = new Map([...list.children].map((node) => [node.dataset.id, node]));
  sorted.forEach((row, i) => {
    let node = old.get(row.id);
    if (!node || node.dataset.outcome !== row.outcome) {
      const replacement = requestItem(row);
      replacement.open = node?.open || false;
      node?.remove();
      node = replacement;
    }
    old.delete(row.id);
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] || null);
  });
  for (const node of old.values()) node.remove();
  $("older").hidden = !next;
  put($("no-rows"), sorted.length ? "" : "No request fits. Choose another time or other filters, or try the playground.");
}

// One request ---------------------------------------------------------------------------------------------------------

const outcomeText = (row) => ({ client_disconnected: "disconnected", unknown: "in flight" })[row.outcome] || row.outcome;

function requestItem(row) {
  const tokens = row.input == null && row.output == null ? "–" : `${count(row.input || 0)} → ${count(row.output || 0)}`;
  const time = Date.now() / 1000 - row.started_at < 43200 ? clock(row.started_at) : `${date(row.started_at)} ${clock(row.started_at, { hour: "2-digit", minute: "2-digit" })}`;
  const item = el("details", { class: "request", "data-id": row.id, "data-outcome": row.outcome, ontoggle: () => item.open && fill(item, row) },
    el("summary", {},
      el("span", { title: when(row.started_at) }, time), el("span", { title: row.key || "" }, row.key || "–"), el("span", { title: row.model }, row.model || "–"),
      el("span", { title: row.target || "" }, row.target || "–", row.attempts > 1 ? el("small", { class: "soft" }, ` ${row.attempts} attempts`) : null),
      el("span", {}, seconds(row.duration)), el("span", {}, tokens),
      el("span", {}, row.cache === "hit" ? el("span", { class: "badge" }, "cached") : money(row.cost)),
      el("span", { class: `outcome ${row.outcome}` }, outcomeText(row) + (["failed", "refused"].includes(row.outcome) && row.status ? ` ${row.status}` : ""))),
    el("div", { class: "inside" }));
  return item;
}

/** The details of a request: they are read when somebody looks. */
async function fill(item, row) {
  const inside = item.querySelector(".inside");
  try {
    const whole = await api(`usage/requests/${encodeURIComponent(row.id)}`);
    inside.replaceChildren(...attempts(whole), facts(whole), notices(whole), el("p", {}, el("a", { href: `#/requests/${encodeURIComponent(row.id)}` }, "Link to this request")));
  } catch (error) {
    inside.replaceChildren(el("p", { role: "alert" }, error.message));
  }
}

async function showOne(requestId) {
  const root = $("one-request");
  const row = await api(`usage/requests/${encodeURIComponent(requestId)}`);
  const bodies = el("div", { id: "bodies" }), item = requestItem(row);
  item.open = true;
  root.replaceChildren(
    el("div", { class: "head" }, el("h2", {}, "Request"), el("a", { href: "#/requests" }, "All requests")),
    item, isAdmin ? el("button", { id: "show-bodies", class: "quiet", onclick: () => showBodies(requestId, bodies) }, "Show bodies") : null, bodies);
}

async function showBodies(requestId, root) {
  try {
    const bodies = await api(`usage/requests/${encodeURIComponent(requestId)}/bodies`);
    const text = (name) => {
      const size = bodies[`${name}_bytes`], body = bodies[name];
      return [el("h3", {}, `${name === "request" ? "Request" : "Response"} `, el("small", { class: "soft" }, `${count(size)} bytes`)),
        el("pre", { tabIndex: 0, ariaLabel: `Body of the ${name}` }, body == null ? "nothing is stored" : pretty(body))];
    };
    root.replaceChildren(...text("request"), ...text("response"), el("p", { class: "soft" }, `They are deleted at ${when(bodies.expires_at)}.`));
  } catch (error) {
    root.replaceChildren(el("p", { class: "soft" }, error.message));
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function facts(row) {
  const all = {
    id: row.id, status: row.status, key: row.key, team: row.team, "end user": row.user, dialect: row.dialect,
    streamed: row.stream ? "yes" : "no", "first event": row.time_to_first_token && seconds(row.time_to_first_token),
    "response cache": row.cache, "cached tokens": row.cache_read && count(row.cache_read), tokens: row.estimated ? "estimated" : null, cost: row.cost && money(row.cost),
  };
  return el("dl", { class: "facts" }, Object.entries(all).filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
}

function notices(row) {
  const losses = Object.entries(row.losses);
  if (!losses.length) return null;
  return el("p", { class: "notices" }, "What the target did not get as it was sent: ", losses.map(([kind, times]) => el("span", { class: "badge" }, `${kind} ${times > 1 ? `× ${times}` : ""}`)));
}

function attempts(row) {
  const total = row.duration || 1, details = row.attempt_details;
  const measured = details.reduce((sum, attempt) => sum + (attempt.seconds || 0), 0);
  let start = 0;
  if (!details.length) return [el("p", { class: "soft" }, row.attempts ? `${row.attempts} attempts; another worker made them, or it was long ago` : "no target was called")];
  return details.map((attempt) => {
    const duration = attempt.seconds ?? (attempt.outcome === "skipped" ? 0 : Math.max(0, total - measured));
    const bar = el("i", { class: attempt.outcome });
    bar.style.left = `${Math.min(99, (start / total) * 100)}%`;
    bar.style.width = `${Math.min(100 - (start / total) * 100, (duration / total) * 100)}%`;
    start += duration;
    const result = [attempt.outcome, attempt.error, duration ? seconds(duration) : null].filter(Boolean).join(" · ");
    return el("div", { class: "attempt" }, el("span", {}, attempt.target), el("span", { class: "track" }, bar), el("span", { class: "soft" }, result));
  });
}
