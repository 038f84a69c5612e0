# A fresh machine needs Python >= 3.11 (`python3`), git, make and a C compiler; everything else comes from locks/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url --no-annotate --no-strip-extras

FAST := --hypothesis-profile=fast -m "not (slow or statistical or spark or browser or postgres or r)"
EXTENSION := setup.py $(wildcard src/postrand/support/_*loops.[ch])
LOWEST := $(VENV)-lowest
NEWEST := $(VENV)-newest
TOOLS := $(VENV)-audit
WHEEL := $(VENV)-wheel
SDIST := $(VENV)-sdist
DOCS := $(VENV)-docs
VULNERABILITIES ?= optional

.PHONY: help demo env fast slow test coverage lowest newest wheel sdist release services r bench studies papers pictures audit faults fuzz mutants docs check sbom vulnerabilities format lock clean
help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.demo  ## install what the demonstration needs and run it (replaces the folder demo/)
	rm -rf demo
	$(BIN)/postrand demo --out demo

env: $(VENV)/.dev  ## install the locked development environment (no-op when up to date)

fast: env  ## run the tests that need no service and little time, in about a minute
	$(BIN)/pytest -n 2 --dist loadgroup $(FAST)

slow: env  ## measure which tests `make fast` leaves out, and note them in tests/slow.txt
	$(BIN)/pytest -n 2 --dist loadgroup --hypothesis-profile=fast --note-slow -m "not (statistical or spark or browser or postgres or r)"

coverage: env  ## run the fast tests, and say which lines they do not reach; fails below 95 % (pyproject.toml)
	$(BIN)/pytest -n 2 --dist loadgroup $(FAST) --cov --cov-report=term-missing

lowest: env  ## run the fast tests with the lowest versions that pyproject.toml allows
	$(call tested_with,$(LOWEST),lowest-direct)

newest: env  ## run the fast tests with the newest versions that there are today
	$(call tested_with,$(NEWEST),highest)

define tested_with
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(1)
	$(BIN)/uv pip compile --quiet --resolution $(2) --all-extras --group dev --output-file $(1)/versions.txt pyproject.toml
	$(BIN)/uv pip install --quiet --python $(1) -r $(1)/versions.txt
	$(BIN)/uv pip install --quiet --python $(1) --no-deps --editable .
	find src tests -name '*.nb[ic]' -delete  # compiled loops of another numba: two processes at once can load them
	$(1)/bin/pytest -n 2 --dist loadgroup -p no:cacheprovider $(FAST)
endef

