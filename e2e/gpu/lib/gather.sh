# shellcheck shell=bash
# Fills a folder for each part. Sourced by parts.sh.

# The files that the node's scripts read, as they are in this checkout.
gather_tree() {
  rm -rf "$1" && mkdir -p "$1"
  git ls-files --cached --others --exclude-standard -z charts e2e/cluster e2e/demo e2e/gpu e2e/manifests \
    e2e/model/questions.py e2e/model/corpus e2e/model/builder e2e/model/checkpoints/react-256 e2e/tools/traefik |
    xargs -0 cp --parents --target-directory "$1"
  {
    printf 'commit %s\n' "$(git rev-parse HEAD)"
    git status --short --untracked-files=no
  } >"$1/COMMIT"
}

rust_binaries() {
  if [[ -n ${SLIPWAY_RUST_BINARIES:-} ]]; then
    return
  fi
  cargo build --locked --bins --package slipway-operator --package slipway-worker --package slipway-agent-runtime \
    --package slipway-e2e --package kubectl-slipway
  export SLIPWAY_RUST_BINARIES=${CARGO_TARGET_DIR:-$SLIPWAY_CACHE/target}/x86_64-unknown-linux-gnu/debug
}

gather_kubernetes() {
  local name
  mkdir -p "$1"
  e2e/cluster/prerequisites.sh
  e2e/cluster/build.sh >/dev/null
  cp --update "$(e2e/cluster/pause/image.sh)" "$1/pause.tar"
  for name in slipway-cluster coredns; do
    cp --update --dereference "$SLIPWAY_CACHE/bin/$name" "$1/$name"
  done
  gather_gateway_api "$1/gateway-api"
}

# The CRDs of the gateway that splits the traffic of a rollout.
gather_gateway_api() {
  local module
  rm -rf "$1"
  (cd e2e/cluster && GOFLAGS=-mod=readonly go mod download sigs.k8s.io/gateway-api)
  module=$(cd e2e/cluster && GOFLAGS=-mod=readonly go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)
  cp --recursive --no-preserve=mode "$module/config/crd/standard" "$1"
}

# What talks to the cluster, wherever it is.
gather_clients() {
  local name
  mkdir -p "$1"
  e2e/tools/build.sh helm kubectl >/dev/null
  for name in helm kubectl; do
    cp --update --dereference "$SLIPWAY_CACHE/bin/$name" "$1/$name"
  done
  rust_binaries
  strip --strip-all -o "$1/kubectl-slipway" "$SLIPWAY_RUST_BINARIES/kubectl-slipway"
}

gather_programs() {
  gather_clients "$1"
  e2e/gpu/build.sh "$1"
}

# A package of e2e/gpu/packages.txt as this machine's release calls it: some libraries of Debian 13 and Ubuntu 24.04
# have names that end in t64. The old name has no candidate there, though apt-cache shows it.
package_here() {
  local name
  for name in "$1" "$1t64"; do
    if [[ $(LC_ALL=C apt-cache policy "$name") == *'Candidate: '[^\(]* ]]; then
      printf '%s\n' "$name"
      return
    fi
  done
  die "no package $1 here: call apt-get update, or gather on Debian 12 or 13"
}

# Packages of this machine's release; their libraries fit any newer one.
gather_packages() {
  local name packages=()
  if [[ -e $1/.list ]] && cmp --silent e2e/gpu/packages.txt "$1/.list"; then
    return
  fi
  while read -r name; do
    packages+=("$(package_here "$name")")
  done < <(grep --invert-match '^#' e2e/gpu/packages.txt)
  rm -rf "$1" && mkdir -p "$1"
  (cd "$1" && apt-get download --quiet=2 -o APT::Sandbox::User=root "${packages[@]}")
  cp e2e/gpu/packages.txt "$1/.list"
}

gather_images() {
  mkdir -p "$1"
  rust_binaries
  e2e/images/build.sh "${GPU_IMAGES[@]}"
  # In a shell of its own, for that file has names of its own.
  (
    # shellcheck source=../../images/lib/common.sh
    source e2e/images/lib/common.sh
    for name in "$1"/*.tar; do
      [[ " ${GPU_IMAGES[*]} " == *" $(basename "$name" .tar) "* ]] || rm -f "$name" "${name%.tar}.id"
    done
    for name in "${GPU_IMAGES[@]}"; do
      [[ $(cat "$1/$name.id" 2>/dev/null) != "$(image_id "$(tag_of "$name")")" ]] || continue
      rm -f "$1/$name.tar"
      run_buildah push --quiet "$(tag_of "$name")" "docker-archive:$1/$name.tar:$(tag_of "$name")"
      image_id "$(tag_of "$name")" >"$1/$name.id"
    done
  )
}

# For the node's Python, whatever this machine's is. Every version is pinned; nothing is resolved.
gather_wheels() {
  local platform platforms=()
  if [[ -e $1/.list ]] && cmp --silent e2e/gpu/wheels.txt "$1/.list"; then
    return
  fi
  rm -rf "$1" && mkdir -p "$1"
  for platform in manylinux1_x86_64 manylinux2014_x86_64 manylinux_2_{5,17,24,26,27,28,31,34,35}_x86_64; do
    platforms+=(--platform "$platform")
  done
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp --abi cp312 --abi abi3 --abi none "${platforms[@]}" --requirement e2e/gpu/wheels.txt --dest "$1"
  cp e2e/gpu/wheels.txt "$1/.list"
}

# NumPy for the stub of Triton's Python backend (environment.sh).
gather_stub() {
  [[ ! -e $1/.list ]] || return 0
  mkdir -p "$1"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --platform manylinux2014_x86_64 --dest "$1" numpy==1.26.4
  printf 'numpy==1.26.4\n' >"$1/.list"
}

# NVIDIA's stand-in for NVML and ours for CUDA, for rehearsals. Its folders are named as those of a driver.
gather_driver() {
  local nvidia=${SLIPWAY_NVML_MOCK:?name a checkout of NVIDIA/k8s-test-infra at 3b2b865d} library=pkg/gpu/mocknvml
  local version name
  rm -rf "$1" && mkdir -p "$1/bin" "$1/lib64"
  make --quiet --directory "$nvidia/$library" NO_PADDING=1
  # nvidia-ctk looks for the driver's version in names of files.
  version=$(readlink "$nvidia/$library/libnvidia-ml.so.1")
  version=${version#*.so.}
  cp "$nvidia/$library/libnvidia-ml.so.$version" "$1/lib64/"
  for name in libnvidia-ml libcuda; do
    ln -s "$name.so.$version" "$1/lib64/$name.so.1"
  done
  cp "$nvidia/deployments/nvml-mock/helm/nvml-mock/profiles/h100.yaml" "$1/"
  cc -O1 -Wall -Wextra -Werror -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$1/lib64/libcuda.so.$version" \
    "$GPU_SCRIPTS/stand_in/libcuda.c" -L"$1/lib64" -l:libnvidia-ml.so.1
  cp "$GPU_SCRIPTS/stand_in/nvidia-smi" "$1/bin/"
}

# Each of $ALL_PARTS by the function of its name.
gather_all() {
  local name
  mkdir -p "$GATHERED"
  for name in "${ALL_PARTS[@]}"; do
    say "gathering $name"
    "gather_$name" "$GATHERED/$name"
  done
}
