# `make help` lists the targets. Every target sets up what it needs in .venv by itself.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

VENV ?= .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.dev-installed
RUN := $(VENV)/.run-installed
# Two workers for each core, since many tests wait for processes; `make test WORKERS=8` or PYTEST="-k name" change it.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 2 )))
PYTEST ?=
ASK ?= Read README.md, then say in two sentences what this project is.
PYTHONS ?= 3.11 3.12 3.13 3.14

.PHONY: help setup test test-slow check requirements mutants coverage agent bench soak matrix lowest typecheck-314 docs format clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

$(DEV): pyproject.toml scripts/make_venv
	@scripts/make_venv $(VENV) dev $(PYTHON)
	@touch $@

$(RUN): pyproject.toml scripts/make_venv
	@scripts/make_venv $(VENV) run $(PYTHON)
	@touch $@

setup: $(DEV) ## the virtual environment for development

test: $(DEV) ## the tests; ends with the number of requirements they prove
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not soak" $(PYTEST)

test-slow: $(DEV) ## the slow tests: whole commands, terminals, workers that are killed, the embedded model
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "slow and not soak" $(PYTEST)

check: $(DEV) ## what CI runs: lint, format, types, layers, sizes, tests
	@scripts/check $(VENV)

requirements: $(DEV) ## run the tests, then list the requirements without proof (ISSUE=2: those of one issue)
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not soak" --requirements $(if $(ISSUE),--requirements-issue $(ISSUE)) $(PYTEST)

mutants: $(DEV) ## break the feature of each requirement and list those whose tests do not fail: MUTANTS="SES-17 RET"
	@$(BIN)/python -m scripts.mutants $(MUTANTS)

coverage: $(DEV) ## branch coverage of the loop, wire formats, permissions, sessions, and shell analysis: PACKAGE=sessions
	@$(BIN)/python -c 'import coverage' 2>/dev/null || $(BIN)/python -m pip install -qq 'coverage>=7.10' || uv pip install --quiet --python $(BIN)/python 'coverage>=7.10'
	@WORKERS=$(WORKERS) $(BIN)/python -m scripts.measure_coverage $(PACKAGE)

agent: $(RUN) ## ask an embedded model about this folder: make agent ASK="..."
	@$(BIN)/mainspring -p "$(ASK)"

bench: $(DEV) ## benchmarks against a hand-written loop
	@$(BIN)/python -m benchmarks

soak: $(DEV) ## the suites of minutes; TEST_PODMAN=1 and TEST_POSTGRES=1 try real ones too
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m soak --timeout 600 $(PYTEST)

matrix: ## the tests under each Python of PYTHONS that this machine has
	@scripts/test_python_versions $(PYTHONS)

lowest: ## the unit tests with the lowest versions of everything that pyproject.toml allows; needs uv
	@scripts/test_lowest_versions .venv-lowest $(PYTEST)

typecheck-314: $(DEV) ## the types as Python 3.14 sees them
	@$(BIN)/pyright --pythonversion 3.14

docs: ## build the documentation site into site/
	@scripts/make_docs .venv-docs

format: $(DEV) ## format the code and apply safe fixes
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean: ## remove environments and caches
	@rm -rf .venv* mutants site docs/reference .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build
