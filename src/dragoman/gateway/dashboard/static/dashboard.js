// The page: shows one of four views, and polls the gateway every two seconds.

import { $, api, clock, count, el, key, money, put, quantile, HttpError, seconds } from "./parts.js";
import * as plots from "./plots.js";
import { offerModels } from "./playground.js";

const INTERVAL = 2000, MAX_ROWS = 500, USAGE_ROUNDS = 5, CLOCK_TOLERANCE = 5;
const VIEWS = ["health", "requests", "usage", "playground"];
const STATES = { healthy: "healthy", cooldown: "cooldown", trial: "trial", disabled: "disabled", due: "waits for a trial", unready: "no API key" };

const rows = new Map();
let states = new Map(), timer = null, round = 0, usage = null, isSignedIn = false;
let changes = 0; // by the operator: a snapshot that was requested before a change is outdated

// Views ---------------------------------------------------------------------------------------------------------------

function view() {
  const wanted = location.hash.slice(2);
  return VIEWS.includes(wanted) ? wanted : "health";
}

function show() {
  for (const id of [...VIEWS, "signin"]) $(id).hidden = id !== (isSignedIn ? view() : "signin");
  for (const link of document.querySelectorAll("nav a")) {
    if (isSignedIn && link.hash === `#/${view()}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.querySelector("nav").hidden = !isSignedIn;
  $("signout").hidden = !isSignedIn || !key.read();
  scrollTo(0, 0);
  document.title = isSignedIn ? `${view()} · dragoman` : "dragoman";
  if (isSignedIn) draw();
}

function draw() {
  if (view() === "health") drawTraffic();
  if (view() === "requests") drawRequests();
  if (view() === "usage") loadUsage();
}

// Polling -------------------------------------------------------------------------------------------------------------

async function poll() {
  clearTimeout(timer);
  try {
    const before = changes;
    const [snapshot, recent] = await Promise.all([api("snapshot"), api(`requests?since=${newest()}`)]);
    addRows(recent.requests);
    const wasSignedIn = isSignedIn;
    isSignedIn = true;
    if (before === changes) drawSnapshot(snapshot);
    if (!wasSignedIn) show();
    else if (view() !== "usage" || ++round % USAGE_ROUNDS === 0) draw();
  } catch (error) {
    if (error instanceof HttpError && (error.status === 401 || error.status === 403)) return signOut(key.read() || error.status === 403 ? error.message : "");
    showStatus("cooldown", `not reachable: ${error.message}`);
  }
  timer = setTimeout(poll, document.hidden ? INTERVAL * 10 : INTERVAL);
}

/** The end of the newest row, with a tolerance, because gateways have different clocks. */
function newest() {
  return Math.max(0, ...[...rows.values()].map((row) => row.started_at + (row.duration || 0) - CLOCK_TOLERANCE));
}

function addRows(newestFirst) {
  for (const row of newestFirst.reverse()) rows.set(row.id, row);
  while (rows.size > MAX_ROWS) rows.delete(rows.keys().next().value);
}

function signOut(problem) {
  key.drop();
  isSignedIn = false;
  rows.clear();
  put($("signin-problem"), problem);
  showStatus("", "");
  show();
  $("key").focus();
}

function showStatus(state, text) {
  const node = $("status");
  node.dataset.state = state;
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(...(text ? [el("span", { class: "dot" }), text] : []));
}

// Health --------------------------------------------------------------------------------------------------------------

function stateOf(target) {
  if (["cooldown", "disabled"].includes(target.state) && !target.seconds_left) return "due";
  return target.state === "healthy" && !target.ready ? "unready" : target.state;
}

/** Whether an operator may disable the target; otherwise it can be enabled. */
const isEnabled = (state) => state === "healthy" || state === "unready";

function drawSnapshot(snapshot) {
  const isDown = snapshot.store !== "ok";
  const lost = snapshot.lost_rows ? ` · ${snapshot.lost_rows} usage rows lost` : "";
  showStatus(isDown ? "cooldown" : "healthy", `${isDown ? "store down" : "live"} · ${snapshot.in_flight} in flight${lost}`);
  drawTargets(snapshot.targets);
  $("names-block").hidden = !snapshot.names.length;
  const signature = JSON.stringify([snapshot.names, [...states]]);
  if ($("names").dataset.signature !== signature) {
    $("names").dataset.signature = signature;
    $("names").replaceChildren(...snapshot.names.map(nameItem));
  }
  offerModels([...snapshot.names.map((each) => each.name), ...snapshot.targets.map((target) => target.name)]);
}

function drawTargets(targets) {
  const before = states, list = $("targets");
  states = new Map(targets.map((target) => [target.name, stateOf(target)]));
  const cards = new Map([...list.children].map((card) => [card.dataset.target, card]));
  for (const target of targets) {
    const card = cards.get(target.name) || list.appendChild(blankCard(target.name));
    cards.delete(target.name);
    fillCard(card, target);
    const now = states.get(target.name), was = before.get(target.name);
    if (was && was !== now) put($("news"), `${target.name} is now: ${STATES[now]}`);
  }
  for (const card of cards.values()) card.remove();
}

function blankCard(name) {
  const toggle = async (event) => {
    const action = isEnabled(event.target.closest("li").dataset.state) ? "disable" : "enable";
    changes++;
    const snapshot = await api(`targets/${action}`, { target: name });
    changes++;
    drawSnapshot(snapshot);
  };
  return el("li", { class: "target", "data-target": name },
    el("span", { class: "dot" }), el("b", {}, name), el("button", { class: "quiet", onclick: toggle }),
    el("span", { class: "details" }, el("span", { class: "state" }), el("span", { class: "more" })));
}

function fillCard(card, target) {
  const state = stateOf(target);
  card.dataset.state = state;
  put(card.querySelector(".state"), STATES[state]);
  const details = [
    target.seconds_left ? `for ${seconds(target.seconds_left)}` : null,
    target.error,
    target.latency != null && state === "healthy" ? seconds(target.latency) : null,
    target.failures && state === "healthy" ? `${target.failures} failures in a row` : null,
    target.wire, target.host,
  ];
  put(card.querySelector(".more"), details.filter(Boolean).map((text) => `\u00a0· ${text.replaceAll(" ", "\u00a0")}`).join(""));
  const button = card.querySelector("button"), action = isEnabled(state) ? "Disable" : "Enable";
  put(button, action);
  button.ariaLabel = `${action}: ${target.name}`;
}

function nameItem(name) {
  const links = name.targets.map((target, i) => [
    i && name.order === "in_order" ? el("span", { class: "soft", ariaHidden: "true" }, "→") : null,
    el("span", { class: "link", "data-state": states.get(target) || "" }, el("span", { class: "dot" }), target,
      el("span", { class: "unseen" }, ` ${STATES[states.get(target)] || ""}`),
      name.costs?.[i] != null ? el("small", {}, `cost ${name.costs[i]}`) : null),
  ]);
  const kind = name.tier ? `tier, ${name.order === "in_order" ? "in this order" : name.order}` : "alias";
  return el("li", {}, el("b", {}, name.name), ...links.flat().filter(Boolean), el("small", { class: "soft" }, kind));
}

// Traffic -------------------------------------------------------------------------------------------------------------

function drawTraffic() {
  const to = Date.now() / 1000, earliest = to - Number($("span").value);
  const shown = [...rows.values()].filter((row) => row.started_at >= earliest);
  // The time axis starts at the first request.
  const from = Math.max(earliest, Math.min(to - 60, ...shown.map((row) => row.started_at - 5)));
  const ended = shown.filter((row) => row.outcome !== "unknown");
  const served = ended.filter((row) => row.outcome === "served");
  const sorted = (field) => served.map((row) => row[field]).filter((value) => value != null).sort((a, b) => a - b);
  const sum = (field) => shown.reduce((total, row) => total + (row[field] || 0), 0);
  const durations = sorted("duration"), firsts = sorted("time_to_first_token");
  figures([
    ["requests", `${count(shown.length)}${shown.length >= MAX_ROWS ? "+" : ""}`],
    ["served", ended.length ? `${((served.length / ended.length) * 100).toFixed(served.length < ended.length ? 1 : 0)} %` : "–"],
    ["median latency", seconds(quantile(durations, 0.5))],
    ["95th percentile", seconds(quantile(durations, 0.95))],
    ["time to first token", seconds(quantile(firsts, 0.5))],
    ["tokens in → out", `${count(sum("input"))} → ${count(sum("output"))}`],
  ]);
  plots.latency($("latency"), shown, from, to);
  plots.tokens($("tokens"), shown, from, to);
}

function figures(items) {
  const list = $("figures");
  if (!list.children.length) list.append(...items.map(([title]) => el("div", {}, el("dt", {}, title), el("dd"))));
  items.forEach(([, value], i) => put(list.children[i].lastChild, value));
}

// Requests ------------------------------------------------------------------------------------------------------------

function drawRequests() {
  const query = $("filter").value.trim().toLowerCase(), list = $("rows");
  const matches = (row) => [row.model, row.target, row.key, row.outcome, row.dialect, row.id].join(" ").toLowerCase().includes(query);
  const shown = [...rows.values()].filter(matches).sort((a, b) => b.started_at - a.started_at).slice(0, 200);
  const old = new Map([...list.children].map((node) => [node.dataset.id, node]));
  shown.forEach((row, i) => {
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
  put($("no-rows"), shown.length ? "" : rows.size ? "No recent request matches the filter." : "No requests yet. Try the playground.");
}

function requestItem(row) {
  const { outcome } = row, label = { client_disconnected: "disconnected", unknown: "in flight" }[outcome] || outcome;
  const tokens = row.input == null && row.output == null ? "–" : `${count(row.input || 0)} → ${count(row.output || 0)}`;
  const facts = [
    row.id, row.key && `key ${row.key}`, row.dialect, row.stream && "streamed", row.time_to_first_token && `first token ${seconds(row.time_to_first_token)}`,
    row.cache_read && `${count(row.cache_read)} cached`, row.estimated && "tokens estimated", row.cost && money(row.cost),
  ];
  return el("details", { class: "request", "data-id": row.id, "data-outcome": outcome },
    el("summary", {},
      el("span", {}, clock(row.started_at)), el("span", { title: row.model }, row.model),
      el("span", { title: row.target || "" }, row.target || "–", row.attempts > 1 ? el("small", { class: "soft" }, ` ${row.attempts} attempts`) : null), el("span", {}, seconds(row.duration)), el("span", {}, tokens),
      el("span", { class: `outcome ${outcome}` }, label + (["failed", "refused"].includes(outcome) && row.status ? ` ${row.status}` : ""))),
    el("div", { class: "inside" }, ...attempts(row),
      el("p", { class: "facts" }, ...facts.filter(Boolean).map((fact) => el("span", {}, fact)))));
}

function attempts(row) {
  const total = row.duration || 1, details = row.attempt_details;
  const measured = details.reduce((sum, attempt) => sum + (attempt.seconds || 0), 0);
  let start = 0;
  if (!details.length) return [el("p", { class: "soft" }, row.attempts ? `${row.attempts} attempts, made by another worker` : "no target was called")];
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

// Usage ---------------------------------------------------------------------------------------------------------------

async function loadUsage() {
  usage = await api(`usage?days=${$("days").value}`);
  drawUsage();
}

function drawUsage() {
  put($("usage-problem"), usage.problem || "");
  plots.days($("by-day"), usage.days, usage.first, usage.last);
  $("by-key").replaceChildren(table(usage.keys, "key", "without a key"));
  $("by-target").replaceChildren(table(usage.targets, "target", "no target"));
}

function table(sums, title, unnamed) {
  const max = Math.max(1, ...sums.map((sum) => sum.input + sum.output));
  const line = (sum) => el("tr", {},
    el("td", {}, sum.name ?? el("span", { class: "soft" }, unnamed)),
    el("td", {}, count(sum.requests)), el("td", {}, count(sum.failed)), el("td", {}, count(sum.input)), el("td", {}, count(sum.output)),
    el("td", { title: sum.unpriced ? `${sum.unpriced} requests have no known price` : "" }, money(sum.cost) + (sum.cost && sum.unpriced ? " +" : "")),
    el("td", {}, el("meter", { max, value: sum.input + sum.output, ariaLabel: "Share of the tokens" })));
  const titles = [title, "requests", "failed", "input", "output", "cost", "share"];
  const body = sums.length ? sums.sort((a, b) => b.input + b.output - a.input - a.output).map(line)
    : [el("tr", {}, el("td", { colSpan: titles.length, class: "soft" }, "no data yet"))];
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))), el("tbody", {}, ...body));
}

// Start ---------------------------------------------------------------------------------------------------------------

$("signin-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.write($("key").value.trim());
  $("key").value = "";
  poll();
});
$("signout").addEventListener("click", () => signOut(""));
$("span").addEventListener("change", drawTraffic);
$("days").addEventListener("change", loadUsage);
$("filter").addEventListener("input", drawRequests);
addEventListener("hashchange", show);
addEventListener("resize", () => {
  if (!$("health").hidden) drawTraffic();
  if (!$("usage").hidden && usage) drawUsage();
});
document.addEventListener("visibilitychange", () => document.hidden || !isSignedIn || poll());
addEventListener("unhandledrejection", (event) => showStatus("cooldown", event.reason.message));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
poll();
