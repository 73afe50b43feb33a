// How the search orders its results: as Sphinx does by default, but pages about the project itself come last.
const PROJECT = /^(docs\/(decisions\/|code-map|releasing|benchmarks|comparison)|CHANGELOG|CONTRIBUTING|ARCHITECTURE)/;

var Scorer = {
  score: ([page, , , , points]) => (PROJECT.test(page) ? points - 50 : points),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
