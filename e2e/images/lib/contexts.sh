# shellcheck shell=bash
# Fills the build context of each image: the files that its Dockerfile takes.

fill_context() {
  local name=$1 context=$2
  mkdir -p "$context"
  case $name in
    slipway-python | slipway-triton | slipway-model-builder) fill_python_context "$name" "$context" ;;
    slipway-tensorrt-llm-stand-in) fill_stand_in_context "$context" ;;
    slipway-no-build-stand-in) fill_no_build_context "$context" ;;
    slipway-lognormal-builder) fill_lognormal_context "$context" ;;
    slipway-busybox) fill_busybox_context "$context" ;;
    slipway-traefik) fill_traefik_context "$context" ;;
    slipway-prometheus) fill_prometheus_context "$context" ;;
    slipway-monitoring) fill_monitoring_context "$context" ;;
    slipway-vllm) fill_bare_context "$name" "$context" ;;
    slipway-triton-gpu) fill_triton_gpu_context "$context" ;;
    slipway-torch-builder) fill_torch_builder_context "$context" ;;
    slipway-model-analyzer) fill_analyzer_context "$context" ;;
    slipway-preflight) fill_preflight_context "$context" ;;
    slipway-e2e)
      fill_binary_context "$name" "$context"
      copy_models "$context/models"
      ;;
    *) fill_binary_context "$name" "$context" ;;
  esac
}

fill_python_context() {
  local name=$1 context=$2 list
  case $name in
    slipway-python) make_base ;;
    *) build_image slipway-python ;;
  esac
  # pip itself travels as a wheel, which Python can run.
  download_once "$IMAGES/lib/pip.txt" "$context/pip" fetch_wheels
  for list in "$IMAGES/$name"/*.txt; do
    case ${list##*/} in
      packages.txt) download_packages_once "$list" "$context/packages" ;;
      *) download_once "$list" "$context/$(basename "$list" .txt)" fetch_wheels ;;
    esac
  done
  [[ $name != slipway-model-builder ]] || copy_builder "$REPOSITORY/e2e/model/builder" "$context/builder"
}

fill_lognormal_context() {
  build_image slipway-python
  copy_builder "$IMAGES/slipway-lognormal-builder/builder" "$1/builder"
}

# The parsers' tables are those that check the command lines.
fill_stand_in_context() {
  build_image slipway-triton
  rm -rf "$1"/{tables,tools,backend,all_models}
  cp -r "$IMAGES"/slipway-tensorrt-llm-stand-in/{tools,backend,all_models} "$1/"
  mkdir -p "$1/tables"
  cp "$REPOSITORY"/operator/backends/tests/data/*_flags.json "$1/tables/"
}

fill_no_build_context() {
  build_image slipway-triton
  rm -rf "$1"/*/
  cp -r "$IMAGES"/slipway-no-build-stand-in/*/ "$1/"
}

# The code that turns a checkpoint into ONNX engines is kept with the model.
copy_builder() {
  local source=$1 target=$2
  [[ -d $source ]] || die "no $source: the builder's code is missing"
  rm -rf "$target"
  mkdir -p "$target"
  tar -C "$source" --exclude=__pycache__ --exclude='test*' --exclude='*.md' -cf - . | tar -C "$target" -xf -
}

# The demo's models, which its server of models serves.
copy_models() {
  rm -rf "$1"
  mkdir -p "$1"
  cp -r "$REPOSITORY"/e2e/model/checkpoints/*/ "$1/"
}

fill_busybox_context() {
  make_base
  download_packages_once "$IMAGES/slipway-busybox/packages.txt" "$1/packages"
  [[ $1/busybox -nt $1/packages/.list ]] || {
    dpkg-deb --fsys-tarfile "$1"/packages/busybox-static_*.deb | tar -xO ./bin/busybox >"$1/busybox"
    chmod 755 "$1/busybox"
  }
}

fill_traefik_context() {
  local binary
  binary=$("$REPOSITORY/e2e/tools/build.sh" traefik)
  [[ $1/traefik -nt $binary ]] || install -m 755 "$binary" "$1/traefik"
}

# The binary of this machine's package.
fill_prometheus_context() {
  local binary
  build_image slipway-python
  binary=$(command -v prometheus) || die "no prometheus: e2e/cluster/prerequisites.sh prometheus installs it"
  [[ $1/prometheus -nt $binary ]] || install -m 755 "$binary" "$1/prometheus"
}

