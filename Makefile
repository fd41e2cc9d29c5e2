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
build: deps
	$(CARGO) build --release --locked -p tixd -p tixctl -p tix-negotiate -p tix-demo

## deps       install what is missing, by apt-get; says what and why
deps:
	.ci/deps

## demo       alice and bob share a guest by tickets; NATIVE=1: this machine; KERNEL=: another guest kernel
demo: build
	tests/demo/run

## check      every test that belongs before a merge, those in guests included
check: deps
	.ci/check

## bench      measure tix beside the kernel's own scheduler, its examples and other rules; ALL=1: what takes long, too
bench: deps
	bench/run $(if $(ALL),--all)

## soak       the ledger's long tests: a million random operations, or TIX_OPS
soak: deps
	$(CARGO) test --release --locked -p tixd -- --ignored soak

## fuzz       under sanitizers, SECONDS (60) each: the queue, the funding graph, policies, and the API with a million messages
fuzz: deps
	SECONDS_EACH=$(SECONDS) bpf/fuzz/run fuzz
	SECONDS_EACH=$(SECONDS) daemon/fuzz/run fuzz

## picture    copy the last demo's picture to where the README shows it
picture:
	@test -s target/demo/demo.svg || { echo "there is no target/demo/demo.svg: run make demo" >&2; exit 1; }
	cp target/demo/demo.svg docs/demo.svg

## install    put tixd, tixctl, tix-negotiate, the unit files and the ready policies below DESTDIR (after make)
install:
	install -D -m 755 target/release/tixd $(DESTDIR)$(PREFIX)/sbin/tixd
	install -D -m 755 target/release/tixctl $(DESTDIR)$(PREFIX)/bin/tixctl
	install -D -m 755 target/release/tix-negotiate $(DESTDIR)$(PREFIX)/bin/tix-negotiate
	install -D -m 644 debian/tixd.service $(DESTDIR)$(UNITDIR)/tixd.service
	install -D -m 644 debian/tix-negotiate@.service $(DESTDIR)$(USERUNITDIR)/tix-negotiate@.service
	install -D -m 644 docs/market.md $(DESTDIR)$(PREFIX)/share/doc/tix/market.md
	install -d $(DESTDIR)$(PREFIX)/share/tix/policies
	install -m 644 policies/*.toml policies/README.md $(DESTDIR)$(PREFIX)/share/tix/policies

## clean      remove target/ (not the cached guest kernels and images)
clean:
	$(CARGO) clean

help:
	@sed -n 's/^## /  make /p' Makefile

.PHONY: all build deps demo check bench fuzz soak picture install clean help
