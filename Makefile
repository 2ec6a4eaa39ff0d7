# The commands of this repository. They need Python >= 3.11, Rust, a C compiler, make and git, and install everything else
# themselves. Nothing is installed outside this directory.

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

# Use the system certificates, as cargo and git do; SSL_CERT_FILE and the proxy variables still take precedence.
export UV_SYSTEM_CERTS ?= 1
# One interpreter for every cargo command: PyO3 recompiles itself whenever it changes.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python
# Ignore a virtual environment that the caller has activated, and keep bytecode whatever the caller does: the tests start
# Python hundreds of times, and each start would compile what it imports once more.
unexport VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
RESULTS := target/test-results
INSTALLED := tests/packaging/test_installed.py

.PHONY: help
help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# uv notices a changed source but not a deleted library: hence the second half.
.PHONY: setup
setup: $(filter-out uv,$(UV)) bpf agent  ## install the locked dependencies and the compiled core into .venv (rebuilt when Rust sources change)
	@$(UV) sync --locked $(if $(wildcard python/mptune/_core.*.so),,--reinstall-package mptune)

.PHONY: bpf
bpf:  ## build congestion controls that kernels lack, as BPF objects; needs clang and libbpf's headers
	@$(MAKE) --silent -C bpf

# Files in the package: the same agent runs on machines without Python, programs of any kind load the library, and the network is
# linked into guests' kernels.
.PHONY: agent
agent:  ## build mptune-agent, which runs on the measured machines, the library of mptune exec and the network of guests into the package
	@python3 shipping/backend.py

# For machines without a C library of this machine's kind, such as OpenWrt; ssh takes the one that suits a host.
PROCESSORS :=
.PHONY: agent-static
agent-static:  ## build the agent without libraries, for x86-64 and, where Rust can, ARM (PROCESSORS="x86_64 aarch64 armv7l")
	@python3 shipping/static_agents.py $(PROCESSORS)

# Until the next change of a Rust source, when `make setup` compiles without a profile again.
.PHONY: tuned
tuned: setup  ## compile the core by a profile of trials, which takes minutes: same results, a tenth less time
	@$(BIN)/python shipping/tuned.py

.PHONY: released
released: setup  ## compile the core with a release's optimiser, as `make wheel` does without a profile: for benchmarks
	@cargo build --release --locked --quiet --package mptune-python
	@install target/release/lib_core.so python/mptune/._core.released && mv python/mptune/._core.released python/mptune/_core.abi3.so

.PHONY: man
man: setup  ## write a man page for every command into man/, from the declarations that --help shows
	@$(BIN)/python shipping/man.py

# Into a virtual environment of its own: what only one target needs, others need not install.
tools = UV_PROJECT_ENVIRONMENT=target/$(1)-tools $(UV) sync --quiet --locked

# Runs wherever glibc is as old as this or newer. zig links against it, for any target: no old machine is needed.
TARGET := x86_64-unknown-linux-gnu
GLIBC := 2.17
ARCHITECTURE := $(firstword $(subst -, ,$(TARGET)))
PLATFORM := manylinux_$(subst .,_,$(GLIBC))_$(ARCHITECTURE)
WHEEL = dist/mptune-*$(PLATFORM).whl
PROGRAMS := $(shell $(MAKE) --silent -C bpf names)
IN_WHEEL := _bin/mptune-agent _bin/libmptune_preload.so guest/mptune_network.c \
  $(if $(filter x86_64,$(ARCHITECTURE)),_bin/mptune-guest-network.o) scenarios/UNIS-HiN.toml result/result.schema.json \
  $(patsubst %,bpf_objects/%.bpf.o,$(PROGRAMS))