fill_monitoring_context() {
  local binary name
  while IFS= read -r binary; do
    name=${binary##*/}
    [[ $1/$name -nt $binary ]] || install -m 755 "$binary" "$1/$name"
  done < <("$REPOSITORY/e2e/tools/build.sh" prometheus-operator)
}

# fill_bare_context NAME CONTEXT: a root file system for the node's /usr: with the links of a merged one, a user, and a
# /tmp for everybody.
fill_bare_context() {
  local name
  rm -rf "$2"
  mkdir -p "$2/root"/{tmp,usr,etc}
  cp -r "$IMAGES/$1/root/." "$2/root/"
  printf 'slipway:x:65532:65532::/tmp:/bin/sh\n' >"$2/root/etc/passwd"
  for name in bin lib lib64 sbin; do
    ln -s "usr/$name" "$2/root/$name"
  done
  chmod 1777 "$2/root/tmp"
}

# What slipway-triton installs, with the stub of the node's Python: that of Ubuntu 24.04.
fill_triton_gpu_context() {
  local wheel=$IMAGE_CACHE/contexts/slipway-triton/server target=$1/root/opt/tritonserver
  fill_bare_context slipway-triton-gpu "$1"
  mkdir -p "${wheel%/*}"
  download_once "$IMAGES/slipway-triton/server.txt" "$wheel" fetch_wheels
  python3 -m zipfile -e "$wheel"/nvidia_pytriton-*.whl "$1/wheel"
  mv "$1/wheel/pytriton/tritonserver" "$target"
  mv "$1/wheel/nvidia_pytriton.libs" "$target/lib"
  mv "$target/python_backend_stubs/3.12/triton_python_backend_stub" "$target/backends/python/"
  # Of a Python of its own, which only the stub for that one needs.
  rm -rf "$1/wheel" "$target/python_backend_stubs" "$target"/lib/libpython3-*
  chmod -R a+rX "$target"
  chmod 755 "$target/bin/tritonserver" "$target/backends/python/triton_python_backend_stub"
}

fill_torch_builder_context() {
  fill_bare_context slipway-torch-builder "$1"
  copy_builder "$REPOSITORY/e2e/model/builder" "$1/root/opt/slipway/builder"
}

# The lists are those of the images whose parts it has.
fill_analyzer_context() {
  local triton=$IMAGE_CACHE/contexts/slipway-triton python=$IMAGE_CACHE/contexts/slipway-python
  make_base
  mkdir -p "$triton" "$python"
  download_once "$IMAGES/lib/pip.txt" "$triton/pip" fetch_wheels
  download_once "$IMAGES/slipway-triton/analyzer.txt" "$triton/analyzer" fetch_wheels
  download_once "$IMAGES/slipway-python/wheels.txt" "$python/wheels" fetch_wheels
  download_packages_once "$IMAGES/slipway-model-analyzer/packages.txt" "$1/packages"
  rm -rf "$1"/{pip,wheels}
  cp -rl "$triton/pip" "$1/pip"
  cp -rl "$triton/analyzer" "$1/wheels"
  ln "$python"/wheels/{numpy,protobuf,packaging}-*.whl "$1/wheels/"
}

# The one program that is not static: it loads the driver's libraries. Other flags need a folder of their own.
fill_preflight_context() {
  local target=${CARGO_TARGET_DIR:-$REPOSITORY/target}/dynamic
  make_base
  (cd "$REPOSITORY" && RUSTFLAGS="-C target-feature=-crt-static" nice -n 10 \
    cargo build --locked --quiet --profile "$PROFILE" --package slipway-preflight --target-dir "$target" >&2)
  fill_binary_context slipway-preflight "$1" "$target/$PROFILE_FOLDER"
}

# fill_binary_context NAME CONTEXT [FOLDER]: symbols are four fifths of a debug binary and of no use in a pod.
fill_binary_context() {
  local binary=${3:-$RUST_BINARIES}/$1 stripped=$2/$1 stamp
  [[ -x $binary ]] || die "no $binary; build it with cargo build --package $1"
  stamp=$(stat --format '%n %y %s' "$binary")
  [[ ! -e $stripped || $(cat "$2.stamp" 2>/dev/null) != "$stamp" ]] || return 0
  strip --strip-all -o "$stripped" "$binary"
  printf '%s\n' "$stamp" >"$2.stamp"
}
