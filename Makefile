# The verbs of this repository; `make` alone lists them.
# A fresh machine needs Python 3.11 or newer and a JDK 17 or newer, nothing else.

PYTHON ?= python3
JAVA_AT_LEAST := 17
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check install --require-virtualenv
HIGHWATER := $(BIN)/highwater
# Any of these will do to look at a page.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable chrome
# More arguments for the verb's own command: make check ARGS="recordings --strict"
ARGS ?=

# Images of containers set it, and then each process compiles all that it imports once more.
unexport PYTHONDONTWRITEBYTECODE
# uv_build looks its binary up on PATH; Spark prefers JAVA_HOME, so everything else shall too.
export PATH := $(CURDIR)/$(BIN):$(if $(JAVA_HOME),$(JAVA_HOME)/bin:)$(PATH)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup java verify verify-full test test-slow lint style types pytest format broker explain spec prove conform mutants matrix mutants-auto chaos campaign check-bugs faults validate check \
	docs drawings recipe site test-browser test-everyday test-kafka test-faults test-real test-sharing test-storm test-suites agent recorder-java recorder-go dist test-install test-odd test-cluster soak fuzz fuzz-traces bench lock clean

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

verify: java setup ## Run the whole loop: specs, conformance, mutants, chaos, traces
	$(HIGHWATER) verify $(ARGS)

verify-full: java setup ## The same with the models, proofs and scopes that take long
	$(HIGHWATER) verify --full $(ARGS)

# Types are checked beside the tests, many of which wait for processes.
test: java setup style ## Run the gates: lint, types, import rules, tests
	@$(MAKE) --no-print-directory --jobs 2 types pytest

test-slow: java setup ## Run the tests that need Spark, or more than six CPU-seconds
	$(BIN)/pytest --numprocesses 3 --dist loadgroup -m "slow and not kafka and not cluster" $(ARGS)

setup: $(READY) ## Make .venv from the lock (again only when the lock changed)

lint: style types ## Check style, types and import rules

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/pyright

# Tests that await real brokers leave two cores idle for a third of the time: four workers use it.
pytest: java setup
	$(BIN)/pytest --numprocesses 4 --dist loadgroup $(ARGS)

spec: java setup ## Run the TLA+ models against their expected verdicts
	$(HIGHWATER) spec $(ARGS)

prove: java setup ## Show with z3 that invariants are inductive: make prove ARGS=--full
	$(HIGHWATER) prove $(ARGS)

conform: java setup ## Compare specs and Python machines, edge by edge
	$(HIGHWATER) conform $(ARGS)

mutants: java setup ## Put known bugs in; show that each is found
	$(HIGHWATER) mutants $(ARGS)

matrix: java setup ## Ask every check about every known bug and every dropped guard: an hour
	$(HIGHWATER) mutants --matrix $(ARGS)

mutants-auto: java setup ## Change every comparison, guard and assignment in turn; goes on where it was
	$(HIGHWATER) mutants --auto $(ARGS)

explain: java setup ## One property: formula, rules, functions, bugs: ARGS=CommittedInIsr
	$(HIGHWATER) explain $(ARGS)

broker: setup ## Serve Kafka's protocol: make broker ARGS="--brokers 3"
	$(HIGHWATER) broker $(ARGS)

chaos: setup ## Break a simulated cluster: make chaos ARGS="--seed 7"
	$(HIGHWATER) chaos $(ARGS)

campaign: setup ## 10,000 seeds on files, 10,000 in memory, 5,000 with added partitions, 2,000 with lasting faults, 2,000 with our own clients; interrupted, it goes on: ARGS="-j 1"
	$(HIGHWATER) chaos --seeds 10000 --ledger build/chaos/files.json $(ARGS)
	$(HIGHWATER) chaos --seeds 10000 --config files=false --ledger build/chaos/memory.json $(ARGS)
	$(HIGHWATER) chaos --seeds 5000 --config files=false --config adds_partitions=true --ledger build/chaos/added.json $(ARGS)
	$(HIGHWATER) chaos --seeds 2000 --config files=false --config lasting=true --ledger build/chaos/lasting.json $(ARGS)
	$(HIGHWATER) chaos --seeds 2000 --config files=false --config reference_clients=true --ledger build/chaos/clients.json $(ARGS)

