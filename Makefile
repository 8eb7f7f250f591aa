# Everything here works on a fresh checkout: each target makes the virtual environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install run test lint docs lock audit release openb bench bench-cluster bench-agent peers chaos soak tenants fuzz recount cluster-parts node-parts chart-parts alert-parts manifests e2e skew clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Tonnage needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Tonnage into $(VENV): about 30 MB to fetch, 120 MB on disk ..."
	@# pip would compile every module of every package, and most are never imported.
	@$(PIP) install --no-compile -c constraints.txt -e .
	@$(BIN)/python -m tonnage.cli.startup
	@touch $@

$(VENV)/.development: $(VENV)/.runtime
	@echo "Installing the development tools into $(VENV): about 140 MB to fetch, 450 MB on disk ..."
	@$(PIP) install --no-compile -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m tonnage.cli.startup
	@touch $@

install: $(VENV)/.runtime  ## install into .venv, so that .venv/bin/tonnage works

run: $(VENV)/.runtime  ## watch an invented GPU cluster being packed (ARGS="--nodes 20 --seed 7")
	@$(BIN)/tonnage up $(ARGS)

docs: $(VENV)/.development  ## write the parts of the docs that are made from the code, and the site, in build/site
	@$(BIN)/python -m tests.generated_docs
	@$(BIN)/python -m sphinx -q --fail-on-warning --keep-going -c docs -d build/doctrees . build/site
	@echo "Open build/site/index.html"

lint: $(VENV)/.development  ## formatting, lint, types and layering
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

cluster-parts: $(VENV)/.runtime  ## build etcd, kube-apiserver and kube-scheduler for the cluster tests, once (needs Go)
	@$(BIN)/python -m tonnage.lab.parts

node-parts: $(VENV)/.runtime  ## build the kubelet for the tests on a real node, once (needs Go)
	@$(BIN)/python -m tonnage.lab.parts node

chart-parts: $(VENV)/.runtime  ## build Helm for the tests of the chart, once (needs Go)
	@$(BIN)/python -m tonnage.lab.parts chart

manifests: $(VENV)/.development chart-parts  ## write deploy/manifests from deploy/chart
	@$(BIN)/python -m tests.chart.rendering

alert-parts: $(VENV)/.runtime  ## build promtool for the tests of the alerts, once (needs Go)
	@$(BIN)/python -m tonnage.lab.parts promtool

test: lint  ## everything that must hold before a change lands
	@if command -v go >/dev/null; then $(BIN)/python -m tonnage.lab.parts >/dev/null || true; fi
	@if command -v go >/dev/null; then $(BIN)/python -m tonnage.lab.parts chart >/dev/null || true; fi
	@if command -v go >/dev/null && command -v containerd >/dev/null; then $(BIN)/python -m tonnage.lab.parts node >/dev/null || true; fi
	@# Tests on real parts mostly wait, so two workers share a core. Each of them reads all tests; compiled, that takes a third.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

e2e: $(VENV)/.development cluster-parts node-parts chart-parts alert-parts  ## the tests that are too long for `make test` (those on a kubelet need root, containerd and runc)
	TONNAGE_E2E=1 $(BIN)/python -m pytest -q -m long $(ARGS)

skew: $(VENV)/.development  ## the tests on real Kubernetes parts, once on each pinned version of Kubernetes (needs Go)
	@for minor in $$($(BIN)/python -c 'from tonnage.lab.parts import VERSIONS; print(*VERSIONS)'); do \
		echo "Kubernetes $$minor ..."; export TONNAGE_KUBERNETES=$$minor; \
		$(BIN)/python -m tonnage.lab.parts && $(BIN)/python -m tonnage.lab.parts node && \
		$(BIN)/python -m pytest -q tests/e2e $(ARGS) || exit 1; done

bench: $(VENV)/.development  ## speed and memory, as ratios measured in one run (ARGS="--quick", ARGS="-o json")
	$(BIN)/python -m bench $(ARGS)

lock: $(VENV)/.development  ## write deploy/runtime.lock, the exact packages of the image with their hashes
	@$(BIN)/python -m release.lock

audit: $(VENV)/.development  ## ask for known vulnerabilities of the image's packages (ARGS="--osv-url URL"; needs the network)
	@$(BIN)/python -m release.audit $(ARGS)

release: $(VENV)/.development  ## wheel, sdist, image context, chart, SBOM, provenance and checksums of the commit, in dist/
	@$(BIN)/python -m release $(ARGS)

openb: $(VENV)/.development  ## all policies on the pod lists of the openb trace, as docs/results.md (ARGS="--data FOLDER")
	$(BIN)/python -m bench.openb $(ARGS)

bench-cluster: $(VENV)/.development cluster-parts  ## the extender on a real API server (ARGS="--hami PATH" compares with HAMi's)
	$(BIN)/python -m bench.cluster $(ARGS)

bench-agent: $(VENV)/.development cluster-parts node-parts  ## the agent on a real kubelet: start, 40 pods at once, memory (needs root, containerd and runc)
	$(BIN)/python -m bench.agent $(ARGS)

peers: $(VENV)/.development cluster-parts  ## the peers' own programs and tests beside ours (ARGS="--hami PATH --volcano FOLDER --kai FOLDER")
	$(BIN)/python -m peers $(ARGS)

chaos: $(VENV)/.development cluster-parts  ## faults on real parts, one after another (ARGS="--server scheduler --faults 200 --seed 1")
	$(BIN)/python -m tests.chaos $(ARGS)

soak: $(VENV)/.development cluster-parts  ## arrivals and departures on real parts (ARGS="--minutes 10")
	$(BIN)/python -m tests.chaos.soak $(ARGS)

tenants: $(VENV)/.development cluster-parts  ## a hostile tenant beside an honest one, on real parts (ARGS="--server scheduler --operations 2000 --seed 1")
	$(BIN)/python -m tests.tenants $(ARGS)

fuzz: $(VENV)/.development  ## 50,000 fuzzed requests to webhook, filter, prioritize, preempt and bind
	TONNAGE_EXAMPLES=17 $(BIN)/python -m pytest -q tests/extender/test_fuzz.py tests/extender/test_broken_http.py $(ARGS)

recount: $(VENV)/.development  ## 100,000 random operations on a cluster, its columns recounted after each
	TONNAGE_EXAMPLES=50 $(BIN)/python -m pytest -q tests/properties/test_recount.py $(ARGS)

clean:  ## remove the virtual environment, caches and what was built
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .cache build dist
