# Every target installs its own requirements. Installation writes to standard error only: standard output
# carries the output of the command itself (make demo ARGS=--json prints one object).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# The tests start hundreds of Python processes, which must not compile every module again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
PYFLINK := .pyflink
BIN := $(VENV)/bin
CONNECTORS := jars_and_apps/connectors
FLINK_JOBS := jars_and_apps/flink
NEXMARK := jars_and_apps/nexmark
SQL := jars_and_apps/sql
JAR := binders/jars/spark-mqtt.jar
FLINK_JAR := $(FLINK_JOBS)/speck-flink-jobs.jar
IN_FLINK := binders/jars/flink-mqtt.jar binders/jars/flink-small.jar binders/jars/speck-kafka.jar
BUILT := $(JAR) $(IN_FLINK) $(FLINK_JAR) $(FLINK_JOBS)/speck-flink-jobs-all.jar $(NEXMARK)/speck-nexmark.jar $(SQL)/speck-sql.jar
JAVA_SOURCES := $(shell find $(CONNECTORS) $(FLINK_JOBS) $(NEXMARK) $(SQL) -name target -prune -o -type f \( -name '*.java' -o -name pom.xml -o -path '*/resources/*' \) -print)
SPECTRAL := build/spectral
# Workers that are forked once the tests are collected, which takes 5 s of processor time. Eight on two cores, since
# many tests wait.
# Repeating failed tests needs a thread, beside which nothing can be forked.
FORKED := -p no:rerunfailures --parallel=fork --parallel-workers=8 --parallex-no-session-scope
INSTALL := scripts/install-packages.sh
# Maven runs for half a minute: Java's optimising compiler would cost more than it gains.
export MAVEN_OPTS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
MAVEN := mvn -q -B -f $(CONNECTORS)/pom.xml

.PHONY: help demo quick test check docs spectral interop pictures bench wheel jars setup pyflink kafka classes browser shells assets clean

help:
	@echo "make demo [ARGS='...']   run the road-traffic demo (ARGS: see speck demo --help)"
	@echo "make setup jars          install the command speck in .venv/bin, without a demo"
	@echo "make wheel               build dist/speck-VERSION.whl, with the jars, the dashboard and the systemd units"
	@echo "make quick [ARGS='...']  run the tests that need no engine, broker or browser (ARGS: for pytest)"
	@echo "make test [ARGS='...']   run all tests (ARGS: for pytest)"
	@echo "make check               check style, types, imports, documentation and dependencies"
	@echo "make docs                build the documentation as a site in build/docs"
	@echo "make bench [QUICK=1]     run all benchmarks (QUICK=1: each at its smallest size; ARGS: names, --record)"
	@echo "make pyflink             install PyFlink, for Python programs on Flink, in .pyflink"
	@echo "make kafka               install the server of Kafka (43 MB), for sites on this machine, in .venv"
	@echo "make assets              download the dashboard's libraries again, at their pinned versions"

demo: setup jars $(if $(findstring --kafka,$(ARGS)),kafka)
	@$(MAKE) classes || echo "The class archives were not written: engines start slowly" >&2
	@$(BIN)/speck demo $(ARGS)

# Needs the virtual environment alone. A test that starts an engine fails here (tests/support/tiers.py). Property
# tests try a tenth of their examples (tests/support/properties.py). Stores lie in memory if there is room for them:
# on a disk the tests wait for its writes for a fifth of the time. (Each worker would empty the folder of --basetemp
# when it begins.)
quick: $(VENV)/dev
	@folder=$$(scripts/folder-in-memory.sh 1024); trap 'rm -rf "$$folder"' EXIT
	@export PYTEST_DEBUG_TEMPROOT="$$folder" SPECK_EXAMPLES=$${SPECK_EXAMPLES:-0.1}
	@$(BIN)/python -m pytest $(FORKED) -m "not engine and not slow" $(ARGS)

test: system $(VENV)/dev jars
	@$(MAKE) pyflink || echo "PyFlink is not installed: its tests are skipped" >&2
	@$(MAKE) kafka || echo "Kafka is not installed: its tests are skipped" >&2
	@$(MAKE) classes || echo "The class archives were not written: engines start slowly" >&2
	@$(MAKE) browser || echo "Chromium is not installed: the tests of the dashboard in a browser are skipped" >&2
	@$(MAKE) shells || echo "zsh or fish is not installed: the tests of its completion are skipped" >&2
	@# The Java tests mostly wait. They run in a copy, since Maven writes jars and classes that the Python tests use.
	@rm -rf build/java && mkdir -p build/java/binders/jars && cp -a jars_and_apps pipelines build/java/
	@# Classes that are newer than their sources are not compiled again, and no jar is packed, as `jars` has done.
	@mvn -q -B -Dmaven.compiler.useIncrementalCompilation=false -f build/java/$(CONNECTORS)/pom.xml $(if $(SPECK_TRIALS),-Dspeck.trials=true) test > build/java/log 2>&1 & java=$$!
	@folder=$$(scripts/folder-in-memory.sh 6144)
	@trap 'kill $$java 2> /dev/null || true; rm -rf "$$folder"' EXIT
	@# Three workers on two cores: tests with engines wait for a third of their time. The others follow when the
	@# engines are gone, which take processor time at rest too. Property tests try a fifth of their examples.
	@# A test with engines that fails is run once more, and reported as RERUN (tests/support/tiers.py).
	@export PYTEST_DEBUG_TEMPROOT="$$folder" SPECK_EXAMPLES=$${SPECK_EXAMPLES:-0.2}
	@failed=0; none=0
	@run() { "$$@" || { code=$$?; if [ $$code -eq 5 ]; then none=$$((none + 1)); else failed=$$code; fi; }; }
	@run $(BIN)/python -m pytest -n 3 --basetemp "$$folder/engines" --dist loadfile --no-loadscope-reorder --durations=30 --reruns 1 --rerun-show-tracebacks -m "engine or slow" $(ARGS)
	@run $(BIN)/python -m pytest $(FORKED) -m "not engine and not slow" $(ARGS)
	@[ $$none -lt 2 ] || { echo "no tests were found" >&2; failed=5; }
	@wait $$java || { cat build/java/log; echo "the Java tests failed" >&2; failed=1; }
	@exit $$failed

