# Targets for everything that is done in this repository; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# Images of CI set it: then every process that a test starts compiles every module that it imports anew.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help

VENV ?= .venv
export WSC_CLIENT_VENV ?= $(HOME)/.cache/wsc/client-2.10.0
# Other releases that the appliance serves have environments beside the newest one and share its files.
RELEASES := 2.6.0 2.7.0 2.7.1 2.8.0 2.9.0
RELEASE ?= 2.10.0
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.tools-installed
SITE := $(HOME)/.cache/wsc/site/.installed
KUBE_APISERVER := $(HOME)/.cache/wsc/kube-apiserver-1.20.2
CLIENT := $(WSC_CLIENT_VENV)/.installed
RELEASE_CLIENTS := $(RELEASES:%=$(dir $(WSC_CLIENT_VENV))client-%/.installed)
PAGES := appliance/dashboard/web/node_modules/.installed
NOTEBOOK := $(WSC_CLIENT_VENV)/.notebook-installed
export WSC_SDK_CLIENT_VENV ?= $(HOME)/.cache/wsc/sdk-client-2.10.0
SDK_CLIENT := $(WSC_SDK_CLIENT_VENV)/.installed
RELEASE_SDK_CLIENTS := $(RELEASES:%=$(dir $(WSC_SDK_CLIENT_VENV))sdk-client-%/.installed)
# A checkout of public CSL examples, or a directory with several; their tests are left out without.
export EXAMPLES ?=
# A checkout of the public Model Zoo, and an environment with the client and what the Model Zoo requires.
MODELZOO ?=
MODELZOO_VENV ?= $(WSC_CLIENT_VENV)
PYTEST := $(PY) -m pytest
# How many faults `make chaos` draws, and from which seed.
FAULTS ?= 1000
SEED ?= 2026
# How many damaged CSL program files `make fuzz` runs.
PROGRAMS ?= 100000

.PHONY: help setup hooks client releases notebook sdk-client test-csl test-csl-world test-releases test-modelzoo demo test test-all processes check docs lint types layers deps unit unit-all fuzz fuzz-csl attack sbom audit lock fix protos fabric sparse dashboard packages pages kube-tools kube-apiserver engine test-compose test-kubernetes screenshots bench bench-engine bench-queue bench-kubernetes bench-starts bench-wafer bench-csl chaos chaos-compose up down clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

setup: $(TOOLS) ## Install the appliance and what checks and tests need into .venv

hooks: $(TOOLS) ## Let git run ruff and the import contracts before each commit, and mypy before each push
	$(VENV)/bin/pre-commit install

$(INSTALLED): pyproject.toml constraints.txt deploy/setup.sh
	deploy/setup.sh appliance $(VENV)
	@touch $@

$(TOOLS): $(INSTALLED)
	deploy/setup.sh tools $(VENV)
	@touch $@

client: $(dir $(WSC_CLIENT_VENV))client-$(RELEASE)/.installed ## Install the public client into its own environment (2.6 GB; WSC_CUDA=1 for the 6 GB with CUDA); RELEASE=2.9.0: another release

$(CLIENT): deploy/setup.sh
	deploy/setup.sh client $(WSC_CLIENT_VENV)
	@touch $@

releases: $(RELEASE_CLIENTS) ## Install the other releases of the client that are served (1 GB, as they share the newest one's files)

$(RELEASE_CLIENTS): $(CLIENT)
	deploy/setup.sh client-release $(@D) $(patsubst client-%,%,$(notdir $(@D))) $(WSC_CLIENT_VENV)
	@touch $@

sdk-client: $(dir $(WSC_SDK_CLIENT_VENV))sdk-client-$(RELEASE)/.installed ## Install the public SDK client into its own environment (0.3 GB); RELEASE=2.9.0: another release

$(RELEASE_SDK_CLIENTS): $(SDK_CLIENT)
	deploy/setup.sh client-release $(@D) $(patsubst sdk-client-%,%,$(notdir $(@D))) $(WSC_SDK_CLIENT_VENV)
	@touch $@

$(SDK_CLIENT): deploy/setup.sh
	deploy/setup.sh sdk-client $(WSC_SDK_CLIENT_VENV)
	@touch $@

notebook: $(NOTEBOOK) ## Install what notebooks need (Jupyter's kernel, matplotlib) into the client's environment

$(NOTEBOOK): $(CLIENT)
	deploy/setup.sh notebook $(WSC_CLIENT_VENV)
	@touch $@

demo: ## Train a GPT on two simulated systems, resume it, show the queue
	@$(MAKE) --no-print-directory -j 2 $(INSTALLED) $(CLIENT)  # side by side: pip uses one core
	PATH=$(CURDIR)/$(VENV)/bin:$$PATH examples/demo.sh

check: packages lint types layers deps unit-all ## Lint, types, import contracts, dependencies, unit and architecture tests

