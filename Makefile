# SPDX-License-Identifier: GPL-2.0-only
# `make help` lists what there is.

CARGO ?= cargo
DESTDIR ?=
PREFIX ?= /usr
UNITDIR ?= $(PREFIX)/lib/systemd/system
USERUNITDIR ?= $(PREFIX)/lib/systemd/user
SECONDS ?= 60

all: build

## build      compile tixd, tixctl, tix-negotiate and the demo, optimised, into target/release (the default)
build: deps compile

# The package's build has its own way to say what it needs.
compile:
	$(CARGO) build --release --locked -p tixd -p tixctl -p tix-negotiate -p tix-demo

## deps       install what is missing, by apt-get; says what and why
deps:
	.ci/deps

## demo       alice and bob share a guest by tickets; NATIVE=1: this machine; KERNEL=: another guest kernel
demo: build
	tests/demo/run

## check      every test that belongs before a merge, those in guests included; ends with a table, and target/check.json
check: deps
	.ci/check

## bench      measure tix beside the kernel's own scheduler, its examples and other rules; ALL=1: what takes long, too
bench: deps
	bench/run $(if $(ALL),--all)

## soak       hours: what `make soak-…` does each for itself (see the Makefile), results in bench/results; TIX_LTP=/opt/ltp: with those tests
soak: deps
	rm -rf target/soak && mkdir -p target/soak
	$(MAKE) -k -j1 $(SOAK) || touch target/soak/failed
	bench/soaked >target/soaked.json && mv target/soaked.json bench/results/soak.json
	@test ! -e target/soak/failed || { echo "soak: not all of it passed; bench/results/soak.json says what" >&2; exit 1; }

# A million operations on the ledger (or TIX_OPS); tixd killed a hundred times; a scheduler that fails until it is given up; a user who brings
# the machine to its knees; cgroups by the thousand that come and go, without tixd and with it; more of them than there is room for; the
# kernel's locks quarrelled about; beside another sched_ext scheduler, one of another layout, on siblings of a core, and on slow disks; other
# people's tests; what holds of the cpu controller on other kernels; twenty times as many random cases as a merge waits for.
SOAK = soak-ledger soak-seeds soak-kills soak-failures soak-lifeline soak-cgroups soak-churn soak-crowd soak-attacks soak-others soak-judges soak-kernels
IN_GUEST = CARGO=$(CARGO) .ci/tests --locked -p tix-tests --test guest -- --ignored --nocapture
$(SOAK): deps
# Before a merge random cases are always the same; here they are others each time, and the seed is told.
NOW := $(shell date +%s)
$(SOAK): export TIX_SEED ?= $(NOW)
$(SOAK): export PROPTEST_RNG_SEED ?= $(TIX_SEED)
soak-seeds:
	for n in $$(seq 20); do \
		export PROPTEST_RNG_SEED=$$(($(TIX_SEED) + n)); \
		echo "PROPTEST_RNG_SEED=$$PROPTEST_RNG_SEED"; \
		.ci/tests --quiet --locked -p tix-bpf -p tix-ledger -p tix-store -p tixd -p tix-negotiate || exit 1; \
	done
soak-ledger:
	@echo "PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED)"
	CARGO=$(CARGO) .ci/tests --release --locked -p tix-ledger -- --ignored soak
soak-kills:
	TIX_SOAK=1 TIX_ONLY=SIGKILL $(IN_GUEST) daemon::under_systemd
soak-failures:
	TIX_SOAK=1 $(IN_GUEST) daemon::faulty
soak-lifeline:
	$(IN_GUEST) --test-threads=1 soak_of_the_lifeline
soak-cgroups:
	$(IN_GUEST) soak_of_cgroups
	TIX_SOAK=1 TIX_ONLY=thousand $(IN_GUEST) resources::memory
soak-churn:
	TIX_SOAK=1 TIX_ONLY=minute $(IN_GUEST) daemon::churn
soak-crowd:
	$(IN_GUEST) a_mkdir_never_fails
soak-attacks:
	TIX_SOAK=1 $(IN_GUEST) attacks::
soak-others:
	$(IN_GUEST) --test-threads=1 daemon::another_ shares_of_a_disk cores:: suspend::one_cpu
soak-judges:
	$(IN_GUEST) --test-threads=1 judges::
soak-kernels:
	.ci/kernels

## fuzz       under sanitizers, SECONDS (60) each: the queue, the funding graph, policies, the API with a million messages; into bench/results
fuzz: deps
	SECONDS_EACH=$(SECONDS) bpf/fuzz/run fuzz
	SECONDS_EACH=$(SECONDS) daemon/fuzz/run fuzz
	bench/fuzzed > bench/results/fuzz.json

## picture    copy the last demo's picture to where the README shows it
picture:
	@test -s target/demo/demo.svg || { echo "there is no target/demo/demo.svg: run make demo" >&2; exit 1; }
	cp target/demo/demo.svg docs/demo.svg

# README.md, and all that it names, where it says that this is.
install-documents:
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/tix README.md CONTRIBUTING.md COPYING
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/tix/docs docs/*.md docs/*.svg
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/tix/docs/decisions docs/decisions/*.md
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/tix/policies policies/README.md
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/tix/daemon/api daemon/api/org.tix.Tix.varlink

## install    put what make built, its units, manual pages, completions and the ready policies below DESTDIR
install: install-documents
	install -D -m 755 target/release/tixd $(DESTDIR)$(PREFIX)/sbin/tixd
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin target/release/tixctl target/release/tix-negotiate
	install -D -m 644 -t $(DESTDIR)$(UNITDIR) debian/tixd.service debian/tixd.socket debian/tixd-root.socket
	install -D -m 644 -t $(DESTDIR)$(USERUNITDIR) debian/tix-negotiate@.service
	sed -i 's,^ExecStart=/usr/,ExecStart=$(PREFIX)/,' $(DESTDIR)$(UNITDIR)/tixd.service $(DESTDIR)$(USERUNITDIR)/tix-negotiate@.service
	install -D -m 644 debian/tix.sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/tix.conf
	install -D -m 644 debian/tix.tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/tix.conf
	target/release/tixctl pages $(DESTDIR)$(PREFIX)/share
	target/release/tixd --pages $(DESTDIR)$(PREFIX)/share
	target/release/tix-negotiate --pages $(DESTDIR)$(PREFIX)/share
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/tix/policies policies/*.toml policies/README.md

## deb        make a Debian package of the tree as it is, in target/deb
deb: build
	rm -rf target/deb && mkdir -p target/deb
	dpkg-buildpackage --build=binary --no-sign --post-clean --changes-file=target/deb/tix.changes --buildinfo-file=target/deb/tix.buildinfo \
		--buildinfo-option=-utarget/deb --changes-option=-utarget/deb

## clean      remove target/ (not the cached guest kernels and images)
clean:
	$(CARGO) clean

help:
	@sed -n 's/^## /  make /p' Makefile

.PHONY: all build deps demo check bench fuzz soak $(SOAK) picture compile install install-documents deb clean help
