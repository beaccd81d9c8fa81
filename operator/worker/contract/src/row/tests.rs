//! Rows fit their budget and lose nothing but words.

use super::*;

fn row(reason: &str) -> Row {
    let latency = |percentile| Latency {
        metric: Metric::InterTokenLatency,
        percentile,
        micros: 12_345_678,
        lower_micros: 12_345_678,
        upper_micros: Some(12_345_678),
    };
    Row {
        arm: "a".repeat(40),
        level: 1024,
        verdict: Verdict::Infeasible,
        count: 4000,
        errors: 4000,
        millis: 120_000,
        per_kilosecond: 123_456_789,
        latencies: [Percentile::P50, Percentile::P99, Percentile::P999].map(latency).to_vec(),
        gpu: None,
        gpu_millis: 1_200_000,
        model_analyzer: Some(ModelAnalyzerRow { per_kilosecond: 123_456_789, p99_micros: 12_345_678 }),
        records: None,
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
    let text = fat.fitted().unwrap_err().to_string();
    assert!(text.starts_with("the row of arm \"aaaa") && text.ends_with("512 fit"), "{text}");
}

#[test]
fn a_latency_is_a_short_array() {
    let json = serde_json::to_string(&row("").latencies[2]).unwrap();
    assert_eq!(json, r#"["InterTokenLatency","p99.9",12345678,12345678,12345678]"#);
}
