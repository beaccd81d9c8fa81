use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;
use crate::agent_deployment::rollout::revision::baseline_of;

fn declared(limit: &str) -> Vec<Guardrail> {
    let yaml = format!("[{{name: heat, query: 'max(heat{{namespace=\"$namespace\", pod=~\"$pods\"}})', {limit}}}]");
    serde_norway::from_str(&yaml).expect("a valid guardrail")
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).expect("a time of this century")
}

fn seen(canary: Option<f64>, stable: Option<f64>) -> BTreeMap<String, GuardrailView> {
    BTreeMap::from([("heat".to_owned(), GuardrailView::Values { canary, stable })])
}

/// What follows from looks a minute apart.
fn followed(limit: &str, views: &[BTreeMap<String, GuardrailView>]) -> Vec<Guarded> {
    let mut rollout = RolloutStatus::default();
    let looks = views.iter().zip(0i64..);
    looks.map(|(view, minute)| judge(&declared(limit), view, at(60 * minute), &mut rollout)).collect()
}

fn held(message: &str) -> Guarded {
    Guarded::Held(message.to_owned())
}

#[test]
fn a_limit_exceeded_three_times_in_a_row_rolls_back() {
    let hot = seen(Some(91.0), None);
    let fine = seen(Some(84.9), None);
    let wait = held("guardrail heat is 91, at most 85 is allowed");
    let harm = Guarded::Harmed("guardrail heat is 91, at most 85 is allowed, 3 times in a row".to_owned());
    let looks = [hot.clone(), hot.clone(), fine, hot.clone(), hot.clone(), hot];
    let expected = [wait.clone(), wait.clone(), Guarded::Clear, wait.clone(), wait, harm];
    assert_eq!(followed("max: '85'", &looks), expected);
}

#[test]
fn a_ratio_is_one_to_the_revision_that_serves() {
    let looks = [seen(Some(1.4), Some(1.0)), seen(Some(1.6), Some(1.0)), seen(Some(1.6), None)];
    let expected = [
        Guarded::Clear,
        held("guardrail heat is 1.6, at most 1.5 is allowed"),
        held("guardrail heat: its query has no value for stable's pods"),
    ];
    assert_eq!(followed("maxRatioToStable: '1.5'", &looks), expected);
}

#[test]
fn without_a_value_a_canary_waits() {
    let failed = GuardrailView::Failed { problem: "Prometheus did not answer within 5 s".to_owned() };
    let looks = [BTreeMap::new(), seen(None, None), BTreeMap::from([("heat".to_owned(), failed)])];
    let expected = [
        held("guardrail heat has not been evaluated yet"),
        held("guardrail heat: its query has no value for the canary's pods"),
        held("guardrail heat: Prometheus did not answer within 5 s"),
    ];
    assert_eq!(followed("max: '85'", &looks), expected);
}

#[test]
fn what_was_seen_last_stands_until_the_next_look() {
    let mut rollout = RolloutStatus::default();
    let guardrails = declared("max: '85'");
    judge(&guardrails, &seen(Some(91.0), None), at(0), &mut rollout);
    let found = rollout.guardrails.clone();
    let wait = held("guardrail heat is 91, at most 85 is allowed");
    assert_eq!(judge(&guardrails, &BTreeMap::new(), at(10), &mut rollout), wait);
    assert_eq!(rollout.guardrails, found);
}

#[rstest]
#[case::never_looked(None, None, true)]
#[case::just_looked(Some(0), Some(0), false)]
#[case::the_judge_writes_now(Some(0), Some(-10), true)]
#[case::looked_too_lately(Some(5), Some(-10), false)]
#[case::the_judge_does_not_write(Some(-70), Some(0), true)]
fn looks_keep_time_with_the_judges_writes(
    #[case] looked: Option<i64>,
    #[case] judged: Option<i64>,
    #[case] expected: bool,
) {
    let mut rollout = RolloutStatus::default();
    if let Some(looked) = looked {
        judge(&declared("max: '85'"), &seen(Some(1.0), None), at(looked), &mut rollout);
    }
    rollout.judged_at = judged.map(|seconds| Time(at(seconds)));
    assert_eq!(is_due(&declared("max: '85'"), &rollout, at(50)), expected);
}

#[test]
fn an_expression_is_about_the_pods_of_one_revision() {
    let labels = ["namespace".to_owned()];
    let scope = Scope { namespace: "team", labels: &labels };
    let expected = r#"max(heat{namespace="team", pod=~"support-0123456789-[a-z0-9]+(-[a-z0-9]{5})?"})"#;
    let of =
        |revision: &str| expression(&declared("max: '1'")[0], "support", revision, scope).expect("a query in PromQL");
    assert_eq!(of("0123456789"), expected);
    let expected = r#"max(heat{namespace="team", pod=~"support-0123456789-base-[a-z0-9]+(-[a-z0-9]{5})?"})"#;
    assert_eq!(of(&baseline_of("0123456789")), expected);
}

#[test]
fn numbers_have_four_digits() {
    let numbers = [0.0, 91.0, 84.95, 0.001_234_56, 123_456.7, -2.5, f64::INFINITY];
    assert_eq!(numbers.map(number), ["0", "91", "84.95", "0.001235", "123457", "-2.5", "inf"]);
}
