# shellcheck shell=bash
# From nothing to a cluster with the operator.

# The programs of the images, and the kubectl plugin. As packages of one command they share one set of features.
build_binaries() {
  cargo build --locked --bins --package slipway-operator --package slipway-worker --package slipway-agent-runtime \
    --package slipway-e2e --package kubectl-slipway
}

# Every program of Go that the demo needs, one after the other: they share what they compile.
build_cluster() {
  e2e/cluster/build.sh
  [[ " $* " != *" slipway-traefik "* ]] || e2e/tools/build.sh traefik
}

# What images are built on takes downloads, not compilers.
build_base_images() {
  local name bases=()
  for name in "$@"; do
    case $name in
      slipway-triton | slipway-model-builder | slipway-lognormal-builder) bases+=("$name") ;;
    esac
  done
  [[ ${#bases[@]} == 0 ]] || e2e/images/build.sh "${bases[@]}"
}

start_cluster() { e2e/cluster/up.sh --name "$CLUSTER" >"$LOGS/kubeconfig"; }

# Once for all steps: what demo-down may remove is what lies in a namespace of this label.
create_namespace() {
  run_kubectl get namespace "$NAMESPACE" 2>/dev/null || {
    run_kubectl create namespace "$NAMESPACE"
    run_kubectl label namespace "$NAMESPACE" "$OURS" pod-security.kubernetes.io/enforce=restricted
  }
}

# install RELEASE OPTION...: unless somebody else's release of the name is there, which is used as it is.
install() {
  local release=$1 owner
  shift
  owner=$(namespace_of_release "$release")
  if [[ -n $owner && $owner != "$SYSTEM_NAMESPACE" ]]; then
    printf 'using the release %s in namespace %s as it is\n' "$release" "$owner"
    return
  fi
  run_helm upgrade --install "$release" "charts/$release" --namespace "$SYSTEM_NAMESPACE" --create-namespace "$@"
}

# In a shell of its own, for that file has names of its own.
operator_image() (
  # shellcheck source=../images/lib/common.sh
  source e2e/images/lib/common.sh
  image_id "$(tag_of slipway-operator)"
)

install_charts() {
  local registry=() identity=()
  # The tag stays the same when the code changes: this is what replaces the operator's pod.
  [[ -n ${DEMO_KUBECONFIG:-} ]] || identity=(--set-string "podAnnotations.slipway\.dev/image=$(operator_image)")
  [[ -z ${DEMO_REGISTRY:-} ]] || registry=(
    --set "image.operator=$DEMO_REGISTRY/slipway-operator"
    --set "image.worker=$DEMO_REGISTRY/slipway-worker"
    --set "image.agentRuntime=$DEMO_REGISTRY/slipway-agent-runtime")
  create_namespace
  install slipway-crds
  install slipway --values e2e/manifests/values.yaml "${registry[@]}" "${identity[@]}" --wait --timeout 3m
}

# The manifests, with images from where the nodes pull them.
manifest() { sed "s|slipway\.dev/slipway-\([a-z0-9-]*\):dev|${DEMO_REGISTRY:-slipway.dev}/slipway-\1:dev|" "e2e/manifests/demo/$1"; }

# What is about to happen, before the first step. Durations and disk were measured on two cores.
say_plan() {
  local cluster="the demo's Kubernetes cluster, which it starts unless it runs"
  [[ -z ${DEMO_KUBECONFIG:-} ]] || cluster='your cluster'
  printf 'Builds Slipway and what it needs, installs it on %s, and shows %s.\n' "$cluster" "$1"
  printf 'From nothing that takes about 25 minutes on two cores and 12 GB of disk, Go and cargo caches included; later about 7 minutes.\n'
  printf 'The log of each step lies in %s.\n' "$LOGS"
}

# start_operator IMAGE...: on a cluster of its own, or on the one that DEMO_KUBECONFIG names.
start_operator() {
  mkdir -p "$LOGS"
  if [[ -n ${DEMO_KUBECONFIG:-} ]]; then
    use_existing_cluster
    step "build" "install Rust from rustup.rs; the log names what does not compile" build_binaries
  else
    [[ $EUID -eq 0 ]] || fail "root" /dev/null "run as root, or name a cluster with DEMO_KUBECONFIG=FILE"
    step "prerequisites" "install the packages that the log names" e2e/cluster/prerequisites.sh
    # One after the other, each of these would leave a core idle for part of its time.
    begin "build" "install Rust from rustup.rs; the log names what does not compile" build_binaries
    begin "kubernetes" "install Go 1.24 from go.dev/dl" build_cluster "$@"
    begin "base images" "free disk space in $SLIPWAY_CACHE, and call make demo again: what was built is kept" build_base_images "$@"
    find_clients
    begin "images" "free disk space in $SLIPWAY_CACHE, and call make demo again: what was built is kept" e2e/images/build.sh "$@"
    step "cluster" "if another cluster holds the image store: e2e/cluster/down.sh --name THAT, or SLIPWAY_IMAGE_STORE=FOLDER make demo" \
      start_cluster
    step "import images" "make demo-down, and call make demo again" e2e/images/import.sh --name "$CLUSTER" "$@"
  fi
  step "install the charts" "$(kubectl_line) -n $SYSTEM_NAMESPACE describe pods" install_charts
  hand_over >/dev/null
}
