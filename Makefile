# Every target does its own set-up in $(VENV); a second run skips it.
#
#   make test                                     lint, types, tests, coverage
#   make test PYTHON=python3.13 VENV=.venv313     the same with another interpreter
#   make test PYTEST="-k truncation"              some tests (without coverage)

VENV     ?= .venv
SECONDS  ?= 60
REQUESTS ?= 10000
PORT     ?= 8080
PYTEST   ?=
PEERS    ?= $(HOME)/.cache/dragoman-bench

# A given PYTHON is the only candidate; otherwise the first one that is new enough.
ifeq ($(origin PYTHON),undefined)
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
else
CANDIDATES := $(PYTHON)
endif

BIN  := $(VENV)/bin
CODE := $(wildcard src tests examples benchmarks)

.DEFAULT_GOAL := help
.PHONY: help test lint types unit demo serve bench bench-gateway soak fuzz format clean

help:
	@echo 'make test | demo | serve [PORT=8080] | bench | bench-gateway | soak [REQUESTS=10000] | fuzz [SECONDS=60] | format | clean   (PYTHON=python3.13 VENV=.venv313 for another interpreter)'

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy $(CODE)
	$(BIN)/pyright --pythonpath $(BIN)/python $(CODE)

unit: $(VENV)/.dev
ifeq ($(strip $(PYTEST)),)
	$(BIN)/pytest -q -n auto --dist worksteal --cov --cov-report=term
else
	$(BIN)/pytest $(PYTEST)
endif

demo: $(VENV)/.base
	$(BIN)/python examples/demo.py

serve: $(VENV)/.gateway
	$(BIN)/python -m dragoman.gateway --port $(PORT)

bench: $(VENV)/.bench $(VENV)/litellm
	PYTHON_LITELLM=$(VENV)/litellm/bin/python $(BIN)/python -m benchmarks

bench-gateway: $(VENV)/.bench $(PEERS)/litellm $(PEERS)/tensorzero $(PEERS)/portkey
	$(BIN)/python -m benchmarks.gateway --peers $(PEERS)

soak: $(VENV)/.dev
	REQUESTS=$(REQUESTS) $(BIN)/pytest -q tests/gateway/test_soak.py

fuzz: $(VENV)/.dev
	$(BIN)/python tests/support/fuzz.py --seconds $(SECONDS)

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

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.base

$(VENV)/.gateway: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gateway]'
	@touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
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
