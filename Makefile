# Slipway. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# All build outputs lie outside the checkout, so that a clone starts where another left off.
export SLIPWAY_CACHE ?= $(HOME)/.cache/slipway
export CARGO_TARGET_DIR ?= $(SLIPWAY_CACHE)/target
export CARGO_TERM_COLOR ?= auto
export INSTA_UPDATE ?= no
# A run of CI compiles each crate once: what a next compile would reuse is gigabytes for nothing.
ifeq ($(CI),true)
export CARGO_INCREMENTAL ?= 0
endif
BIN := $(CARGO_TARGET_DIR)/x86_64-unknown-linux-gnu/debug
# Cargo's profile of images: `dev`, which tests share, or `release` for what is published.
PROFILE ?= dev
export SLIPWAY_PROFILE := $(PROFILE)

.PHONY: help
help: ## List the commands.
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-22s %s\n", $$1, $$2}'

.PHONY: prerequisites
prerequisites: ## Install the Debian packages that a cluster, images and tests need (root).
	@e2e/cluster/prerequisites.sh

.PHONY: build
build: ## Build every binary and every test, once and with the same features.
	cargo build --workspace --all-targets --locked

.PHONY: images
images: ## Build all container images, without a registry; PROFILE=release for those to be published.
	cargo build --locked --profile $(PROFILE) --bins --package slipway-operator --package slipway-worker --package slipway-agent-runtime --package slipway-e2e
	e2e/images/build.sh

.PHONY: demo
demo: ## Go from a bare machine to an agent that answers, on a cluster of its own (root) or on DEMO_KUBECONFIG's.
	@e2e/demo/up.sh

.PHONY: demo-questions
demo-questions: ## Ask the agent of `make demo` 200 questions that its model has never seen; 95 % must be answered exactly.
	@e2e/demo/questions.sh

.PHONY: demo-regression
demo-regression: ## Detect a slow revision by its users' traffic and roll it back, on the demo's cluster (root).
	@e2e/demo/regression.sh

.PHONY: gpu-parts
gpu-parts: ## Gather all that a GPU node needs into pieces of 30 MiB, to carry where nothing can be downloaded (root).
	@e2e/gpu/parts.sh

.PHONY: demo-gpu
demo-gpu: ## Make this machine with an NVIDIA driver a node, and serve the demo's agent with vLLM on its GPU (root).
	@e2e/gpu/parts.sh
	@e2e/gpu/python.sh
	@e2e/gpu/start.sh

.PHONY: demo-gpu-down
demo-gpu-down: ## Remove the cluster of `make demo-gpu`.
	@e2e/cluster/down.sh --name gpu

.PHONY: demo-down
demo-down: ## Remove what `make demo` created.
	@e2e/demo/down.sh