lint: $(TOOLS) ## Ruff: rules and format
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(TOOLS) ## Mypy, strict
	$(VENV)/bin/mypy

layers: $(TOOLS) ## Import contracts
	$(VENV)/bin/lint-imports --no-logo

deps: $(TOOLS) ## What is imported is declared, and what is declared is imported
	$(VENV)/bin/deptry .

unit: $(TOOLS) ## The unit tests that what you changed can fail; the first time all (pytest-testmon)
	$(PYTEST) -q -n 2 --testmon tests/unit

unit-all: $(TOOLS) ## All unit and architecture tests
	$(PYTEST) -q -n 2 --max-worker-restart 1 --tier check tests/unit tests/architecture

PROCESSES := $(PYTEST) -q -n 3 --max-worker-restart 1 --dist loadfile --no-loadscope-reorder
PREPARED := $(TOOLS) packages $(PAGES) $(NOTEBOOK) $(SDK_CLIENT) kube-tools

test: check $(PREPARED) ## Check, and each subsystem once from end to end, with the real clients (15 minutes)
	$(PROCESSES) --tier test $$($(PY) -m tests.tiers)

test-all: check processes ## Everything but containers; Kubernetes after make kube-apiserver

processes: $(PREPARED) $(RELEASE_CLIENTS) ## The part of make test-all that starts processes
	$(PROCESSES) --tier test-all tests/integration tests/chaos tests/conformance tests/e2e tests/helm tests/kubernetes tests/benchmarks

test-csl: $(INSTALLED) $(if $(CLIENT),$(SDK_CLIENT)) ## Compile, and where possible run, public CSL examples: make test-csl EXAMPLES=DIR; CLIENT=1: by the SDK's client on an appliance
	$(PY) -m tests.support.csl_examples$(if $(CLIENT),_client) "$(EXAMPLES)"

test-csl-world: $(INSTALLED) ## Compile and run public CSL programs of others: make test-csl-world DIR=...
	$(PY) -m tests.support.csl_world "$(DIR)"

test-releases: $(TOOLS) $(RELEASE_CLIENTS) $(RELEASE_SDK_CLIENTS) ## The tests of the real client with every release that is served (hours), and their table in docs/compatibility.md; RELEASES="2.9.0": with some
	status=0; for release in $(RELEASES); do echo "== $$release"; \
	    WSC_CLIENT_VENV=$(dir $(WSC_CLIENT_VENV))client-$$release \
	    WSC_SDK_CLIENT_VENV=$(dir $(WSC_SDK_CLIENT_VENV))sdk-client-$$release $(PYTEST) -q -n 2 --dist loadfile -m client \
	        tests/conformance --deselect tests/conformance/test_real_client_releases.py \
	        --junitxml=build/releases/$$release/all.xml || status=1; done; \
	$(PY) -m tests.support.release_table build/releases docs/compatibility.md; exit $$status

test-modelzoo: $(TOOLS) ## Train small Model Zoo configurations, on the CPU backend and here: make test-modelzoo MODELZOO=DIR MODELZOO_VENV=DIR MODELZOO_ARGS="--only sparsity"
	$(PY) -m tests.modelzoo --modelzoo "$(MODELZOO)" --client "$(MODELZOO_VENV)" $(MODELZOO_ARGS)
ifdef GIGAGPT
	$(PY) -m tests.modelzoo.gigagpt --gigagpt "$(GIGAGPT)" --client "$(MODELZOO_VENV)"
endif

test-compose: $(TOOLS) engine ## Bring docker-compose.yml up and train on it (5 minutes, and 10 for the images the first time)
	$(PYTEST) -q -rs tests/compose

engine: ## Install a container engine with Compose from Debian
	@deploy/setup.sh engine

kube-tools: ## Install helm, helm 4 and kubectl below ~/.cache/wsc
	@deploy/setup.sh kube-tools

kube-apiserver: ## Build the Kubernetes API server of the tests, once (root; 6 minutes)
	deploy/build-kube-apiserver.sh $(KUBE_APISERVER)

test-kubernetes: $(TOOLS) kube-tools kube-apiserver ## Tests against a real Kubernetes API server
	$(PYTEST) -q tests/kubernetes

packages: ## Install what the tests need from Debian: a browser, PostgreSQL, Prometheus, iproute2, nftables
	@deploy/setup.sh packages

fabric: $(INSTALLED) ## Build the fabric simulator's kernel anew (needs clang-19)
	$(PY) -m appliance.fabric.native.build

sparse: $(INSTALLED) ## Build the products with sparse weights anew (needs clang-19)
	$(PY) -m appliance.numerics.sparse.native.build

pages: $(PAGES) ## Install what the dashboard's pages are built and tested with, where there is Node.js

