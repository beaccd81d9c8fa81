//! metrics-server itself: it runs on this machine, reads the kubelet, and the API server finds it behind a Service
//! without pods. It ends with the scenario. Reads the environment; reads and writes IO.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a scenario ends where it cannot go on")]

use std::{env, path::Path, process::Command};

use serde_json::json;

use crate::{
    cluster,
    gitops::{Programs, apply, kubectl},
};

/// Names the binary.
const PROGRAM: &str = "SLIPWAY_E2E_METRICS_SERVER";
/// Its port on this machine.
const PORT: u16 = 18200;
const API: &str = "v1beta1.metrics.k8s.io";

/// The running server.
#[derive(Debug)]
pub struct MetricsServer {
    _programs: Programs,
}

impl MetricsServer {
    /// Starts it, and waits until the API server has its API. What it prints is kept in the folder.
    ///
    /// # Panics
    /// When it does not start, or its API does not come up.
    #[must_use]
    pub fn start(folder: &Path) -> Self {
        let program = env::var_os(PROGRAM).unwrap_or_else(|| panic!("{PROGRAM} names no binary"));
        let kubeconfig = env::var_os(cluster::KUBECONFIG).unwrap();
        let mut command = Command::new(program);
        for option in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
            command.arg(option).arg(&kubeconfig);
        }
        // The kubelet's certificate is from the cluster's own authority.
        command.args(["--kubelet-insecure-tls", "--kubelet-preferred-address-types", "InternalIP"]);
        // Shorter than the pause between two readings, as it demands.
        command.args(["--kubelet-request-timeout", "5s"]);
        command.args(["--metric-resolution", "10s", "--secure-port", &PORT.to_string(), "--cert-dir"]);
        command.arg(folder.join("metrics-server"));
        let mut programs = Programs::default();
        programs.start(&mut command, PROGRAM, folder);
        let server = Self { _programs: programs };
        register(&host());
        kubectl(&["wait", "--for=condition=Available", &format!("apiservice/{API}"), "--timeout=2m"]);
        server
    }
}

impl Drop for MetricsServer {
    /// An API that nobody serves keeps namespaces from being deleted.
    fn drop(&mut self) {
        let _ = cluster::kubectl(&["delete", "apiservice", API]);
    }
}

/// This machine's address as the cluster sees it: the one before its node's.
fn host() -> String {
    let output = kubectl(&["config", "view", "--minify", "--output", "jsonpath={.clusters[0].cluster.server}"]);
    let server = String::from_utf8(output.stdout).unwrap();
    let node = server.trim_start_matches("https://").rsplit_once(':').unwrap().0.to_owned();
    format!("{}.1", node.rsplit_once('.').unwrap().0)
}

fn register(host: &str) {
    let metadata = json!({"name": "metrics-server", "namespace": "kube-system"});
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": PORT}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "metrics-server",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "metrics-server"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [host], "conditions": {"ready": true}}],
    });
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": {"name": "metrics-server", "namespace": "kube-system", "port": 443},
        },
    });
    apply("metrics-server", &json!({"apiVersion": "v1", "kind": "List", "items": [service, slice, api]}));
}
