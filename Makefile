# Needs Python 3.11 or newer (with pip and venv) and make. Everything else comes from requirements.lock.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Many tests wait: for a program they start, the disk or a deadline. On two cores, a third process uses that time.
WORKERS ?= 3
PORT ?= 8765
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
READY := $(VENV)/.ready
BUILDING := $(VENV)/.building
# All tests of a file run in one worker, so that their shared fixtures are created once. tests/conftest.py orders files.
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Keep compiled modules: the tests start many programs, and some machines set this variable to compile each time.
export PYTHONDONTWRITEBYTECODE :=

# The lock installs a node for pyright; it must not use another one or check the network for updates.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYRIGHT_PYTHON_GLOBAL_NODE := 0

.DEFAULT_GOAL := help
.PHONY: help setup serve demo test soak test-all test-pythons coverage check format lint types imports scripts docs pictures names bench corpus lock dist clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## install everything, pinned and hash-checked, into .venv

# The stamp contains the folder it was created in: a folder that was moved or partly deleted is set up again.
$(shell if [ -e $(READY) ] && ! { [ "$$(cat $(READY))" = "$(CURDIR)" ] && $(PY) -c 'import uv'; } 2>/dev/null; \
	then rm -f $(READY); touch $(BUILDING); fi)

# An interrupted set-up leaves .building behind, and starts again too.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Set-up 1/3: creating $(VENV) with $$($(PYTHON) --version). All three steps take about a minute the first time."
	@if [ -e $(BUILDING) ] || ! $(PY) -m pip --version >/dev/null 2>&1; then $(PYTHON) -m venv --clear $(VENV); fi
	@rm -f $@ && touch $(BUILDING)
	@awk '/^uv==/ {on = 1} on; on && !/\\$$/ {exit}' requirements.lock >$(VENV)/uv.txt
	@echo "Set-up 2/3: installing $$(grep -c '^[a-z0-9].*==' requirements.lock) pinned packages from requirements.lock."
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(VENV)/uv.txt
	@# Behind a proxy with its own certificate, uv needs the system's certificates, which pip uses by default.
	@$(PY) -m uv pip sync --quiet --python $(PY) --require-hashes requirements.lock \
		|| $(PY) -m uv pip sync --quiet --system-certs --python $(PY) --require-hashes requirements.lock
	@echo "Set-up 3/3: installing spindle itself in editable mode."
	@$(PY) -m uv pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@rm -f $(BUILDING) && echo '$(CURDIR)' >$@

serve: $(READY) ## serve the kit's tools to MCP clients from a scratch folder (PORT=8765)
	@$(BIN)/spindle --state scratch/state serve --port $(PORT)

demo: $(READY) ## run six hostile calls (ALL=1: more calls, PEERS=1: in other libraries too, GATEWAYS=1: through gateways)
	@$(PY) -m $(if $(filter-out 0,$(GATEWAYS)),benchmarks.gateways,$(if $(filter-out 0,$(PEERS)),benchmarks.peers,examples.hostile_calls $(if $(filter-out 0,$(ALL)),--all)))

test: $(READY) ## run the tests, except the slow ones
	$(PYTEST) -m "not slow"

test-pythons: ## run the quick tests on every other supported Python that is installed
	@bash .ci/pythons $(PYTHON) | while read -r version python; do \
		echo "Running the quick tests on Python $$version"; \
		$(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$$version </dev/null || exit 1; \
	done

soak: $(READY) ## kill replicas and databases for half an hour, then watch a tab for an hour (SEED=n repeats a run)
	@bash .ci/servers
	$(PY) -m tests.soak $(if $(SEED),--seed $(SEED))

test-all: $(READY) ## run the slow tests, and all examples of the fuzzing ones
	@bash .ci/servers
	$(PYTEST) -m "slow or fuzz" --hypothesis-profile=thorough

coverage: $(READY) ## run the tests, and print the lines they do not reach
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -m "not slow"
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report

check: format lint types imports scripts docs test ## run everything that must pass before a push

format: $(READY) ## check the formatting (`.venv/bin/ruff format` repairs it)
	$(PY) -m ruff format --check

lint: $(READY) ## check the lint rules
	$(PY) -m ruff check

types: $(READY) ## check the types, strictly
	$(PY) -m pyright

imports: $(READY) ## check that files import only from rings further in
	$(BIN)/lint-imports --no-logo --no-cache

scripts: $(READY) ## check the types of the page's scripts (skipped where npm cannot be reached)
	@$(PY) .ci/scripts.py

docs: $(READY) ## build the documentation into site/; a warning is an error
	$(PY) -m zensical build --strict --clean

pictures: $(READY) ## draw the terminals in docs/pictures/ from what the demo and the command print, and the page
	$(PY) .ci/pictures.py
	SPINDLE_PICTURES=docs/pictures/inspector $(PY) -m pytest -q -n 0 tests/inspector/test_screenshots.py

names: $(READY) ## generate docs/names.md from the code
	$(PY) .ci/names.py

bench: $(READY) ## measure against the floors and print the ratios
	@$(PY) -m benchmarks

corpus: $(READY) ## print what each dialect loses of the public corpus of tool schemas
	@$(PY) -m benchmarks.corpus

lock: $(READY) ## resolve the dependencies again into requirements.lock
	$(PY) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --group dev \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --output-file requirements.lock pyproject.toml

dist: $(READY) ## build the wheel and the source archive into dist/
	$(PY) -m build --no-isolation

clean: ## remove everything that make created
	rm -rf .venv .venv-* .peers .npm-tools* .npm-page* .cache site dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .ruff_cache .pytest_cache
	find . -type d -name __pycache__ -prune -exec rm -rf {} +
