# The front door. `make help` lists what there is.
#
# make itself ends with 2 whenever a command fails. `make run` and `make validate` therefore print the exit code of
# the command that they ran; a script that needs the code calls .venv/bin/quickstarted itself.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# What a caller may set. TASKS is split at spaces and passed on as it is: neither make nor a shell reads what is in it,
# so that a glob reaches the command, which expands it the same way on every system. ARGS may quote, as in a shell.
export QS_TASKS := $(value TASKS)
export QS_ARGS := $(value ARGS)
unexport TASKS ARGS
export AGENT BACKEND SANDBOXD PYTHON

BIN := .venv/bin
OURS := proto controller sandboxd tests bench fuzz
MEMBERS := proto/pyproject.toml sandboxd/pyproject.toml controller/pyproject.toml

.PHONY: help
help: ## This list
	@echo 'make TARGET, where TARGET is one of:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Examples:'
	@echo '  make run TASKS=tasks/duckdb-quickstart.yaml'
	@echo "  make run TASKS='tasks/flask*.yaml' BACKEND=bubblewrap ARGS='--repeat 3 --verbose'"

# --- Installing -------------------------------------------------------------------------------------------------

.PHONY: setup
setup: .venv/run.stamp ## Install what `make run` needs into .venv (needs python3 >= 3.11; PYTHON=… names another)

.venv/run.stamp: requirements/run.txt $(MEMBERS) tools/setup
	@tools/setup run
	@touch $@

.venv/fuzz.stamp: .venv/dev.stamp requirements/fuzz.txt
	@tools/setup fuzz
	@touch $@

.venv/dev.stamp: requirements/dev.txt $(MEMBERS) tools/setup
	@tools/setup dev
	@touch $@ .venv/run.stamp

# --- Using ------------------------------------------------------------------------------------------------------

# $(call our,NAME,ARGUMENTS) runs one of our commands, prints its exit code when it failed, and ends with it.
define our
	@set -f; eval "set -- $$QS_ARGS"; $(BIN)/$(1) $(2) "$$@" || { \
	    code=$$?; echo "make $@: exit code of $(1): $$code" >&2; exit $$code; }
endef

.PHONY: run
run: .venv/run.stamp ## Run TASKS=… (files, directories, globs) [AGENT=replay] [BACKEND=auto] [SANDBOXD=unix:/path] [ARGS=…]
	$(call our,quickstarted,run $${AGENT:+--agent "$$AGENT"} $${BACKEND:+--backend "$$BACKEND"} \
	    $${SANDBOXD:+--sandboxd "$$SANDBOXD"} $$QS_TASKS)

.PHONY: validate
validate: .venv/run.stamp ## Check TASKS=… without running them [ARGS=…]
	$(call our,quickstarted,validate $$QS_TASKS)

.PHONY: sandboxd
sandboxd: .venv/run.stamp ## Run the sandbox daemon in the foreground [ARGS='serve options']
	$(call our,sandboxd,serve)

# --- Changing ---------------------------------------------------------------------------------------------------

.PHONY: test
test: .venv/dev.stamp ## Run all tests [ARGS='pytest options and paths'] (docker, bubblewrap and node are needed)
	@set -f; eval "set -- $$QS_ARGS"; $(BIN)/python -m pytest "$$@"

.PHONY: lint
lint: .venv/dev.stamp proto-check ## Style, types, import rules, generated stubs, shell scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	for part in $(wildcard $(OURS)); do $(BIN)/mypy "$$part" || exit; done
	$(BIN)/lint-imports
	@command -v shellcheck >/dev/null || { echo 'make lint: shellcheck is missing (apt-get install shellcheck)' >&2; exit 1; }
	shellcheck .ci/run tests/nix/evaluate tools/setup tools/proto

.PHONY: format
format: .venv/dev.stamp ## Write the code as `make lint` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: proto
proto: .venv/dev.stamp ## Generate the Python stubs from sandbox.proto
	tools/proto

.PHONY: proto-check
proto-check: .venv/dev.stamp
	@tools/proto check

.PHONY: bench
bench: .venv/dev.stamp ## Measure against the bars [ARGS='--only NAME']; fails when one is missed
	@set -f; eval "set -- $$QS_ARGS"; $(BIN)/python -m bench "$$@"

.PHONY: fuzz
fuzz: .venv/fuzz.stamp ## Fuzz the gateway's parsers, a minute each (Linux)
	@set -f; eval "set -- $$QS_ARGS"; $(BIN)/python -m fuzz "$$@"

.PHONY: lock
lock: .venv/dev.stamp ## Write requirements/*.txt anew from requirements/*.in
	cd requirements && for kind in run dev fuzz; do \
	    ../$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	        --no-header --quiet $$kind.in -o $$kind.txt || exit; done

.PHONY: clean
clean: ## Remove .venv and caches; results stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
