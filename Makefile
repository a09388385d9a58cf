# Everything a person or a machine does here. `make` alone lists it.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Where Go's own installer puts it, in case the shell was not told.
export PATH := $(PATH):/usr/local/go/bin
# A checkout owned by another user makes git, and so VCS stamping, fail. Without paths
# in them, compiled packages are shared by all checkouts on a machine.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath

# Packages under test, e.g. make test PKG=./internal/web
PKG ?= ./...
# How long each fuzz target runs.
FUZZTIME ?= 10s
# The programs that the tests start, linked once for all of them; with -race, so that
# they share every compiled package with the tests. The doctor finds or installs the
# servers the tests start; once, here, because concurrent test packages would fight
# over the package manager.
PROGRAMS := $(CURDIR)/.cache/programs
DOCTOR ?= go build -race $(LEAN) -o $(PROGRAMS)/ ./cmd/... && $(PROGRAMS)/melmastoon doctor --install
# A third of the time of linking goes into DWARF and symbols, which only debuggers read;
# a fifth of the rest into reading past the DWARF that packages have.
LINK := -s -w
LEAN := -gcflags=all=-dwarf=false -ldflags='$(LINK)'

TOOL := go tool -modfile=tools/go.mod
# Directories of the packages that hold a top-level function named so.
holding = $$({ grep -rlE --include='*_test.go' --exclude-dir=node_modules --exclude-dir=testdata '^func $(1)' . || true; } | xargs -r -n1 dirname | sort -u)

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: need-go ## everything on this machine: servers, simulated upstreams, both services
	@tools/build melmastoon
	@exec bin/melmastoon up

.PHONY: build
build: need-go ## bin/: both services and melmastoon, static, stamped with the version
	@tools/build bff-consumer bff-backoffice melmastoon

# The clients' tests mostly wait for npm, so they run beside the others; what they
# print is shown when they fail. Both use the programs and servers of one doctor.
.PHONY: test
test: need-go need-cc need-node ## every test, under the race detector, against real servers
	@mkdir -p .cache
	@$(DOCTOR)
	@$(MAKE) test-typescript DOCTOR=: >.cache/typescript.log 2>&1 & typescript=$$!; \
	failed=; $(MAKE) test-go DOCTOR=: || failed=test-go; \
	wait $$typescript || { cat .cache/typescript.log; failed="$$failed test-typescript"; }; \
	if [ -n "$$failed" ]; then echo "FAIL: $$failed" >&2; exit 1; fi

# A skipped test proves nothing, so it counts as a failure.
.PHONY: test-go
test-go: need-go need-cc tools/parquet/node_modules
	@$(DOCTOR)
	@mkdir -p .cache
	@MELMASTOON_TEST_PROGRAMS=$(PROGRAMS) $(TOOL) gotestsum --format standard-quiet --jsonfile .cache/test.json -- -race $(QUICK) -p $(PACKAGES) -timeout 20m $(PKG)
	@if grep -E '"Action":"skip".*"Test":' .cache/test.json; then echo 'FAIL: the tests above were skipped' >&2; exit 1; fi

# Vet is a part of `make lint`.
QUICK := $(LEAN) -vet=off
# Packages tested at the same time: many tests wait, for servers and for timeouts, so
# that one package per core leaves cores idle.
PACKAGES := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))

# The race detector needs cgo; the programs we ship do not.
test test-go test-typescript proof: export CGO_ENABLED := 1
# Tests and the programs they start have small heaps, which GOGC=100 collects so often
# that it is a quarter of their time; and the race detector has each of them sleep for
# a second before it ends.
test test-go test-typescript proof: export GOGC := 400
test test-go test-typescript proof: export GORACE := atexit_sleep_ms=20

# They share one platform, which some of them strike; in its houses it is one o'clock, when parties come and go, and no day ends.
ONE_BY_ONE := --test --test-concurrency=1 --test-reporter=spec
AT_ONE := const day = 864e5, at = 309e5; new Date(Math.ceil((Date.now() - at) / day) * day + at).toISOString()
UP_AT_ONE = BFF_BACKOFFICE_PROGRAM=$(PROGRAMS)/bff-backoffice MELMASTOON_LOG_LEVEL=error $(PROGRAMS)/melmastoon up --clock "$$(node -p '$(AT_ONE)')" --

# The packed clients run in a fresh project and in Chromium. Its false name is suspicious
# in this world, so that they meet challenges.
CHALLENGED := BFF_CONSUMER_BOT_DEFENCE=on BFF_CONSUMER_LIMITS='ip=100,fingerprint=100' BFF_CONSUMER_BOT_WEIGHTS='other-hints=0.6;crowd=0;no-cookies=0;made-up=0'

