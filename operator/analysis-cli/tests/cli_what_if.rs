//! `slipway-analysis what-if` answers from the rows of Profiles.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

mod support;

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use support::Bench;

/// A Profile of a GPU model whose only feasible rows serve so many requests in 1,000 seconds.
fn profile(name: &str, product: &str, rates: [u64; 2]) -> Value {
    let row = |level: u64, per_kilosecond: u64| {
        let micros = level * 40_000;
        json!({
            "engine": "engine-a", "configuration": "default", "level": level, "purpose": "Explore", "verdict": "Feasible",
            "count": 400, "errors": 0, "milliseconds": 60_000, "perKilosecond": per_kilosecond, "gpuMilliseconds": 61_000,
            "latencies": [{"metric": "RequestLatency", "percentile": "p95", "microseconds": micros,
                           "lower": micros - 2_000, "upper": micros + 2_000}],
        })
    };
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "Profile", "metadata": {"name": name},
        "spec": {"agentDeployment": "facts", "inputHash": "0a", "inputs": {
            "engines": [{"name": "engine-a", "manifestDigest": "aa", "displayName": "fp16"}],
            "configurations": [{"name": "default", "settings": {}}],
            "levels": [1, 4], "driver": "ModelAnalyzer", "replicas": 1, "optimizeFor": "Throughput",
            "objectives": [{"name": "fast", "metric": "RequestLatency", "percentile": "p95", "max": "200ms"}],
            "budget": {"gpuHours": "8", "measurements": 100}, "agent": {},
            "placement": {"tritonImage": "t", "nodeSelector": {"nvidia.com/gpu.product": product},
                          "tritonResources": {"limits": {"nvidia.com/gpu": "1"}}},
        }},
        "status": {"phase": "Chosen", "measurements": [row(1, rates[0]), row(4, rates[1])]},
    })
}

fn one(bench: &Bench) {
    bench.file("p.json", &profile("facts-l4", "NVIDIA-L4", [2_000, 5_000]).to_string());
}

fn lines(bench: &Bench, more: &[&str]) -> Vec<Value> {
    let ran = bench.run(&[&["what-if", "--profile", "p.json"], more].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_price_and_a_traffic_are_answered_with_replicas_and_money() {
    let bench = Bench::new();
    one(&bench);
    let answer = &lines(&bench, &["--optimize-for", "Cost", "--price", "0.9", "--traffic", "12"])[0];
    let choice = &answer["choice"];
    assert_eq!((&answer["profile"], &choice["level"]), (&json!("facts-l4"), &json!(4)));
    assert_eq!(choice["cost"]["microdollarsPerThousand"]["value"], json!(50_000), "1,000 take 200 s at $0.00025");
    let fleet = &choice["fleet"];
    assert_eq!((&fleet["replicas"]["value"], &fleet["unit"]), (&json!(3), &json!("Requests")));
    assert_eq!(fleet["microdollarsPerHour"]["value"], json!(2_700_000));
}

#[test]
fn an_objective_that_nothing_meets_says_what_binds() {
    let bench = Bench::new();
    one(&bench);
    let answer = &lines(&bench, &["--objective", "fast=10ms"])[0];
    assert_eq!((&answer["candidates"], &answer["infeasible"]["bindingObjective"]), (&json!(0), &json!("fast")));
    let open = &lines(&bench, &["--objective", "RequestLatency:p95=160ms"])[0];
    assert_eq!((&open["candidates"], &open["open"][0]["row"]), (&json!(1), &json!(1)));
}

#[test]
fn profiles_of_several_gpus_are_compared_by_latency_throughput_and_cost() {
    let bench = Bench::new();
    let unfinished = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "Profile", "metadata": {"name": "facts-new"},
        "spec": profile("facts-new", "NVIDIA-L4", [1, 1])["spec"],
    });
    let items = [
        profile("facts-l4", "NVIDIA-L4", [2_000, 5_000]),
        profile("facts-h100", "NVIDIA-H100-80GB-HBM3", [20_000, 50_000]),
        profile("facts-slow", "NVIDIA-H100-80GB-HBM3", [2_000, 4_000]),
        unfinished,
    ];
    bench.file("p.json", &json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    let all = lines(&bench, &["--price", "NVIDIA-L4=0.8", "--price", "12"]);
    let costs: Vec<_> =
        all[..3].iter().map(|line| &line["choice"]["cost"]["microdollarsPerThousand"]["value"]).collect();
    assert_eq!(costs, [&json!(44_444), &json!(66_667), &json!(833_333)]);
    let refused =
        "the Profile has no measurements yet: wait until its campaign has finished one, or ask another Profile";
    assert_eq!(all[3], json!({"profile": "facts-new", "unanswerable": refused}));
    assert_eq!(all[4], json!({"front": ["facts-l4", "facts-h100"], "cheapest": "facts-l4"}));
}

#[rstest]
#[case::no_profile(
    json!({"kind": "AgentDeployment"}), &[],
    "p.json: kind: is AgentDeployment, not Profile; write it with kubectl get profile NAME -o json"
)]
#[case::no_profiles(
    json!({"kind": "List", "items": []}), &[],
    "p.json: items: has no Profile; write it with kubectl get profile NAME -o json"
)]
#[case::an_unknown_objective(
    profile("facts", "NVIDIA-L4", [1, 1]), &["--objective", "slow=1s"],
    "Profile facts cannot answer: the Profile has no objective slow: name one of fast, or write METRIC:PERCENTILE"
)]
#[case::costs_without_a_price(
    profile("facts", "NVIDIA-L4", [1, 1]), &["--optimize-for", "Cost"],
    "Profile facts cannot answer: costs need a price, and neither the question nor the Profile has one: give the price of \
     an hour"
)]
fn what_cannot_be_asked_is_refused(#[case] file: Value, #[case] more: &[&str], #[case] expected: &str) {
    let bench = Bench::new();
    bench.file("p.json", &file.to_string());
    assert_eq!(bench.refusal(&[&["what-if", "--profile", "p.json"], more].concat()), expected);
}

#[rstest]
#[case::a_negative_price(&["--price=-2"], "\"-2\" is not a price: write US dollars an hour from 0.001 to 1000, such as 2.5")]
#[case::an_absurd_price(&["--price", "1800"], "1800 US dollars an hour cannot be right: write a price from 0.001 to 1000")]
#[case::another_aim(&["--optimize-for", "Money"], "unknown variant `Money`, expected one of `Throughput`, `Latency`, `Cost`")]
#[case::a_maximum_without_a_unit(&["--objective", "fast=10"], "\"10\" is not a duration")]
#[case::replicas_of_no_traffic(&["--replicas", "2"], "--traffic <PER_SECOND>")]
fn what_cannot_be_read_is_refused_by_its_argument(#[case] more: &[&str], #[case] expected: &str) {
    let bench = Bench::new();
    one(&bench);
    let refused = bench.refusal(&[&["what-if", "--profile", "p.json"], more].concat());
    assert!(refused.contains(expected), "{refused}");
}
