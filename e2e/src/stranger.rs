//! Pods of people who have nothing to do with an agent, and what they reach. Reads and writes IO.

#![allow(clippy::unwrap_used, reason = "a scenario ends where it cannot go on")]

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::namespace::Namespace;

/// A pod of a stranger's: it may run, write to `/tmp`, and nothing else.
///
/// # Panics
/// Never: what it is made of is a pod.
#[must_use]
pub fn stranger(name: &str, labels: &Value, script: &str) -> Pod {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "stranger", "image": "slipway.dev/slipway-busybox:dev", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    });
    serde_json::from_value(pod).unwrap()
}

/// Which of these addresses and ports take connections from a pod of a namespace.
///
/// # Panics
/// When the pod does not run to its end.
pub async fn reached_from<'a>(namespace: &Namespace, pod: &str, asked: &[(&'a str, u16)]) -> BTreeSet<(&'a str, u16)> {
    // BusyBox is static, and its wget does not survive glibc's resolver. Its nc takes addresses as they are.
    let lines = asked.iter().map(|(address, port)| {
        format!("nc -w 5 {address} {port} </dev/null >/dev/null 2>&1 && echo open {address} {port}; ")
    });
    let script = lines.chain(["true".to_owned()]).collect::<String>();
    let log = namespace.run_to_end(&stranger(pod, &json!({}), &script)).await.unwrap();
    let is_open = |(address, port): &&(&str, u16)| log.lines().any(|line| line == format!("open {address} {port}"));
    asked.iter().filter(is_open).copied().collect()
}
