# shellcheck shell=bash
# The images of the parts, and the charts. Sourced by node.sh.

readonly IMAGE_IDS=$NODE/images

has_image() { [[ -n $(in_cluster ctr --namespace k8s.io images list --quiet "name==slipway.dev/$1:dev") ]]; }

import_images() {
  local archive name
  mkdir -p "$IMAGE_IDS"
  for archive in "$PARTS"/images/*.tar; do
    name=$(basename "$archive" .tar)
    if cmp --silent "${archive%.tar}.id" "$IMAGE_IDS/$name" && has_image "$name"; then
      continue
    fi
    in_cluster ctr --namespace k8s.io images import "$archive"
    cp "${archive%.tar}.id" "$IMAGE_IDS/$name"
  done
}

# The tag stays the same when the program changes: the annotation is what replaces the operator's pod.
install_slipway() {
  local analyzer=()
  # Triton's image for the GPU has no Model Analyzer.
  [[ ! -e $PARTS/images/slipway-model-analyzer.tar ]] ||
    analyzer=(--set "image.modelAnalyzer=slipway.dev/slipway-model-analyzer:dev")
  create_namespace
  install slipway-crds
  install slipway --values e2e/manifests/values.yaml "${analyzer[@]}" --wait --timeout 3m \
    --set-string "podAnnotations.slipway\.dev/image=$(cat "$PARTS/images/slipway-operator.id")"
}
