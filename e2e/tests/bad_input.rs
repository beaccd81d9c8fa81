//! What a user reads when something that the API server cannot check is wrong: what, in which field, and what to do.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use slipway_e2e::{
    agents::{facts_agent, namespace_with_servers},
    cluster,
    namespace::Namespace,
};

/// Longest time until a message stands there: three attempts with their back-off, beside a campaign and builds on two
/// cores.
const LIMIT: Duration = Duration::from_secs(300);

/// One mistake, and the texts that its condition must have. The test waits for the first of them.
struct Mistake {
    name: &'static str,
    make: fn(&mut Value),
    /// Reconciling where the right input fixes it without further action, Stalled where a person must act.
    condition: &'static str,
    words: &'static [&'static str],
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "missing-model",
        make: |spec| spec["model"]["uri"] = json!("http://models/no-such-model/"),
        condition: "Stalled",
        words: &["http://models/no-such-model/manifest.json answered 404", "check the model URI"],
    },
    Mistake {
        name: "unreachable-model",
        make: |spec| spec["model"]["uri"] = json!("http://no-such-host.invalid/react/"),
        condition: "Stalled",
        words: &["no answer from http://no-such-host.invalid/react/manifest.json", "(Infrastructure)"],
    },
    Mistake {
        name: "wrong-digest",
        make: |spec| spec["model"]["uri"] = json!("http://mirror/wrong-digest/"),
        condition: "Stalled",
        words: &[
            "config.json of http://mirror/wrong-digest/ has digest 44136fa355b3",
            "the source is damaged or has changed",
        ],
    },
    Mistake {
        name: "missing-secret",
        make: |spec| spec["model"]["secretRef"] = json!({"name": "no-such-secret"}),
        condition: "Reconciling",
        words: &["create Secret no-such-secret in this namespace", "Job resolve-"],
    },
    Mistake {
        name: "failing-builder",
        make: |spec| spec["engine"]["custom"]["options"] = json!({"weightNoisePercent": "lots"}),
        condition: "Stalled",
        words: &[
            "builder exited with code 1: error: options.weightNoisePercent: expected an integer from 0 to 1000, got lots",
        ],
    },
    Mistake {
        name: "half-a-repository",
        make: |spec| spec["engine"]["custom"]["builderImage"] = json!("slipway.dev/slipway-e2e:dev"),
        condition: "Stalled",
        words: &["version 1 of model \"agent\" has no model.py: the builder wrote half a repository"],
    },
    Mistake {
        name: "missing-builder-image",
        make: |spec| spec["engine"]["custom"]["builderImage"] = json!("slipway.dev/no-such-builder:1"),
        condition: "Reconciling",
        words: &["slipway.dev/no-such-builder:1 of container builder-image"],
    },
    Mistake {
        name: "missing-triton-image",
        make: |spec| spec["engine"]["custom"]["tritonImage"] = json!("slipway.dev/no-such-triton:1"),
        condition: "Reconciling",
        words: &["slipway.dev/no-such-triton:1 of container triton"],
    },
    Mistake {
        name: "triton-refuses",
        make: |spec| spec["search"]["parameters"] = json!([{"name": "max_batch", "values": ["none"]}]),
        condition: "Reconciling",
        words: &["parameter max_batch: expected an integer of at least 1, got 'none'", "triton exited with code 1"],
    },
    Mistake {
        name: "missing-headers",
        make: |spec| spec["agent"]["tools"][1]["http"]["headersFrom"] = json!({"name": "no-such-headers"}),
        condition: "Reconciling",
        words: &["create Secret no-such-headers in this namespace", "revision"],
    },
    Mistake {
        name: "missing-workload",
        make: |spec| profile(spec, json!({"name": "no-such-workload", "key": "prompts.jsonl"})),
        condition: "Reconciling",
        words: &["spec.profiling.workloads: ConfigMap no-such-workload: it does not exist or has no key prompts.jsonl"],
    },
    Mistake {
        name: "bad-workload",
        make: |spec| profile(spec, json!({"name": "lines", "key": "bad.jsonl"})),
        condition: "Stalled",
        words: &[
            "spec.profiling.workloads: ConfigMap lines: line 2 is not a prompt (id, prompt, maxTokens, stopWords)",
        ],
    },
    Mistake {
        name: "missing-dataset",
        make: |spec| {
            let dataset = json!({"configMap": {"name": "no-such-dataset", "key": "samples.jsonl"}});
            spec["slo"]["quality"] = json!({"maxDrop": "2%", "dataset": dataset});
        },
        condition: "Reconciling",
        words: &["spec.slo.quality.dataset: ConfigMap no-such-dataset: it does not exist or has no key samples.jsonl"],
    },
    Mistake {
        name: "small-budget",
        make: |spec| {
            profile(spec, json!({"name": "lines", "key": "prompts.jsonl"}));
            spec["profiling"]["budget"] = json!({"gpuHours": "0.0005"});
        },
        condition: "Stalled",
        words: &["spec.profiling.budget.gpuHours 0.0005", "raise it"],
    },
    Mistake {
        name: "no-arm-loads",
        make: |spec| {
            profile(spec, json!({"name": "lines", "key": "prompts.jsonl"}));
            spec["search"]["parameters"] = json!([{"name": "max_batch", "values": ["none", "0"]}]);
        },
        condition: "Stalled",
        words: &["parameter max_batch: expected an integer of at least 1, got"],
    },
];