.PHONY: lint
lint: ## Check formatting, lints, prose and that generated files are up to date.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --workspace --test '*' --locked -- -D warnings # the suites, which a plain build leaves out
	$(MAKE) --no-print-directory check-generated
	.ci/prose.py
	git apply --check operator/tests/planted/*.patch # what `make test-planted-bugs` plants

.PHONY: generate
generate: build ## Write all generated files.
	$(BIN)/generate-crds crds/yaml docs/reference
	rm -rf charts/slipway-crds/files && mkdir -p charts/slipway-crds/files
	cp crds/yaml/*.yaml charts/slipway-crds/files/
	.ci/argocd.py

.PHONY: check-generated
check-generated: build ## Fail when a generated file differs from what `make generate` writes.
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/generate-crds "$$folder/yaml" "$$folder/reference"; \
	.ci/argocd.py --check && diff -ru crds/yaml "$$folder/yaml" && diff -ru charts/slipway-crds/files "$$folder/yaml" \
	  && diff -ru docs/reference "$$folder/reference" \
	  || { echo "generated files are out of date: run make generate" >&2; exit 1; }

.PHONY: test-unit
test-unit: ## Run unit, property and fixture tests.
	cargo test --workspace --locked

# Stories that take long with all of their plans: of these a run plays every fault once at each kind of write.
FAULTS_BY_HAND ?= no_watch_that_breaks of_a_canary beside_a_quota of_two_agents_that_share of_a_move_elsewhere of_a_campaign_that_asks of_all_that_an_agent_may_have of_a_campaign_that_is_left of_what_a_person_removes of_a_node_without_room of_a_store_that_is_lost of_an_operator_that_watches at_any_stage_is::case_1_edited
.PHONY: test-faults
test-faults: ## Play every fault at every kind of write of the operator, against an API server in memory; all plans with FAULTS_BY_HAND=.
	cargo test --workspace --locked --test faults -- --ignored --skip a_real_server_are_recorded --skip a_defect_in_the_product $(addprefix --skip ,$(FAULTS_BY_HAND))

.PHONY: test-planted-bugs
test-planted-bugs: ## Plant the defects of operator/tests/planted in a copy of the product, and find each (by hand).
	operator/tests/planted/run.sh

.PHONY: record-api-server
record-api-server: ## Record a real API server's answers, which the one of `test-faults` must give too (root; by hand).
	e2e/tools/record-api-server.sh

.PHONY: test-repository
test-repository: ## Read TensorRT-LLM's serving repositories with Triton's own protobuf.
	operator/backends/tests/repositories.sh

.PHONY: test-charts
test-charts: ## Render the operator's chart with the values of earlier charts, as upgrades that reuse them do.
	e2e/charts/test.sh

.PHONY: test-gpu-labels
test-gpu-labels: ## Hold the labels that the scripts give a GPU node to those of GPU feature discovery, and test the GPUs of rehearsals. Needs no GPU.
	e2e/gpu/test-labels.sh
	e2e/gpu/stand_in/test_gpus.py

.PHONY: test-argocd
test-argocd: ## Run the health checks and actions of Argo CD in its interpreter, on what the operator writes.
	cd e2e/tools/argocd-lua && export GOFLAGS="-mod=readonly -buildvcs=false" CGO_ENABLED=0 && go vet ./... && go test -count=1 ./...

.PHONY: test-dashboards
test-dashboards: ## Read the dashboards that the chart installs with Grafana's own types.
	helm=$$(e2e/tools/build.sh helm); cd e2e/tools/grafana-dashboards && export HELM="$$helm" GOFLAGS="-mod=readonly -buildvcs=false" CGO_ENABLED=0 && go vet ./... && go test -count=1 ./...

.PHONY: test-alerts
test-alerts: ## Evaluate alerting rules, and queries of budgets and dashboards, with Prometheus itself (root if it is not installed).
	e2e/cluster/prerequisites.sh promtool
	cargo test --workspace --locked --test alerts --test budgets --test metrics -- --include-ignored

.PHONY: test-api
test-api: ## Test against a real API server, in a cluster of its own (root).
	e2e/run.sh api

.PHONY: test-scenarios
test-scenarios: ## Run all scenarios on a real cluster and record the run (root; two hours, at first with nothing else running).
	e2e/run.sh choosing measuring api core bad-input quality trtllm no_build adapter store operator security policies prompts upstream clients_and_tools profile reprofiling costs expectations gpu_products rollout rollout_spared rollout_baseline rollout_edges rollout_disturbed rollout_routes outages autoscaling prometheus

.PHONY: test-upgrade
test-upgrade: ## Upgrade the operator of an earlier tree (FROM=commit) beside live agents, on a cluster of its own (root).
	e2e/upgrade.sh "$(or $(FROM),aeec56f~1)"

.PHONY: bench-judge-agents
bench-judge-agents: build ## Judge the sealed rollouts of agents and print a table of them (an hour of two cores).
	operator/evaluation/sealed/run.py --judge $(BIN)/slipway-analysis --rollouts 60 --jobs 2

.PHONY: bench-judge
bench-judge: ## Simulate the rollout judge beside fixed thresholds; writes docs/bench/judge.md (20 minutes of one core).
	cargo run --locked -p slipway-evaluation --bin bench-judge -- --rollouts 1000 --seed 1 --out docs/bench/judge.md

BENCH_RUNTIME ?=
.PHONY: bench-runtime
bench-runtime: ## Measure the agent runtime's CPU time beside SMG, LangGraph and a bare loop (by hand, with nothing else running).
	cargo build --workspace --locked --release --bin slipway-agent-runtime
	e2e/bench/runtime.py --binary $(BIN:debug=release)/slipway-agent-runtime --cache $(SLIPWAY_CACHE)/clients $(BENCH_RUNTIME)

.PHONY: bench-prompts
bench-prompts: ## Measure what writing the prompt of a run's next step costs (a minute of one core).
	cargo build --locked --profile $(PROFILE) --workspace --example bench_prompts
	$(BIN)/examples/bench_prompts

.PHONY: bench-growth
bench-growth: ## Measure how the agent runtime's memory grows over a million runs (by hand).
	cargo build --workspace --locked --release --bin slipway-agent-runtime
	e2e/bench/growth.py --binary $(BIN:debug=release)/slipway-agent-runtime

BENCH_SCALE ?=
.PHONY: bench-scale
bench-scale: ## Measure the operator with 1,000 agents beside a real API server and a cluster that is only said to be there (root, 40 minutes; PROFILE=release as it is published).
	cargo build --workspace --locked --profile $(PROFILE) --bin slipway-operator
	e2e/cluster/build.sh >/dev/null
	e2e/scale/run.sh --operator $(BIN:debug=$(PROFILE:dev=debug))/slipway-operator $(BENCH_SCALE)

.PHONY: bench-search
bench-search: ## Replay recorded grids with the search and its baselines; writes docs/bench/search.md.
	cargo run --locked -p slipway-evaluation --bin bench-search -- --write docs/bench/search.md

.PHONY: template-parity
template-parity: ## Compare chat templates with transformers, byte for byte; writes docs/bench/templates.md (fetches 100 MB).
	cargo build --workspace --locked --example render_templates --bin slipway-agent-runtime
	e2e/tools/template-parity.py --renderer $(BIN)/examples/render_templates --folder $(SLIPWAY_CACHE)/template-parity --write docs/bench/templates.md
	e2e/tools/example-prompts.py --binary $(BIN)/slipway-agent-runtime --folder $(SLIPWAY_CACHE)/template-parity

.PHONY: test-clients
test-clients: ## Run stock clients against the agent runtime; writes docs/bench/clients.md (fetches about 150 MB once).
	e2e/cluster/prerequisites.sh node npm
	cargo build --workspace --locked --bin slipway-agent-runtime
	e2e/clients/run.py --binary $(BIN)/slipway-agent-runtime --cache $(SLIPWAY_CACHE)/clients --write docs/bench/clients.md

.PHONY: test-compliance
test-compliance: ## Run a public runner of Open Responses' tests against the agent runtime; writes docs/bench/open-responses.md.
	cargo build --workspace --locked --bin slipway-agent-runtime
	e2e/clients/compliance.py --binary $(BIN)/slipway-agent-runtime --cache $(SLIPWAY_CACHE)/clients --write docs/bench/open-responses.md

.PHONY: test-schema
test-schema: ## Hold the agent runtime against its OpenAPI document with schemathesis (by hand; fetches about 15 MB once).
	cargo build --workspace --locked --bin slipway-agent-runtime
	e2e/clients/schema.py --binary $(BIN)/slipway-agent-runtime --cache $(SLIPWAY_CACHE)/clients

.PHONY: test-mcp
test-mcp: ## Run the agent runtime with servers of MCP's own Python SDK (by hand; fetches about 50 MB once).
	cargo build --workspace --locked --bin slipway-agent-runtime
	e2e/mcp/run.py --binary $(BIN)/slipway-agent-runtime --cache $(SLIPWAY_CACHE)/clients

.PHONY: test-otel
test-otel: ## Send the agent runtime's traces to the OpenTelemetry Collector, and draw one (by hand; builds the Collector).
	cargo build --workspace --locked --bin slipway-agent-runtime
	collector=$$(e2e/tools/go-binary.sh e2e/tools/otel-collector "" slipway.dev/e2e/tools/otel-collector=otel-collector); \
	e2e/otel/run.py --binary $(BIN)/slipway-agent-runtime --collector "$$collector"

.PHONY: parser-parity
parser-parity: ## Record what vLLM's parsers read, and compare 100,000 mutants (by hand; WHEEL names its wheel).
	cargo build --workspace --locked --example read_turns
	e2e/tools/parser-parity.py --wheel $(WHEEL) --folder $(SLIPWAY_CACHE)/parser-parity \
	  --write agent-runtime/tests/runtime/parsers/recorded.json --mutants 100000 --reader $(BIN)/examples/read_turns --table docs/bench/parsers.md

.PHONY: test
test: ## Run everything that must pass before a change lands.
	.ci/steps.sh