# BPF objects work on every kernel, so installing the wheel needs no clang.
.PHONY: wheel
wheel: setup man  ## build a wheel in dist/ with the agent and the BPF programs, for TARGET; needs clang and libbpf's headers
	@$(MAKE) --silent -C bpf needed
	@$(call tools,wheel) --only-group wheel
	@test -d "$$(rustc --print target-libdir --target $(TARGET))" || rustup --quiet target add $(TARGET)
	@rm -f $(WHEEL)
	@profile=$$($(if $(filter $(shell rustc --print host-tuple 2>/dev/null),$(TARGET)),$(BIN)/python shipping/tuned.py --profile-only)); \
	PATH="$(CURDIR)/target/wheel-tools/bin:$$PATH" MPTUNE_WHEEL_TARGET=$(TARGET).$(GLIBC) MPTUNE_PROFILE="$$profile" \
	  $(UV) build --quiet --wheel --no-build-isolation --python target/wheel-tools/bin/python --out-dir dist
	@inside=$$($(BIN)/python -m zipfile --list $(WHEEL)); \
	for file in $(IN_WHEEL); do grep -q "^mptune/$$file " <<<"$$inside" || { echo "$$file is not in the wheel"; exit 1; }; done
	@needs=$$(target/wheel-tools/bin/auditwheel show $(WHEEL) 2>/dev/null | tr '\n' ' '); \
	grep -q 'platform tag: "$(PLATFORM)"' <<<"$$needs" || { echo "more than glibc $(GLIBC) is needed: $$needs"; exit 1; }
	@echo "$$(ls $(WHEEL)): glibc $(GLIBC) or later, with $(words $(PROGRAMS)) BPF programs"
	@[ $(ARCHITECTURE) != "$$(uname -m)" ] || $(MAKE) check-wheel

EMULATED := target/emulated-$(ARCHITECTURE)-site
.PHONY: check-wheel
check-wheel:  ## use the wheel of dist/ where there is nothing else; one for another TARGET's processor in its emulator (root, Debian)
ifeq ($(ARCHITECTURE),$(shell uname -m))
	@MPTUNE_PACKAGE=$$(ls $(WHEEL)) $(BIN)/pytest $(INSTALLED)
else
	@rm -rf $(EMULATED)
	@$(UV) pip install --quiet --target $(EMULATED) --python-platform $(ARCHITECTURE)-manylinux_2_28 --python-version 3.11 \
	  --only-binary :all: $(WHEEL)
	@$(BIN)/python shipping/emulated_wheel.py $(WHEEL) $(EMULATED)
endif

.PHONY: sdist
sdist: setup man  ## pack the sources into dist/; `pip install` of that builds all of mptune, and needs Rust
	@$(MAKE) --silent -C bpf needed
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(UV) build --quiet --sdist --no-build-isolation --python $(BIN)/python --out-dir dist
	@ls dist/mptune-*.tar.gz

.PHONY: check-sdist
check-sdist:  ## install the archive of dist/ where there is nothing but Rust, which takes minutes, and use it
	@MPTUNE_PACKAGE=$$(ls dist/mptune-*.tar.gz) $(BIN)/pytest $(INSTALLED)

.PHONY: deb
deb: setup  ## pack the daemon for Debian into dist/: the agent, units, man page, Grafana dashboard; needs dpkg-deb
	@$(BIN)/python shipping/deb.py

.PHONY: docs
docs: setup  ## build the documentation as a site in target/site; loads nothing from elsewhere
	@$(call tools,docs) --no-default-groups --group docs --no-install-project
	@NO_MKDOCS_2_WARNING=1 target/docs-tools/bin/mkdocs build --strict --quiet
	@$(BIN)/python shipping/check_site.py target/site

# The outputs are in the repository, for readers there and on the site; a test runs the cells and compares them.
.PHONY: notebook
notebook: setup  ## run the cells of the notebooks in docs/ and write what they show into them
	@$(BIN)/python shipping/cells.py

.PHONY: pictures
pictures: setup  ## record the moving pictures of the docs again, each from the command that it shows
	@$(call tools,pictures) --only-group pictures
	@folder=$$(mktemp -d) && target/pictures-tools/bin/python shipping/picture.py --in $$folder \
	  --as "mptune optimise CLOUD-HOME.hybrid" docs/images/optimise.svg -- \
	  $(CURDIR)/$(BIN)/mptune optimise CLOUD-HOME.hybrid --confirm-on none --out run; rm -rf $$folder

$(UV_LOCAL):
	python3 -m venv .tools/uv-$(UV_PINNED)
	.tools/uv-$(UV_PINNED)/bin/pip install --quiet --disable-pip-version-check uv==$(UV_PINNED)

.PHONY: demo
ifdef PAPER
demo: setup  ## what two uplinks of a home give today, and what they could; PAPER=1: UNIS-HiN as the papers did it; in runs/demo
	$(BIN)/mptune optimise scenarios/UNIS-HiN.toml --as-papers --stack v0.9x --pm fullmesh,pcdc --cc reno,cubic,hybla,scalable,vegas,olia \
	  --buffers 2.5:30:2.5 --runs 3 --duration 30s --details --out runs/demo --force
	@$(OPEN_DEMO)
else
demo: setup
	$(BIN)/mptune optimise scenarios/CLOUD-HOME.hybrid.toml --out runs/demo --force
	@$(OPEN_DEMO)
