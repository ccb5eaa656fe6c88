# Creates .venv with the exact versions in requirements/ and runs everything in it. 'make' alone lists the targets.
#
#     make demo                               # shows the plugin at work
#     make test                               # runs the tests
#     make test PYTHON=/path/to/python3.11    # with an interpreter of your choice

# The first of these that starts: a name on the PATH may belong to a version manager that has no such Python.
PYTHON ?= $(or $(shell for name in python3.11 python3; do $$name --version >/dev/null 2>&1 && echo $$name && break; done),\
	python3)
PYTEST_ARGS =

VENV := .venv
DOCS_VENV := .venv-docs
BIN := $(VENV)/bin
# Written last, by a complete installation: where it was made and with which Python.
STAMP := $(VENV)/.installed
# Errors only: pip's warnings are about the caller's own pip settings.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
REQUIREMENTS := requirements/living.txt requirements/archived.txt requirements/dev.txt requirements/demo.txt

.PHONY: help install demo page test checks lint format-check types format fixtures bench fuzz results results-quick docs clean FORCE
.DEFAULT_GOAL := help

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  PYTHON=... chooses the interpreter (3.11 or newer), PYTEST_ARGS=... adds arguments for pytest."

install: $(STAMP)  ## Create .venv with everything in it; does nothing when that is done already

demo: install  ## Train, evaluate and predict on the small data in fixtures/
	@$(BIN)/python demo/run.py

page: install  ## Open a page in the browser to try things on
	@$(BIN)/allennlp elmo-demo $(ARGS)

test: install  ## Run the tests
	@# One thread a process: the processes are as many as the cores.
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests -n auto --dist loadfile $(PYTEST_ARGS)

checks: lint format-check types test  ## Run everything that has to pass before a change goes in

lint: install  ## Look for mistakes with ruff
	@$(BIN)/python -m ruff check .

format-check: install  ## Say which files 'make format' would change
	@$(BIN)/python -m ruff format --check .

types: install  ## Check the types with mypy
	@$(BIN)/python -m mypy

format: install  ## Format the code and sort its imports
	@$(BIN)/python -m ruff check --quiet --fix-only .
	@$(BIN)/python -m ruff format .

fixtures: install  ## Rebuild the generated part of fixtures/
	@$(BIN)/python fixtures/build.py

fuzz: install  ## Give damaged files of every format to what reads them, FUZZ_ARGS="--cases 1000 --seed 1" at will
	@$(BIN)/python -W ignore tests/helpers/fuzzing.py $(FUZZ_ARGS)

bench: install  ## Run the benchmarks, best on a quiet machine, and write BENCHMARKS.md
	@$(BIN)/python benchmarks/run_all.py

results-quick: install  ## Train the six tasks with small budgets, about an hour of one core, for a first look: runs/results/RESULTS_QUICK.md
	@$(BIN)/python results/run.py --setting quick --parts tasks

results: install  ## Train the six tasks until they stop improving and write RESULTS.md; goes on where it was interrupted
	@$(BIN)/python results/run.py --setting full

docs: install $(DOCS_VENV)/.installed  ## Build the documentation into build/docs; warnings are errors
	@rm -rf docs/reference build/docs
	@$(BIN)/python docs/generate.py docs/reference
	@$(DOCS_VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs build/docs
	@echo "The documentation is in build/docs/index.html"

$(DOCS_VENV)/.installed: requirements/docs.txt
	@rm -rf $(DOCS_VENV)
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip -qq --disable-pip-version-check --no-input install -r requirements/docs.txt
	@touch $@

clean:  ## Remove .venv, caches and builds
	rm -rf $(VENV) $(DOCS_VENV) docs/reference build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- The environment ----

# A .venv that isn't complete is made again, and so is one that was moved (its scripts name absolute paths), one that is
# older than the requirements, and one of another Python than PYTHON=... asks for.
VENV_IS_GOOD = test -x $(BIN)/python && grep -qsxF '$(CURDIR)' $(STAMP) \
	$(if $(filter file,$(origin PYTHON)),,&& grep -qsxF "$$($(PYTHON) --version)" $(STAMP))
ifneq ($(shell $(VENV_IS_GOOD) && echo yes),yes)
$(STAMP): FORCE
endif

$(STAMP): $(REQUIREMENTS) setup.cfg setup.py pyproject.toml elmo_plugin_startup.pth
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "elmo-plugin needs Python 3.11 or newer, but '$(PYTHON)' gives: $$($(PYTHON) --version 2>&1 | head -n 1)." \
			"Name an interpreter: make $(or $(MAKECMDGOALS),install) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@echo "Installing the packages in requirements/living.txt, dev.txt and demo.txt (a few minutes)"
	@$(PIP) install -r requirements/living.txt -r requirements/dev.txt -r requirements/demo.txt
	@echo "Installing the packages in requirements/archived.txt without the dependencies they ask for"
	@$(PIP) install --no-deps -r requirements/archived.txt
	@echo "Installing the plugin itself, editable"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@echo "Checking that AllenNLP starts"
	@$(BIN)/python -c "import allennlp.commands"
	@printf '%s\n' '$(CURDIR)' "$$($(PYTHON) --version)" > $@

FORCE:
