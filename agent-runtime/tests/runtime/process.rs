//! The binary: its messages, its probe, and its end by SIGTERM.

use std::process::{Command, Output};

use axum::{Router, http::StatusCode, routing::get};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_runtime_config::RuntimeConfig;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::fixture::{or_hang, serve};

const BINARY: &str = env!("CARGO_BIN_EXE_slipway-agent-runtime");

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
    let mut log = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    // The readiness watch logs its first finding once everything serves.
    or_hang(async {
        while let Some(line) = log.next_line().await.expect("the log is text") {
            let entry: serde_json::Value = serde_json::from_str(&line).expect("the log is JSON, line by line");
            if entry["message"] == "readiness changed" {
                return;
            }
        }
    })
    .await;
    let pid = child.id().expect("it runs").to_string();
    let killed = Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().expect("sh runs");
    assert!(killed.success());
    assert_eq!(or_hang(child.wait()).await.expect("it ends").code(), Some(0));
}
