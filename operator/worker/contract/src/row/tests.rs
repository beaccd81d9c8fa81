//! Rows fit their budget and lose nothing but words.

use super::*;

fn row(reason: &str) -> Row {
    let latency = |percentile| Latency {
        metric: LatencyMetric::InterTokenLatency,
        percentile,
        micros: 12_345_678,
        lower_micros: 12_345_678,
        upper_micros: Some(12_345_678),
    };
    Row {
        arm: "a".repeat(40),
        level: 1024,
        verdict: MeasurementVerdict::Infeasible,
        count: 4000,
        errors: 4000,
        millis: 120_000,
        per_kilosecond: 123_456_789,
        per_kilosecond_error: Some(12_345_678),
        latencies: [Percentile::P50, Percentile::P99, Percentile::P99_9].map(latency).to_vec(),
        output_tokens: None,
        gpu: None,
        gpu_millis: 1_200_000,
        model_analyzer: Some(ModelAnalyzerRow { per_kilosecond: 123_456_789, p99_micros: 12_345_678 }),
        records: None,
        arrivals_per_kilosecond: Some(123_456),
        reason: reason.into(),
    }
}

#[test]
fn a_long_reason_is_shortened_until_the_row_fits() {
    let fitted = row(&"the load was \"odd\" \u{1F4A5} ".repeat(40)).fitted().unwrap();
    assert!(fitted.json_bytes() <= MAX_ROW_BYTES);
    assert!(fitted.reason.ends_with('…'), "{}", fitted.reason);
    assert!(fitted.json_bytes() > MAX_ROW_BYTES - 8, "no more is cut than must be");
    assert_eq!(Row { reason: String::new(), ..fitted }, row(""));
}

#[test]
fn a_row_whose_data_does_not_fit_is_an_error_that_names_it() {
    let mut fat = row("");
    fat.latencies.extend(fat.latencies.clone());
    fat.latencies.extend(fat.latencies.clone());
    fat.latencies.extend(fat.latencies.clone());
    let text = fat.fitted().unwrap_err().to_string();
    assert!(text.starts_with("the row of arm \"aaaa") && text.ends_with("768 fit"), "{text}");
}

#[test]
fn a_latency_is_a_short_array() {
    let json = serde_json::to_string(&row("").latencies[2]).unwrap();
    assert_eq!(json, r#"["InterTokenLatency","p99.9",12345678,12345678,12345678]"#);
}

#[test]
fn the_words_of_latencies_keep_their_meaning() {
    let word = |metric| {
        let written = serde_json::to_value(Latency { metric, ..row("").latencies[0] }).unwrap();
        assert_eq!(serde_json::from_value::<Latency>(written.clone()).unwrap().metric, metric);
        written[0].as_str().unwrap().to_owned()
    };
    let expected =
        ["RequestLatency", "TimeToFirstToken", "InterTokenLatency", "AgentRunLatency", "UserTimeToFirstToken"];
    assert_eq!(LatencyMetric::ALL.map(word), expected);
}

#[test]
fn a_long_reason_why_something_is_not_measured_is_cut_and_marked() {
    let entry = |reason: String| NotMeasured {
        arm: "a".into(),
        levels: Some((4, 16)),
        why: WhyNotMeasured::Infeasible,
        reason,
    };
    let cut = entry("expected p95 is \u{2265} 3 times its limit, ".repeat(9)).fitted();
    assert!(cut.reason.len() <= MAX_NOT_MEASURED_REASON_BYTES && cut.reason.ends_with('…'), "{}", cut.reason);
    assert_eq!(entry("short".into()).fitted(), entry("short".into()));
}

#[test]
fn rows_and_progress_of_an_older_worker_are_read() {
    let old =
        r#"{"arm":"a","level":1,"verdict":"Feasible","count":1,"errors":0,"millis":1,"perKilosecond":1,"gpuMillis":1}"#;
    assert_eq!(serde_json::from_str::<Row>(old).unwrap().arrivals_per_kilosecond, None);
}

#[test]
fn a_row_says_by_what_it_was_ruled_out() {
    let gpu = Some(Gpu { utilization_percent: Some(10), ..Gpu::default() });
    let limits = [GpuLimit { figure: GpuFigure::Utilization, min: Some(60), max: None }];
    let ruled_out = |max_microseconds, row: Row| {
        let (metric, percentile) = (LatencyMetric::InterTokenLatency, Percentile::P99);
        let objectives = [LatencyObjective { name: "pace".to_owned(), metric, percentile, max_microseconds }];
        row.ruled_out_by(Judged { objectives: &objectives, error_rate_max_ppm: Some(10_000), gpu_limits: &limits })
    };
    let idle = Row { errors: 0, gpu, ..row("") };
    assert_eq!(ruled_out(20_000_000, idle.clone()), Some(RuledOutBy::GpuFigure));
    assert_eq!(ruled_out(10_000_000, idle.clone()), Some(RuledOutBy::Bounds), "a latency has bounds, and comes first");
    assert_eq!(ruled_out(20_000_000, Row { gpu: None, ..idle.clone() }), Some(RuledOutBy::Bounds));
    assert_eq!(ruled_out(10_000_000, Row { errors: 50, ..idle.clone() }), Some(RuledOutBy::Errors));
    assert_eq!(ruled_out(10_000_000, Row { verdict: MeasurementVerdict::Feasible, ..idle }), None);
}
