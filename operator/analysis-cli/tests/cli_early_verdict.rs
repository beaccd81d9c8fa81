//! The verb `early-verdict`, as a user runs it.

mod support;

use pretty_assertions::assert_eq;

use support::{Bench, Ran};

const HEADER: &str = "gpu_type,n_gpus,users,start_ms,end_ms,n_in,n_out,ttft_ms,tpot_ms\n";

/// One user whose requests take a second each; TTFT as given, TPOT 20 ms.
fn stream(gpu: &str, requests: u32, ttft_ms: u32) -> String {
    (0..requests).map(|k| format!("{gpu},1,1,{},{},10,40,{ttft_ms},20\n", k * 1000, k * 1000 + 990)).collect()
}

fn verdicts(slo: &str) -> Ran {
    let bench = Bench::new();
    bench.file("r.csv", &format!("{HEADER}{}{}", stream("slow", 120, 800), stream("fast", 120, 50)));
    bench.run(&["early-verdict", "--requests", "r.csv", "--slo", slo, "--discard-seconds", "10"])
}

#[test]
fn a_run_is_decided_when_its_evidence_suffices() {
    let expected = concat!(
        r#"{"gpu_type":"slow","n_gpus":"1","users":"1","decidedAtMs":12500.0,"verdict":"Infeasible","fullVerdict":"Infeasible","requests":3}"#,
        "\n",
        r#"{"gpu_type":"fast","n_gpus":"1","users":"1","decidedAtMs":null,"verdict":"Undecided","fullVerdict":"Feasible","requests":110}"#,
        "\n"
    );
    let ran = verdicts("ttft:950:500,tpot:950:100");
    assert_eq!(ran, Ran { code: Some(0), stdout: expected.into(), stderr: String::new() });
}

#[test]
fn bad_input_is_named_with_its_remedy() {
    let bench = Bench::new();
    bench.file("r.csv", &format!("{HEADER}a,1,1,0,,1,1,5,\n"));
    bench.file("nokey.csv", "gpu_type,users,start_ms,end_ms,ttft_ms,tpot_ms\na,1,0,1,1,1\n");
    let remedy = "write SIGNAL:PER_MILLE:MAX_MS, for example ttft:950:1000 for p95 of TTFT at most 1000 ms";
    let with = |file: &str, slo: &str| bench.refusal(&["early-verdict", "--requests", file, "--slo", slo]);
    assert_eq!(with("r.csv", "ttft:950"), format!("--slo ttft:950: not three parts; {remedy}"));
    assert_eq!(with("r.csv", "itl:950:5"), format!("--slo itl:950:5: \"itl\" is not ttft, tpot or latency; {remedy}"));
    assert_eq!(
        with("r.csv", "ttft:1000:5"),
        format!(
            "--slo ttft:1000:5: percentile of 1000 per mille is not between 1 and 999; write 950 for p95; {remedy}"
        )
    );
    assert_eq!(
        with("r.csv", "ttft:950:-5"),
        format!("--slo ttft:950:-5: \"-5\" is not a positive number of milliseconds; {remedy}")
    );
    assert_eq!(
        with("r.csv", "ttft:950:5"),
        "r.csv: line 2, column end_ms: the cell is empty; every row needs a number here"
    );
    assert_eq!(
        with("nokey.csv", "ttft:950:5"),
        "nokey.csv: column n_gpus: the table has no such column; use one of its columns: end_ms, gpu_type, start_ms, tpot_ms, ttft_ms, users"
    );
    let negative = ["early-verdict", "--requests", "r.csv", "--slo", "ttft:950:5", "--discard-seconds=-1"];
    assert_eq!(bench.refusal(&negative), "--discard-seconds: -1 is not a duration; give seconds, 0 or more");
}
