//! The rules of the API on the client's side: the same fixtures go to a real API server in `e2e/tests/api.rs`.
//!
//! A bad fixture begins with what its reader is told, and the merge patch that fixes it.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, path::PathBuf};

use kube::CustomResourceExt;
use kube_cel::{ValidationErrors, Validator};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde::Serialize;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine, agent_deployment::ProfilingDriver};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn fixture(name: &str) -> (String, AgentDeployment) {
    let path = folder().join(format!("{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap();
    let expected = text.lines().next().unwrap().trim_start_matches("# ").to_owned();
    (expected, serde_norway::from_str(&text).unwrap())
}

/// What the rules of its definition say of an object, and of its change where there is an old one.
fn check<K: CustomResourceExt + Serialize>(object: &K, old: Option<&K>) -> Result<(), ValidationErrors> {
    let definition = serde_json::to_value(K::crd()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let old = old.map(|old| serde_json::to_value(old).unwrap());
    Validator::new().validate(schema, &serde_json::to_value(object).unwrap(), old.as_ref())
}

#[rstest]
#[case("good")]
#[case("good-alerts-off")]
#[case("good-tensorrt-llm")]
#[case("good-tensorrt-llm-ensemble")]
#[case("good-tensorrt-llm-pytorch")]
#[case("good-vllm")]
#[case("good-vllm-lora")]
#[case("good-vllm-open-ai")]
#[case("good-pytorch-open-ai")]
#[case("good-sglang")]
#[case("good-tensorrt-llm-by-its-name")]
#[case("good-tensorrt-llm-pytorch-by-its-name")]
#[case("good-vllm-by-its-name")]
#[case("good-sglang-by-its-name")]
#[case("good-synthetic")]
#[case("good-prior")]
#[case("good-gpu-products")]
#[case("good-recorded-lengths")]
#[case("good-upstream")]
#[case("good-upstream-of-completions")]
fn a_good_manifest_breaks_no_rule(#[case] name: &str) {
    let (_, object) = fixture(name);
    assert_eq!(check(&object, None).map_err(|errors| format!("{errors:?}")), Ok(()));
}

/// What a driver can measure is said once, in the vocabulary; the rules say the same.
#[rstest]
#[case("good-tensorrt-llm")]
#[case("good-tensorrt-llm-ensemble")]
#[case("good-tensorrt-llm-pytorch")]
#[case("good-vllm")]
#[case("good-vllm-open-ai")]
#[case("good-pytorch-open-ai")]
#[case("good-sglang")]
fn the_rules_refuse_model_analyzer_where_it_measures_nothing(#[case] name: &str) {
    let (_, mut object) = fixture(name);
    let served_by = object.spec.engine.as_ref().unwrap().served_by();
    // Recorded runs have no answers of MCP servers, which another rule says.
    object.spec.agent.tools.retain(|tool| tool.mcp.is_none());
    object.spec.profiling = serde_json::from_value(json!({
        "driver": "ModelAnalyzer",
        "workloads": [
            {"name": "chat", "prompts": {"configMap": {"name": "chat", "key": "prompts.jsonl"}}},
            {"name": "runs", "agentTrace": {"configMap": {"name": "runs", "key": "trace.jsonl"}}},
        ],
    }))
    .unwrap();
    let is_measured = served_by.is_measured_by(ProfilingDriver::ModelAnalyzer);
    assert_eq!(check(&object, None).is_ok(), is_measured, "{served_by:?}");
}

/// Workloads with prompts, with runs, and with both, recorded and made up.
fn workloads() -> [Value; 5] {
    let prompts = json!({"name": "chat", "prompts": {"configMap": {"name": "chat", "key": "prompts.jsonl"}}});
    let runs = json!({"name": "runs", "agentTrace": {"configMap": {"name": "runs", "key": "trace.jsonl"}}});
    let made_up = json!({"name": "runs", "synthetic": {"inputTokens": 800, "outputTokens": 150}});
    let lengths = json!({"name": "runs", "recordedLengths": {"configMap": {"name": "runs", "key": "runs.jsonl"}}});
    [json!([prompts]), json!([runs]), json!([prompts, runs]), json!([prompts, made_up]), json!([lengths])]
}

/// A driver that is left out is one that the rules accept, wherever they accept any: what it becomes and what they
/// refuse are said apart.
#[rstest]
#[case::of_ones_own("good-alerts-off")]
#[case("good-tensorrt-llm")]
#[case("good-tensorrt-llm-ensemble")]
#[case("good-vllm-by-its-name")]
#[case("good-vllm-open-ai")]
#[case("good-pytorch-open-ai")]
#[case("good-sglang-by-its-name")]
fn a_driver_that_is_left_out_is_accepted_wherever_one_is(#[case] name: &str) {
    let latency = |metric: &str| json!([{"name": "it", "metric": metric, "percentile": "p95", "max": "2s"}]);
    let objectives = [
        json!({}),
        json!({"objectives": latency("RequestLatency")}),
        json!({"objectives": latency("AgentRunLatency")}),
        json!({"objectives": latency("TimeToFirstToken")}),
        json!({"throughput": {"min": "2", "unit": "Requests"}}),
        json!({"throughput": {"min": "2", "unit": "Runs"}}),
        json!({"cost": {"max": "2", "unit": "Requests"}, "objectives": latency("AgentRunLatency")}),
    ];
    let (_, mut object) = fixture(name);
    object.spec.agent.tools.clear();
    for (workloads, slo) in workloads().iter().flat_map(|all| objectives.iter().map(move |slo| (all, slo))) {
        object.spec.slo = serde_json::from_value(slo.clone()).unwrap();
        let mut with = |driver: Option<ProfilingDriver>| {
            let profiling = json!({"driver": driver, "workloads": workloads});
            object.spec.profiling = Some(serde_json::from_value(profiling).unwrap());
            (check(&object, None).is_ok(), object.spec.driver())
        };
        let (is_accepted, taken) = with(None);
        let named = ProfilingDriver::ALL.map(|driver| with(Some(driver)).0);
        assert_eq!(is_accepted, named.contains(&true), "{workloads} {slo}");
        assert_eq!(is_accepted, with(taken).0, "{taken:?} of {workloads} {slo}");
    }
}

#[rstest]
#[case::prompts_have_always_meant_it(json!({"objectives": []}), ProfilingDriver::ModelAnalyzer)]
#[case(json!({"objectives": [{"name": "it", "metric": "RequestLatency", "percentile": "p95", "max": "2s"},
    {"name": "run", "metric": "AgentRunLatency", "percentile": "p95", "max": "2s"}]}), ProfilingDriver::ModelAnalyzer)]
#[case::it_would_measure_no_objective(
    json!({"objectives": [{"name": "run", "metric": "AgentRunLatency", "percentile": "p95", "max": "2s"}]}),
    ProfilingDriver::AgentRun
)]
#[case::no_request_shows_when_an_answer_begins(
    json!({"objectives": [{"name": "it", "metric": "RequestLatency", "percentile": "p95", "max": "2s"},
        {"name": "token", "metric": "TimeToFirstToken", "percentile": "p95", "max": "2s"}]}),
    ProfilingDriver::AgentRun
)]
#[case::nor_how_evenly_tokens_come(
    json!({"objectives": [{"name": "it", "metric": "RequestLatency", "percentile": "p95", "max": "2s"},
        {"name": "token", "metric": "InterTokenLatency", "percentile": "p95", "max": "2s"}]}),
    ProfilingDriver::AgentRun
)]
#[case::only_it_counts_requests(
    json!({"throughput": {"min": "2", "unit": "Requests"},
        "objectives": [{"name": "token", "metric": "TimeToFirstToken", "percentile": "p95", "max": "2s"}]}),
    ProfilingDriver::ModelAnalyzer
)]
fn a_driver_that_is_left_out_is_what_the_objectives_need(#[case] slo: Value, #[case] expected: ProfilingDriver) {
    let (_, mut object) = fixture("good-vllm-by-its-name");
    let [_, _, both, ..] = workloads();
    object.spec.profiling = Some(serde_json::from_value(json!({"workloads": both})).unwrap());
    object.spec.slo = serde_json::from_value(slo).unwrap();
    assert_eq!(object.spec.driver(), Some(expected));
}

/// The manifests that people are shown first.
#[rstest]
#[case("README.md")]
#[case("e2e/manifests/demo/agent.yaml")]
#[case("e2e/manifests/demo/gpu.yaml")]
#[case("e2e/manifests/demo/gpu-rollout.yaml")]
#[case("e2e/manifests/demo/gpu-campaign.yaml")]
#[case("e2e/manifests/demo/gpu-loop.yaml")]
#[case("e2e/manifests/demo/gpu-triton.yaml")]
#[case("e2e/manifests/demo/gpu-triton-rollout.yaml")]
#[case("e2e/manifests/demo/latency.yaml")]
#[case("e2e/manifests/demo/throughput.yaml")]
fn a_manifest_to_be_copied_breaks_no_rule(#[case] file: &str) {
    let text = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap();
    let of_markdown = text.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("\n```"));
    let manifest = of_markdown.map_or(text.as_str(), |(manifest, _)| manifest);
    let object: AgentDeployment = serde_norway::from_str(manifest).expect(manifest);
    assert_eq!(check(&object, None).map_err(|errors| format!("{errors:?}")), Ok(()));
}

