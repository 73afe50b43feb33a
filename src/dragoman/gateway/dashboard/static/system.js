// The gateway itself: version, store, uptime, problems, and the audit log.

import { $, api, count, el, many, put, query, seconds, when } from "./parts.js";
import { showProblem } from "./forms.js";

const FIGURES = {
  version: (system) => system.version, uptime: (system) => seconds(system.uptime), store: (system) => `${system.store}${system.store_state === "ok" ? "" : " (down)"}`,
  workers: (system) => count(system.workers), "in flight": (system) => count(system.in_flight), keys: (system) => count(system.keys),
};
const changes = new Map();
let next = null, isComplete = false;


export const title = "System", role = "viewer", id = "system", interval = 3000;

export function mount(root) {
  root.append(
    el("dl", { id: "system-figures", class: "figures" }, Object.keys(FIGURES).map((name) => el("div", {}, el("dt", {}, name), el("dd", {}, "–")))),
    el("h2", {}, "Problems"), el("ul", { id: "problems", class: "problems" }),
    el("p", { id: "system-facts", class: "soft" }),
    el("h2", {}, "Audit log"), el("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Audit log" },
      el("table", { class: "audit" }, el("thead", {}, el("tr", {}, ["time", "who", "what", "name", "values"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", { id: "audit" }))),
    el("button", { id: "audit-older", class: "quiet", hidden: true, onclick: () => load(next).catch((error) => showProblem(error.message)) }, "Older changes"));
}

export async function refresh() {
  const [system] = await Promise.all([api("system"), load()]);
  Object.values(FIGURES).forEach((value, i) => put($("system-figures").children[i].lastChild, value(system)));
  const problems = system.problems.length ? system.problems : ["No problems."];
  if ($("problems").dataset.text !== problems.join()) {
    $("problems").dataset.text = problems.join();
    $("problems").replaceChildren(...problems.map((text) => el("li", { class: system.problems.length ? "card problem" : "soft" }, text)));
  }
  const facts = [`Python ${system.python}`, `started ${when(system.started_at)}`, many(system.teams, "team"), many(system.providers, "provider"),
    system.cache ? `response cache in ${system.cache}` : "no response cache", system.body_retention ? `bodies are stored for ${seconds(system.body_retention)}` : "bodies are not stored",
    system.pending_rows && `${system.pending_rows} usage rows wait`, system.lost_rows && `${system.lost_rows} usage rows lost`];
  put($("system-facts"), facts.filter(Boolean).join(" · "));
}

async function load(before) {
  const page = await api(`audit?${query({ before, limit: 50 })}`);
  if (before || !isComplete) {
    next = page.next;
    isComplete = true;
  }
  for (const change of page.changes) changes.set(change.id, change);
  const sorted = [...changes.values()].sort((a, b) => b.id - a.id);
  if ($("audit").dataset.newest !== `${sorted[0]?.id} ${sorted.length}`) {
    $("audit").replaceChildren(...(sorted.length ? sorted.map(line) : [el("tr", {}, el("td", { colSpan: 5, class: "soft" }, "no changes yet"))]));
    $("audit").dataset.newest = `${sorted[0]?.id} ${sorted.length}`;
  }
  $("audit-older").hidden = !next;
}

function line(change) {
  const fields = Object.entries(change.fields || {}).filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length));
  const text = fields.map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  return el("tr", {}, el("td", {}, when(change.at)), el("td", {}, change.actor), el("td", {}, change.action), el("td", {}, change.name), el("td", { class: "values", title: text }, text));
}
