# Everything sets up what it needs. Setting up talks on standard error only, so that what a command
# prints on standard output is its own (make demo ARGS=--json prints one object).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
PYFLINK := .pyflink
BIN := $(VENV)/bin
CONNECTORS := jars_and_apps/connectors
FLINK_JOBS := jars_and_apps/flink
JAR := binders/jars/spark-mqtt.jar
FLINK_JAR := $(FLINK_JOBS)/speck-flink-jobs.jar
BUILT := $(JAR) binders/jars/flink-mqtt.jar $(FLINK_JAR) $(FLINK_JOBS)/speck-flink-jobs-all.jar
JAVA_SOURCES := $(shell find $(CONNECTORS) $(FLINK_JOBS) -name target -prune -o -type f \( -name '*.java' -o -name pom.xml -o -path '*/resources/*' \) -print)
PIP := $(BIN)/pip --disable-pip-version-check -q install --use-pep517 -c constraints.txt
MAVEN := mvn -q -B -f $(CONNECTORS)/pom.xml

.PHONY: help demo test check docs pictures bench jars setup pyflink classes browser shells assets clean

help:
	@echo "make demo [ARGS='...']   the road-traffic demo (ARGS: see speck demo --help)"
	@echo "make setup jars          what the command speck needs, in .venv/bin, without a demo"
	@echo "make test [ARGS='...']   all tests (ARGS: for pytest)"
	@echo "make check               lint, strict types, import direction, documentation, dependency audit"
	@echo "make docs                the documentation, as a site in build/docs"
	@echo "make bench               all benchmarks"
	@echo "make pyflink             a Python with PyFlink, for Python programs on Flink"
	@echo "make assets              the dashboard's libraries anew, at the versions that are pinned"

demo: setup jars
	@$(BIN)/speck demo $(ARGS)

test: $(VENV)/dev jars
	@$(MAKE) pyflink || echo "no PyFlink: its tests are skipped" >&2
	@$(MAKE) classes || echo "no archive of classes: engines start as slowly as ever" >&2
	@$(MAKE) browser || echo "no Chromium: the tests of the dashboard are skipped" >&2
	@$(MAKE) shells || echo "no zsh or fish: the tests of their completion are skipped" >&2
	@$(MAVEN) verify
	@$(BIN)/python -m pytest -n 2 --dist loadfile --durations=30 $(ARGS)

check: $(VENV)/dev
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) docs
	@$(BIN)/python -m scripts.audit
	@echo "check: all well"

# All pages anew: Sphinx tells what is wrong with a page only when it reads it.
docs: $(VENV)/dev
	@$(BIN)/python -m sphinx -E -a -q -W --keep-going -d build/doctrees docs build/docs
	@echo "build/docs/index.html" >&2

# Graphviz (dot); the drawings are committed, so that nobody else needs it.
pictures:
	@for picture in docs/pictures/*.dot; do dot -Tsvg "$$picture" -o "$${picture%.dot}.svg"; done

bench: $(VENV)/dev jars
	@for name in plan store reconcile scrape hop deploy; do echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

jars: $(BUILT)

# One run of Maven builds all.
$(BUILT) &: $(JAVA_SOURCES) | system
	@echo "building the connectors and the Flink programs (Maven; half a minute, and more the first time)" >&2
	@$(MAVEN) -DskipTests package >&2
	@touch $(BUILT)

setup: $(VENV)/run

$(VENV)/run: setup.cfg pyproject.toml constraints.txt | system
	@echo "making the virtual environment (a minute or two)" >&2
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV) >&2
	@$(PIP) -e '.[flink,graph]' >&2
	@touch $@

$(VENV)/dev: $(VENV)/run
	@$(PIP) -e '.[dev,docs]' >&2
	@touch $@

# An environment of its own: what PyFlink needs does not fit beside what SpecK needs.
pyflink: $(PYFLINK)/made

$(PYFLINK)/made: requirements-pyflink.txt
	@echo "making the Python with PyFlink" >&2
	@[ -x $(PYFLINK)/bin/pip ] || $(PYTHON) -m venv $(PYFLINK) >&2
	@$(PYFLINK)/bin/pip --disable-pip-version-check -q install --no-deps -r requirements-pyflink.txt >&2
	@touch $@

# Engines start in half the processor time.
classes: $(VENV)/share/speck/spark.jsa

$(VENV)/share/speck/spark.jsa: $(VENV)/run | system
	@echo "archiving the classes that the engines load" >&2
	@$(BIN)/speck local prepare

browser:
	@scripts/system-packages.sh browser

shells:
	@scripts/system-packages.sh shells

assets:
	@$(PYTHON) scripts/assets.py

.PHONY: system
system:
	@PYTHON=$(PYTHON) scripts/system-packages.sh

clean:
	@rm -rf $(VENV) $(PYFLINK) binders/jars/*.jar $(BUILT) build *.egg-info
	@find $(CONNECTORS) $(FLINK_JOBS) -name target -type d -prune -exec rm -rf {} +