/// Fixtures whose fault can be read and breaks a rule. The others fail in the schema, which a client does not check.
fn broken_rules() -> Vec<(String, AgentDeployment)> {
    let names = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let bad = names.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    let readable = bad.filter(|name| name.starts_with("bad-") && !NO_RULE.contains(&name.as_str()));
    readable.map(|name| fixture(&name)).collect()
}

/// Refused by the schema.
const NO_RULE: &[&str] = &[
    "bad-approval",
    "bad-baseline",
    "bad-capacity",
    "bad-capacity-deadline",
    "bad-cost",
    "bad-duration-without-unit",
    "bad-empty-axis",
    "bad-gpu-products-of-one",
    "bad-issuer-keys-without-tls",
    "bad-min-of-none",
    "bad-model-uri",
    "bad-negative-cost-objective",
    "bad-objective-named-twice",
    "bad-on-drift",
    "bad-penalty-beyond-two",
    "bad-percentile",
    "bad-preflight-driver",
    "bad-pytorch-version",
    "bad-tensorrt-llm-version",
    "bad-tracing-endpoint",
    "bad-unknown-field",
    "bad-vllm-lora-folder",
    "bad-vllm-version",
    "bad-sglang-version",
    "bad-weight",
    "bad-weight-above-100",
];

#[test]
fn a_broken_rule_says_what_to_do() {
    for (expected, object) in broken_rules() {
        let text = format!("{:?}", check(&object, None).expect_err(&expected));
        assert!(text.contains(&expected), "{text}");
    }
}

#[rstest]
#[case("https://llm.example", true)]
#[case("http://vllm.team.svc:8000/", true)]
#[case("https://[2001:db8::1]:8443/openai/deployments/large", true)]
#[case::a_password("https://user:secret@llm.example", false)]
#[case::a_key("https://llm.example/openai?key=secret", false)]
#[case::a_key_behind_the_host("https://llm.example?key=secret", false)]
#[case::a_fragment("https://llm.example/#x", false)]
#[case::a_placeholder("https://llm.example/{x}", false)]
#[case::the_version_that_is_added("https://llm.example//v1//", false)]
fn an_upstream_is_a_host_and_a_path(#[case] url: &str, #[case] is_accepted: bool) {
    let (_, mut object) = fixture("good-upstream");
    url.clone_into(&mut object.spec.model.upstream.as_mut().unwrap().url);
    assert_eq!(check(&object, None).is_ok(), is_accepted);
}

#[test]
fn an_update_is_held_to_the_same_rules() {
    let (_, good) = fixture("good");
    let (_, other) = fixture("good-alerts-off");
    assert_eq!(check(&other, Some(&good)).map_err(|errors| format!("{errors:?}")), Ok(()));
    for (expected, object) in broken_rules() {
        let text = format!("{:?}", check(&object, Some(&good)).expect_err(&expected));
        assert!(text.contains(&expected), "{text}");
    }
}

/// What rules say of a spec, those apart that say a pattern in words.
fn messages(schema: &Value, all: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            let rules = members.get("x-kubernetes-validations").and_then(Value::as_array);
            let is_pattern = |rule: &&Value| rule["rule"].as_str().unwrap().starts_with("self.matches(r'");
            let said = rules.into_iter().flatten().filter(|rule| !is_pattern(rule));
            all.extend(said.map(|rule| rule["message"].as_str().unwrap().to_owned()));
            members.values().for_each(|below| messages(below, all));
        }
        Value::Array(items) => items.iter().for_each(|below| messages(below, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_rule_has_a_manifest_that_breaks_it() {
    let definition = serde_json::to_value(&slipway_crds::definitions()[0]).unwrap();
    let mut said = Vec::new();
    messages(&definition, &mut said);
    let tried: Vec<_> = broken_rules().into_iter().map(|(expected, _)| expected).collect();
    said.retain(|message| !tried.iter().any(|expected| expected.contains(message.as_str())));
    assert_eq!(said, Vec::<String>::new());
}

#[test]
fn an_engine_keeps_its_build_and_may_be_built_elsewhere() {
    let engine = |precision: &str, image: &str| -> Engine {
        let spec = json!({
            "build": {"backend": "Custom", "sourceDigest": "1f", "builderImageDigest": "sha256:2e", "precision": precision},
            "placement": {"builderImage": image},
        });
        Engine::new("engine", serde_json::from_value(spec).unwrap())
    };
    let old = engine("FP32", "builder:1");
    assert_eq!(check(&engine("FP32", "mirror/builder:1"), Some(&old)).map_err(|e| format!("{e:?}")), Ok(()));
    let text = format!("{:?}", check(&engine("INT8", "builder:1"), Some(&old)).unwrap_err());
    assert!(text.contains("build is immutable: create another Engine for another build"), "{text}");
}

#[rstest]
#[case("0 3 31 2 *", false)]
#[case("0 3 30,31 FEB *", false)]
#[case("0 3 31 4,6,9,11 *", false)]
#[case::a_day_of_the_week_may_fit("0 3 31 2 1", true)]
#[case::one_of_the_months_has_it("0 3 31 1,2 *", true)]
#[case("0 3 29 2 *", true)]
#[case("*/30 1-5 1,15 JAN-DEC MON#1", true)]
#[case("0 3 * *", false)]
fn a_schedule_must_be_able_to_come_up(#[case] cron: &str, #[case] is_accepted: bool) {
    let (_, mut object) = fixture("good");
    let schedule = object.spec.profiling.as_mut().and_then(|profiling| profiling.schedule.as_mut()).unwrap();
    schedule.cron = cron.to_owned();
    assert_eq!(check(&object, None).is_ok(), is_accepted);
}

#[test]
fn every_bad_manifest_is_accepted_once_it_is_mended() {
    for entry in fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_str().unwrap().starts_with("bad-") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let patch = text.lines().nth(1).unwrap().strip_prefix("# mended by ").expect(&text);
        let mut object: Value = serde_norway::from_str(&text).unwrap();
        json_patch::merge(&mut object, &serde_json::from_str(patch).unwrap());
        let object: AgentDeployment = serde_json::from_value(object).expect(&text);
        assert_eq!(check(&object, None).map_err(|errors| format!("{errors:?}")), Ok(()), "{text}");
    }
}

#[rstest]
#[case("bad-percentile", "unknown variant `p55`")]
#[case("bad-approval", "unknown variant `Ask`, expected `Automatic` or `Manual`")]
#[case("bad-baseline", "unknown variant `Fresh`, expected `Stable` or `MirrorBaseline`")]
#[case("bad-cost", "unknown variant `Dollars`, expected one of `ModelCallsPerRun`, `OutputTokensPerRun`, `CostPerRun`")]
#[case("bad-negative-cost-objective", "\"-0.4\" is not a positive number: write one such as 1.5 or 20")]
#[case("bad-on-drift", "unknown variant `Ignore`, expected `Report` or `Reprofile`")]
#[case("bad-capacity", "unknown variant `Recreate`, expected one of `SurgeIfPossible`, `InPlace`, `RequireSurge`")]
#[case(
    "bad-capacity-deadline",
    "\"600\" is not a duration: write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d"
)]
#[case(
    "bad-duration-without-unit",
    "\"2000\" is not a duration: write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d"
)]
#[case(
    "bad-penalty-beyond-two",
    "\"3\" is not a penalty: write a number from -2 to 2 with at most three places, such as 0.5 or -1"
)]
fn a_value_that_is_none_cannot_even_be_read(#[case] name: &str, #[case] message: &str) {
    let path = folder().join(format!("{name}.yaml"));
    let error = serde_norway::from_str::<AgentDeployment>(&fs::read_to_string(path).unwrap()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

/// The README's is the one of the documentation, and short.
#[test]
fn the_smallest_manifest_has_at_most_twelve_lines() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let smallest = fs::read_to_string(folder.join("docs/examples/smallest.yaml")).unwrap();
    assert!(smallest.lines().count() <= 12, "{smallest}");
    assert!(fs::read_to_string(folder.join("README.md")).unwrap().contains(&format!("```yaml\n{smallest}```\n")));
}

/// The examples of the documentation.
#[rstest]
#[case("smallest")]
#[case("lab-react-fp8")]
#[case("lab-int8-weight-only")]
#[case("no-build-tensorrt-llm-pytorch")]
#[case("no-build-trtllm-serve")]
#[case("no-build-vllm")]
#[case("no-build-vllm-open-ai")]
#[case("no-build-sglang")]
#[case("agent-qwen3")]
#[case("agent-llama-3.1")]
#[case("hosted-model")]
fn an_example_of_the_documentation_breaks_no_rule(#[case] name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(format!("{name}.yaml"));
    let object: AgentDeployment = serde_norway::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(check(&object, None).map_err(|errors| format!("{errors:?}")), Ok(()));
}
