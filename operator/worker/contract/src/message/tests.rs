//! Messages fit, keep their data, and say what is wrong with them.

use super::*;
use crate::{MeasurementVerdict, WhyNotMeasured};

fn failed(text: String) -> Message {
    Message::Failed { class: FailureClass::BadModel, text }
}

fn row(level: u32) -> Row {
    Row {
        arm: "instances-2".into(),
        level,
        verdict: MeasurementVerdict::Feasible,
        count: 420,
        errors: 0,
        millis: 21_000,
        per_kilosecond: 20_000,
        per_kilosecond_error: None,
        latencies: Vec::new(),
        output_tokens: None,
        gpu: None,
        gpu_millis: 25_000,
        model_analyzer: None,
        records: Some(Digest::from_bytes(&[3; 32])),
        arrivals_per_kilosecond: None,
        reason: "stopped early: p99 is above its limit".into(),
    }
}

fn not_measured() -> NotMeasured {
    let reason = "expected gain 0.2 %, feasible with 40 %".to_owned();
    NotMeasured { arm: "instances-1".into(), levels: None, why: WhyNotMeasured::Dominated, reason }
}

#[test]
fn a_message_survives_its_bytes() {
    let message = Message::Succeeded {
        result: Outcome::Fetch(FetchResult {
            source_digest: Digest::from_bytes(&[1; 32]),
            files: 3,
            bytes: 9,
            transferred_bytes: 4,
            millis: 2,
        }),
    };
    let bytes = message.encode(4096).unwrap();
    assert_eq!(Message::parse(std::str::from_utf8(&bytes).unwrap()).unwrap(), message);
}

#[test]
fn human_text_is_cut_at_a_character_and_marked() {
    for text in ["é\"\n".repeat(3000), "💥".repeat(2000), "\u{1}".repeat(3000)] {
        for limit in [300, 1023, 2457, 4096] {
            let bytes = failed(text.clone()).encode(limit).unwrap();
            assert!(bytes.len() <= limit, "{} > {limit}", bytes.len());
            let Message::Failed { text: cut, class } = Message::parse(std::str::from_utf8(&bytes).unwrap()).unwrap()
            else {
                panic!("a failure stays one")
            };
            assert_eq!(class, FailureClass::BadModel);
            assert!(text.starts_with(cut.strip_suffix('…').unwrap()));
        }
    }
}

#[test]
fn a_profile_that_does_not_fit_counts_its_oldest_rows_and_keeps_whole_ones() {
    let rows: Vec<Row> = (0..300).map(row).collect();
    let message = Message::Succeeded {
        result: Outcome::Profile(ProfileResult {
            input_hash: "h".into(),
            rows: rows.clone(),
            omitted_rows: 0,
            gpu_millis: 1,
            end: ProfileEnd::Complete,
            reason: "every point is measured".into(),
            not_measured: vec![not_measured(); 3],
            omitted_not_measured: 0,
        }),
    };
    let bytes = message.encode(2457).unwrap();
    let parsed = Message::parse(std::str::from_utf8(&bytes).unwrap()).unwrap();
    let Message::Succeeded { result: Outcome::Profile(profile) } = parsed else { panic!("a profile stays one") };
    assert_eq!(profile.rows.len() + profile.omitted_rows as usize, 300);
    assert!(profile.rows.len() >= 5, "{}", profile.rows.len());
    assert_eq!((profile.not_measured.len(), profile.omitted_not_measured), (0, 3));
    let newest = rows.iter().rev().take(profile.rows.len()).rev();
    for (kept, original) in profile.rows.iter().zip(newest) {
        assert_eq!(Row { reason: String::new(), ..kept.clone() }, Row { reason: String::new(), ..original.clone() });
    }
}

#[test]
fn data_that_does_not_fit_is_an_error_and_never_cut() {
    let versions = (0..200).map(|i| (format!("tool-{i}"), "1.2.3".to_owned())).collect();
    let result = BuildResult {
        manifest_digest: Digest::from_bytes(&[1; 32]),
        files: 1,
        bytes: 1,
        durations_millis: BTreeMap::new(),
        versions,
        quality: None,
    };
    let text = Message::Succeeded { result: Outcome::Build(result) }.encode(2048).unwrap_err().to_string();
    assert!(text.ends_with("bytes of data; this pod keeps 2048"), "{text}");
}

#[test]
fn the_budget_is_a_share_of_the_pods_twelve_kibibytes() {
    assert_eq!([0, 1, 3, 4, 5].map(message_budget), [4096, 4096, 4096, 3072, 2457]);
}

#[test]
fn what_cannot_be_read_says_why() {
    assert_eq!(
        Message::parse(" ").unwrap_err().to_string(),
        "the container ended without a termination message: it was killed"
    );
    let text = Message::parse("Traceback (most recent call last)").unwrap_err().to_string();
    assert!(text.contains("it begins \"Traceback (most recent"), "{text}");
    assert_eq!(
        Message::parse(r#"{"formatVersion":9,"outcome":"X"}"#).unwrap_err().to_string(),
        "the termination message has formatVersion 9; this operator reads 1"
    );
}

#[test]
fn a_newer_workers_extra_fields_do_not_hide_what_is_known() {
    let text = r#"{"formatVersion":1,"outcome":"Failed","class":"Infrastructure","text":"no route","hint":"new"}"#;
    assert_eq!(
        Message::parse(text).unwrap(),
        Message::Failed { class: FailureClass::Infrastructure, text: "no route".into() }
    );
}