.PHONY: test-typescript
test-typescript: need-go need-cc tools/contracts/node_modules clients/typescript/node_modules web/node_modules
	@cd tools/contracts && npm test
	@$(MAKE) pages PAGES=-check
	@$(DOCTOR)
	@project=$$(mktemp -d); trap 'rm -rf "$$project"' EXIT; \
	(cd clients/typescript && node pack/pack.mjs "$$project" && npm run --silent unit); \
	for example in booking/typescript storefront desk; do \
		mkdir -p examples/$$example/node_modules/@melmastoon; \
		ln -sfn "$$PWD/clients/typescript" examples/$$example/node_modules/@melmastoon/bff; \
		clients/typescript/node_modules/.bin/tsc -p examples/$$example --skipDefaultLibCheck --typeRoots clients/typescript/node_modules/@types; \
	done; \
	(cd tools/contracts && npm run --silent generated); \
	$(CHALLENGED) $(UP_AT_ONE) sh -c 'node $(ONE_BY_ONE) "$$0" && exec node $(ONE_BY_ONE) "$$@"' examples/examples.test.mjs clients/typescript/dist/backoffice/live.js "$$project/live.test.mjs" examples/booking/typescript/dist/booking.test.js \
		tools/contracts/generated/dist/live.test.mjs $$(find web/test -name '*.test.mjs')

.PHONY: pictures
pictures: need-go need-cc clients/typescript/node_modules web/node_modules ## docs/pictures: every screen in three languages, light and dark, on a desk and a phone
	@$(DOCTOR)
	@cd clients/typescript && npm run --silent build
	@PATH="$(PROGRAMS):$$PATH" $(PROGRAMS)/melmastoon up --defence=off --clock="$$(date -u +%F)T05:40:00Z" -- node web/test/pictures.mjs

%/node_modules: %/package-lock.json | need-node
	@cd $* && npm ci --no-audit --no-fund --loglevel=error && touch node_modules

# Its lock has the library for Linux on x64 alone, of which npm ci makes an error.
tools/parquet/duckdb/node_modules: tools/parquet/duckdb/package-lock.json | need-node
	@cd tools/parquet/duckdb && npm install --no-save --no-audit --no-fund --loglevel=error && touch node_modules

.PHONY: pages
pages: need-go clients/typescript/node_modules web/node_modules ## the pages of web/, built into internal/local/pages/dist
	@cd clients/typescript && npm run --silent generate
	@web/node_modules/.bin/tsc -p web
	@go -C tools/pages run . $(PAGES)

.PHONY: check
check: lint vet vuln test ## all that must hold before a change is merged

.PHONY: lint
lint: need-go ## golangci-lint, formatting included; see .golangci.yaml
	@$(TOOL) golangci-lint run $(PKG)

.PHONY: vet
vet: need-go
	@go vet $(PKG)

.PHONY: vuln
vuln: need-go ## known vulnerabilities in what we call
	@tools/vuln

# Programs of tools/parts, which hold a deployment to parts that are not ours.
PARTS := $(CURDIR)/.cache/parts
$(PARTS)/%: FORCE | need-go
	@go -C tools/parts build -o $@ ./$*
FORCE:

.PHONY: sbom
sbom: build $(PARTS)/sbom ## bin/*.cdx.json: what each program links, and bin/*.licenses.txt; fails on a licence that may not be linked
	@$(PARTS)/sbom bin/bff-consumer bin/bff-backoffice bin/melmastoon

.PHONY: image
image: sbom $(PARTS)/image ## bin/images: an OCI layout per program, the same digest each time; needs no engine and no rights
	@$(PARTS)/image -o bin/images bin/bff-consumer bin/bff-backoffice bin/melmastoon

# The same from deploy/Containerfile; its first stage, which needs an image of Go, is replaced by what was built here.
.PHONY: image-buildah
image-buildah: sbom
	@tools/need buildah
	@stage=$$(mktemp -d); trap 'rm -rf "$$stage"' EXIT; install -D -m 444 /etc/ssl/certs/ca-certificates.crt "$$stage/etc/ssl/certs/ca-certificates.crt"; \
	mkdir -p "$$stage/src/bin" bin/buildah; cp bin/bff-* bin/melmastoon* "$$stage/src/bin/"; \
	for name in bff-consumer bff-backoffice melmastoon; do rm -rf "bin/buildah/$$name"; \
		buildah --storage-driver vfs --root "$$stage/root" --runroot "$$stage/run" bud --quiet --isolation chroot --timestamp 0 --build-context build="$$stage" --build-arg VERSION= --build-arg REVISION= \
			--target "$$name" -f deploy/Containerfile -t "$$name" . >/dev/null; \
		buildah --storage-driver vfs --root "$$stage/root" --runroot "$$stage/run" push --quiet "$$name" "oci:bin/buildah/$$name:latest"; \
		echo "bin/buildah/$$name $$(grep -o 'sha256:[0-9a-f]*' "bin/buildah/$$name/index.json"), $$(du -sm "bin/buildah/$$name" | cut -f1) MB"; done

