# shellcheck shell=bash
# Command lines and order of the components. Sourced by init.sh.

# start COMPONENT COMMAND...: runs it in a session of its own, with a log file.
start() {
  local name=$1
  shift
  setsid "$@" >>"$DIR/log/$name.log" 2>&1 </dev/null {LOCK_FD}>&- &
  COMPONENTS[$!]=$name
}

# begin COMPONENT COMMAND...: start, named as the current step.
begin() {
  step "$1" "$DIR/log/$1.log"
  start "$@"
}

# kill_components COMPONENT...: at once, and as nothing to look at later.
kill_components() {
  local pid
  for pid in "${!COMPONENTS[@]}"; do
    [[ " $* " == *" ${COMPONENTS[$pid]} "* ]] || continue
    unset "COMPONENTS[$pid]"
    kill -KILL "$pid" || true
    wait "$pid" || true
  done
}

# The earliest started component that has ended, or nothing.
first_ended() {
  local pid
  for pid in $(printf '%s\n' "${!COMPONENTS[@]}" | sort -n); do
    kill -0 "$pid" 2>/dev/null && continue
    printf '%s\n' "${COMPONENTS[$pid]}"
    return
  done
}

# await COMPONENT SECONDS COMMAND...: until the command succeeds. Gives up at
# once when any component has ended: that one is the culprit.
await() {
  local name=$1 deadline=$((SECONDS + $2)) ended
  shift 2
  step "$name" "$DIR/log/$name.log"
  until "$@" >/dev/null 2>&1; do
    ended=$(first_ended)
    if [[ -n $ended ]]; then
      step "$ended" "$DIR/log/$ended.log"
      say "$ended ended before it was ready"
      return 1
    fi
    if ((SECONDS > deadline)); then
      say "$name is not ready in time; waited for: $*"
      return 1
    fi
    sleep 0.1
  done
}

kubectl() { "$KUBECTL_BINARY" --kubeconfig "$DIR/kubeconfig" "$@"; }

is_http_ok() { curl --silent --fail --insecure --max-time 2 "$1"; }

start_containerd() { begin containerd containerd --config "$DIR/config/containerd.toml"; }

start_etcd() {
  # The data lives as long as the cluster: nothing is gained by fsync.
  begin etcd "$CLUSTER_BINARY" etcd --data-dir "$DIR/etcd" --unsafe-no-fsync --logger zap --log-level warn \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster default=http://127.0.0.1:2380
}

# Further arguments are flags, of which the last of a name counts.
start_apiserver() {
  local pki=$DIR/pki
  begin kube-apiserver "$CLUSTER_BINARY" kube-apiserver \
    --etcd-servers http://127.0.0.1:2379 \
    --secure-port 6443 --advertise-address "$(node_ip)" --service-cluster-ip-range "$SERVICE_CIDR" \
    --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" --client-ca-file "$pki/ca.crt" \
    --service-account-key-file "$pki/service-accounts.key" \
    --service-account-signing-key-file "$pki/service-accounts.key" \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged=true \
    --audit-policy-file "$DIR/config/audit-policy.yaml" --audit-log-path "$DIR/log/audit.log" \
    --kubelet-client-certificate "$pki/admin.crt" --kubelet-client-key "$pki/admin.key" \
    --kubelet-certificate-authority "$pki/ca.crt" --kubelet-preferred-address-types InternalIP \
    --requestheader-client-ca-file "$pki/ca.crt" --requestheader-allowed-names slipway-aggregator \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- --enable-aggregator-routing=true \
    --proxy-client-cert-file "$pki/aggregator.crt" --proxy-client-key-file "$pki/aggregator.key" "$@"
}

start_controllers() {
  local pki=$DIR/pki
  begin kube-controller-manager "$CLUSTER_BINARY" kube-controller-manager \
    --kubeconfig "$pki/controller-manager.kubeconfig" --leader-elect=false --use-service-account-credentials \
    --service-account-private-key-file "$pki/service-accounts.key" --root-ca-file "$pki/ca.crt" \
    --cluster-signing-cert-file "$pki/ca.crt" --cluster-signing-key-file "$pki/ca.key" \
    --allocate-node-cidrs --cluster-cidr "$POD_CIDR" --service-cluster-ip-range "$SERVICE_CIDR" \
    --kube-api-qps 500 --kube-api-burst 1000
  begin kube-scheduler "$CLUSTER_BINARY" kube-scheduler \
    --kubeconfig "$pki/scheduler.kubeconfig" --leader-elect=false
}

start_node() {
  local pki=$DIR/pki
  begin kubelet "$CLUSTER_BINARY" kubelet --config "$DIR/config/kubelet.yaml" \
    --kubeconfig "$pki/kubelet.kubeconfig" --hostname-override "$NODE_NAME" --node-ip "$(node_ip)" \
    --root-dir "$DIR/kubelet"
  # Zero leaves the machine's connection tracking as it is.
  begin kube-proxy "$CLUSTER_BINARY" kube-proxy --kubeconfig "$pki/proxy.kubeconfig" \
    --hostname-override "$NODE_NAME" --cluster-cidr "$POD_CIDR" --proxy-mode iptables --oom-score-adj 0 \
    --conntrack-max-per-core 0 --conntrack-min 0 \
    --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
}

start_add_ons() {
  begin coredns "$COREDNS_BINARY" -conf "$DIR/config/coredns.conf"
  begin local-provisioner "$CLUSTER_BINARY" local-provisioner \
    --kubeconfig "$DIR/pki/provisioner.kubeconfig" --root "$DIR/volumes"
}

# Removes what an earlier cluster left in the store (none after an orderly end).
forget_containers() {
  local containers
  mapfile -t containers < <(ctr --namespace k8s.io containers list --quiet)
  [[ ${#containers[@]} -gt 0 ]] || return 0
  ctr --namespace k8s.io containers delete "${containers[@]}"
}

prepare_containerd() {
  await containerd 20 ctr version
  if [[ -n $(ctr --namespace k8s.io containers list --quiet) ]]; then
    forget_containers
    restart_containerd
  fi
  step "pause image" "$DIR/log/init.log"
  ctr --namespace k8s.io images import "$PAUSE_ARCHIVE" >/dev/null
}

# Its CRI part has read the old containers into memory.
restart_containerd() {
  local pid
  for pid in "${!COMPONENTS[@]}"; do
    [[ ${COMPONENTS[$pid]} == containerd ]] || continue
    kill "$pid"
    wait "$pid" || true
    unset "COMPONENTS[$pid]"
  done
  start_containerd
  await containerd 20 ctr version
}

apply_manifests() {
  step "manifests" "$DIR/log/init.log"
  kubectl create --validate=false --filename "$DIR/config/manifests" >/dev/null
}

start_all() {
  start_containerd
  start_etcd
  start_apiserver
  prepare_containerd
  await kube-apiserver 90 is_http_ok https://127.0.0.1:6443/readyz
  start_controllers
  start_node
  apply_manifests
  start_add_ons
  await kubelet 60 kubectl wait --for create --timeout 60s "node/$NODE_NAME"
  await kubelet 60 kubectl wait --for condition=Ready --timeout 60s "node/$NODE_NAME"
  await kube-controller-manager 60 kubectl wait --for create --timeout 60s serviceaccount/default
  await coredns 30 is_http_ok http://127.0.0.1:10054/ready
  await kube-proxy 30 is_http_ok http://127.0.0.1:10256/healthz
}
