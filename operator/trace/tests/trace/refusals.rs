//! Broken, partial and wrong files: what is missing and what to do.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_trace::{PhaseSource, analyze, format::Format, kineto};

use super::{
    chrome::{chrome, intake, options},
    nsys::{export, export_without_clock},
};

fn refusal(text: &str) -> String {
    kineto::read(text.as_bytes(), &mut intake()).unwrap_err().to_string()
}

#[test]
fn a_cut_trace_is_refused_wherever_it_is_cut() {
    let text = chrome().launch(0, (5, 10), "gemm", 1).range((0, 50), "decode").text();
    let end = text.trim_end().len();
    for cut in 0..end {
        assert_eq!(
            refusal(&text[..cut]),
            "the JSON cannot be read to its end; copy the file again, or export again after the profiler has stopped"
        );
    }
}

proptest! {
    #[test]
    fn damaged_bytes_are_an_error_or_a_report_never_a_crash(at in 0usize..700, byte in any::<u8>()) {
        let mut text = chrome().launch(0, (5, 10), "gemm", 1).range((0, 50), "decode").text().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let mut intake = intake();
        if kineto::read(text.as_slice(), &mut intake).is_ok() {
            analyze(intake.finish(), options(Format::Kineto, PhaseSource::Ranges)).unwrap();
        }
    }
}

#[test]
fn json_that_is_no_trace_names_the_export() {
    assert_eq!(
        refusal("{\"results\": [1, 2]}"),
        "the JSON has no traceEvents: a torch.profiler trace is written by prof.export_chrome_trace(\"trace.json\")"
    );
}

#[test]
fn a_trace_without_the_gpu_names_the_activity() {
    assert_eq!(
        refusal(&chrome().operator((0, 10), "aten::mm").text()),
        "traceEvents holds 1 events and no GPU kernel: profile with activities=[ProfilerActivity.CPU, \
         ProfilerActivity.CUDA] while the model runs"
    );
}

#[test]
fn an_export_without_gpu_work_names_the_table_and_the_command() {
    assert_eq!(
        export().call((0, 10), "cudaMalloc", 1).refusal(),
        "table CUPTI_ACTIVITY_KIND_KERNEL is missing: the capture holds no GPU work; trace CUDA (`nsys profile \
         --trace=cuda,nvtx,osrt --cuda-graph-trace=node`) while the model runs, in the process tree that owns the GPU"
    );
}

#[test]
fn a_database_of_something_else_is_no_export() {
    let other = export().with("DROP TABLE StringIds");

    assert_eq!(other.refusal(), "this SQLite file is not an export of Nsight Systems: table StringIds is missing");
}

#[test]
fn a_missing_column_is_named() {
    let old =
        export().kernel((0, 10), 0, "gemm", 1).with("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId");

    assert_eq!(
        old.refusal(),
        "column deviceId of table CUPTI_ACTIVITY_KIND_KERNEL is missing; write the export with Nsight Systems 2022.1 or later"
    );
}

#[test]
fn a_cut_export_is_refused_with_the_command_that_writes_it() {
    let mut export = export();
    for at in 0..2_000 {
        export = export.kernel((at * 10, 5), 0, "gemm", at + 1);
    }
    let whole = std::fs::read(export.path()).unwrap();
    let cut = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(cut.path(), &whole[..whole.len() / 2]).unwrap();

    let error = slipway_trace::nsys::read(cut.path(), &mut intake()).unwrap_err();

    assert_eq!(
        error.to_string(),
        "the export is cut off or damaged; write it again with `nsys export --type=sqlite --force-overwrite=true \
         --output=x.sqlite x.nsys-rep`"
    );
}

#[test]
fn several_exports_need_their_start_times() {
    let (first, second) =
        (export().kernel((0, 10), 0, "gemm", 1), export_without_clock().kernel((0, 10), 0, "gemm", 1));
    let mut intake = intake();
    slipway_trace::nsys::read(first.path(), &mut intake).unwrap();

    let error = slipway_trace::nsys::read(second.path(), &mut intake).unwrap_err();

    assert_eq!(
        error.to_string(),
        "table TARGET_INFO_SESSION_START_TIME is missing, so several exports cannot be aligned; analyse this file alone"
    );
}
