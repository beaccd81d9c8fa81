//! Scores from files, comparisons through the store, and what is said when something is missing.

use pretty_assertions::assert_eq;

use super::*;
use crate::failure;

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    /// A data set of `n` questions whose answers are their numbers.
    fn of(n: u32) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        let line = |i| format!(r#"{{"id":"q{i}","prompt":"?","expected":"{i}","maxTokens":4,"stopWords":[]}}"#);
        bench.write("dataset.jsonl", (0..n).map(line));
        bench
    }

    fn write(&self, name: &str, lines: impl Iterator<Item = String>) {
        fs::write(self.dir.path().join(name), lines.map(|l| l + "\n").collect::<String>()).unwrap();
    }

    /// Outputs that are right but for the given questions.
    fn answer(&self, n: u32, wrong: &[u32]) {
        let right = |i: u32| if wrong.contains(&i) { "none".to_owned() } else { i.to_string() };
        self.write("outputs.jsonl", (0..n).map(|i| format!(r#"{{"id":"q{i}","output":" {}\n"}}"#, right(i))));
    }

    fn run(&self, engine: &EngineRef, reference: Option<&EngineRef>) -> Result<QualityResult, String> {
        let task = QualityTask {
            metric: QualityMetric::ExactMatch,
            confidence_ppm: 950_000,
            reference: reference.cloned(),
            engine: None,
        };
        let path = |name| self.dir.path().join(name);
        let files = Files { dataset: path("dataset.jsonl"), outputs: path("outputs.jsonl"), store: path("store") };
        run(&task, engine, &files).map_err(|e| failure::chain(&e))
    }
}

fn engine(identity: &str) -> EngineRef {
    EngineRef { identity: identity.into(), manifest_digest: hash::bytes(identity.as_bytes()) }
}

#[test]
fn a_perturbed_engine_is_told_from_a_sound_one_by_its_bound() {
    let bench = Bench::of(200);
    let (fp32, int8, broken) = (engine("fp32"), engine("int8"), engine("broken"));
    bench.answer(200, &[1, 2]);
    let first = bench.run(&fp32, None).unwrap();
    assert_eq!((first.samples, first.score_ppm, first.reference), (200, 990_000, None));

    bench.answer(200, &[1, 3, 4]);
    let sound = bench.run(&int8, Some(&fp32)).unwrap().reference.unwrap();
    bench.answer(200, &(0..60).collect::<Vec<_>>());
    let perturbed = bench.run(&broken, Some(&fp32)).unwrap().reference.unwrap();

    let expected = ReferenceScores {
        engine: fp32,
        score_ppm: 990_000,
        drop_ppm: 5_000,
        drop_upper_ppm: sound.drop_upper_ppm,
        confidence_ppm: 950_000,
        worse: 2,
        better: 1,
    };
    assert_eq!(sound, expected);
    assert!((5_000..40_000).contains(&sound.drop_upper_ppm), "{}", sound.drop_upper_ppm);
    assert!(perturbed.drop_ppm > 280_000 && perturbed.drop_upper_ppm > perturbed.drop_ppm);
}

#[test]
fn what_is_missing_is_named() {
    let bench = Bench::of(10);
    let error = bench.run(&engine("a"), None).unwrap_err();
    assert!(error.contains("failed to read") && error.contains("outputs.jsonl"), "{error}");

    bench.answer(7, &[]);
    assert_eq!(
        bench.run(&engine("a"), None).unwrap_err(),
        "the evaluation wrote no output for 3 of 10 samples, first \"q7\": it must answer each"
    );

    bench.answer(10, &[]);
    let error = bench.run(&engine("a"), Some(&engine("never-scored"))).unwrap_err();
    assert!(error.starts_with("the reference engine never-scored has no scores under this data set; score it"));
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    let bench = Bench::of(2);
    bench.write("outputs.jsonl", [r#"{"id":"q0","output":"0"}"#, "", r#"{"id":"q1"}"#].map(str::to_owned).into_iter());
    let error = bench.run(&engine("a"), None).unwrap_err();
    assert!(error.starts_with("line 3 of ") && error.contains("missing field `output`"), "{error}");

    bench.write("outputs.jsonl", (0..2).map(|_| r#"{"id":"q0","output":"0"}"#.to_owned()));
    assert!(bench.run(&engine("a"), None).unwrap_err().ends_with("has the id \"q0\" twice"));
}

#[test]
fn a_reference_without_scores_is_missing_and_one_that_cannot_be_read_is_a_failure_of_the_cluster() {
    let of = |kind: io::ErrorKind| QualityError::NoReference { engine: engine("a"), source: kind.into() }.class();
    let classes = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].map(of);
    assert_eq!(classes, [FailureClass::MissingArtifact, FailureClass::Infrastructure]);
}