check: system $(VENV)/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@# The types take a core for as long as the documentation takes another.
	@$(BIN)/mypy & types=$$!
	@trap 'kill $$types 2> /dev/null || true' EXIT
	@$(BIN)/lint-imports
	@$(BIN)/python -m scripts.prose
	@$(MAKE) docs
	@# The tests of the built site, which make test does not build.
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/docs/test_docs.py -m slow
	@$(MAKE) spectral
	@$(BIN)/python -m scripts.audit
	@wait $$types || { echo "mypy found the faults above" >&2; exit 1; }
	@echo "check: no faults found"

# Rebuilds all pages: Sphinx reports the faults of a page only when it reads the page.
docs: system $(VENV)/dev
	@rm -rf build/docs.new
	@$(BIN)/python -m sphinx -E -a -q -W --keep-going -d build/doctrees docs build/docs.new
	@# Tests that run meanwhile read a whole site.
	@rm -rf build/docs
	@mv build/docs.new build/docs
	@echo "build/docs/index.html" >&2

# Brokers other than Mosquitto, for tests that are skipped without them: HiveMQ CE (100 MB of packages) and mochi-mqtt.
interop: system
	@mkdir -p build/interop/hivemq
	@(cd testbed/servers/brokers/mochi && go build -o $(CURDIR)/build/interop/mochi .) || echo "mochi-mqtt was not built: its tests are skipped" >&2
	@mvn -q -B -f testbed/servers/brokers/hivemq/pom.xml -DbuildDirectory=$(CURDIR)/build/interop/target compile dependency:copy-dependencies \
	  -DoutputDirectory=$(CURDIR)/build/interop/hivemq/lib && cp -r testbed/servers/brokers/hivemq/target/classes build/interop/hivemq/ \
	  || echo "HiveMQ CE was not built: its tests are skipped" >&2

# The rules of Spectral for OpenAPI documents, on the one that the documentation has.
spectral:
	@command -v npm > /dev/null || { echo "npm is not installed: the OpenAPI document is not checked by Spectral" >&2; exit 0; }
	@[ -x $(SPECTRAL)/node_modules/.bin/spectral ] || npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(SPECTRAL) @stoplight/spectral-cli@6.16.3
	@$(SPECTRAL)/node_modules/.bin/spectral lint --quiet --fail-severity=warn --ruleset scripts/spectral.yaml build/docs/openapi.json

# Needs Graphviz (dot). The drawings are committed, so that no other target needs it.
pictures:
	@for picture in docs/pictures/*.dot; do dot -Tsvg "$$picture" -o "$${picture%.dot}.svg"; done

bench: system $(VENV)/dev jars
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(ARGS)

jars: $(BUILT)

# Setuptools would pack what an earlier build left in build/lib.
wheel: $(VENV)/run jars
	@rm -rf build/lib build/bdist.* dist/speck-*.whl
	@$(BIN)/pip -q wheel --no-deps --wheel-dir dist . >&2
	@ls dist/speck-*.whl

# One run of Maven builds all jars.
$(BUILT) &: $(JAVA_SOURCES) | system
	@echo "building the connectors and the Flink programs with Maven (30 s; longer the first time)" >&2
	@$(MAVEN) -DskipTests package >&2
	@touch $(BUILT)

setup: system $(VENV)/run

$(VENV)/run: setup.cfg pyproject.toml constraints.txt
	@echo "creating the virtual environment (half a minute, and the download of Spark)" >&2
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV) >&2
	@$(INSTALL) $(VENV) -c constraints.txt -e '.[agent,digest,fences,flink,graph,kafka,spark]'
	@touch $@

$(VENV)/dev: $(VENV)/run
	@$(INSTALL) $(VENV) -c constraints.txt -e '.[dev,docs]'
	@touch $@

# A separate environment: the dependencies of PyFlink conflict with those of SpecK.
pyflink: $(PYFLINK)/made

$(PYFLINK)/made: requirements-pyflink.txt
	@echo "creating the virtual environment with PyFlink" >&2
	@[ -x $(PYFLINK)/bin/pip ] || $(PYTHON) -m venv $(PYFLINK) >&2
	@$(INSTALL) $(PYFLINK) --no-deps -r requirements-pyflink.txt
	@touch $@

# The server of Kafka, for speck local up --broker and for tests.
kafka: $(VENV)/share/speck/kafka/made

$(VENV)/share/speck/kafka/made: scripts/kafka/pom.xml | $(VENV)/run system
	@echo "downloading the server of Kafka (43 MB)" >&2
	@mvn -q -B -f scripts/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D) >&2
	@touch $@

# Class archives halve the processor time that an engine takes to start. Those of Flink have classes of jars that Maven
# builds: Java ignores them, without a message, once one of these is newer.
classes: $(VENV)/share/speck/spark.jsa

$(VENV)/share/speck/spark.jsa: $(VENV)/run $(IN_FLINK) | system
	@echo "writing the class archives of the engines" >&2
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
	@find $(CONNECTORS) $(FLINK_JOBS) $(NEXMARK) $(SQL) -name target -type d -prune -exec rm -rf {} +
