//! The binary itself, as a container runs it.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use slipway_worker_contract::{FailureClass, Message};

fn worker() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slipway-worker"));
    command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A script that stands where tritonserver does, and the termination log beside it.
fn supervised(dir: &Path, script: &str) -> Command {
    let path = dir.join("tritonserver");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("log"), "").unwrap();
    let mut command = worker();
    command.arg("supervise").arg("--server").arg(&path).arg("--termination-log").arg(dir.join("log"));
    command
}

fn message(dir: &Path) -> Message {
    Message::parse(&fs::read_to_string(dir.join("log")).unwrap()).unwrap()
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

#[test]
fn triton_starts_without_a_model_under_explicit_control() {
    let dir = tempfile::tempdir().unwrap();
    let output = supervised(dir.path(), "echo \"$@\"").args(["--", "--http-port=9"]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "--model-repository=/slipway/engine/model_repository --model-control-mode=explicit --strict-readiness=false \
         --http-address=127.0.0.1 --grpc-address=127.0.0.1 --metrics-address=0.0.0.0 --http-port=9\n"
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read_to_string(dir.path().join("log")).unwrap(), "", "an orderly end says nothing");
}

#[test]
fn triton_waits_for_an_engine_of_tensorrt_llm_and_outlives_one_that_does_not_load() {
    let dir = tempfile::tempdir().unwrap();
    let output = supervised(dir.path(), "echo \"$@\"").arg("--tensorrt-llm-ranks=1").output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "--model-repository=/slipway/engine/model_repository --model-control-mode=explicit --disable-auto-complete-config \
         --strict-readiness=false --exit-on-error=false --http-address=127.0.0.1 --grpc-address=127.0.0.1 \
         --metrics-address=0.0.0.0\n"
    );
}

/// `supervise` of vLLM's own server, a script in the folder of programs.
fn supervised_vllm(dir: &Path, script: &str) -> Command {
    let path = dir.join("vllm");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("log"), "").unwrap();
    let mut command = worker();
    command.env("PATH", dir).arg("supervise").arg("--vllm-engine").arg(dir);
    command.arg("--termination-log").arg(dir.join("log"));
    command
}

#[test]
fn vllms_own_server_serves_the_checkpoint_by_its_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("server-ended.json"), "of the life before").unwrap();
    let output = supervised_vllm(dir.path(), "echo \"$@\"").output().unwrap();
    let folder = dir.path().display();
    let expected = format!("serve {folder}/checkpoint --config {folder}/server/config.yaml\n");
    assert_eq!((String::from_utf8(output.stdout).unwrap(), output.status.code()), (expected, Some(0)));
    assert!(!dir.path().join("server-ended.json").exists(), "an orderly end says nothing");
}

#[test]
fn how_vllms_own_server_ended_lies_beside_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo starting; echo 'ValueError: 8192 is greater than the derived max_model_len' >&2; exit 1";
    assert_eq!(supervised_vllm(dir.path(), script).output().unwrap().status.code(), Some(1));
    let text = fs::read_to_string(dir.path().join("server-ended.json")).unwrap();
    let left: Message = serde_json::from_str(&text).unwrap();
    let words =
        "vllm exited with code 1; its last output was: ValueError: 8192 is greater than the derived max_model_len";
    assert_eq!(left, Message::Failed { class: FailureClass::Infrastructure, text: words.to_owned() });
    assert_eq!(message(dir.path()), left);
}

#[test]
fn vllms_own_server_that_is_asked_to_end_leaves_no_words() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = supervised_vllm(dir.path(), "trap 'exit 3' TERM\necho ready\nwhile :; do :; done").spawn().unwrap();
    assert_eq!(first_line(&mut child), "ready\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(!dir.path().join("server-ended.json").exists());
}

#[test]
fn a_failing_server_passes_on_its_exit_code_and_its_last_lines() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo starting; echo 'E model_lifecycle.cc] failed to load agent: no weights' >&2; exit 7";
    let output = supervised(dir.path(), script).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let Message::Failed { class, text } = message(dir.path()) else { panic!("a failure") };
    assert_eq!(class, FailureClass::BadModel);
    assert!(
        text.ends_with(
            "exited with code 7; its last output was: E model_lifecycle.cc] failed to load agent: no weights"
        )
    );
}

#[test]
fn a_signal_reaches_the_server_and_its_orphans_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    // The grandchild holds the pipe open: were it left, the supervisor would wait for it for ever.
    let script = "(trap '' TERM; exec tail -f /dev/null) &\ntrap 'echo stopping; exit 3' TERM\necho ready\nwait";
    let mut child = supervised(dir.path(), script).spawn().unwrap();
    assert_eq!(first_line(&mut child), "ready\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn an_image_without_triton_is_an_image_mismatch() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log"), "").unwrap();
    let mut command = worker();
    command.args(["supervise", "--server", "/opt/none/tritonserver", "--termination-log"]).arg(dir.path().join("log"));
    assert_eq!(command.output().unwrap().status.code(), Some(13));
    let text = "the image has no program \"/opt/none/tritonserver\": it is not a Triton image, or its PATH lacks it";
    assert_eq!(message(dir.path()), Message::Failed { class: FailureClass::ImageMismatch, text: text.to_owned() });
}

#[test]
fn the_installed_copy_runs() {
    let dir = tempfile::tempdir().unwrap();
    assert!(worker().arg("install").arg(dir.path().join("bin")).status().unwrap().success());
    let mut installed = Command::new(dir.path().join("bin/slipway-worker"));
    let output = installed.arg("--version").env_clear().output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("slipway-worker "));
}

#[test]
fn a_verb_with_another_verbs_task_says_so_in_the_termination_log() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log"), "").unwrap();
    fs::write(dir.path().join("task.json"), r#"{"kind":"Resolve","uri":"hf://a/b","shape":"Required"}"#).unwrap();
    let mut command = worker();
    command.arg("fetch").arg("--task").arg(dir.path().join("task.json"));
    command.arg("--termination-log").arg(dir.path().join("log"));
    assert_eq!(command.output().unwrap().status.code(), Some(14));
    let Message::Failed { text, .. } = message(dir.path()) else { panic!("a failure") };
    assert!(text.ends_with("the task file holds a Resolve task, this verb needs a Fetch task"), "{text}");
}
