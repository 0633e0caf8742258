# Every target makes its own environment in .venv when it is missing or out of date.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_ALL := $(VENV)/.ready-all
# Python keeps its compiled modules, also where the environment forbids it: tests start many processes.
export PYTHONDONTWRITEBYTECODE :=
# Two files of tests at a time.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo test test-all docs lint lint-js format types clean

# Extract from three abstracts with the model that ships with the package: a table here, a picture in demo.html.
demo: $(READY)
	$(BIN)/cascade-srn extract examples/abstracts --format table
	$(BIN)/cascade-srn extract examples/abstracts --output demo.html

# Lint, types and the default tier of the tests. Keep it under four minutes on two idle cores.
test: lint types
	$(PYTEST) -m "not slow and not browser and not gpu"

# All of `make test`, then the slow tests, those for a browser and a GPU where the machine has them, and the property
# tests with more examples.
test-all: test $(READY_ALL)
	$(PYTEST) -m "slow or browser or gpu"
	$(PYTEST) -m hypothesis --hypothesis-profile=thorough

# The documentation site, in build/docs. Warnings are errors.
docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Imports, names and types of the JavaScript of the pages, and the format of their CSS. Needs Node; npx downloads both
# tools the first time. The style sheets of reports and drawings are part of written files and stay as they are.
lint-js:
	npx --yes --package typescript@5.9.3 tsc -p jsconfig.json
	npx --yes prettier@3.10.1 --print-width 120 --check "src/cascade_srn/apps/**/*.css"

types: $(READY)
	$(BIN)/mypy -n 2

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs,report,train,serve,corpus,graph,pdf]"
	touch $@

# The engines and libraries that only slow tests use: Ray, Spark, spaCy, an S3 server and others.
$(READY_ALL): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test-all]"
	touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache runs demo.html