endif

# The report opens where somebody sits at a desktop.
OPEN_DEMO = if [ -z "$${CI:-}" ] && [ -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ] && command -v xdg-open > /dev/null; then \
	xdg-open runs/demo/report.html; fi

# Both suites run even if the other fails; at the end come their summaries and what was not tested. Cargo's works in the time that
# pytest's leaves to the processors, which is a quarter, and prints what it has when both are done; where busy neighbours have left
# it none, it goes on as one of them. What measures comes last: it needs processors that nobody else uses.
.PHONY: test
test: setup | $(RESULTS)  ## run the tests of the Rust core and of the Python package
	@status=0; rm -f $(STARTED); \
	set -m; nice -n 19 $(CARGO_TEST) >$(RESULTS)/cargo.txt 2>&1 </dev/null & rust=$$!; set +m; \
	trap 'kill -- "-$$rust" 2>/dev/null || true' EXIT; \
	$(MAKE) test-others || status=1; \
	echo "cargo test, beside it:"; \
	if [ -n "$$(jobs -pr)" ]; then \
	  kill -- "-$$rust" 2>/dev/null || true; wait $$rust || true; $(CARGO_TEST) >$(RESULTS)/cargo.txt 2>&1 </dev/null || status=1; \
	else wait $$rust || status=1; fi; \
	trap - EXIT; cat $(RESULTS)/cargo.txt; \
	$(MAKE) test-measuring || status=1; \
	echo; echo "cargo test:"; grep -h '^test result:' $(RESULTS)/cargo.txt || echo "no result"; \
	echo "pytest:"; grep -E '^(=+ )?([0-9]+ [a-z]+,? ?)+ in ' $(RESULTS)/pytest.txt || echo "no result"; \
	grep -A99 '^Repetitions needed: ' $(RESULTS)/pytest.txt | grep -E '^(Repetitions|  [0-9]+ x) ' | sort -u || true; \
	grep '^Not tested here: ' $(RESULTS)/pytest.txt | tail -n 1; \
	exit $$status

CARGO_TEST := cargo test --workspace --locked --no-fail-fast
.PHONY: test-rust
test-rust: | $(RESULTS)
	$(CARGO_TEST) 2>&1 | tee $(RESULTS)/cargo.txt

.PHONY: test-python
test-python: | $(RESULTS)
	@status=0; rm -f $(STARTED); \
	$(MAKE) test-others || status=1; \
	$(MAKE) test-measuring || status=1; \
	exit $$status

# What the parts of pytest's suite add to, and what they have left out.
STARTED := $(RESULTS)/pytest.txt $(RESULTS)/left-out.json
part = $(BIN)/pytest $(1) --dist=loadfile --left-out=$(RESULTS)/left-out.json 2>&1 | tee -a $(RESULTS)/pytest.txt

# Twice as many workers as processors, and two more: half of the tests wait for real networks, each its own, in the order of
# tests/conftest.py.
.PHONY: test-others
test-others: rewritten
	@$(call part,--numprocesses=$$((2 * $$(nproc) + 2)) -m "not measures")

# pytest compiles the tests with its assertions. On a fresh clone each worker would compile all of them, at the same time.
.PHONY: rewritten
rewritten:
	@$(BIN)/pytest --collect-only --quiet >/dev/null || true

# Each takes a fifth of a processor. tests/conftest.py refuses one that is not in these folders.
.PHONY: test-measuring
test-measuring:
	@$(call part,--numprocesses=$$((2 * $$(nproc))) -m measures tests/hosts tests/kernel)

$(RESULTS):
	@mkdir -p $@

.PHONY: conformance
conformance: setup  ## run the tests of RFCs, drafts and kernel files; show how congestion controls follow the multipath rules
	@$(BIN)/python -m benchmarks.fidelity.conformance $(OPTIONS)

.PHONY: recommendations
recommendations: setup  ## measure every scenario's answer in guests, beside what hosts do without it
	@$(BIN)/python -m benchmarks.decision.recommendations $(OPTIONS)

.PHONY: published-networks
published-networks: setup  ## measure answers on networks of which others published what they reached
	@$(BIN)/python -m benchmarks.decision.published_networks $(OPTIONS)

# Needs root, Debian's apt, and qemu-system-x86; takes about 15 minutes a kernel.
.PHONY: kernel-matrix
kernel-matrix: setup  ## boot Debian's kernels in qemu, without KVM, and write what each has and does into the docs
	@$(BIN)/python benchmarks/matrix/matrix.py $(OPTIONS)

