// Costs, tokens and requests by time and by key, team, model, target or end user.

import { $, count, dollars, download, el, money, put, query, seconds } from "./parts.js";
import { showProblem } from "./forms.js";
import * as plots from "./plots.js";
import { address, picker, range, setParams, sums } from "./range.js";

const GROUPS = ["model", "key", "team", "target", "user"], FALLBACK = "30d", MAX_SERIES = 6;
const METRICS = {
  cost: { title: "Cost", value: (sum) => sum.cost / 1e9, format: dollars },
  tokens: { title: "Tokens", value: (sum) => sum.input + sum.output, format: count },
  requests: { title: "Requests", value: (sum) => sum.requests, format: count },
};
const TIMES = [["p50", "p50"], ["p95", "p95"], ["p99", "p99"], ["first_p95", "first p95"]];
const UNNAMED = { key: "without a key", team: "without a team", target: "no target", user: "no end user", model: "no model" };

let times = null, usage = null;

export const title = "Usage", role = null, id = "usage", interval = 10000;

export function mount(root) {
  times = picker("usage", FALLBACK);
  const choice = (name, label, options) => el("select", { id: `usage-${name}`, ariaLabel: label, onchange: (event) => setParams({ [name]: event.target.value }) },
    options.map((each) => el("option", { value: each }, name === "group" ? `by ${each}` : each)));
  root.append(
    el("div", { class: "head" }, el("h2", {}, "Usage"), times.node, choice("metric", "Figure", Object.keys(METRICS)), choice("group", "Group", GROUPS),
      el("button", { id: "usage-csv", class: "quiet", onclick: save }, "Export CSV")),
    plots.figure("plot-usage", "Cost", "", []),
    el("p", { id: "usage-problem", class: "soft" }),
    el("div", { id: "usage-table", class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Sums" }));
}

const group = () => (GROUPS.includes(address().params.group) ? address().params.group : GROUPS[0]);
const metric = () => METRICS[address().params.metric] || METRICS.cost;

async function save() {
  const { since, until, by } = range(FALLBACK);
  await download(`usage/sums.csv?${query({ since, until, by, group: group() })}`, "usage.csv").catch((error) => showProblem(error.message));
}

export async function refresh() {
  times.update();
  $("usage-group").value = group();
  $("usage-metric").value = Object.keys(METRICS).find((name) => METRICS[name] === metric());
  usage = await sums({ group: group() }, FALLBACK);
  draw();
}

export function draw() {
  if (!usage) return;
  const by = group(), { title, value, format } = metric();
  const nameOf = (sum) => sum[by] ?? UNNAMED[by];
  const sorted = usage.totals.map((total) => ({ ...total, name: nameOf(total), link: total[by] })).sort((a, b) => value(b) - value(a) || b.requests - a.requests);
  const series = sorted.slice(0, MAX_SERIES).map((each, i) => ({ name: each.name, class: `series-${i}` }));
  const isMore = sorted.length > MAX_SERIES;
  if (isMore) series.push({ name: "others", class: "series-other" });
  const index = new Map(series.map((each, i) => [each.name, i]));
  const figure = $("plot-usage").closest("figure");
  $("plot-usage").dataset.title = title;
  figure.querySelector("figcaption").replaceChildren(title, el("span", { class: "soft" }, `by ${usage.by} and ${by}`));
  plots.bars($("plot-usage"), usage, series, (sum) => {
    const values = series.map(() => 0);
    values[index.get(nameOf(sum)) ?? series.length - 1] = value(sum);
    return values;
  }, format);
  figure.querySelector(".key").replaceWith(plots.legend(series));
  put($("usage-problem"), usage.truncated ? "This is too much for one answer, so something is missing: choose a shorter time or another group." : "");
  $("usage-table").replaceChildren(table(sorted, by, value));
}

function table(totals, by, value) {
  const all = totals.reduce((sum, each) => sum + value(each), 0) || 1;
  const link = (sum) => (sum.link ? el("a", { href: `#/requests?${query({ [by]: sum.link, since: range(FALLBACK).since, until: range(FALLBACK).until })}` }, sum.name) : el("span", { class: "soft" }, sum.name));
  const line = (sum) => el("tr", {},
    el("td", {}, link(sum)), el("td", {}, count(sum.requests)), el("td", {}, count(sum.failed + sum.refused)), el("td", {}, count(sum.input)), el("td", {}, count(sum.output)), el("td", {}, count(sum.cache_read)),
    el("td", { title: sum.unpriced ? `${sum.unpriced} requests have no known price` : "" }, money(sum.cost) + (sum.cost && sum.unpriced ? " +" : "")),
    ...TIMES.map(([field]) => el("td", {}, seconds(sum[field] == null ? null : sum[field] / 1000))),
    el("td", {}, el("meter", { max: 1, value: value(sum) / all, ariaLabel: `Share of ${sum.name}` })));
  const titles = [by, "requests", "failed", "input", "output", "cached", "cost", ...TIMES.map(([, title]) => title), "share"];
  const body = totals.length ? totals.slice(0, 200).map(line) : [el("tr", {}, el("td", { colSpan: titles.length, class: "soft" }, "no data yet"))];
  return el("table", {}, el("thead", {}, el("tr", {}, titles.map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, body));
}
