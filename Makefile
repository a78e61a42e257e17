# SPDX-License-Identifier: Apache-2.0
# A thin front for Meson. `make help` lists the targets; the work is in tools/ and meson.build.

PREFIX ?= /usr/local
BUILD  ?= build

.PHONY: all deps build run test check lint bench fuzz soak vm templates-test attack-mutants upgrade-test install deb tarball clean help
.DEFAULT_GOAL := all
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

all: ## build; names `make deps` when something is missing
	@tools/deps --check build
	@$(MAKE) --no-print-directory build

deps: ## install the missing Debian packages, or name the command that does
	@tools/deps

build:
	@V=$(V) tools/build $(BUILD) all --prefix=$(PREFIX)

run: ## installs what that needs, builds without tests, and serves on 127.0.0.1:8090 with a key and lines to try; SERVE=OPTIONS for others
	@since=$$(date +%s); tools/deps run && V=$(V) tools/build $(BUILD) run --prefix=$(PREFIX) && SINCE=$$since tools/run-server $(BUILD) $(SERVE)

test: deps ## build and run every test; the last line is the verdict
	@tools/run-tests

check: deps build ## the rules of the house: format, names, layers, headers, spelling, scripts; part of make test
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite check

lint: deps build ## the slow analysers on the whole tree; counts go into docs/dev/judges.md; PARTS='tidy clang' for some
	@tools/lint --record $(addprefix --part ,$(PARTS)) --build $(BUILD) .

bench: deps build ## one JSON line per figure, its floor and peers beside it
	@tools/need bench/run "the benchmarks" && bench/run $(BUILD)

fuzz: deps ## fuzz every parser; SECONDS=N per target, 5 unless told
	@tools/need fuzz/run "the fuzz targets" && fuzz/run $(or $(SECONDS),60)

soak: deps build ## the long kill and leak tests
	@tools/need tests/soak "the soak test" && tests/soak $(BUILD)

vm: deps build deb ## boot stock systems in QEMU and try everything there; SYSTEMS='bookworm trixie' for some, VM=OPTIONS of tests/vm/run
	@tests/vm/run --debs $(BUILD)/deb $(VM) $(SYSTEMS)

templates-test: deps build ## build and use the templates that we ship: network and minutes; NAMES='base codex' for some
	@tests/system/test_templates.sh $(BUILD)/cay templates $(or $(NAMES),base python-data-science code-server claude codex browser cloud)

upgrade-test: deps build ## build an older commit and adopt its sandboxes; FROM=REV (default: the commit before)
	@tests/upgrade $(BUILD) $(FROM)

attack-mutants: deps ## take each defence away and see its attack case turn red
	@tools/need tests/attack/mutants "the mutant runner" && tests/attack/mutants && tests/attack/mutants-tests && tests/server/mutants

install: build ## install below PREFIX (/usr/local), or below DESTDIR for packagers
	@meson install -C $(BUILD) --no-rebuild

deb: ## Debian packages in build/deb, of the tree as it is
	@tools/deps package && packaging/deb

tarball: ## one archive of static programs for every distribution, in build/tarball
	@tools/deps package && packaging/tarball
	@tests/system/test_portable.sh build/tarball/cay-*-linux-$$(uname -m).tar.gz || [ $$? = 77 ]

clean: ## remove every build tree
	@rm -rf build build-test build-fuzz build-mutant build-*

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' Makefile
