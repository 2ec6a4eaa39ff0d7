# The commands of this repository. Each sets itself up: they need Python >= 3.11, Rust, a C compiler, make and git.
# Nothing is installed outside this directory.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# uv: the one on PATH when pyproject.toml accepts its version, otherwise this one, installed under .tools.
UV_PINNED := 0.13.8
UV_MINIMUM := $(shell sed -n 's/^required-version = ">=\(.*\)"$$/\1/p' pyproject.toml)
UV_FOUND := $(shell uv --version 2>/dev/null | cut -d' ' -f2)
UV_LOCAL := .tools/uv-$(UV_PINNED)/bin/uv
UV := $(shell printf '%s\n' $(UV_MINIMUM) $(or $(UV_FOUND),0) | sort -CV && echo uv || echo $(UV_LOCAL))

# The certificates cargo and git trust too; SSL_CERT_FILE and the proxy variables go before, as everywhere.
export UV_SYSTEM_CERTS ?= 1
# One interpreter for every cargo command: PyO3 compiles itself anew whenever it changes.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python
# A virtual environment of the caller's is not ours.
unexport VIRTUAL_ENV

BIN := .venv/bin
RESULTS := target/test-results

.PHONY: help
help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# uv sees a changed source, not a deleted library: hence the second half.
.PHONY: setup
setup: $(filter-out uv,$(UV)) bpf  ## locked dependencies and the compiled core into .venv (rebuilt when Rust sources changed)
	@$(UV) sync --locked $(if $(wildcard python/mptune/_core.*.so),,--reinstall-package mptune)

.PHONY: bpf
bpf:  ## the congestion controls that kernels lack, as BPF objects; needs clang and libbpf's headers
	@$(MAKE) --silent -C bpf

$(UV_LOCAL):
	python3 -m venv .tools/uv-$(UV_PINNED)
	.tools/uv-$(UV_PINNED)/bin/pip install --quiet --disable-pip-version-check uv==$(UV_PINNED)

.PHONY: demo
demo: setup  ## the main job on UNIS-HiN: 2 path managers x 6 congestion controls x 12 buffers; result in runs/demo
	$(BIN)/mptune optimise scenarios/UNIS-HiN.toml --pm fullmesh,pcdc --cc reno,cubic,hybla,scalable,vegas,olia \
	  --buffers 2.5:30:2.5 --runs 3 --duration 30s --out runs/demo --force

# Both suites run even if the first fails; their summaries are repeated at the end.
.PHONY: test
test: setup  ## the tests of the Rust core and of the Python package
	@status=0; \
	$(MAKE) test-rust || status=1; \
	$(MAKE) test-python || status=1; \
	echo; echo "cargo test:"; grep -h '^test result:' $(RESULTS)/cargo.txt || echo "no result"; \
	echo "pytest:"; grep -E '^(=+ )?([0-9]+ [a-z]+,? ?)+ in ' $(RESULTS)/pytest.txt || echo "no result"; \
	exit $$status

.PHONY: test-rust
test-rust: | $(RESULTS)
	cargo test --workspace --locked --no-fail-fast 2>&1 | tee $(RESULTS)/cargo.txt

.PHONY: test-python
test-python: | $(RESULTS)
	$(BIN)/pytest 2>&1 | tee $(RESULTS)/pytest.txt

$(RESULTS):
	@mkdir -p $@

.PHONY: conformance
conformance: setup  ## every test that answers to a document, and what each congestion control does about the multipath rules
	@$(BIN)/python benchmarks/conformance.py $(OPTIONS)

# Random networks, algorithms, buffers and outages until the time is over; a finding ends it and is kept as a test case.
FUZZ_MINUTES := 20
.PHONY: fuzz
fuzz:  ## random trials of the simulator for FUZZ_MINUTES (20)
	@end=$$((SECONDS + 60 * $(FUZZ_MINUTES))); rounds=0; \
	while [ $$SECONDS -lt $$end ]; do \
	  PROPTEST_CASES=20000 cargo test --release --locked --quiet -p mptune-core --test properties; rounds=$$((rounds + 1)); \
	done; echo "$$rounds rounds of 20000 random trials of each property, no finding"

# The short form of this test, 6 kills, is among the tests.
.PHONY: kill-test
kill-test: setup  ## a campaign killed 60 times at random moments; no finished trial lost or doubled
	MPTUNE_KILLS=60 $(BIN)/pytest tests/cli/test_campaign.py -k killed

.PHONY: lint
lint: setup  ## formatting, lints and types of both languages, changing nothing
	@$(MAKE) --keep-going lint-python lint-types lint-rust-format lint-rust

.PHONY: lint-python lint-types lint-rust-format lint-rust
lint-python:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
lint-types:
	$(BIN)/mypy
	$(BIN)/stubtest mptune._core
lint-rust-format:
	cargo fmt --all --check
lint-rust:
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

.PHONY: format
format: setup  ## format both languages and apply ruff's safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	cargo fmt --all

.PHONY: bench
bench: setup  ## every benchmark in benchmarks/: a table each, and JSON beside it
	@for file in benchmarks/[!_]*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

.PHONY: clean
clean:  ## remove what was built and installed here; runs/ stays
	rm -rf .venv .tools target dist .pytest_cache .mypy_cache .ruff_cache .hypothesis python/mptune/_core.*.so \
	  python/mptune/bpf_objects
	find python tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