check-bugs: setup ## Bugs of clients and coordinators that checks find in simulated histories: ARGS="--write"
	$(BIN)/python -m tests.chaos.check_bugs $(ARGS)

faults: setup ## Break real brokers under real clients: ARGS="--out RUNS --events EVENTS"
	$(HIGHWATER) faults $(ARGS)

validate: java setup ## Ask TLC about recorded protocol events: ARGS="EVENTS..."
	$(HIGHWATER) validate $(ARGS)

check: setup ## Judge recorded client histories: ARGS="PATH..."
	$(HIGHWATER) check $(ARGS)

docs: setup ## Build the pages that quote specs and code
	$(BIN)/python docs/build.py

drawings: java setup ## Draw the reports on Kafka that have no drawing yet: ARGS=--all
	$(BIN)/python -m docs.finding_drawings $(ARGS)

recipe: setup ## Play the no-loss recipe with steps left out under each fault; goes on where it was: ARGS="--jobs 6"
	$(BIN)/python -m examples.recipe $(ARGS)
	$(BIN)/python docs/build.py

site: setup ## Build the documentation as a site in build/site, which a browser opens without a server
	@$(PIP) --quiet --require-hashes -r requirements-site.lock
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file docs/site/mkdocs.yml
	@echo "build/site/index.html"

test-browser: setup ## Open the page of a report in a real browser
	@for name in $(or $(HIGHWATER_BROWSER),$(BROWSERS)); do command -v $$name > /dev/null && exit 0; done; \
	  echo "None of these is on PATH: $(or $(HIGHWATER_BROWSER),$(BROWSERS))." \
	    "Install one (apt-get install chromium), or name yours in HIGHWATER_BROWSER" >&2; exit 2
	$(BIN)/pytest -m browser tests/traces $(ARGS)

test-everyday: java setup ## Play what people do to a healthy cluster: ARGS="group-deleted --keep runs" or --write
	$(BIN)/python -m tests.kafka.everyday $(ARGS)

test-kafka: java setup ## Let real Kafka judge the storage: its jars come through Maven
	@command -v mvn > /dev/null || { echo "Maven brings the jars of Apache Kafka, and mvn is not on PATH." \
	  "Install it: apt-get install maven, or brew install maven" >&2; exit 2; }
	@command -v go > /dev/null || { echo "Go compiles clients of franz-go, and go is not on PATH." \
	  "Install it: apt-get install golang, or brew install go" >&2; exit 2; }
	$(BIN)/pytest -m kafka tests/kafka tests/traces/record/java tests/traces/record/go $(ARGS)

test-faults: java setup ## Break broker processes on ZooKeeper 200 times; goes on where it was
	$(BIN)/python -m chaos.real.stored.faults $(ARGS)

test-real: java setup ## Break Kafka's own processes by seed, and ask both judges; goes on where it was: ARGS="--seeds 1-20 --minutes 3"
	@command -v mvn > /dev/null || { echo "Maven brings the jars of Apache Kafka, and mvn is not on PATH." \
	  "Install it: apt-get install maven, or brew install maven" >&2; exit 2; }
	$(HIGHWATER) chaos real --out build/real $(or $(ARGS),--seeds 1-20)

test-sharing: java setup ## Kill brokers beside members of a share group: ARGS="--kills 100 --seed 1"
	$(BIN)/python -m chaos.real.sharing $(ARGS)

test-storm: java setup ## Let eight members of three libraries rebalance for ten minutes: ARGS="--seconds 600 --protocol consumer"
	$(BIN)/python -m chaos.real.storm $(ARGS)

test-suites: java setup ## Run other clients' own tests on ours and on Kafka: ARGS="--suite kafka-python"
	$(BIN)/python -m chaos.real.suites $(ARGS)

agent: java setup ## Build the Java agent that writes down what Kafka's own processes do (docs/kafka-itself.md)
	@command -v mvn > /dev/null || { echo "Maven brings the library that the agent weaves with, and mvn is not on PATH." \
	  "Install it: apt-get install maven, or brew install maven" >&2; exit 2; }
	@$(BIN)/python -m chaos.real.agent

