//! What AIConfigurator expects of engines: a campaign begins with the engine of which its table expects the most, and a
//! table of another model is refused. Engines are served by a STAND-IN image (`e2e/images/slipway-no-build-stand-in`):
//! nothing here ran vLLM, AIConfigurator or a GPU. The table has the columns of AIConfigurator's `pareto.csv`, with
//! figures that were made up.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{
        AgentDeployment, Profile,
        profile::{ExpectedLevel, FrozenData, ProfileInputs},
        shared::ConfigMapKeyReference,
    },
};
use slipway_e2e::{
    checkpoints::{Checkpoint, GPU},
    namespace::{Namespace, condition_of},
};

/// Name of the agent, and of its model.
const AGENT: &str = "llama-small";
const IMAGE: &str = "slipway.dev/slipway-no-build-stand-in:dev";
const H100: &str = "NVIDIA-H100-80GB-HBM3";
const LIMIT: Duration = Duration::from_secs(300);
/// The best rows of the model are of other GPUs and of another backend. Of the rest BF16 is three times as fast.
const TABLE: &str = include_str!("../manifests/expectations/pareto.csv");
/// Name of the ConfigMap, with a key for each table.
const TABLES: &str = "expectations";
const OWN: &str = "pareto.csv";
const ANOTHER_MODEL: &str = "another-model.csv";

/// FP8 is named first, and is the faster one by all that is known of a GPU.
fn agent(table: &str) -> Value {
    let objective = json!({"name": "run", "metric": "AgentRunLatency", "percentile": "p50", "max": "20s"});
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": AGENT},
        "spec": {
            "model": {"uri": format!("pvc://models/{AGENT}")},
            "engine": {"backend": "VLLM", "vllm": {"version": "0.11.0", "image": IMAGE, "maxSeqLen": 4096}},
            "search": {"precision": ["FP8", "BF16"], "maxBatchSize": [16], "concurrency": [1, 2, 4]},
            "slo": {"objectives": [objective], "optimizeFor": "Throughput"},
            "profiling": {
                "driver": "AgentRun",
                "workloads": [{"name": "runs", "agentTrace": {"configMap": {"name": "runs", "key": "trace.jsonl"}}}],
                "engines": "WhenAsked",
                "prior": {"configMap": {"name": TABLES, "key": table}},
            },
            "hardware": {"nodeSelector": {"nvidia.com/gpu.product": H100}},
            "serving": {"tritonResources": {"limits": {GPU: "1"}}},
            "agent": {"maxSteps": 2},
        },
    })
}

async fn give_tables(namespace: &Namespace) {
    let another = TABLE.replace("LLAMA_SMALL", "QWEN2_7B");
    let tables = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": TABLES},
        "data": {OWN: TABLE, ANOTHER_MODEL: another},
    });
    namespace.create_object::<ConfigMap>(&serde_json::from_value(tables).unwrap()).await.unwrap();
}

