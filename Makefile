# The front door: `make help` says what there is.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

CARGO ?= cargo
# Where tools that the project needs are kept between clones.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/egress-proxies-operator
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(CACHE)/tools/bin/cargo-deny
# A folder under providers/ whose crate is a cdylib becomes a component.
PROVIDERS := $(patsubst providers/%/Cargo.toml,%,$(shell grep -l cdylib providers/*/Cargo.toml))

.PHONY: help
help: ## Show this.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' \
	  | while IFS=$$'\t' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

.PHONY: setup
setup: ## Install what building and testing need (as root also the Debian packages that are missing).
	@hack/setup.sh

.PHONY: run
run: ## As root: a cluster with a real node, the operator beside it, and a web request through a Proxy.
	@hack/run.sh

.PHONY: stop
stop: ## End the operator of make run; its cluster and proxies go on.
	@hack/run.sh stop

.PHONY: down
down: ## End everything that make run started.
	@hack/run.sh down

.PHONY: lab
lab: ## As root: what a cluster with a real node and libvirt hosts need: Debian packages, Kubernetes from Go modules, images.
	@tests/labs/k8s/install.sh
	@tests/labs/k8s/build.sh
	@tests/labs/k8s/image.sh
	@tests/labs/registry/install.sh
	@tests/labs/libvirt/install.sh
	@tests/labs/libvirt/root.sh
	@tests/labs/libvirt/tiny.sh

.PHONY: build
build: ## Build epo, the operator's one binary.
	$(CARGO) build --locked --package epo

.PHONY: image
image: ## Build the operator's container image into target/image.tar, as an OCI archive; no Docker is needed.
	@hack/image.sh

.PHONY: providers
providers: $(PROVIDERS:%=target/providers/%.wasm) ## Build every provider into target/providers/NAME.wasm.

# Always asked, since cargo knows best what is stale.
target/providers/%.wasm: FORCE
	@$(CARGO) run --quiet --locked --package provider-encode -- $*-provider $@
	@echo "built $@ ($$(stat -c %s $@) bytes)"

.PHONY: FORCE
FORCE:

.PHONY: test
test: providers ## Run every test that needs neither root nor a cluster.
	$(CARGO) test --workspace --locked

.PHONY: projects
projects: ## Make a provider's project in JavaScript and one in Python, and try them (fetches from npm and PyPI).
	$(CARGO) test --workspace --locked --test projects

.PHONY: e2e
e2e: ## As root: run the tests on a real cluster with a real node; the cluster stays up for the next run.
	@tests/e2e/run.sh

.PHONY: machines
machines: ## As root: Proxies of that cluster that become machines on a real libvirt host; then all five providers at once.
	@tests/e2e/run.sh hypervisors
	@tests/e2e/run.sh together
	@tests/labs/libvirt/down.sh e2e

.PHONY: libvirt
libvirt: ## As root: run the tests of the libvirt client, of what is lent by it and of its providers on real hosts, made for them.
	@host/libvirt-rpc/tests/real/run.sh
	@host/capabilities/tests/hypervisor/run.sh
	@tests/conformance/tests/machines/run.sh

.PHONY: soak
soak: ## As root: run the long forms: 50 swaps under 100 Proxies, 100 kills, 200 without a cluster, 10 of leaders, the whole contract, 50 machines, random bytes.
	@EPO_SOAK=1 tests/e2e/run.sh swap kills leadership
	@EPO_SOAK=1 tests/e2e/run.sh --nocapture conformance
	@EPO_SOAK=1 tests/e2e/run.sh together many_proxies
	EPO_SOAK=1 $(CARGO) test --workspace --locked --test epo standalone::kills -- --nocapture
	@EPO_SOAK=1 tests/conformance/tests/machines/run.sh
	LIBVIRT_REMOTE_FUZZ_SECONDS=1800 LIBVIRT_REMOTE_FUZZ_SEED=$$RANDOM \
	  $(CARGO) test --release --locked --package libvirt-remote --lib no_random_bytes -- --nocapture

.PHONY: bench
bench: providers ## As root: measure, each figure beside its alternative; writes target/bench/*.json.
	@tests/bench/run.sh
	@host/libvirt-rpc/examples/bench/run.sh target/bench/libvirt-remote.json

.PHONY: manifests
manifests: ## Write deploy/crds and docs/configuration.md anew, after a change of the resources, entries or flags.
	$(CARGO) run --quiet --locked --package epo -- crd > deploy/crds/egressproxies.dev.yaml.new
	mv deploy/crds/egressproxies.dev.yaml.new deploy/crds/egressproxies.dev.yaml
	$(CARGO) run --quiet --locked --package epo -- reference > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md

.PHONY: lint
lint: $(CARGO_DENY) ## Check format, lints, licences, bans and sources.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO_DENY) --workspace --locked check -D unmatched-skip -D unnecessary-skip licenses bans sources

.PHONY: audit
audit: $(CARGO_DENY) ## Check dependencies against published advisories (fetches their database from GitHub).
	$(CARGO_DENY) --workspace --locked check advisories

$(CARGO_DENY):
	@echo "installing cargo-deny $(CARGO_DENY_VERSION): about 5 minutes, once"
	$(CARGO) install --locked --root $(CACHE)/tools cargo-deny@$(CARGO_DENY_VERSION)