$(PAGES): appliance/dashboard/web/package-lock.json
	@if ! command -v npm >/dev/null; then echo "pages: there is no npm; the unit tests of the pages are skipped" >&2; \
	elif (cd $(dir $<) && npm ci --no-audit --no-fund --loglevel error); then touch $@; \
	else echo "pages: npm could not install the packages; the unit tests of the pages are skipped" >&2; fi

dashboard: $(TOOLS) ## Build the dashboard's pages anew (needs Node.js) and run their unit tests
	cd appliance/dashboard/web && npm ci --no-audit --no-fund && npm run schema && npm test && npm run build
	$(PY) -m appliance.dashboard.digest

$(SITE): deploy/locks/docs.txt deploy/setup.sh
	deploy/setup.sh docs $(@D)
	touch $@

docs: $(SITE) ## Build the documentation as a site into build/site; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(<D)/bin/mkdocs build --strict

screenshots: $(TOOLS) $(CLIENT) packages ## Take the pictures of docs/dashboard.md from a real run; LOOK=DIRECTORY: also at three widths, light and dark
	$(PY) docs/screenshots/take.py $(if $(LOOK),--look $(LOOK))

fuzz: $(TOOLS) ## A million mutated inputs against every decoder, 100,000 program files in a watched kernel, 100,000 calls and 15,000 requests against an appliance (two hours)
	$(PY) -m tests.fuzz 1000000
	$(PY) -m tests.fuzz.programs $(PROGRAMS)
	FUZZ_SCALE=10 $(PYTEST) -q --timeout 3600 tests/integration/test_rest_contract.py

fuzz-csl: $(TOOLS) ## 10,000 random CSL programs, compiled and run, against a plain model (two hours)
	$(PY) -m tests.fuzz.values 10000

attack: $(TOOLS) ## Attack appliances in every mode, as root and as two other users, and make every attack of docs/security.md (root; an hour)
	$(PY) -m tests.attack

lock: $(TOOLS) ## Write the hashes of every package's wheel anew (asks the package index; minutes)
	$(PY) deploy/locks/lock.py

audit: $(INSTALLED) ## Hold the environment against the locks, and against advisories: make audit ADVISORIES=DIRECTORY
	$(PY) deploy/locks/audit.py $(PY) $(ADVISORIES)

sbom: $(INSTALLED) ## Write what each image consists of, as CycloneDX, into build/sbom
	$(PY) deploy/locks/sbom.py build/sbom

fix: $(TOOLS) ## Repair what ruff can repair
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

protos: $(TOOLS) ## Generate the gRPC stubs
	$(PY) -m protos.generate

bench: $(TOOLS) $(CLIENT) ## Run the benchmarks
	for benchmark in benchmarks/[!_]*.py; do echo "== $$benchmark"; \
	    $(PY) -m "benchmarks.$$(basename "$$benchmark" .py)"; done

bench-engine: $(TOOLS) $(CLIENT) ## Measure the engine against PyTorch, DDP, FSDP2, ZeRO-3 and its own bars; fails if one is missed
	$(PY) -m benchmarks.engine_bars

bench-csl: $(INSTALLED) ## Measure the CSL compiler and the simulated fabric; fails if a bar is missed
	$(PY) benchmarks/csl.py

bench-wafer: $(TOOLS) ## Hold the wafer's timing model to every published number
	$(PY) benchmarks/wafer.py

bench-published: $(INSTALLED) ## Print every published cycle count and rate beside ours, fitted and held out
	$(PY) -m benchmarks.published

bench-starts: $(TOOLS) ## Measure how true expected starts are on simulated jobs; fails if a bar is missed
	$(PY) -m benchmarks.expected_starts

bench-queue: $(TOOLS) ## Measure the scheduler on simulated queues; fails if a bar is missed
	status=0; $(PY) -m benchmarks.queue_simulator || status=1; \
	    $(PY) -m benchmarks.queue_throughput || status=1; exit $$status

bench-kubernetes: $(TOOLS) ## Measure jobs on Kubernetes with a real API server; fails if a bar is missed
	$(PY) -m benchmarks.kubernetes_jobs

chaos: $(INSTALLED) ## Hurt a whole appliance a thousand times (FAULTS, SEED; hours); fails if a promise was not kept
	$(PY) -m tests.chaos --faults $(FAULTS) --seed $(SEED)

chaos-compose: $(INSTALLED) engine ## The same to the containers of docker-compose.yml (root; 20 faults unless FAULTS is given)
	$(PY) -m tests.chaos --compose --faults $(if $(filter command line,$(origin FAULTS)),$(FAULTS),20) --seed $(SEED)

up: $(INSTALLED) ## Start an appliance with two systems in the background
	$(VENV)/bin/appliance up --systems 2

down: $(INSTALLED) ## Stop it
	$(VENV)/bin/appliance down

clean: ## Remove what the other targets made in this directory
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
	    deploy/wheelhouse appliance/dashboard/web/node_modules
