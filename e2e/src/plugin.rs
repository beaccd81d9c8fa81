//! The kubectl plugin, as a user runs it, and its documents for programs. What fails ends the scenario. Reads the
//! environment; reads and writes IO.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a scenario ends where it cannot go on")]

use std::{env, fs, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::{
    cluster::{self, CLI, KUBECONFIG},
    namespace::Namespace,
};

/// Longest time until a tree is shown that is kept up to date, and until it ends.
const LIMIT: Duration = Duration::from_secs(30);

/// What a command prints, which must succeed.
///
/// # Panics
/// When it does not.
#[must_use]
pub fn printed(namespace: &Namespace, arguments: &[&str]) -> String {
    let output = cluster::slipway(&[&["--namespace", namespace.name()], arguments].concat()).unwrap();
    assert!(output.status.success(), "slipway {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The document that a command writes for programs.
///
/// # Panics
/// When it fails, or writes something else.
#[must_use]
pub fn document(namespace: &Namespace, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(namespace, &[arguments, &["--output", "json"]].concat())).unwrap()
}

/// Applies a manifest that `check` accepts.
///
/// # Panics
/// When `check` or the API server refuses it.
pub fn check_and_apply(namespace: &Namespace, name: &str, manifest: &str) {
    let file = env::temp_dir().join(format!("{}-{name}.yaml", namespace.name()));
    fs::write(&file, manifest).unwrap();
    let path = file.to_string_lossy();
    let checked = document(namespace, &["check", "--filename", &path]);
    assert_eq!((&checked["kind"], &checked["objects"][0]["accepted"]), (&"Check".into(), &true.into()), "{checked}");
    namespace.kubectl_apply(&path).unwrap_or_else(|refusal| panic!("{refusal}: {manifest}"));
    fs::remove_file(&file).unwrap();
}

/// The first document of `get --watch`, which is then ended as by Ctrl-C.
///
/// # Panics
/// When none comes in time, or it does not end as it should.
pub async fn first_watched(namespace: &Namespace, name: &str) -> Value {
    let mut command = Command::new(env::var_os(CLI).unwrap_or_default());
    command.arg("--kubeconfig").arg(env::var_os(KUBECONFIG).unwrap_or_default());
    command.args(["--namespace", namespace.name(), "get", name, "--watch", "--output", "json"]);
    let mut watch = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut text = String::new();
    let document = loop {
        let line = timeout(LIMIT, lines.next_line()).await.expect("a tree in time").unwrap();
        text.push_str(&line.unwrap_or_else(|| panic!("it ended after {text:?}")));
        if let Ok(document) = serde_json::from_str(&text) {
            break document;
        }
    };
    let process = watch.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().await.unwrap().success());
    let ended = timeout(LIMIT, watch.wait()).await.expect("an end in time").unwrap();
    assert!(ended.success(), "{ended}");
    document
}
