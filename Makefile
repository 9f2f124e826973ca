# Every target makes what it needs: a virtual environment in .venv, pinned dependencies, and the package itself,
# built as a wheel and installed from it, so that tests and demonstration run what users get.
#
#   make demo                     profile a real training in each framework, show what came out, and compare
#   make test                     lint, types, architecture and all tests
#   make test LOAD=4              the same while four other processes keep the machine busy
#   make bench                    compare with the native profilers
#   make fuzz                     read 20000 damaged files of every format; FUZZ_COUNT=500 FORMATS=kineto,xplane for less
#   make sweep                    send signals to 200 trainings at random moments, and check what they leave
#   make pictures                 make the pictures of the documentation again, from real runs
#   make lint | docs | clean
#   make editable                 work on the code: install the tree itself instead of the wheel
#   make demo FRAMEWORKS=torch    only some of the frameworks

PYTHON ?= python3
VENV ?= .venv
FRAMEWORKS ?= torch,tensorflow,mindspore
PYTEST ?=
FUZZ_COUNT ?= 20000
FORMATS ?=
LOAD ?= 0
# Is busy until its parent, whose process id it is given, ends.
BUSY := import os, sys; exec("while os.getppid() == int(sys.argv[1]): pass")

comma := ,
empty :=
space := $(empty) $(empty)
FRAMEWORK_LIST := $(subst $(comma),$(space),$(FRAMEWORKS))
# For the processor alone TensorFlow has a build of half the size.
EXTRAS := $(subst $(space),$(comma),$(strip $(patsubst tensorflow,tensorflow-cpu,$(FRAMEWORK_LIST)) view dev))

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
TOOLS := $(STAMPS)/tools
WHEEL := $(STAMPS)/wheel
ENVIRONMENT := $(STAMPS)/environment-$(subst $(comma),-,$(EXTRAS))
INSTALLED := $(STAMPS)/installed
TEST_TOOLS := $(STAMPS)/test
BENCH_TOOLS := $(STAMPS)/bench
# HolisticTraceAnalysis, with which the device analyses are compared, has an environment of its own.
PEER := $(VENV)-hta
PEER_TOOLS := $(STAMPS)/peer
# Folders count as well as files, so that a deleted file makes a new wheel too.
SOURCES := $(shell find unified_profiler backends -name __pycache__ -prune -o -print) pyproject.toml README.md LICENSE
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test bench fuzz sweep lint docs pictures clean editable browser java
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

demo: $(INSTALLED)
	@$(BIN)/python examples/demo.py $(FRAMEWORK_LIST)

test: lint $(INSTALLED) $(TEST_TOOLS) browser java
	for _ in $$(seq $(LOAD)); do $(BIN)/python -c '$(BUSY)' $$$$ & done; \
	UNIFIED_PROFILER_TEST_INSTALLED=1 $(BIN)/pytest --numprocesses 2 --dist loadfile $(PYTEST)

bench: $(INSTALLED) $(BENCH_TOOLS) $(PEER_TOOLS)
	HTA_PYTHON=$(PEER)/bin/python $(BIN)/python -m benchmarks

fuzz: $(INSTALLED)
	$(BIN)/python -m tests.fuzz --count $(FUZZ_COUNT) $(addprefix --format ,$(subst $(comma),$(space),$(FORMATS)))

sweep: $(INSTALLED)
	$(BIN)/python -m tests.sweep

lint: $(ENVIRONMENT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=.:backends $(BIN)/lint-imports

docs: $(ENVIRONMENT)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

pictures: $(INSTALLED) browser
	$(BIN)/python -m examples.pictures

clean:
	rm -rf build dist site demo-profile .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf $(VENV) $(PEER)

editable: $(ENVIRONMENT)
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	rm -f $(INSTALLED)

# The browser that opens reports, and exported traces in the Perfetto UI, and a font with Chinese characters for them. If
# the browser is missing, a message is printed.
browser:
	@if command -v chromium >/dev/null && fc-list :lang=zh 2>/dev/null | grep -q .; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing chromium and a Chinese font for the browser tests"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fontconfig fonts-wqy-zenhei >/dev/null; \
	fi; \
	command -v chromium >/dev/null || { \
	  echo "################################################################################"; \
	  echo "# There is no chromium here and it could not be installed: THE BROWSER TESTS    #"; \
	  echo "# WILL NOT RUN. Install it with your system's package manager to run them.      #"; \
	  echo "################################################################################"; }

# The Java that Spark runs on. If it is missing, a message is printed.
java:
	@if command -v java >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Java for the tests with Spark"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null; \
	fi; \
	command -v java >/dev/null || { \
	  echo "################################################################################"; \
	  echo "# There is no Java here and it could not be installed: THE TESTS WITH SPARK     #"; \
	  echo "# WILL NOT RUN. Install Java 17 or newer to run them.                           #"; \
	  echo "################################################################################"; }

$(TOOLS): constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PIP) install --quiet --constraint constraints.txt build hatchling
	@mkdir -p $(STAMPS) && touch $@

$(WHEEL): $(SOURCES) | $(TOOLS)
	@rm -rf build/wheel && mkdir -p build
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@touch $@

$(ENVIRONMENT): pyproject.toml constraints.txt | $(WHEEL)
	@echo "Installing $(EXTRAS) into $(VENV); the first time this takes a few minutes"
	$(PIP) install --quiet --no-compile --constraint constraints.txt "$$(echo build/wheel/*.whl)[$(EXTRAS)]"
	@touch $@

$(TEST_TOOLS): pyproject.toml constraints.txt | $(ENVIRONMENT)
	$(PIP) install --quiet --constraint constraints.txt "$$(echo build/wheel/*.whl)[test]"
	$(PIP) install --quiet --constraint constraints.txt --no-deps tf-keras  # it would bring the big TensorFlow
	@touch $@

$(BENCH_TOOLS): pyproject.toml constraints.txt | $(ENVIRONMENT)
	$(PIP) install --quiet --constraint constraints.txt "$$(echo build/wheel/*.whl)[bench]"
	@touch $@

$(PEER_TOOLS): benchmarks/peer-constraints.txt | $(TOOLS)
	@rm -rf $(PEER)
	@echo "Installing HolisticTraceAnalysis into $(PEER)"
	@if $(PYTHON) -m venv $(PEER) && $(PEER)/bin/python -m pip --disable-pip-version-check install --quiet \
	    --constraint benchmarks/peer-constraints.txt HolisticTraceAnalysis pandas; then touch $@; else \
	  rm -rf $(PEER); \
	  echo "################################################################################"; \
	  echo "# HolisticTraceAnalysis could not be installed: THE DEVICE ANALYSES WILL NOT BE #"; \
	  echo "# COMPARED WITH IT. benchmarks/peer-constraints.txt has the versions it needs.  #"; \
	  echo "################################################################################"; fi

$(INSTALLED): $(WHEEL) | $(ENVIRONMENT)
	$(PIP) install --quiet --no-deps --force-reinstall build/wheel/*.whl
	@touch $@