# Random networks, algorithms, buffers and outages until the time is up, drawn anew in each round; with the checks for overflow
# that a release build lacks. A failure ends it: the case is kept in a file beside the test, to be committed with the mend.
FUZZ_MINUTES := 20
FUZZ_CASES := 20000
FUZZED := cargo test --profile fuzz --locked --quiet -p mptune-core --test all -- properties:: any_trial::
.PHONY: fuzz
fuzz:  ## run random trials of the simulator for FUZZ_MINUTES (20)
	@end=$$((SECONDS + 60 * $(FUZZ_MINUTES))); rounds=0; trials=0; properties=$$($(FUZZED) --list | grep -c ': test$$'); \
	while [ $$SECONDS -lt $$end ]; do \
	  rounds=$$((rounds + 1)); seed=$$(od -A n -N 4 -t u4 /dev/urandom | tr -d ' '); \
	  echo "round $$rounds: PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(FUZZ_CASES)"; \
	  PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(FUZZ_CASES) $(FUZZED) || { \
	    echo "round $$rounds failed after $$trials random trials without failure; its case is kept in:"; \
	    git status --short -- '*.proptest-regressions'; exit 1; }; \
	  trials=$$((trials + properties * $(FUZZ_CASES))); \
	  echo "$$trials random trials, no failure"; \
	done

# In virtual time: a busy machine changes nothing. What fails is reduced, and its topology file is below target/fuzz-kernel.
FUZZ_TESTBED := virtual
.PHONY: fuzz-kernel
fuzz-kernel: setup  ## run random trials on a kernel that `mptune kernel build` has built, for FUZZ_MINUTES (20)
	@nice $(BIN)/python -m benchmarks.fidelity._fuzz_kernel --minutes $(FUZZ_MINUTES) --testbed $(FUZZ_TESTBED) $(OPTIONS)

# make test includes a short form with 6 kills.
.PHONY: kill-test
kill-test: setup  ## kill a campaign 60 times at random moments: no finished trial is lost or repeated
	MPTUNE_KILLS=60 $(BIN)/pytest tests/cli/test_campaign.py -k killed

.PHONY: check
check: tools  ## check what the uncommitted change, or else the last commit, can reach: format, lints, types and tests, in a minute
	@$(BIN)/python tests/check.py

.PHONY: lint
lint: tools  ## check formatting, lints, types and spelling; changes nothing
	@$(MAKE) --keep-going lint-python lint-types lint-spelling lint-rust-format lint-rust

# The locked dependencies without the compiled core: what only reads the sources needs no more.
.PHONY: tools
tools: $(filter-out uv,$(UV))
	@$(UV) sync --locked --inexact --no-install-project --quiet

.PHONY: lint-python lint-types lint-spelling lint-rust-format lint-rust
lint-python:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
lint-types:
	$(BIN)/mypy
lint-spelling:
	@git ls-files -z '*.md' '*.py' '*.pyi' '*.rs' '*.toml' '*.h' '*.c' '*.yml' Makefile | xargs -0 $(BIN)/codespell
lint-rust-format:
	cargo fmt --all --check
lint-rust:
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

# The role of `mptune advise --files`, for a small answer. Apart from `make lint`, which needs no compiled core.
.PHONY: lint-ansible
lint-ansible: setup  ## check the role for Ansible that mptune advise writes, with ansible-lint's strictest profile
	@$(call tools,ansible) --only-group ansible
	@PATH="$(CURDIR)/target/ansible-tools/bin:$$PATH" $(BIN)/python -m tests.apply.linted

.PHONY: format
format: setup  ## format both languages and apply ruff's safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	cargo fmt --all

.PHONY: bench
bench: released  ## run every benchmark in benchmarks/ but soak, of a day; each prints a table and writes JSON next to it
	@for file in benchmarks/speed/[!_]*.py benchmarks/fidelity/[!_]*.py benchmarks/decision/[!_]*.py benchmarks/systems/[!_]*.py; do \
	  [ "$$file" != benchmarks/systems/soak.py ] || continue; \
	  module=$$(echo "$${file%.py}" | tr / .); echo "== $$module"; $(BIN)/python -m "$$module"; done

.PHONY: clean
clean:  ## remove everything built and installed here, except runs/
	rm -rf .venv .tools target dist man .pytest_cache .mypy_cache .ruff_cache .hypothesis python/mptune/_core.*.so \
	  python/mptune/bpf_objects python/mptune/_bin
	find python shipping tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
