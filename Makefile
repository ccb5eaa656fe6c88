# Creates .venv with the exact versions in requirements/ and runs everything in it. 'make' alone lists the targets.
#
#     make demo                               # shows the plugin at work
#     make test                               # runs the tests
#     make test PYTHON=/path/to/python3.11    # with an interpreter of your choice

# The first of these that starts: a name on the PATH may belong to a version manager that has no such Python.
PYTHON ?= $(shell for name in python3.11 python3; do $$name --version >/dev/null 2>&1 && echo $$name && break; done)
PYTEST_ARGS =

VENV := .venv
BIN := $(VENV)/bin
# Written last: it exists only after a complete installation.
STAMP := $(VENV)/.installed
# Errors only: pip's warnings are about the caller's own pip settings.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
REQUIREMENTS := requirements/living.txt requirements/archived.txt requirements/dev.txt

.PHONY: help install demo test checks lint format-check types format fixtures bench results results-quick clean FORCE
.DEFAULT_GOAL := help

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  PYTHON=... chooses the interpreter (3.11 or newer), PYTEST_ARGS=... adds arguments for pytest."

install: $(STAMP)  ## Create .venv with everything in it; does nothing when that is done already

demo: install  ## Train, evaluate and predict on the small data in fixtures/
	@$(BIN)/python demo/run.py

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

bench: install  ## Run the benchmarks, best on a quiet machine, and write BENCHMARKS.md
	@$(BIN)/python benchmarks/run_all.py

results-quick: install  ## Train the six tasks with small budgets, about an hour of one core, and write RESULTS.md
	@$(BIN)/python results/run.py --setting quick --parts tasks

results: install  ## Train the six tasks for hours and write RESULTS.md; goes on where it was interrupted
	@$(BIN)/python results/run.py --setting full

clean:  ## Remove .venv, caches and builds
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- The environment ----

# Refuses an interpreter that is too old or doesn't start.
CHECK_PYTHON = found=$$($(or $(PYTHON),python3.11) --version 2>&1 | head -n 1); \
	case "$$found" in \
		"Python 3.1"[1-9]* | "Python 3."[2-9][0-9]*) exit 0 ;; \
		"Python "*) problem="is $$found" ;; \
		*) problem="can't be run ($$found)" ;; \
	esac; \
	echo "elmo-plugin needs Python 3.11 or newer, but '$(or $(PYTHON),python3.11)' $$problem." \
		"Install Python 3.11, or name an interpreter: make $(or $(MAKECMDGOALS),install) PYTHON=/path/to/python3.11" >&2; \
	exit 1

# A virtual environment works only where it was made: its scripts and the editable install name absolute paths.
# 'activate' says where that was; the venv module writes it after all else, so a half-made environment has none.
VENV_IS_HERE = here="$$(pwd -P)/$(VENV)"; test -x $(BIN)/python && \
	grep -qsF -e "VIRTUAL_ENV=$$here" -e "VIRTUAL_ENV=\"$$here" -e "VIRTUAL_ENV='$$here" $(BIN)/activate
VENV_STARTS = $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null

# Without PYTHON=... any .venv with a new enough Python will do; with it, .venv has to be of the interpreter asked for.
BASE_PYTHON = -c 'import os, sys; print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))' 2>/dev/null
VENV_IS_OF_PYTHON = $(if $(filter file,$(origin PYTHON)),true,\
	test "$$($(BIN)/python $(BASE_PYTHON))" = "$$($(PYTHON) $(BASE_PYTHON))")

ifneq ($(shell { $(VENV_IS_HERE); } && $(VENV_IS_OF_PYTHON) && echo yes),yes)
$(STAMP): FORCE
endif

$(STAMP): $(REQUIREMENTS) setup.cfg setup.py pyproject.toml elmo_plugin_startup.pth
	@$(CHECK_PYTHON)
	@rm -f $@
	@{ $(VENV_IS_HERE); } && $(VENV_STARTS) && $(VENV_IS_OF_PYTHON) || { \
		echo "Creating $(VENV) with $$($(PYTHON) --version)"; \
		rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@# pip writes INSTALLER when all other files of a package are in place: a package without it was interrupted. With
	@# its metadata gone, pip installs it again. '~' folders are what pip had put aside meanwhile.
	@for package in $(VENV)/lib/python*/site-packages/*.dist-info; do \
		test -e "$$package/INSTALLER" || rm -rf "$$package"; done
	@rm -rf $(VENV)/lib/python*/site-packages/~*
	@echo "Installing the packages in requirements/living.txt and requirements/dev.txt (a few minutes the first time)"
	@# An AllenNLP that is there already would be reported for the pins that are passed over below.
	@$(PIP) install --no-warn-conflicts -r requirements/living.txt -r requirements/dev.txt
	@echo "Installing the packages in requirements/archived.txt without the dependencies they ask for"
	@$(PIP) install --no-deps -r requirements/archived.txt
	@echo "Installing the plugin itself, editable"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@echo "Trying whether AllenNLP starts"
	@$(BIN)/python -c "import allennlp.commands"
	@touch $@

FORCE:
