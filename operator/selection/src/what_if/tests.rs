use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_crds::{v1alpha1::Profile, values::Percentile};
use slipway_vocabulary::LatencyMetric;

use super::*;

/// Requests with 1, 4 and 8 in flight on a GPU, the last of which misses 200 ms.
fn profile() -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "Profile", "metadata": {"name": "facts-0a"},
        "spec": {"agentDeployment": "facts", "inputHash": "0a", "inputs": {
            "engines": [{"name": "engine-a", "manifestDigest": "aa", "displayName": "fp16"}],
            "configurations": [{"name": "default", "settings": {}}],
            "levels": [1, 4, 8], "driver": "ModelAnalyzer", "replicas": 1, "optimizeFor": "Throughput",
            "objectives": [{"name": "fast", "metric": "RequestLatency", "percentile": "p95", "max": "200ms"}],
            "budget": {"gpuHours": "8", "measurements": 100}, "agent": {},
            "placement": {"tritonImage": "t", "tritonResources": {"limits": {"nvidia.com/gpu": "2"}}},
        }},
        "status": {
            "phase": "Chosen",
            "choice": {"engine": "engine-a", "configuration": "default", "level": 4, "predictedBy": 1, "why": "w"},
            "measurements": [row(1, 5_000, 50), row(4, 9_000, 150), row(8, 12_000, 260)],
        },
    })
}

fn row(level: u32, per_kilosecond: u64, milliseconds: u64) -> Value {
    let verdict = if milliseconds > 200 { "Infeasible" } else { "Feasible" };
    let latency = |percentile: &str, milliseconds: u64| {
        json!({"metric": "RequestLatency", "percentile": percentile, "microseconds": milliseconds * 1_000,
               "lower": milliseconds * 980, "upper": milliseconds * 1_020})
    };
    json!({
        "engine": "engine-a", "configuration": "default", "level": level, "purpose": "Explore", "verdict": verdict,
        "count": 400, "errors": 0, "milliseconds": 60_000, "perKilosecond": per_kilosecond,
        "latencies": [latency("p50", milliseconds / 2), latency("p95", milliseconds)],
        "gpuMilliseconds": 61_000, "outputTokens": 20_000, "definitions": 2,
    })
}

/// The confirm run of the point with 4 in flight, of so many runs in 1,000 seconds.
fn confirmed(mut profile: Value, per_kilosecond: u64) -> Value {
    let data = json!({"configMap": {"name": "runs", "key": "runs.jsonl"}, "digest": "aa"});
    profile["spec"]["inputs"]["agentTrace"] = data;
    let mut run = row(4, per_kilosecond, 160);
    run["purpose"] = json!("Confirm");
    profile["status"]["measurements"].as_array_mut().expect("rows").push(run);
    profile
}

fn ask(profile: &Value, question: &Question) -> Result<Answer, Unanswerable> {
    let profile: Profile = serde_json::from_value(profile.clone()).expect("a Profile");
    answer(&profile.spec.inputs, &profile.status.expect("a status"), question)
}

fn price(gpu_product: Option<&str>, per_hour: &str) -> AskedPrice {
    AskedPrice { gpu_product: gpu_product.map(str::to_owned), per_hour: per_hour.parse().expect("a price") }
}

fn chosen_by(profile: &Value, question: &Question) -> Choice {
    ask(profile, question).expect("an answer").choice.expect("a choice")
}

fn max(which: Which, max: &str) -> Question {
    let asked = AskedObjective { which, max: max.parse().expect("a duration") };
    Question { objectives: vec![asked], ..Question::default() }
}

fn fast(limit: &str) -> Question {
    max(Which::Named("fast".to_owned()), limit)
}

#[test]
fn a_question_that_changes_nothing_finds_the_choice() {
    let choice = chosen_by(&profile(), &Question::default());
    assert_eq!((choice.row, choice.level, choice.is_unchanged), (1, 4, true));
    assert_eq!((choice.confirmation, choice.cost), (Confirmation::NotPossible, None));
    assert_eq!(choice.per_kilosecond.value, 9_000);
    assert!(choice.per_kilosecond.lower < 9_000 && choice.per_kilosecond.upper > 9_000);
    assert_eq!(choice.latencies.len(), 1, "what is bounded: {:?}", choice.latencies);
}

#[test]
fn a_looser_objective_lets_a_row_win_that_missed() {
    let choice = chosen_by(&profile(), &fast("300ms"));
    assert_eq!((choice.row, choice.is_unchanged), (2, false));
    assert!(choice.why.starts_with("highest throughput of 3 measured points"), "{}", choice.why);
}

#[test]
fn a_limit_within_the_bounds_of_a_row_leaves_it_open() {
    let answer = ask(&profile(), &fast("260ms")).expect("an answer");
    let open = Open { row: 2, point: "fp16/default at 8 in flight".to_owned(), objective: "fast".to_owned() };
    assert_eq!((answer.candidates, answer.open), (2, vec![open]));
}

#[test]
fn a_round_that_left_a_limit_open_counts_and_misses_no_other_limit() {
    let mut profile = profile();
    let mut again = row(4, 8_000, 172);
    (again["purpose"], again["round"], again["verdict"]) = (json!("Repeat"), json!(1), json!("Unbounded"));
    profile["status"]["measurements"].as_array_mut().expect("rows").push(again);
    let answer = ask(&profile, &fast("170ms")).expect("an answer");
    assert_eq!((answer.candidates, answer.open), (2, Vec::new()));
    let choice = answer.choice.expect("a choice");
    assert_eq!((choice.row, choice.per_kilosecond.value), (1, 8_000));
}

#[test]
fn a_round_that_leaves_a_latency_open_does_not_bind_where_throughput_does() {
    let mut profile = profile();
    let mut again = row(4, 8_890, 197);
    (again["purpose"], again["round"], again["verdict"]) = (json!("Repeat"), json!(1), json!("Unbounded"));
    profile["status"]["measurements"].as_array_mut().expect("rows").push(again);
    let question = Question {
        traffic: Some("8.9".parse().expect("a number")),
        unit: Some(ThroughputUnit::Requests),
        replicas: Some(1),
        ..Question::default()
    };
    let infeasible = ask(&profile, &question).expect("an answer").infeasible.expect("nothing serves it");
    assert_eq!(infeasible.binding_objective, "throughput", "{infeasible:?}");
}

#[test]
fn where_nothing_meets_the_objectives_it_says_what_it_would_take() {
    let answer = ask(&profile(), &fast("20ms")).expect("an answer");
    assert_eq!((answer.candidates, answer.choice.is_none()), (0, true));
    let infeasible = answer.infeasible.expect("a reason");
    assert_eq!((infeasible.binding_objective.as_str(), infeasible.nearest), ("fast", Some(0)));
    let takes = "fast would be met with a max of 51ms or more (it is 20ms), by fp16/default at 1 in flight";
    assert_eq!(infeasible.what_it_would_take, takes);
}

#[test]
fn a_price_gives_costs_with_bounds_and_a_limit_on_them_binds() {
    let priced = |cost_max: Option<&str>| Question {
        optimize_for: Some(OptimizeFor::Cost),
        prices: vec![price(None, "1.8")],
        cost_max: cost_max.map(|max| max.parse().expect("a number")),
        ..Question::default()
    };
    let cost = chosen_by(&profile(), &priced(None)).cost.expect("a cost");
    assert_eq!(cost.microdollars_per_replica_hour, 3_600_000, "two GPUs");
    let Interval { value, lower, upper } = cost.microdollars_per_thousand;
    assert_eq!(value, 111_111, "1,000 take 111 s at $0.001 a second");
    assert!(lower < value && value < upper && upper < 130_000, "{lower} to {upper}");
    assert_eq!(cost.microdollars_per_million_tokens.map(|cost| cost.value), Some(2_222_220), "50 tokens a request");
    let infeasible = ask(&profile(), &priced(Some("0.1"))).expect("an answer").infeasible.expect("a reason");
    assert_eq!(infeasible.binding_objective, "cost");
    let takes = "cost would be met with a max of $0.1112 or more for 1,000 requests (it is $0.1), by fp16/default at 4 in \
                 flight";
    assert_eq!(infeasible.what_it_would_take, takes);
}

#[test]
fn a_traffic_needs_replicas_and_a_number_of_them_rules_points_out() {
    let traffic = |replicas| Question {
        traffic: Some("20".parse().expect("a number")),
        prices: vec![price(None, "1.8")],
        replicas,
        ..Question::default()
    };
    let fleet = chosen_by(&profile(), &traffic(None)).fleet.expect("a fleet");
    assert_eq!((fleet.replicas.value, fleet.replicas_as_confirmed), (3, None), "9 a second each");
    assert_eq!(fleet.microdollars_per_hour.map(|cost| cost.value), Some(10_800_000));
    assert_eq!(fleet.microdollars_per_thousand.map(|cost| cost.value), Some(150_000), "72,000 an hour");
    let infeasible = ask(&profile(), &traffic(Some(2))).expect("an answer").infeasible.expect("a reason");
    assert_eq!(infeasible.binding_objective, "throughput");
    assert_eq!(chosen_by(&profile(), &traffic(Some(4))).level, 4, "5 a second each are enough of both");
}

