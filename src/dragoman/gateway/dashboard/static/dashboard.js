// The page: which view is shown, what the gateway tells every two seconds, and where that stands.

import { $, api, clock, count, el, key, money, put, quantile, Refused, seconds } from "./parts.js";
import * as plots from "./plots.js";
import { offer } from "./playground.js";

const EVERY = 2000, MOST = 500, USAGE_EVERY = 5, SLACK = 5;
const VIEWS = ["health", "requests", "usage", "playground"];
const WORDS = { healthy: "healthy", cooldown: "cooldown", probing: "being probed", due: "waits for a probe", unready: "no key" };

const rows = new Map();
let states = new Map(), timer = null, round = 0, used = null, is_in = false;
let turns = 0; // benches by hand: a snapshot that was asked for before one is of the past

// Which view ----------------------------------------------------------------------------------------------------------

function view() {
  const wanted = location.hash.slice(2);
  return VIEWS.includes(wanted) ? wanted : "health";
}

function show() {
  for (const id of [...VIEWS, "signin"]) $(id).hidden = id !== (is_in ? view() : "signin");
  for (const link of document.querySelectorAll("nav a")) {
    if (is_in && link.hash === `#/${view()}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.querySelector("nav").hidden = !is_in;
  $("leave").hidden = !is_in || !key.read();
  scrollTo(0, 0);
  document.title = is_in ? `${view()} · dragoman` : "dragoman";
  if (is_in) draw();
}

function draw() {
  if (view() === "health") drawTraffic();
  if (view() === "requests") drawRequests();
  if (view() === "usage") loadUsage();
}

// Asking the gateway --------------------------------------------------------------------------------------------------

async function look() {
  clearTimeout(timer);
  try {
    const before = turns;
    const [snapshot, told] = await Promise.all([api("snapshot"), api(`requests?since=${seen()}`)]);
    take(told.requests);
    const was_in = is_in;
    is_in = true;
    if (before === turns) drawSnapshot(snapshot);
    if (!was_in) show();
    else if (view() !== "usage" || ++round % USAGE_EVERY === 0) draw();
  } catch (error) {
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) return leave(key.read() || error.status === 403 ? error.message : "");
    pulse("cooldown", `not reachable: ${error.message}`);
  }
  timer = setTimeout(look, document.hidden ? EVERY * 10 : EVERY);
}

/** Until when all is known; other gateways have other clocks. */
function seen() {
  return Math.max(0, ...[...rows.values()].map((row) => row.moment + (row.duration || 0) - SLACK));
}

function take(told) {
  for (const row of told.reverse()) rows.set(row.id, row);
  while (rows.size > MOST) rows.delete(rows.keys().next().value);
}

function leave(why) {
  key.drop();
  is_in = false;
  rows.clear();
  put($("signin-problem"), why);
  pulse("", "");
  show();
  $("key").focus();
}

function pulse(state, text) {
  const place = $("pulse");
  place.dataset.state = state;
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  place.replaceChildren(...(text ? [el("span", { class: "dot" }), text] : []));
}

// Health --------------------------------------------------------------------------------------------------------------

const stateOf = (target) =>
  target.state === "cooldown" && !target.seconds_left ? "due" : target.state === "healthy" && !target.ready ? "unready" : target.state;

/** Whether requests go there, so far as its health is concerned. */
const isIn = (state) => state === "healthy" || state === "unready";

function drawSnapshot(told) {
  const ill = told.store !== "ok";
  const lost = told.lost_rows ? ` · ${told.lost_rows} rows of usage lost` : "";
  pulse(ill ? "cooldown" : "healthy", `${ill ? "store down" : "live"} · ${told.in_flight} under way${lost}`);
  drawTargets(told.targets);
  $("names-block").hidden = !told.names.length;
  const signature = JSON.stringify([told.names, [...states]]);
  if ($("names").dataset.signature !== signature) {
    $("names").dataset.signature = signature;
    $("names").replaceChildren(...told.names.map(name));
  }
  offer([...told.names.map((each) => each.name), ...told.targets.map((target) => target.name)]);
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
    if (was && was !== now) put($("news"), `${target.name} is ${WORDS[now]}`);
  }
  for (const card of cards.values()) card.remove();
}

function blankCard(name) {
  const turn = async (event) => {
    const word = isIn(event.target.closest("li").dataset.state) ? "bench" : "unbench";
    turns++;
    const told = await api(word, { target: name });
    turns++;
    drawSnapshot(told);
  };
  return el("li", { class: "target", "data-target": name },
    el("span", { class: "dot" }), el("b", {}, name), el("button", { class: "quiet", onclick: turn }),
    el("span", { class: "how" }, el("span", { class: "state" }), el("span", { class: "more" })));
}

function fillCard(card, target) {
  const state = stateOf(target);
  card.dataset.state = state;
  put(card.querySelector(".state"), WORDS[state]);
  const told = [
    target.seconds_left ? `for ${seconds(target.seconds_left)}` : null,
    target.why,
    target.latency != null && state === "healthy" ? seconds(target.latency) : null,
    target.failures && state === "healthy" ? `${target.failures} failed in a row` : null,
    target.wire, target.host,
  ];
  put(card.querySelector(".more"), told.filter(Boolean).map((word) => `\u00a0· ${word.replaceAll(" ", "\u00a0")}`).join(""));
  const button = card.querySelector("button"), word = isIn(state) ? "Bench" : "Put back";
  put(button, word);
  button.ariaLabel = `${word}: ${target.name}`;
}

function name(told) {
  const links = told.targets.map((target, i) => [
    i && told.order === "given" ? el("span", { class: "soft", ariaHidden: "true" }, "→") : null,
    el("span", { class: "link", "data-state": states.get(target) || "" }, el("span", { class: "dot" }), target,
      el("span", { class: "unseen" }, ` ${WORDS[states.get(target)] || ""}`),
      told.costs?.[i] != null ? el("small", {}, `cost ${told.costs[i]}`) : null),
  ]);
  const how = told.tier ? `tier, ${told.order === "given" ? "in this order" : told.order}` : "alias";
  return el("li", {}, el("b", {}, told.name), ...links.flat().filter(Boolean), el("small", { class: "soft" }, how));
}

// Traffic -------------------------------------------------------------------------------------------------------------

function drawTraffic() {
  const to = Date.now() / 1000, earliest = to - Number($("span").value);
  const shown = [...rows.values()].filter((row) => row.moment >= earliest);
  // No wider than what there is to show.
  const from = Math.max(earliest, Math.min(to - 60, ...shown.map((row) => row.moment - 5)));
  const ended = shown.filter((row) => row.outcome);
  const served = ended.filter((row) => row.outcome === "served");
  const sorted = (field) => served.map((row) => row[field]).filter((value) => value != null).sort((a, b) => a - b);
  const sum = (field) => shown.reduce((total, row) => total + (row[field] || 0), 0);
  const took = sorted("duration"), first = sorted("first");
  figures([
    ["requests", `${count(shown.length)}${shown.length >= MOST ? "+" : ""}`],
    ["served", ended.length ? `${((served.length / ended.length) * 100).toFixed(served.length < ended.length ? 1 : 0)} %` : "–"],
    ["median", seconds(quantile(took, 0.5))],
    ["95 % within", seconds(quantile(took, 0.95))],
    ["to the first token", seconds(quantile(first, 0.5))],
    ["tokens in and out", `${count(sum("input"))} → ${count(sum("output"))}`],
  ]);
  plots.latency($("latency"), shown, from, to);
  plots.tokens($("tokens"), shown, from, to);
}

function figures(told) {
  const list = $("figures");
  if (!list.children.length) list.append(...told.map(([word]) => el("div", {}, el("dt", {}, word), el("dd"))));
  told.forEach(([, value], i) => put(list.children[i].lastChild, value));
}

// Requests ------------------------------------------------------------------------------------------------------------

function drawRequests() {
  const wanted = $("filter").value.trim().toLowerCase(), place = $("rows");
  const fits = (row) => [row.model, row.target, row.key, row.outcome, row.dialect, row.id].join(" ").toLowerCase().includes(wanted);
  const shown = [...rows.values()].filter(fits).sort((a, b) => b.moment - a.moment).slice(0, 200);
  const there = new Map([...place.children].map((node) => [node.dataset.id, node]));
  shown.forEach((row, i) => {
    let node = there.get(row.id);
    if (!node || node.dataset.outcome !== (row.outcome || "")) {
      const fresh = request(row);
      fresh.open = node?.open || false;
      node?.remove();
      node = fresh;
    }
    there.delete(row.id);
    if (place.children[i] !== node) place.insertBefore(node, place.children[i] || null);
  });
  for (const node of there.values()) node.remove();
  put($("no-rows"), shown.length ? "" : rows.size ? "None of the recent requests fits." : "No request yet. Try the playground.");
}

function request(row) {
  const outcome = row.outcome || "unknown", word = { client_disconnected: "client left", unknown: "under way" }[outcome] || outcome;
  const tokens = row.input == null && row.output == null ? "–" : `${count(row.input || 0)} → ${count(row.output || 0)}`;
  const facts = [
    row.id, row.key && `key ${row.key}`, row.dialect, row.stream && "streamed", row.first && `first token ${seconds(row.first)}`,
    row.cache_read && `${count(row.cache_read)} from the cache`, row.estimated && "tokens estimated", row.cost && money(row.cost),
  ];
  return el("details", { class: "request", "data-id": row.id, "data-outcome": row.outcome || "" },
    el("summary", {},
      el("span", {}, clock(row.moment)), el("span", { title: row.model }, row.model),
      el("span", { title: row.target || "" }, row.target || "–", row.attempts > 1 ? el("small", { class: "soft" }, ` ${row.attempts} tries`) : null), el("span", {}, seconds(row.duration)), el("span", {}, tokens),
      el("span", { class: `outcome ${outcome}` }, word + (["failed", "refused"].includes(outcome) && row.status ? ` ${row.status}` : ""))),
    el("div", { class: "inside" }, ...trials(row),
      el("p", { class: "facts" }, ...facts.filter(Boolean).map((fact) => el("span", {}, fact)))));
}

function trials(row) {
  const whole = row.duration || 1, told = row.attempt_details || [];
  const known = told.reduce((total, trial) => total + (trial.seconds || 0), 0);
  let at = 0;
  if (!told.length) return [el("p", { class: "soft" }, row.attempts ? `${row.attempts} attempts, seen by another worker` : "nobody was asked")];
  return told.map((trial) => {
    const took = trial.seconds ?? (trial.outcome === "skipped" ? 0 : Math.max(0, whole - known));
    const bar = el("i", { class: trial.outcome });
    bar.style.left = `${Math.min(99, (at / whole) * 100)}%`;
    bar.style.width = `${Math.min(100 - (at / whole) * 100, (took / whole) * 100)}%`;
    at += took;
    const end = [trial.outcome, trial.why, took ? seconds(took) : null].filter(Boolean).join(" · ");
    return el("div", { class: "trial" }, el("span", {}, trial.target), el("span", { class: "track" }, bar), el("span", { class: "soft" }, end));
  });
}

// Usage ---------------------------------------------------------------------------------------------------------------

async function loadUsage() {
  used = await api(`usage?days=${$("days").value}`);
  drawUsage(used);
}

function drawUsage(told) {
  put($("usage-problem"), told.problem || "");
  plots.days($("by-day"), told.days, told.first, told.last);
  $("by-key").replaceChildren(table(told.keys, "key", "without a key"));
  $("by-target").replaceChildren(table(told.targets, "target", "no target"));
}

function table(told, word, none) {
  const most = Math.max(1, ...told.map((use) => use.input + use.output));
  const line = (use) => el("tr", {},
    el("td", {}, use.name ?? el("span", { class: "soft" }, none)),
    el("td", {}, count(use.requests)), el("td", {}, count(use.failed)), el("td", {}, count(use.input)), el("td", {}, count(use.output)),
    el("td", { title: use.unpriced ? `${use.unpriced} requests have no known price` : "" }, money(use.cost) + (use.cost && use.unpriced ? " +" : "")),
    el("td", {}, el("meter", { max: most, value: use.input + use.output, ariaLabel: "Share of the tokens" })));
  const titles = [word, "requests", "failed", "input", "output", "cost", "share"];
  const body = told.length ? told.sort((a, b) => b.input + b.output - a.input - a.output).map(line)
    : [el("tr", {}, el("td", { colSpan: titles.length, class: "soft" }, "nothing yet"))];
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))), el("tbody", {}, ...body));
}

// Beginning -----------------------------------------------------------------------------------------------------------

$("signin-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.keep($("key").value.trim());
  $("key").value = "";
  look();
});
$("leave").addEventListener("click", () => leave(""));
$("span").addEventListener("change", drawTraffic);
$("days").addEventListener("change", loadUsage);
$("filter").addEventListener("input", drawRequests);
addEventListener("hashchange", show);
addEventListener("resize", () => {
  if (!$("health").hidden) drawTraffic();
  if (!$("usage").hidden && used) drawUsage(used);
});
document.addEventListener("visibilitychange", () => document.hidden || !is_in || look());
addEventListener("unhandledrejection", (event) => pulse("cooldown", event.reason.message));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
look();