async fn a_table_of_another_model_is_refused(namespace: &Namespace) {
    namespace.apply(&agent(ANOTHER_MODEL)).await.unwrap();
    let message = namespace.wait_for_message(AGENT, "Stalled", "spec.profiling.prior", LIMIT).await.unwrap();
    println!("{message}");
    assert_eq!(
        message,
        "spec.profiling.prior: ConfigMap expectations: its rows are of QWEN2_7B, and spec.model.uri is \
         pvc://models/llama-small: give AIConfigurator that model, or correct the column model"
    );
    let object: AgentDeployment = namespace.api().get(AGENT).await.unwrap();
    let reason = condition_of(&object, ConditionType::Stalled.as_str()).map(|(_, reason, _)| reason);
    assert_eq!(reason.as_deref(), Some(Reason::PriorUnusable.as_str()));
    let profiles = namespace.api::<Profile>().list(&ListParams::default()).await.unwrap().items;
    assert!(profiles.is_empty(), "{:?}", profiles.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
}

/// A level with requests per 1,000 seconds, and microseconds of a request, to its first token and between tokens.
const fn level(level: i32, per_kilosecond: i64, (request, first_token, inter_token): (i64, i64, i64)) -> ExpectedLevel {
    ExpectedLevel {
        level,
        per_kilosecond,
        request_microseconds: request,
        first_token_microseconds: first_token,
        inter_token_microseconds: inter_token,
    }
}

/// The rows of the H100 and vLLM; between them 2 lies on the line in logarithms.
const FP8: [ExpectedLevel; 3] = [
    level(1, 1_250, (800_000, 60_000, 24_000)),
    level(2, 2_236, (894_427, 73_485, 27_713)),
    level(4, 4_000, (1_000_000, 90_000, 32_000)),
];
const BF16: [ExpectedLevel; 3] = [
    level(1, 4_000, (250_000, 20_000, 7_500)),
    level(2, 6_928, (288_531, 24_495, 8_660)),
    level(4, 12_000, (333_000, 30_000, 10_000)),
];

fn has_frozen_the_table(inputs: &ProfileInputs) {
    let digest: String = Sha256::digest(TABLE.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let config_map = ConfigMapKeyReference { name: TABLES.to_owned(), key: OWN.to_owned() };
    assert_eq!(inputs.prior, Some(FrozenData { config_map, digest }));
    let expected: Vec<_> =
        inputs.engines.iter().map(|engine| (engine.display_name.as_str(), engine.expected.as_slice())).collect();
    assert_eq!(expected, [("fp8", FP8.as_slice()), ("bf16", BF16.as_slice())]);
}

/// What was asked for, one after the other, and what was measured: the first of both is what the table puts first.
fn began_with(profile: &Profile, engine: &str) {
    let inputs = &profile.spec.inputs;
    let names: BTreeMap<&str, &str> =
        inputs.engines.iter().map(|engine| (engine.name.as_str(), engine.display_name.as_str())).collect();
    let status = profile.status.clone().unwrap();
    status.asked.iter().for_each(|asked| println!("asked for {}: {}", names[asked.engine.as_str()], asked.why));
    status
        .not_measured
        .iter()
        .for_each(|left| println!("not measured, {}: {}", names[left.engine.as_str()], left.reason));
    let rows = status.measurements.iter().map(|row| (names[row.engine.as_str()], row.level, row.per_kilosecond));
    let rows: Vec<_> = rows.collect();
    println!("rows, in order, with their runs in 1,000 s: {rows:?}");
    let firsts = (status.asked.first().map(|asked| names[asked.engine.as_str()]), rows.first().map(|row| row.0));
    assert_eq!(firsts, (Some(engine), Some(engine)));
}

#[tokio::test]
async fn a_campaign_begins_with_the_engine_of_which_the_most_is_expected() {
    let namespace = Namespace::create("expectations").await.unwrap();
    namespace.advertise_gpus(H100).await.unwrap();
    namespace.give_checkpoints(&[Checkpoint { name: AGENT.to_owned(), order: None, adapter: None }]).await.unwrap();
    let runs = (0..4).map(|n| json!({"input": format!("What is {n}?"), "calls": []}));
    namespace.give_lines("runs", "trace.jsonl", runs).await.unwrap();
    give_tables(&namespace).await;
    a_table_of_another_model_is_refused(&namespace).await;

    // The remedy of the message.
    let profile = namespace.campaign(&agent(OWN)).await.unwrap();
    has_frozen_the_table(&profile.spec.inputs);
    began_with(&profile, "bf16");
    let object: AgentDeployment = namespace.api().get(AGENT).await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap().status.unwrap();
    let choice = profile.status.unwrap().choice.unwrap();
    println!("{} at {}: {}", choice.configuration, choice.level, choice.why);
    assert_eq!(served.selected.unwrap().engine(), Some(&choice.engine));
    let run = namespace.ask(AGENT, "What is it?").await.unwrap();
    assert_eq!((run["status"].as_str(), run["answer"].as_str()), (Some("succeeded"), Some("42")), "{run}");
    namespace.delete().await.unwrap();
}