# The time of the last commit, so that the same sources give the same bytes, whenever and in whatever folder.
wheel: export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),1700000000)
wheel: env  ## build the wheel twice, compare, install it alone without extras on each Python at hand, and try it on a small file
	rm -rf build dist $(WHEEL)
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir $(WHEEL)/again .
	cmp dist/*.whl $(WHEEL)/again/*.whl
	sha256sum dist/*.whl
	$(call tried,$(WHEEL),dist/*.whl)

sdist: env  ## pack the sources, install them alone in an environment of their own, and try them as the wheel is tried
	mkdir -p dist
	rm -f dist/*.tar.gz
	$(BIN)/python -c 'from setuptools.build_meta import build_sdist; build_sdist("dist")' >/dev/null
	$(call tried,$(SDIST),dist/*.tar.gz)

# Install a package alone with the locked versions, on each supported Python at hand, and try it; note which these were.
# What was just built has no hash to ask for.
define tried
	@set -e; mkdir -p build; rm -f build/pythons.txt; \
	for python in $$($(PYTHON) tests/pythons.py); do \
	  $$python -m venv --clear $(1); \
	  echo "trying $$(ls $(2)) with $$($(1)/bin/python --version)"; \
	  sed -n 's/^\([^ ]*==.*\) \\$$/\1/p' locks/demo.txt > $(1)/versions.txt; \
	  $(1)/bin/python -m pip --disable-pip-version-check install --quiet --constraint $(1)/versions.txt $(2); \
	  sh tests/wheel.sh $(abspath $(1))/bin; \
	  $(1)/bin/python --version >> build/pythons.txt; \
	done
endef

# `make release VULNERABILITIES=optional` goes on where the list cannot be asked, and says so.
release: export VULNERABILITIES = required
release: check wheel sdist sbom  ## all of a release but the upload: checks, wheel, sources, SBOM, notes and digests in dist/
	$(BIN)/python -m tests.release

test: env services r  ## run all tests and doctests, and check the R package
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder

services:  ## install Java, PostgreSQL, Chromium and R from the system's packages, if they are missing and this is allowed
	@sh tests/services.sh

r:  ## build the R package, and check it with its tests, where there is R
	@sh tests/r_package.sh

bench: env services  ## time the commands as they are typed, and compare ratios with benchmarks/baseline.json
	$(BIN)/python benchmarks/bench.py $(BENCH)
	$(if $(SHARED),$(BIN)/python benchmarks/completed_times.py $(SHARED)/ny_like_population_953076.parquet)
	$(BIN)/python benchmarks/completed_pgm.py

studies: env  ## bias, coverage and refusals of the estimators over grids of laws; risk where SHARED names the folder of data
	$(BIN)/python -m benchmarks.interval_grid $(STUDY)
	$(BIN)/python -m benchmarks.group_means $(STUDY)
	$(BIN)/python -m benchmarks.regression_grid $(STUDY)
	$(BIN)/python -m benchmarks.split_estimators $(STUDY)
	$(if $(SHARED),$(BIN)/python -m benchmarks.risk_perturbed $(SHARED))
	$(if $(SHARED),$(BIN)/python -m benchmarks.designs $(SHARED))
	$(BIN)/python benchmarks/completed_misfit.py
	$(if $(SHARED),$(BIN)/python benchmarks/completed_squares.py)
	$(if $(SHARED),$(BIN)/python benchmarks/completed_files.py completed_files.jsonl)

papers: env  ## recompute every printed value and figure of the four papers in docs/papers (PAPERS: some of abc rdf chr ss)
	$(BIN)/python -m benchmarks.papers $(PAPERS)

pictures: env  ## compute the numbers of docs/ten-pictures.md and of the README's picture again, and draw them
	$(BIN)/python -m benchmarks.pictures

audit: env  ## run the program on neighbouring files, bound from below what its releases promise, and find planted defects
	$(BIN)/python -m benchmarks.audit $(AUDIT)

faults: env  ## make every call to the system of protect, complete and verify fail in turn (Linux, a C compiler)
	$(BIN)/python -m benchmarks.faults $(FAULTS)

fuzz: env  ## fuzz every reader of files, guided by coverage; atheris is installed for it, and for nothing else
	$(PIP) install --quiet atheris==3.0.0  # libFuzzer for Python: nothing else is guided by coverage and maintained
	$(BIN)/python -m benchmarks.fuzz --out fuzzed $(FUZZ)

mutants: env  ## change the trusted core in small ways, and see whether a test fails (MUTANTS: parts of file names, --sample N)
	nice -n 19 $(BIN)/python -m benchmarks.mutants $(MUTANTS)

docs: env $(DOCS)/.done  ## make the documentation site in site/, where every warning is an error, and look at it in a browser
	rm -rf site
	$(BIN)/python -m docs.site.pages build/site
	PYTHONPATH=$(DOCS):src $(BIN)/python -m sphinx -q -E --fail-on-warning --keep-going -c docs/site -d build/doctrees build/site site
	PYTHONPATH=$(DOCS):src $(BIN)/python -m tests.licences docs
	$(BIN)/pytest -q -p no:cacheprovider tests/site_checks.py
	@echo "open site/index.html: it needs no server and no network"

# Beside the packages of the environment, and not in it: the reference of Python is made from what is imported there.
$(DOCS)/.done: locks/docs.txt | $(BIN)/python
	rm -rf $(DOCS)
	$(PIP) install --quiet --require-hashes --target $(DOCS) -r locks/docs.txt
	touch $@

check: env  ## lint, format, types, spelling, licences, known vulnerabilities (VULNERABILITIES=required: not without an answer)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src  # what Windows lacks is an error
	$(BIN)/typos
	$(BIN)/python -m tests.licences
	@$(MAKE) --no-print-directory vulnerabilities VULNERABILITIES=$(VULNERABILITIES)

sbom: $(TOOLS)/.audit  ## list the locked packages with their digests in dist/sbom.json (CycloneDX); needs no network
	mkdir -p dist
	PYTHONWARNINGS=ignore $(TOOLS)/bin/cyclonedx-py requirements locks/dev.txt --pyproject pyproject.toml --mc-type application \
	  --output-reproducible --output-file dist/sbom.json

# Without a network there may be no tools either: the second line says so, and is an error only if an answer is required.
vulnerabilities: VULNERABILITIES = required
vulnerabilities: env  ## look for published vulnerabilities of the locked packages; an error if the list cannot be asked
	@PIP_RETRIES=0 PIP_DEFAULT_TIMEOUT=5 $(MAKE) --silent --no-print-directory $(TOOLS)/.audit >/dev/null 2>&1 || true
	@$(BIN)/python -m tests.vulnerabilities $(TOOLS)/bin/pip-audit $(VULNERABILITIES)

$(TOOLS)/.audit: locks/audit.txt | $(BIN)/python
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r locks/audit.txt
	touch $@

format: env  ## apply the formatter and the safe lint fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

lock: env  ## resolve pyproject.toml anew into locks/ (UPGRADE=1 takes the newest versions)
	$(LOCK) pyproject.toml $(if $(UPGRADE),--upgrade) --all-extras --group dev --output-file locks/dev.txt
	$(LOCK) pyproject.toml --constraints locks/dev.txt --extra demo --output-file locks/demo.txt
	$(LOCK) --constraints locks/dev.txt --group build --output-file locks/build.txt
	$(LOCK) $(if $(UPGRADE),--upgrade) --group audit --output-file locks/audit.txt
	$(LOCK) $(if $(UPGRADE),--upgrade) --constraints locks/dev.txt --group docs --output-file locks/docs.txt

clean:  ## remove the environment and the caches
	rm -rf $(VENV) $(LOWEST) $(NEWEST) $(TOOLS) $(WHEEL) $(SDIST) $(DOCS) build dist site src/postrand.egg-info src/postrand/support/*.so .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("postrand needs Python 3.11 or later; say make PYTHON=python3.x"\
	 if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# The build tools come first and locked: nothing is fetched on the side, not even to build what has no wheel.
$(VENV)/.%: locks/%.txt locks/build.txt pyproject.toml $(EXTENSION) | $(BIN)/python
	$(PIP) install --quiet --require-hashes -r locks/build.txt
	$(PIP) install --quiet --require-hashes --use-pep517 --no-build-isolation -r $<
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	touch $@
