#!/usr/bin/env bash
# Renders the operator's chart as `helm upgrade --reuse-values` does: with the defaults of an earlier chart in place of
# its own. Beside the values that are kept here, those of every commit that changed them, where the history is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

helm=$(e2e/tools/build.sh helm)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r charts/slipway "$folder/chart"

# render VALUES ARGUMENT...: prints the objects, and fails on a template or a value that the chart refuses.
render() {
  local values=$1
  shift
  cp "$values" "$folder/chart/values.yaml"
  "$helm" template slipway "$folder/chart" --namespace slipway-system "$@"
}

fail() {
  echo "charts/slipway with the values of $1: $2" >&2
  exit 1
}

check() {
  local values=$1 objects
  objects=$(render "$values") || fail "$values" "it does not render"
  if grep -nE '<no value>|: null$' <<<"$objects"; then fail "$values" "a missing value shows"; fi
  grep -q '^kind: Deployment$' <<<"$objects" || fail "$values" "there is no Deployment"
  # A feature that is switched on later has its other defaults too.
  objects=$(render "$values" --set networkPolicies.operator=true --set networkPolicies.agents=true \
    --set prometheus.url=http://prometheus.monitoring:9090) || fail "$values" "it does not render with new features"
  grep -q 'port: 6443' <<<"$objects" || fail "$values" "the operator's policy keeps it from the API server"
  if grep -nE '<no value>|: null$' <<<"$objects"; then fail "$values" "a missing value shows with new features"; fi
  check_monitoring "$values"
}

# check_monitoring VALUES: what watches Slipway is off by default, and whole where it is on.
check_monitoring() {
  local values=$1 objects kinds of_monitoring='^kind: (ServiceMonitor|PodMonitor|PrometheusRule)$'
  objects=$(render "$values")
  if grep -qE "$of_monitoring|grafana_dashboard" <<<"$objects"; then fail "$values" "monitoring is on by default"; fi
  objects=$(render "$values" --set monitoring.enabled=true --set monitoring.dashboards.enabled=true \
    --set monitoring.labels.release=stack --set alerts.runbookUrl=https://runbooks.example/) ||
    fail "$values" "it does not render with monitoring"
  kinds=$(grep -E "$of_monitoring" <<<"$objects" | sort | tr '\n' ' ')
  [[ $kinds == "kind: PodMonitor kind: PrometheusRule kind: ServiceMonitor " ]] || fail "$values" "it watches by $kinds"
  [[ $(grep -c '^    release: stack$' <<<"$objects") == 2 ]] || fail "$values" "a monitor lacks its label"
  [[ $(grep -c 'grafana_dashboard: "1"' <<<"$objects") == $(ls charts/slipway/files/dashboards | wc -l) ]] ||
    fail "$values" "a dashboard is missing"
  [[ $(grep -c 'runbook_url: https://runbooks.example/Slipway' <<<"$objects") == $(grep -c -- '- alert:' charts/slipway/files/alerts.yaml) ]] ||
    fail "$values" "an alert lacks its runbook"
  # Keys in quotes are those of the dashboards, where null is a value.
  if grep -nE '<no value>|[A-Za-z]: null$' <<<"$objects"; then fail "$values" "a missing value shows with monitoring"; fi
}

# has OBJECTS LINE: whether a line stands there.
has() { grep -qxF -- "$2" <<<"$1"; }

# Two replicas over nodes and zones, of which a drain takes one. A single one can be drained. Values can change each.
check_replicas() {
  local values=charts/slipway/values.yaml objects
  objects=$(render "$values")
  has "$objects" "  replicas: 2" || fail "$values" "there are not two replicas"
  has "$objects" "kind: PodDisruptionBudget" && has "$objects" "  maxUnavailable: 1" ||
    fail "$values" "a drain may take both replicas"
  has "$objects" "      - topologyKey: kubernetes.io/hostname" &&
    has "$objects" "      - topologyKey: topology.kubernetes.io/zone" || fail "$values" "replicas are not spread"
  objects=$(render "$values" --set replicas=1)
  ! has "$objects" "kind: PodDisruptionBudget" || fail "$values" "the budget of a single replica stops every drain"
  objects=$(render "$values" --set podDisruptionBudget.enabled=false)
  ! has "$objects" "kind: PodDisruptionBudget" || fail "$values" "the budget cannot be switched off"
  objects=$(render "$values" --set 'topologySpreadConstraints[0].topologyKey=rack' \
    --set 'topologySpreadConstraints[0].maxSkew=1')
  grep -qE '^ +topologyKey: rack$' <<<"$objects" && ! grep -q 'topologyKey: kubernetes.io/hostname' <<<"$objects" ||
    fail "$values" "replicas are not spread as it is asked for"
}

# An image has the tag of all, or its own digest.
check_images() {
  local values=charts/slipway/values.yaml objects digest name
  digest=registry.example/slipway@sha256:$(printf '%064d' 0)
  objects=$(render "$values" --set image.tag=1.2.3)
  has "$objects" '        image: "slipway.dev/slipway-operator:1.2.3"' || fail "$values" "the operator lacks its tag"
  has "$objects" '      worker: "slipway.dev/slipway-worker:1.2.3"' || fail "$values" "the worker lacks its tag"
  objects=$(render "$values" --set "image.operator=$digest" --set "image.worker=$digest" \
    --set "image.agentRuntime=$digest" --set "image.preflight=$digest")
  has "$objects" "        image: \"$digest\"" || fail "$values" "the operator's digest is not taken as it is"
  for name in worker agentRuntime preflight; do
    has "$objects" "      $name: \"$digest\"" || fail "$values" "the digest of $name is not taken as it is"
  done
}

check_replicas
check_images
count=0
for values in e2e/charts/*-values.yaml; do
  check "$values"
  count=$((count + 1))
done
for commit in $(git log --format=%h -- charts/slipway/values.yaml 2>/dev/null || true); do
  git show "$commit:charts/slipway/values.yaml" >"$folder/$commit.yaml" 2>/dev/null || continue
  check "$folder/$commit.yaml"
  count=$((count + 1))
done
echo "charts/slipway renders with the values of $count earlier charts"