/// Lets prompts of a ConfigMap be measured, at one level.
fn profile(spec: &mut Value, config_map: Value) {
    spec["slo"] =
        json!({"objectives": [{"name": "reply", "metric": "RequestLatency", "percentile": "p50", "max": "5s"}]});
    spec["search"]["concurrency"] = json!([1]);
    spec["profiling"] = json!({"workloads": [{"name": "turns", "prompts": {"configMap": config_map}}]});
}

/// A mirror whose list of files does not fit the files, and a file of prompts with an invalid line.
async fn prepare(namespace: &Namespace) {
    let wrong = json!({"files": [{"path": "config.json", "size": 2, "sha256": "0".repeat(64)}]}).to_string();
    let prompt = r#"{"id":"1","prompt":"Question: {{number}}\n","maxTokens":8,"stopWords":["\n\n"]}"#;
    for (name, data) in [
        ("wrong-digest", json!({"manifest.json": wrong, "config.json": "{}"})),
        ("lines", json!({"prompts.jsonl": prompt, "bad.jsonl": format!("{prompt}\n{{\"id\":\"2\"}}\n")})),
    ] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        namespace.create_object::<ConfigMap>(&serde_json::from_value(object).unwrap()).await.unwrap();
    }
    namespace.add_mirror("wrong-digest").await.unwrap();
}

fn agent(mistake: &Mistake) -> Value {
    let mut agent = facts_agent().unwrap();
    agent["metadata"]["name"] = json!(mistake.name);
    (mistake.make)(&mut agent["spec"]);
    agent
}

/// The message, or what is wrong with it.
async fn told(namespace: &Namespace, mistake: &Mistake) -> Result<String, String> {
    let Mistake { name, condition, words, .. } = mistake;
    let message = namespace.wait_for_message(name, condition, words[0], LIMIT).await.map_err(|e| e.to_string())?;
    match words.iter().find(|words| !message.contains(**words)) {
        None => Ok(message),
        Some(missing) => Err(format!("{name}: {missing:?} is not in {message:?}")),
    }
}

#[tokio::test]
async fn each_mistake_is_told_with_its_field_and_its_remedy() {
    let namespace = namespace_with_servers("bad-input").await.unwrap();
    prepare(&namespace).await;
    for mistake in MISTAKES {
        namespace.apply(&agent(mistake)).await.unwrap();
    }
    let told: Vec<_> = stream::iter(MISTAKES)
        .map(async |mistake| (mistake.name, told(&namespace, mistake).await))
        .buffered(MISTAKES.len())
        .collect()
        .await;
    for (name, outcome) in &told {
        println!("{name}: {}", outcome.as_ref().unwrap_or_else(|wrong| wrong));
    }
    let wrong: Vec<_> = told.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    namespace.delete().await.unwrap();
}

/// Path of the schema of a temperature in the definition.
const TEMPERATURE: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/agent/properties/sampling\
                           /properties/temperature";

/// What kubectl says; the test ends where it fails.
fn kubectl(arguments: &[&str]) -> String {
    let output = cluster::kubectl(arguments).unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sets the schema of a temperature. Gives the one before.
fn exchange_schema(schema: &Value) -> Value {
    let definition = ["crd", "agentdeployments.slipway.dev"];
    let before: Value = serde_json::from_str(&kubectl(&[&["get", "-o", "json"], &definition[..]].concat())).unwrap();
    let before = before.pointer(TEMPERATURE).unwrap().clone();
    let patch = json!([{"op": "replace", "path": TEMPERATURE, "value": schema}]).to_string();
    kubectl(&[&["patch", "--type=json", "-p", &patch], &definition[..]].concat());
    before
}

/// A definition of another release may keep what this operator cannot read.
#[tokio::test]
async fn an_object_that_the_operator_cannot_read_says_which_field_and_goes_on_once_it_can() {
    let namespace = namespace_with_servers("unreadable").await.unwrap();
    let mut agent = facts_agent().unwrap();
    let name = "agentdeployment/unreadable";
    agent["metadata"]["name"] = json!("unreadable");
    let ours = exchange_schema(&json!({"type": "string"}));
    agent["spec"]["agent"]["sampling"] = json!({"temperature": "hot"});
    let path = std::env::temp_dir().join(format!("{}.json", namespace.name()));
    std::fs::write(&path, agent.to_string()).unwrap();
    let applied = namespace.kubectl_apply(&path.display().to_string());
    exchange_schema(&ours);
    applied.unwrap();
    let of = |arguments: &[&str]| kubectl(&[&["--namespace", namespace.name()], arguments].concat());
    let stalled = "jsonpath={.status.conditions[?(@.type=='Stalled')].reason}";
    of(&["wait", name, "--timeout=60s", &format!("--for={stalled}=Unreadable")]);
    let message = of(&["get", name, "-o", "jsonpath={.status.conditions[?(@.type=='Stalled')].message}"]);
    let expected = r#"spec.agent.sampling.temperature: "hot" is not a temperature: write a number from 0 to 2"#;
    assert!(message.starts_with(expected), "{message}");
    namespace.wait_for_event("unreadable", "Unreadable", LIMIT).await.unwrap();

    // The model has no input for a temperature.
    of(&["patch", name, "--type=merge", "-p", r#"{"spec": {"agent": {"sampling": null}}}"#]);
    of(&["wait", name, "--timeout=300s", "--for=condition=Ready"]);
    std::fs::remove_file(&path).unwrap();
    namespace.delete().await.unwrap();
}
