use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_vocabulary::{Percentile, evidence::Metric};

use super::{Config, CostGuard, CountedObjective, OnInconclusive, Prediction, Step};

fn message(text: &str) -> String {
    serde_json::from_str::<Config>(text).unwrap_err().to_string()
}

#[test]
fn an_empty_configuration_is_the_documented_default() {
    let config: Config = serde_json::from_str("{}").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.steps.iter().map(|step| step.weight_percent).collect::<Vec<_>>(), [5.0, 20.0, 50.0]);
    assert_eq!((config.margin_bins, config.alpha), (4, 0.01));
}

#[test]
fn a_full_configuration_is_read_as_people_write_it() {
    let config: Config = serde_json::from_str(
        r#"{"steps":[{"weightPercent":10,"minSoakSeconds":60,"maxSoakSeconds":900}],"maxRegression":"14%",
            "falseRollback":"0.5%","warmUpSeconds":30,"onInconclusive":"Rollback",
            "objectives":[{"metric":"RequestLatency","percentile":"p99.9","maxMicroseconds":500000}],
            "costGuards":[{"metric":"OutputTokensPerRun","maxIncrease":"20%"}],
            "errorRateMax":"1%","predictions":[{"metric":"RequestLatency","ratioPercent":200}]}"#,
    )
    .unwrap();
    let expected = Config {
        steps: vec![Step { weight_percent: 10.0, min_soak_seconds: 60, max_soak_seconds: 900 }],
        margin_bins: 6,
        alpha: 0.005,
        warm_up_seconds: 30,
        on_inconclusive: OnInconclusive::Rollback,
        objectives: vec![CountedObjective {
            metric: Metric::RequestLatency,
            percentile: Percentile::P99_9,
            max_microseconds: 500_000,
        }],
        cost_guards: vec![CostGuard { metric: Metric::OutputTokensPerRun, margin_bins: 8 }],
        error_rate_max: Some(0.01),
        predictions: vec![Prediction { metric: Metric::RequestLatency, ratio_percent: 200 }],
        ..Config::default()
    };
    assert_eq!(config, expected);
    assert_eq!(config.predicted_bins(Metric::RequestLatency), 32);
    assert_eq!(config.predicted_bins(Metric::ModelTime), 0);
}

#[test]
fn a_margin_is_floored_to_buckets_and_never_below_four() {
    let bins = ["1%", "10%", "13%", "15%", "30%"]
        .map(|text| serde_json::from_str::<Config>(&format!("{{\"maxRegression\":\"{text}\"}}")).unwrap().margin_bins);
    assert_eq!(bins, [4, 4, 5, 6, 12]);
}

#[rstest]
#[case(r#"{"steps":[]}"#, "steps: at least one step is needed")]
#[case(r#"{"taskFailuresMax":1}"#, "taskFailuresMax: 1 is not above 1: give the factor that is tolerated")]
#[case(r#"{"steps":[{"weightPercent":0}]}"#, "steps[0].weightPercent: 0 is not in (0, 100]")]
#[case(r#"{"steps":[{"weightPercent":20},{"weightPercent":5}]}"#, "steps[1].weightPercent: 5 does not exceed")]
#[case(
    r#"{"steps":[{"weightPercent":5,"minSoakSeconds":60,"maxSoakSeconds":10}]}"#,
    "steps[0].maxSoakSeconds: 10 is less"
)]
#[case(r#"{"maxRegression":"ten"}"#, "maxRegression: \"ten\" is not a percentage between 0% and 1000%")]
#[case(r#"{"falseRollback":"0%"}"#, "falseRollback: \"0%\" is not a percentage between 0.001% and 50%")]
#[case(r#"{"errorRateMax":"100%"}"#, "errorRateMax: \"100%\" is not a percentage")]
#[case(
    r#"{"objectives":[{"metric":"RequestLatency","percentile":"p42","maxMicroseconds":5}]}"#,
    "objectives[0].percentile: \"p42\" is none of p50, p90, p95, p99, p99.9"
)]
#[case(
    r#"{"objectives":[{"metric":"RequestLatency","percentile":"p95","maxMicroseconds":0}]}"#,
    "objectives[0].maxMicroseconds: 0 is not a limit"
)]
#[case(
    r#"{"objectives":[{"metric":"RunSuccess","percentile":"p95","maxMicroseconds":5}]}"#,
    "objectives[0].metric: RunSuccess is not a latency"
)]
#[case(
    r#"{"objectives":[{"metric":"ModelTime","percentile":"p95","maxMicroseconds":5},{"metric":"ModelTime","percentile":"p95","maxMicroseconds":6}]}"#,
    "objectives[1]: ModelTime has this percentile twice"
)]
#[case(
    r#"{"predictions":[{"metric":"ModelTime","ratioPercent":0}]}"#,
    "predictions[0].ratioPercent: 0 is not in 1..=100000"
)]
#[case(
    r#"{"costGuards":[{"metric":"ModelTime","maxIncrease":"20%"}]}"#,
    "costGuards[0].metric: ModelTime is not a cost of a run; use ModelCallsPerRun or OutputTokensPerRun"
)]
#[case(
    r#"{"costGuards":[{"metric":"ModelCallsPerRun","maxIncrease":"20%"},{"metric":"ModelCallsPerRun","maxIncrease":"9%"}]}"#,
    "costGuards[1]: ModelCallsPerRun is guarded twice; keep one of them"
)]
#[case(
    r#"{"costGuards":[{"metric":"ModelCallsPerRun","maxIncrease":"a fifth"}]}"#,
    "maxIncrease: \"a fifth\" is not a percentage between 0% and 1000%"
)]
#[case(r#"{"maxRegresion":"10%"}"#, "unknown field `maxRegresion`")]
fn a_bad_configuration_names_its_field(#[case] text: &str, #[case] expected: &str) {
    let message = message(text);
    assert!(message.contains(expected), "{message}");
}