#[test]
fn a_confirm_run_holds_a_point_as_far_as_its_own_load() {
    let profile = confirmed(profile(), 2_000);
    let runs = |traffic: &str, replicas| Question {
        traffic: Some(traffic.parse().expect("a number")),
        unit: Some(ThroughputUnit::Runs),
        replicas,
        ..Question::default()
    };
    let choice = chosen_by(&profile, &runs("7", None));
    assert_eq!(choice.confirmation, Confirmation::Confirmed);
    assert_eq!(choice.fleet.expect("a fleet").replicas_as_confirmed, Some(4));
    let choice = chosen_by(&profile, &runs("7", Some(2)));
    assert_eq!((choice.confirmation, choice.fleet), (Confirmation::Missing, None), "3.5 a second each");
}

#[rstest]
#[case::an_unknown_objective(
    max(Which::Named("slow".to_owned()), "1s"),
    "the Profile has no objective slow: name one of fast, or write METRIC:PERCENTILE"
)]
#[case::a_metric_that_was_not_measured(
    max(Which::Of(LatencyMetric::TimeToFirstToken, Percentile::P95), "1s"),
    "no measurement has TimeToFirstToken p95: the campaign measured RequestLatency p50, RequestLatency p95. Ask for one \
     of them, or measure again"
)]
#[case::costs_without_a_price(
    Question { optimize_for: Some(OptimizeFor::Cost), ..Question::default() },
    "costs need a price, and neither the question nor the Profile has one: give the price of an hour"
)]
#[case::runs_of_requests(
    Question { traffic: Some("1".parse().expect("a number")), unit: Some(ThroughputUnit::Runs), ..Question::default() },
    "the measurements count requests, not runs: ask in requests"
)]
#[case::replicas_of_nothing(
    Question { replicas: Some(2), ..Question::default() },
    "2 replicas cannot share a traffic: write 1 or more, and the traffic"
)]
fn what_cannot_be_answered_says_what_is_missing(#[case] question: Question, #[case] expected: &str) {
    assert_eq!(ask(&profile(), &question).map_err(|error| error.to_string()), Err(expected.to_owned()));
}

#[test]
fn a_profile_without_rows_answers_nothing() {
    let mut profile = profile();
    profile["status"] = json!({"phase": "Exploring"});
    assert_eq!(ask(&profile, &Question::default()), Err(Unanswerable::NoRows));
}

/// The same rows on two GPU models: those of engine-b are a quarter less.
fn on_two_products() -> Value {
    let mut profile = profile();
    let engine = |name: &str, product: &str| json!({"name": name, "manifestDigest": name, "displayName": product.to_lowercase(), "gpuProduct": product});
    profile["spec"]["inputs"]["engines"] = json!([engine("engine-a", "NVIDIA-H200"), engine("engine-b", "NVIDIA-L4")]);
    let mut slower = row(4, 6_750, 180);
    slower["engine"] = json!("engine-b");
    profile["status"]["measurements"].as_array_mut().expect("rows").push(slower);
    profile
}

#[test]
fn of_two_gpu_models_the_cheaper_run_is_chosen_by_the_price_of_each() {
    let at = |per_hour: &str| Question {
        optimize_for: Some(OptimizeFor::Cost),
        prices: vec![price(Some("NVIDIA-H200"), "4"), price(Some("NVIDIA-L4"), per_hour)],
        ..Question::default()
    };
    let cheap = chosen_by(&on_two_products(), &at("0.8"));
    assert_eq!((cheap.engine.as_str(), cheap.level), ("engine-b", 4));
    assert_eq!(cheap.cost.expect("a cost").microdollars_per_replica_hour, 1_600_000, "two GPUs");
    assert_eq!(chosen_by(&on_two_products(), &at("3.9")).engine, "engine-a", "a quarter less for nearly the price");
}

#[test]
fn a_gpu_model_without_a_price_is_named_where_costs_are_compared() {
    let question = |prices| Question { optimize_for: Some(OptimizeFor::Cost), prices, ..Question::default() };
    let one = question(vec![price(Some("NVIDIA-H200"), "4")]);
    let problem = ask(&on_two_products(), &one).expect_err("the other has none");
    assert_eq!(
        problem.to_string(),
        "costs need a price of each GPU model, and neither the question nor the Profile has one of NVIDIA-L4: give the \
         price of an hour"
    );
    let of_any = question(vec![price(None, "4")]);
    assert_eq!(chosen_by(&on_two_products(), &of_any).engine, "engine-a", "at one price the faster is the cheaper");
}
