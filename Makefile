# What a developer types. Each target installs what it needs by name, says so, and does nothing twice.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help demo test fmt lint check clean scale soak bench instructions suites setup

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: ## Build and start the gateway with routes/demo and its backends, and print what to try
	@scripts/setup.sh build curl
	$(CARGO) build --locked --workspace --bin demo --bin allium
	@$${CARGO_TARGET_DIR:-target}/debug/demo

test: ## Run every test of the workspace, doc tests too
	@scripts/setup.sh build peers
	$(CARGO) test --workspace --locked --no-fail-fast

fmt: ## Format all code
	@scripts/setup.sh fmt
	$(CARGO) fmt --all

lint: ## Check formatting and run clippy; a warning is an error
	@scripts/setup.sh build fmt clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

check: lint test ## Everything that a change must pass

scale: ## Load, check and reload 10 000 and 100 000 generated APIs; optimized, takes minutes
	@scripts/setup.sh build
	$(CARGO) test --release --locked --package tests --test cases -- --ignored --nocapture --test-threads=1 scale::

soak: ## Change definitions 500 times under full load with streams open; optimized, takes minutes
	@scripts/setup.sh build
	$(CARGO) test --release --locked --package tests --test cases -- --ignored --nocapture --test-threads=1 soak::

bench: ## Measure beside nginx, HAProxy and Envoy; takes ten minutes and a build. ARGS=--quick for a smoke test
	@scripts/setup.sh build
	@bench/setup.sh peers
	python3 bench/bench.py $(ARGS)

instructions: ## Count instructions for each request and compare with the baseline; WRITE=1 makes a new one
	@scripts/setup.sh build
	@bench/setup.sh valgrind nginx
	python3 bench/instructions.py $(if $(WRITE),--write) $(ARGS)

suites: ## Fetch the JSON-Schema-Test-Suite, run it, and write docs/JSON_SCHEMA.md
	@scripts/setup.sh build
	@scripts/suites.sh

clean: ## Remove what was built
	$(CARGO) clean
