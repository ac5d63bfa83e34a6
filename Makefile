# Every chore is one word.
CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
FUZZ_SECONDS ?= 60
# Python compiles what it imports; to compile all of PyTorch takes a minute.
PIP_OPTIONS := --quiet --disable-pip-version-check --no-compile
# Where tests note what they skipped; tools/skips sums it up.
export LMC_SKIPS := $(CURDIR)/target/skipped
# Parts of the names of tests that take more than about ten seconds; `make quick` leaves them out.
SLOW := store_kill:: s3:: writers:: bucket:: faults:: crash:: rot:: differential:: any_bytes \
	changed_blocks work_ends_by_itself a_deep_directory a_new_directory_is_whole random_pairs \
	every_type_level_and_change bit_flips_are_found

.PHONY: demo test quick test-scalar test-python test-package test-s3 lint bench study fuzz crash soak ci

## demo: a made-up checkpoint at every level, there and back, in a table
demo:
	$(CARGO) run --release --locked -p lmc-cli -- demo

## test: everything that must hold, in Rust and in Python
test:
	rm -f $(LMC_SKIPS)
	$(MAKE) --jobs=2 $(VENV)/packages built
	$(MAKE) test-python test-package
	$(CARGO) test --workspace --locked
	tools/skips $(LMC_SKIPS)

## quick: what catches most mistakes, in at most 3 minutes once it is built
quick: $(VENV)/ready
	$(CARGO) test --workspace --locked --lib --bins --tests -- $(addprefix --skip ,$(SLOW))
	$(VENV)/bin/python -m unittest discover -s reference

## test-scalar: the codec's tests with vector instructions switched off
test-scalar:
	LMC_SIMD=portable tools/run-tests lmc-codec

## test-python: the reference decoder, alone and against blocks that the Rust encoder wrote
test-python: $(VENV)/ready
	$(VENV)/bin/python -m unittest discover -s reference

## test-package: the Python package, built and installed with all that it works with
test-package: $(VENV)/packages
	tools/s3-servers
	tools/chromium
	$(VENV)/bin/pip install $(PIP_OPTIONS) \
		--config-settings=build-args="--profile dev --features like-tests" '.[test]'
	$(VENV)/bin/ruff check crates/conftest.py crates/lmc-analyze crates/lmc-py
	$(VENV)/bin/ruff format --check crates/conftest.py crates/lmc-analyze crates/lmc-py
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest --quiet

# All test programs. The package needs most of what is built for them.
.PHONY: built
built:
	$(CARGO) test --workspace --locked --no-run

## test-s3: buckets on every server that is known, and many writers at full count
test-s3:
	tools/s3-servers all
	LMC_REQUIRE_ALL=1 LMC_WRITERS=8x100 $(CARGO) test --locked -p lmc-store -p lmc-cli \
		--features lmc-store/s3 --test all -- bucket:: s3:: writers::

$(VENV)/ready: reference/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install $(PIP_OPTIONS) -r reference/requirements.txt
	touch $@

# What the package is tested with. It is downloaded while cargo builds.
$(VENV)/packages: $(VENV)/ready pyproject.toml
	$(VENV)/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); \
		print(*project["project"]["optional-dependencies"]["test"], sep="\n")' > $(VENV)/packages.txt
	$(VENV)/bin/pip install $(PIP_OPTIONS) -r $(VENV)/packages.txt
	touch $@

## lint: formatting, spelling, warnings and links of the docs, all clean, in the fuzz targets too
lint:
	tools/tidy
	bench/chart.py --check
	study/page.py --check
	tools/spelling
	tools/deny
	tools/without-peers
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml --all-targets --locked -- -D warnings

## bench: all engines and levels on one core (see bench/README.md)
bench:
	$(CARGO) run --release --locked -p lmc-bench

## study: trains the small model of docs/study.md and measures it, analyzes the corpus where there
## is one, and writes the tables and charts
study: $(VENV)/packages
	$(CARGO) build --release --locked -p lmc-cli --features bench
	$(VENV)/bin/python study/train.py --size tiny --lmc target/release/lmc \
		--out study/record/cpu-tiny/tiny.json
	study/corpus target/release/lmc
	study/page.py

## fuzz: every decoder against hostile bytes, FUZZ_SECONDS each (needs nightly and cargo-fuzz)
fuzz:
	$(CARGO) run --release --locked --manifest-path fuzz/Cargo.toml --example seeds
	for target in $$($(CARGO) +nightly fuzz list); do \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) \
			-rss_limit_mb=2048 -verbosity=0 || exit 1; \
	done

## crash: a store through power cuts, bad and rotting disks, kills, random histories (python3, root)
crash:
	LMC_CRASH_IMAGES=100000 LMC_FAULT_STRIDE=1 LMC_HISTORY_STEPS=10000 LMC_ROT=1000 \
		$(CARGO) test --locked -p lmc-store --test all -- --nocapture \
		crash:: faults:: histories:: rot::
	LMC_KILL_STRIDE=1 LMC_KILLS=1000 LMC_POWER_CUTS=100 \
		$(CARGO) test --locked -p lmc-cli --test all -- --nocapture --include-ignored \
		--test-threads=1 store_kill:: store_disk::

## soak: many commands on two stores for ten minutes, killed and stopped at random
soak:
	$(CARGO) build --release --locked -p lmc-cli
	$(PYTHON) tools/soak.py target/release/lmc

## ci: what a change must pass
ci: lint test test-scalar
