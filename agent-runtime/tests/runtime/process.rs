//! The binary: its messages, its probe, and its end by SIGTERM.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Output},
    sync::atomic::{AtomicU8, Ordering},
};

use axum::{Router, http::StatusCode, routing::get};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_runtime_config::{Authentication, Rates, RuntimeConfig};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
};

use crate::fixture::{or_hang, serve};

pub const BINARY: &str = env!("CARGO_BIN_EXE_slipway-agent-runtime");

/// Addresses for a process to listen on. They have a loopback address of their own: a port of 127.0.0.1 that is free
/// now may be another test's by the time the process starts.
pub fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    static TAKEN: AtomicU8 = AtomicU8::new(2);
    let host = format!("127.0.0.{}", TAKEN.fetch_add(1, Ordering::Relaxed));
    let listeners = [(); N].map(|()| TcpListener::bind((host.as_str(), 0)).expect("a port is free"));
    listeners.map(|listener| listener.local_addr().expect("a bound listener has an address"))
}

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().expect("the binary starts")
}

fn run_with_config(json: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let path = folder.path().join("config.json");
    std::fs::write(&path, json).expect("the file is written");
    let output = run(&["--config", path.to_str().expect("the path is text")]);
    let message = String::from_utf8_lossy(&output.stderr).replace(path.to_str().expect("the path is text"), "CONFIG");
    (output.status.code(), message)
}

#[rstest]
#[case::syntax(
    "{",
    "error: failed to use the configuration CONFIG: the configuration is not valid JSON of the expected shape: \
     EOF while parsing an object at line 1 column 1\n"
)]
#[case::values(
    r#"{"agentName": "a", "revision": "", "triton": {"endpoint": "http://127.0.0.1:8001"}, "maxSteps": 0}"#,
    "error: failed to use the configuration CONFIG: the configuration has 2 problem(s): \
     revision: \"\" is not a name; use 1 to 63 of a-z, 0-9, '-' and '.', letters or digits at both ends; \
     maxSteps: is 0; must be between 1 and 64\n"
)]
fn a_bad_configuration_ends_the_process_with_its_problems(#[case] json: &str, #[case] expected: &str) {
    assert_eq!(run_with_config(json), (Some(1), expected.into()));
}

#[test]
fn a_missing_configuration_is_named() {
    let output = run(&["--config", "/nowhere/config.json"]);
    let message = String::from_utf8_lossy(&output.stderr);
    let expected =
        "error: failed to read the configuration /nowhere/config.json: No such file or directory (os error 2)\n";
    assert_eq!((output.status.code(), message.as_ref()), (Some(1), expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_fails_with_what_was_answered() {
    let unready = async || (StatusCode::SERVICE_UNAVAILABLE, "not ready: no model\n");
    let origin = serve(Router::new().route("/ok", get(async || "ok")).route("/unready", get(unready))).await;
    assert!(run(&["probe", "--url", &format!("{origin}/ok")]).status.success());
    let url = format!("{origin}/unready");
    let output = run(&["probe", "--url", &url]);
    let expected = format!("error: {url} answered 503: not ready: no model\n");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()), (Some(1), expected));
}

#[test]
fn the_sleep_of_a_hook_ends() {
    assert!(run(&["sleep", "1ms"]).status.success());
    let output = run(&["sleep", "1"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("write a whole number with its unit"));
}

/// The readiness watch logs its first finding once everything serves.
pub async fn until_it_serves(child: &mut Child) {
    let mut log = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    or_hang(async {
        while let Some(line) = log.next_line().await.expect("the log is text") {
            let entry: serde_json::Value = serde_json::from_str(&line).expect("the log is JSON, line by line");
            if entry["message"] == "readiness changed" {
                return;
            }
        }
    })
    .await;
}

#[test]
fn tokens_that_cannot_be_used_end_the_process_and_are_not_told() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "acme: too-short\n").expect("the file is written");
    let mut config = RuntimeConfig::new("a", "a-1", "http://127.0.0.1:9");
    config.authentication = Some(of_tokens(&tokens));
    let (status, message) = run_with_config(&config.to_json());
    let path = tokens.to_str().expect("the path is text");
    let expected = "error: failed to set up the agent: failed to set up the authentication of clients: authentication: the \
                    mounted credentials cannot be used; correct the Secret or ConfigMap: failed to use TOKENS: line 1 of \
                    the file of tokens has no usable token; use 16 to 4096 characters of ASCII without spaces\n";
    assert_eq!((status, message.replace(path, "TOKENS").as_str()), (Some(1), expected));
}

fn of_tokens(path: &Path) -> Authentication {
    let tokens = Some(path.to_str().expect("the path is text").to_owned());
    Authentication { tokens, jwt: None, rates: Rates::default() }
}

#[tokio::test]
async fn the_process_lets_tenants_in_and_the_kubelet_without_a_token() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let (path, tokens) = (folder.path().join("config.json"), folder.path().join("tokens"));
    std::fs::write(&tokens, "acme: acme-token-0123456789\n").expect("the file is written");
    let mut config = RuntimeConfig::new("a", "a-1", "http://127.0.0.1:9");
    config.authentication = Some(of_tokens(&tokens));
    std::fs::write(&path, config.to_json()).expect("the file is written");
    let [api, admin] = free_addresses().map(|address| address.to_string());
    let mut child = tokio::process::Command::new(BINARY)
        .args(["--api-address", &api, "--admin-address", &admin, "--config"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary starts");
    until_it_serves(&mut child).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client can be made");
    let models = format!("http://{api}/v1/models");
    let status = async |request: reqwest::RequestBuilder| {
        or_hang(request.send()).await.expect("the process answers").status().as_u16()
    };
    assert_eq!(status(client.get(&models)).await, 401);
    assert_eq!(status(client.get(&models).bearer_auth("acme-token-0123456789")).await, 200);
    assert_eq!(status(client.get(&models).bearer_auth("acme-token-0123456780")).await, 401);
    assert_eq!(status(client.get(format!("http://{admin}/livez"))).await, 200);
    assert_eq!(status(client.get(format!("http://{admin}/slipway/v1/evidence"))).await, 200);
}

#[tokio::test]
async fn sigterm_ends_an_idle_process_with_success() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let path = folder.path().join("config.json");
    std::fs::write(&path, RuntimeConfig::new("a", "a-1", "http://127.0.0.1:9").to_json()).expect("the file is written");
    let mut child = tokio::process::Command::new(BINARY)
        .args(["--api-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0", "--config"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary starts");
    until_it_serves(&mut child).await;
    let pid = child.id().expect("it runs").to_string();
    let killed = Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().expect("sh runs");
    assert!(killed.success());
    assert_eq!(or_hang(child.wait()).await.expect("it ends").code(), Some(0));
}
