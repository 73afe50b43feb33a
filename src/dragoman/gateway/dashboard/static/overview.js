// The overview: figures and charts from the usage log, and the health of the targets.

import { $, api, count, dollars, el, money, post, put, say, seconds } from "./parts.js";
import { showProblem } from "./forms.js";
import * as plots from "./plots.js";
import { picker, sums } from "./range.js";

const STATES = { healthy: "healthy", cooldown: "cooldown", trial: "trial", disabled: "disabled", due: "waits for a trial", unready: "no API key" };
const OUTCOMES = [{ name: "served", class: "served" }, { name: "failed", class: "failed" }, { name: "refused", class: "refused" }, { name: "disconnected", class: "disconnected" }];
const TOKENS = [{ name: "input", class: "input" }, { name: "output", class: "output" }];
const COST = [{ name: "dollars", class: "output" }];
const inSeconds = (milliseconds) => (milliseconds == null ? null : milliseconds / 1000);
const LATENCY = [
  { name: "answer, p95", class: "series-3", value: (sum) => inSeconds(sum.p95) },
  { name: "answer, median", class: "series-0", value: (sum) => inSeconds(sum.p50) },
  { name: "first event, p95", class: "series-1", value: (sum) => inSeconds(sum.first_p95) },
  { name: "first event, median", class: "series-2", value: (sum) => inSeconds(sum.first_p50) },
];
const TITLES = ["requests", "served", "median latency", "median first event", "tokens in → out", "cost"];

let states = new Map(), usage = null, range = null, canChange = false;
let changes = 0; // by the operator: a snapshot that was requested before a change is outdated

export const title = "Overview", role = "viewer", id = "overview";

export function mount(root) {
  range = picker("overview", "24h");
  root.append(
    el("div", { class: "head" }, el("h2", {}, "Traffic"), range.node),
    el("dl", { id: "figures", class: "figures" }, TITLES.map((each) => el("div", {}, el("dt", {}, each, el("small", {})), el("dd", {}, "–")))),
    el("div", { class: "plots" },
      plots.figure("plot-requests", "Requests", "by outcome", OUTCOMES),
      plots.figure("plot-latency", "Latency", "of the requests that were served", LATENCY),
      plots.figure("plot-tokens", "Tokens", "", TOKENS),
      plots.figure("plot-cost", "Cost", "", COST)),
    el("h2", {}, "Targets"), el("ul", { id: "targets", class: "targets" }),
    el("div", { id: "names-block", hidden: true }, el("h2", {}, "Tiers and aliases"), el("ul", { id: "names", class: "names" })));
}

export async function refresh({ me }) {
  canChange = me.role === "admin";
  range.update();
  const before = changes;
  const [snapshot, answer] = await Promise.all([api("snapshot"), sums()]);
  usage = answer;
  if (before === changes) drawSnapshot(snapshot);
  draw();
}

export function draw() {
  if (!usage) return;
  const total = usage.totals[0] || {};
  const ended = (total.requests || 0) - (total.unknown || 0), share = ((total.served || 0) / ended) * 100;
  const values = [
    count(total.requests || 0),
    ended ? `${share.toFixed(share > 99.9 ? (share === 100 ? 0 : 2) : 1)} %` : "–",
    seconds(inSeconds(total.p50)),
    seconds(inSeconds(total.first_p50)),
    `${count(total.input || 0)} → ${count(total.output || 0)}`,
    money(total.cost),
  ];
  const slowest = (p95, p99) => (p95 == null ? "" : `p95 ${seconds(inSeconds(p95))} · p99 ${seconds(inSeconds(p99))}`);
  const more = ["", "", slowest(total.p95, total.p99), slowest(total.first_p95, total.first_p99), "", ""];
  values.forEach((value, i) => {
    put($("figures").children[i].lastChild, value);
    put($("figures").children[i].querySelector("small"), more[i]);
  });
  plots.bars($("plot-requests"), usage, OUTCOMES, (sum) => [sum.served, sum.failed, sum.refused, sum.disconnected], count);
  plots.bars($("plot-tokens"), usage, TOKENS, (sum) => [sum.input, sum.output], count);
  plots.bars($("plot-cost"), usage, COST, (sum) => [sum.cost / 1e9], dollars);
  plots.lines($("plot-latency"), usage, LATENCY, seconds);
}

// Targets -------------------------------------------------------------------------------------------------------------

function stateOf(target) {
  if (["cooldown", "disabled"].includes(target.state) && !target.seconds_left) return "due";
  return target.state === "healthy" && !target.ready ? "unready" : target.state;
}

/** Whether an operator may disable the target; otherwise it can be enabled. */
const isEnabled = (state) => state === "healthy" || state === "unready";

function drawSnapshot(snapshot) {
  drawTargets(snapshot.targets);
  $("names-block").hidden = !snapshot.names.length;
  const signature = JSON.stringify([snapshot.names, [...states]]);
  if ($("names").dataset.signature === signature) return;
  $("names").dataset.signature = signature;
  $("names").replaceChildren(...snapshot.names.map(nameItem));
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
    if (was && was !== now) say(`${target.name} is now: ${STATES[now]}`);
  }
  for (const card of cards.values()) card.remove();
}

function blankCard(name) {
  const toggle = async (event) => {
    const action = isEnabled(event.target.closest("li").dataset.state) ? "disable" : "enable";
    changes++;
    try {
      drawSnapshot(await post(`targets/${action}`, { target: name }));
    } catch (error) {
      showProblem(error.message);
    }
    changes++;
  };
  return el("li", { class: "target", "data-target": name },
    el("span", { class: "dot" }), el("b", {}, name), canChange ? el("button", { class: "quiet", onclick: toggle }) : null,
    el("span", { class: "details" }, el("span", { class: "state" }), el("span", { class: "more" })));
}

function fillCard(card, target) {
  const state = stateOf(target), button = card.querySelector("button");
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
  if (!button) return;
  const action = isEnabled(state) ? "Disable" : "Enable";
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
  const kind = name.tier ? `tier, ${name.order === "in_order" ? "in this order" : name.order.replace("_", " ")}` : "alias";
  return el("li", {}, el("b", {}, name.name), ...links.flat().filter(Boolean), el("small", { class: "soft" }, kind));
}
