//! The verb `trace`, as a user runs it. What it says of a capture is tested in `slipway-trace`.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

use std::{
    io::Write,
    path::Path,
    process::{Command, Output},
};

use flate2::{Compression, write::GzEncoder};
use pretty_assertions::assert_eq;
use rusqlite::Connection;
use serde_json::Value;

/// Unix time of time zero in the traces, nanoseconds.
const BASE: i64 = 1_700_000_000_000_000_000;

/// A chrome trace of a launch and its kernel, which runs from 5 to 105 microseconds.
fn chrome() -> String {
    format!(
        r#"{{"schemaVersion":1,"baseTimeNanoseconds":{BASE},"traceEvents":[
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":400,"tid":400,"ts":0.000,"dur":1.000,
"args":{{"External id":1,"cbid":211,"correlation":1}}}},
{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":5.000,"dur":100.000,
"args":{{"External id":1,"device":0,"stream":7,"correlation":1,"grid":[1,1,1]}}}}
],"traceName":"trace.json"}}"#
    )
}

/// An export of Nsight Systems with one kernel.
fn export(path: &Path) {
    let tables = "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        INSERT INTO StringIds VALUES (4000, 'gemm');
        CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.16.1');
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
        INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');
        CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, totalMemory INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, \"end\" INTEGER NOT NULL,
            deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
            globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 15000, 0, 1, 7, 1, 281474976710656, 4000, 4000);";
    Connection::open(path).unwrap().execute_batch(tables).unwrap();
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_slipway-analysis"))
        .current_dir(directory)
        .arg("trace")
        .args(arguments)
        .output()
        .unwrap()
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

#[test]
fn the_format_is_found_by_the_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let text = chrome();
    std::fs::write(directory.path().join("plain"), &text).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    std::fs::write(directory.path().join("packed"), gzip.finish().unwrap()).unwrap();
    export(&directory.path().join("export"));

    let formats = ["plain", "packed", "export"].map(|name| report(&run(directory.path(), &[name]))["format"].clone());

    assert_eq!(formats, ["kineto", "kineto", "nsys"]);
}

#[test]
fn spans_are_joined() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("t.json"), chrome()).unwrap();
    let line = format!(
        "{{\"runId\":\"a\",\"phase\":\"inference\",\"startUnixNanos\":{BASE},\"endUnixNanos\":{}}}\n",
        BASE + 50_000
    );
    std::fs::write(directory.path().join("s.jsonl"), line).unwrap();

    let found = report(&run(directory.path(), &["t.json", "--spans", "s.jsonl"]));

    assert_eq!(found["agentPhases"]["source"], "spans");
    assert_eq!(found["agentPhases"]["phases"][1]["wallMs"], 0.05);
}

#[test]
fn averages_with_totals_alone_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("t.json"), chrome()).unwrap();
    let rows = r#"[{"key":"aten::mm","count":1,"self_cpu_time_total":1,"device_time_total":5}]"#;
    std::fs::write(directory.path().join("a.json"), rows).unwrap();

    let message = refusal(&run(directory.path(), &["t.json", "--averages", "a.json"]));

    assert_eq!(
        message,
        "slipway-analysis: a.json: row 1 (aten::mm) has neither self_device_time_total nor self_cuda_time_total (before torch \
         2.4); totals count nested operators twice, so write the self times"
    );
}

#[test]
fn spans_of_another_day_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("t.json"), chrome()).unwrap();
    std::fs::write(
        directory.path().join("s.jsonl"),
        "{\"runId\":\"a\",\"phase\":\"tool\",\"startUnixNanos\":10,\"endUnixNanos\":20}",
    )
    .unwrap();

    let message = refusal(&run(directory.path(), &["t.json", "--spans", "s.jsonl"]));

    assert_eq!(
        message,
        format!(
            "slipway-analysis: s.jsonl: no span overlaps the capture: spans 10..20, capture {BASE}..{} (Unix nanoseconds); \
             pass the spans of the same minutes and node",
            BASE + 105_000
        )
    );
}

#[test]
fn a_report_of_nsight_systems_is_answered_with_the_export_command() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x.nsys-rep"), b"\x0a\x10not a database").unwrap();

    let message = refusal(&run(directory.path(), &["x.nsys-rep"]));

    assert_eq!(
        message,
        "slipway-analysis: x.nsys-rep: this is a report of Nsight Systems, not its export; run `nsys export --type=sqlite \
         --output=x.sqlite x.nsys-rep` and pass x.sqlite"
    );
}

#[test]
fn a_cut_trace_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let text = chrome();
    std::fs::write(directory.path().join("t.json"), &text[..200]).unwrap();

    let message = refusal(&run(directory.path(), &["t.json"]));

    assert_eq!(
        message,
        "slipway-analysis: t.json: the JSON cannot be read to its end; copy the file again, or export again after the \
         profiler has stopped: the file ends in the middle of a value at byte 200"
    );
}

#[test]
fn files_of_two_formats_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("t.json"), chrome()).unwrap();
    export(&directory.path().join("x.sqlite"));

    let message = refusal(&run(directory.path(), &["t.json", "x.sqlite"]));

    assert_eq!(
        message,
        "slipway-analysis: x.sqlite is of another format than the files before it; pass the ranks of one run"
    );
}

#[test]
fn a_missing_file_is_named() {
    let directory = tempfile::tempdir().unwrap();

    let message = refusal(&run(directory.path(), &["none.json"]));

    assert!(message.starts_with("slipway-analysis: failed to read none.json: No such file"), "{message}");
}