# Both images in a world: read-only, as their user, without a capability.
.PHONY: image-run
image-run: image
	@tools/need umoci runc bwrap
	@if [ "$$(id -u)" = 0 ]; then PATH="$$PATH:$(CURDIR)/bin" bin/melmastoon up -- tools/parts/image/run bin/images runc; fi
	@PATH="$$PATH:$(CURDIR)/bin" bin/melmastoon up -- tools/parts/image/run bin/images bwrap

# Manifests by the types and rules of Kubernetes and Knative themselves, and every licence that is linked.
.PHONY: parts
parts: need-go ## deploy/ and exports against parts that are not ours; see docs/operations.md
	@go -C tools/parts test -vet=off ./...
	@$(MAKE) parts-lake parts-storage parts-terraform

# Names, nesting and required arguments by the provider's own types. They are 300 MB, most of them of resources that are not used.
.PHONY: parts-terraform
parts-terraform: tools/terraform/node_modules
	@node tools/terraform/check.js deploy/terraform/main.tf

# Exports to a bucket of another maker, a process of its own.
.PHONY: parts-storage
parts-storage: need-go
	@go -C tools/gcs build -ldflags='$(LINK)' -o $(PARTS)/fake-gcs-server github.com/fsouza/fake-gcs-server
	@MELMASTOON_STORAGE=$(PARTS)/fake-gcs-server go test $(QUICK) -count=1 ./internal/backoffice/backofficewarehouse -run '^(TestBuckets|TestStorageIsAskedAgain|TestLakeInTheCloud|TestBucketURLs)$$'

# A second engine reads every column of every exported table, and finds what `audit verify` counts.
.PHONY: parts-lake
parts-lake: need-go tools/parquet/duckdb/node_modules
	@MELMASTOON_LAKE_READER=/duckdb go test $(QUICK) -count=1 ./internal/backoffice/backofficelake -run '^TestOtherReader$$'

.PHONY: bench
bench: need-go ## benchmarks; ratios count, absolute figures do not
	@dirs="$(call holding,Benchmark)"; if [ -n "$$dirs" ]; then go test -run '^$$' -bench . -benchmem -timeout 60m $$dirs; fi
	@if [ -x load/run ]; then load/run; fi

.PHONY: proof
proof: need-go need-cc clients/typescript/node_modules web/node_modules ## the TestProof… tests at full length: crashes, races, millions of cases
	@$(DOCTOR)
	@tools/before .cache/before -race $(LEAN)
	@dirs="$(call holding,TestProof)"; if [ -n "$$dirs" ]; then MELMASTOON_PROOF=long MELMASTOON_TEST_PROGRAMS=$(PROGRAMS) \
		MELMASTOON_TEST_PROGRAMS_BEFORE=$(CURDIR)/.cache/before go test -race $(QUICK) -count=1 -v -timeout 120m -run '^TestProof' $$dirs; else echo 'no TestProof… in any package'; fi
	@cd clients/typescript && npm run --silent build
	@SCHEDULES=200 $(UP_AT_ONE) node $(ONE_BY_ONE) web/test/blackout-schedules.test.mjs
	@$(MAKE) load

# The gates of capacity at a rate that two cores bear which do nothing else; LOAD_RATE and the other settings of load/run are for more.
.PHONY: load
load: need-go ## both services under load against their objectives, about two minutes
	@LOAD_RATE=$${LOAD_RATE:-50} LOAD_PHASE=$${LOAD_PHASE:-20} load/run peak-300rps
	@LOAD_RATE=$${LOAD_RATE:-20} LOAD_PHASE=$${LOAD_PHASE:-20} load/run

.PHONY: emulator
emulator: need-go ## order, redelivery and dead letters against Google's own emulator of Pub/Sub
	@tools/emulator go test -count=1 $(QUICK) $$(grep -rl --include='*_test.go' 'testkit.EachPubSub(' internal | xargs -n1 dirname | sort -u | sed 's,^,./,')

.PHONY: fuzz
fuzz: need-go ## every fuzz target for FUZZTIME (10s)
	@tools/fuzz $(FUZZTIME)

.PHONY: fmt
fmt: need-go ## format the Go sources as lint wants them
	@$(TOOL) golangci-lint fmt

.PHONY: tidy
tidy: need-go ## both modules' go.mod and go.sum
	@go mod tidy
	@go -C tools mod tidy

.PHONY: clean
clean: ## remove what the build made
	@rm -rf bin .cache

.PHONY: need-go need-cc need-node
need-go:
	@tools/need go
need-node:
	@tools/need node
need-cc: need-go
	@tools/need cc