recorder-java: java setup ## Build the recorder for Java's Kafka clients (docs/recorder-java.md)
	@command -v mvn > /dev/null || { echo "Maven brings Kafka's clients, and mvn is not on PATH." \
	  "Install it: apt-get install maven, or brew install maven" >&2; exit 2; }
	@$(BIN)/python -m chaos.real.kafka.recorder_jar

recorder-go: ## Vet, test and build the recorder for franz-go clients (docs/recorder-go.md)
	@command -v go > /dev/null || { echo "Go compiles the recorder, and go is not on PATH." \
	  "Install it: apt-get install golang, or brew install go" >&2; exit 2; }
	cd traces/record/go && go vet ./... && go test ./... && go build ./...
	@echo "traces/record/go: an application's go.mod names it (docs/recorder-go.md)"

dist: setup ## Build sdist and wheel into dist/, and look into both
	rm -rf dist
	$(BIN)/python -m tests.install.build dist

test-install: setup ## Try each extra from the wheel in fresh environments (needs uv): ARGS="--version 3.12 --extra test"
	@command -v uv > /dev/null || { echo "make test-install needs uv: pip install uv" >&2; exit 2; }
	$(BIN)/python -m tests.install $(ARGS)

test-odd: setup ## Run the tests that surroundings may matter to in others (needs root and Linux's unshare): ARGS="--in fresh --busy 2 tests/refimpl/edge"
	$(BIN)/python -m tests.surroundings $(ARGS)

test-cluster: java setup ## Judge on a standalone cluster of Spark, and kill a worker of it
	$(BIN)/pytest -m cluster tests/traces/test_cluster.py $(ARGS)

soak: java setup ## Run the property tests with thousands of examples, on fresh seeds
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m "not spark and not kafka and not cluster and not newer_tlc" $(ARGS)

fuzz: setup ## Feed a million fuzzed frames to a broker, guided by coverage: ARGS="--frames N --seed N"
	@$(PIP) --quiet --require-hashes -r requirements-fuzz.lock || echo "No atheris for this Python: not guided by coverage"
	$(BIN)/python -m chaos.real.fuzz $(ARGS)

fuzz-traces: setup ## Feed fuzzed bytes to every reader of traces, guided by coverage: ARGS="--inputs N --seed N"
	@$(PIP) --quiet --require-hashes -r requirements-fuzz.lock || echo "No atheris for this Python: not guided by coverage"
	$(BIN)/python -m tests.traces.fuzz $(ARGS)

bench: java setup ## Measure, in CPU seconds and against a yardstick in the same run
	for bench in bench/bench_*.py; do $(BIN)/python $$bench $(ARGS) || exit 1; done

format: setup ## Put the style right where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --annotation-style line

lock: ## Write the locks anew after a change in pyproject.toml (needs uv)
	@command -v uv > /dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 2; }
	$(LOCK) pyproject.toml --all-extras --group dev -o requirements.lock
	$(LOCK) --group build -c requirements.lock -o requirements-build.lock
	$(LOCK) --group fuzz -o requirements-fuzz.lock
	$(LOCK) --group site -c requirements.lock -o requirements-site.lock

clean: ## Remove what was built; .venv stays
	rm -rf build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Two steps, because pyspark comes as a source archive: what builds it is
# pinned and installed first, instead of being looked up at build time.
$(READY): requirements-build.lock requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
	  found=$$({ $(PYTHON) --version || echo missing; } 2>&1 | tail -n 1); \
	  echo "Python 3.11 or newer is needed, and \`$(PYTHON)\` is: $$found." \
	    "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing the pinned packages into $(VENV) (the first time takes some minutes)"
	$(PIP) --quiet --require-hashes -r requirements-build.lock
	$(PIP) --require-hashes --no-build-isolation -r requirements.lock
	$(PIP) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

java:
	@found=$$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'); \
	test "$${found:-0}" -ge $(JAVA_AT_LEAST) || { \
	  echo "A JDK $(JAVA_AT_LEAST) or newer is needed (java and javac on PATH), found: $${found:-none}." \
	    "Install one: apt-get install openjdk-17-jdk-headless, or brew install openjdk@17" >&2; exit 2; }
