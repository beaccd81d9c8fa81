# shellcheck shell=bash disable=SC2153 # NAME is the cluster's
# Keys and certificates of one cluster; they live and die with its folder.

EC=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

# certificate NAME SUBJECT SUBJECT_ALT_NAMES
certificate() {
  local file=$DIR/pki/$1
  openssl req -new "${EC[@]}" -keyout "$file.key" -subj "$2" -out "$file.csr" 2>/dev/null
  openssl x509 -req -in "$file.csr" -CA "$DIR/pki/ca.crt" -CAkey "$DIR/pki/ca.key" -CAcreateserial \
    -days 365 -out "$file.crt" -extfile <(
      printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3"
    ) 2>/dev/null
  rm "$file.csr"
}

make_certificates() {
  local node_ip service
  node_ip=$(node_ip)
  service=kubernetes.default.svc
  mkdir -m 700 "$DIR/pki"
  openssl req -x509 "${EC[@]}" -keyout "$DIR/pki/ca.key" -out "$DIR/pki/ca.crt" -days 365 \
    -subj /CN=slipway-cluster 2>/dev/null
  openssl ecparam -name prime256v1 -genkey -noout -out "$DIR/pki/service-accounts.key"
  certificate apiserver /CN=kube-apiserver \
    "IP:127.0.0.1,IP:10.96.0.1,IP:$node_ip,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:$service,DNS:$service.cluster.local"
  certificate admin /O=system:masters/CN=slipway-admin DNS:admin
  # How the API server shows itself to servers of further APIs, such as metrics-server.
  certificate aggregator /CN=slipway-aggregator DNS:aggregator
  certificate controller-manager /CN=system:kube-controller-manager DNS:controller-manager
  certificate scheduler /CN=system:kube-scheduler DNS:scheduler
  certificate proxy /CN=system:kube-proxy DNS:proxy
  certificate kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" "DNS:$NODE_NAME,IP:$node_ip,IP:127.0.0.1"
  certificate coredns /CN=slipway:coredns DNS:coredns
  certificate provisioner /CN=slipway:local-provisioner DNS:local-provisioner
}

# kubeconfig NAME FILE: self-contained, so that the file may be copied.
kubeconfig() {
  local pki=$DIR/pki
  (
    umask 077
    cat >"$2" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: slipway-$NAME
  cluster:
    server: https://$(node_ip):6443
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$pki/$1.crt")
    client-key-data: $(base64 -w0 "$pki/$1.key")
contexts:
- name: slipway-$NAME
  context: {cluster: slipway-$NAME, user: $1}
current-context: slipway-$NAME
YAML
  )
}

make_kubeconfigs() {
  local name
  for name in controller-manager scheduler proxy kubelet coredns provisioner; do
    kubeconfig "$name" "$DIR/pki/$name.kubeconfig"
  done
  kubeconfig admin "$DIR/kubeconfig"
}
