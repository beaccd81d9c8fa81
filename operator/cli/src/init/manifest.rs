//! A manifest with comments. Pure.
//!
//! A comment for people has one space behind its sign. Other comments are YAML: blocks that many agents need.

use serde_json::Value;
use slipway_crds::{
    labels::{GPU_PRODUCT, GPU_RESOURCE},
    v1alpha1::agent_deployment::{EngineServer, Precision, backend_and_server},
};

use super::{
    backend::InitBackend,
    objective::Objective,
    options::{Engine, Key, Options},
};

/// Writes the manifest of an AgentDeployment.
#[must_use]
pub fn manifest(options: &Options) -> String {
    let parts = [
        head(options),
        model(options),
        engine(options),
        search(options),
        hardware(options),
        objectives(options),
        profiling(options),
        agent(),
        serving(options),
        rollout(options),
    ];
    let lines = parts.into_iter().flatten();
    lines.map(|line| format!("{line}\n")).collect()
}

fn lines(text: &[&str]) -> Vec<String> {
    text.iter().map(|line| (*line).to_owned()).collect()
}

/// A text as YAML reads it back, also within braces.
fn scalar(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_./@:+".contains(c);
    let is_text = serde_norway::from_str::<Value>(text).is_ok_and(|read| read == text);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_safe);
    if is_plain && is_text { text.to_owned() } else { Value::from(text).to_string() }
}

fn head(options: &Options) -> Vec<String> {
    let Options { name, namespace, .. } = options;
    let mut all = lines(&[
        "# `kubectl slipway check -f FILE` says whether it is accepted, and what it will take.",
        "# `kubectl explain agentdeployment.spec` describes every field.",
        "apiVersion: slipway.dev/v1alpha1",
        "kind: AgentDeployment",
        "metadata:",
    ]);
    all.push(format!("  name: {}", scalar(name)));
    all.extend(namespace.iter().map(|namespace| format!("  namespace: {}", scalar(namespace))));
    all.push("spec:".to_owned());
    all
}

fn model(options: &Options) -> Vec<String> {
    let mut all = lines(&[
        "  model:",
        "    # Resolved once: status.model shows its commit. A revision behind @ pins another one.",
    ]);
    all.push(format!("    uri: {}", scalar(&options.model)));
    match &options.secret {
        Some(secret) => all.push(format!("    secretRef: {{name: {}}}", scalar(secret))),
        None => all.extend(lines(&[
            "    # For a model with restricted access: a Secret whose key `token` grants it.",
            "    #secretRef: {name: hugging-face}",
        ])),
    }
    all
}

fn engine(options: &Options) -> Vec<String> {
    match &options.engine {
        Engine::Custom { builder_image, triton_image } => {
            let mut all = of_backend(InitBackend::Custom);
            all.push(format!("      builderImage: {}", scalar(builder_image)));
            all.push(format!("      tritonImage: {}", scalar(triton_image)));
            all
        }
        Engine::Known { backend, version, max_seq_len, calibration } => {
            // Where an engine has the field, Triton is its default.
            let is_open_ai = backend.no_build().is_some_and(|of| backend_and_server(of).1 == EngineServer::OpenAI);
            let mut named = Vec::new();
            named.extend(is_open_ai.then(|| "server: OpenAI".to_owned()));
            named.extend(version.iter().map(|version| format!("version: {}", scalar(version))));
            named.extend(max_seq_len.iter().map(|tokens| format!("maxSeqLen: {tokens}")));
            named.extend(calibration.iter().map(|key| format!("calibration: {{configMap: {}}}", reference(key))));
            let mut proposed = Vec::new();
            if version.is_none() {
                proposed.push("# Without it, status.defaults shows the version that was taken. It stays.".to_owned());
                proposed.push(format!("version: {}", scalar(&backend.version())));
            }
            if max_seq_len.is_none() {
                proposed.push("# Prompt and answer together. Without it, they have the model's positions.".to_owned());
                proposed.push("maxSeqLen: 8192".to_owned());
            }
            block(*backend, &named, &proposed)
        }
    }
}

/// The block of a backend: what is named, then what is proposed in comments. With nothing named it is a comment itself.
fn block(backend: InitBackend, named: &[String], proposed: &[String]) -> Vec<String> {
    let mut all = of_backend(backend);
    if named.is_empty() {
        all.pop();
        all.extend(proposed.first().map(|_| format!("    #{}:", backend.block())));
        all.extend(proposed.iter().map(|line| format!("    #  {line}")));
        return all;
    }
    all.extend(named.iter().map(|line| format!("      {line}")));
    let sign = |line: &str| if line.starts_with('#') { "" } else { "#" };
    all.extend(proposed.iter().map(|line| format!("      {}{line}", sign(line))));
    all
}

fn of_backend(backend: InitBackend) -> Vec<String> {
    vec![
        "  engine:".to_owned(),
        format!("    # {}", backend.words()),
        format!("    backend: {}", backend.backend().as_str()),
        format!("    {}:", backend.block()),
    ]
}

fn reference(Key { config_map, key }: &Key) -> String {
    format!("{{name: {}, key: {}}}", scalar(config_map), scalar(key))
}

fn search(options: &Options) -> Vec<String> {
    let names: Vec<&str> = options.precisions.iter().copied().map(Precision::as_str).collect();
    let mut all = lines(&["  search:"]);
    if names.is_empty() {
        all.push("    # Every value is a candidate. Without it, the checkpoint's own is the only one.".to_owned());
        all.push(format!("    #precision: [{}]", options.example.as_str()));
    } else {
        all.push("    # Every value is a candidate. The first is the reference of slo.quality.".to_owned());
        all.push(format!("    precision: [{}]", names.join(", ")));
    }
    let gpus = options.gpu.as_ref().map_or(1, |(_, gpus)| *gpus);
    if gpus > 1 && matches!(options.engine, Engine::Known { .. }) {
        all.push("    # GPUs that each layer is split over.".to_owned());
        all.push(format!("    tensorParallel: [{gpus}]"));
    }
    all.push("    # Runs in flight on a replica. Beyond the chosen number, clients get 429.".to_owned());
    let levels = if options.trace.is_some() { "[1, 4, 16]" } else { "[8]" };
    all.push(format!("    concurrency: {levels}"));
    all
}

fn hardware(options: &Options) -> Vec<String> {
    let Some((label, _)) = &options.gpu else { return Vec::new() };
    let mut all =
        lines(&["  hardware:", "    # `kubectl get nodes -L nvidia.com/gpu.product` shows what your nodes have."]);
    all.push(format!("    nodeSelector: {{{GPU_PRODUCT}: {}}}", scalar(label)));
    all.push(format!("    tolerations: [{{key: {GPU_RESOURCE}, operator: Exists}}]"));
    all
}

fn objectives(options: &Options) -> Vec<String> {
    let mut all = vec!["  # Objectives choose the configuration, judge changes, and become alerts.".to_owned()];
    if options.objectives.is_empty() {
        all.extend(lines(&[
            "  #slo:",
            "  #  objectives:",
            "  #  - {name: run-p95, metric: AgentRunLatency, percentile: p95, max: 10s}",
        ]));
        return all;
    }
    all.push("  slo:".to_owned());
    let mut latencies = Vec::new();
    let mut others = Vec::new();
    for objective in &options.objectives {
        match objective {
            Objective::Latency { metric, percentile, max } => {
                let (name, max) = (objective_name(metric.as_str(), percentile.as_str()), String::from(max.clone()));
                latencies.push(format!(
                    "    - {{name: {name}, metric: {metric}, percentile: {percentile}, max: {}}}",
                    scalar(&max)
                ));
            }
            Objective::ErrorRate(max) => others.push(format!("    errorRate: {{max: {max}}}")),
            Objective::Throughput(min) => {
                others.push("    # Over all replicas; only measurements judge it.".to_owned());
                others.push(format!("    throughput: {{min: {}, unit: Runs}}", Value::from(String::from(min.clone()))));
            }
        }
    }
    if !latencies.is_empty() {
        all.push("    objectives:".to_owned());
    }
    all.extend(latencies);
    all.extend(others);
    all
}

/// `run-p95`, `time-to-first-token-p95`.
fn objective_name(metric: &str, percentile: &str) -> String {
    let mut name = String::new();
    let what = if metric == "AgentRunLatency" { "Run" } else { metric };
    for sign in what.chars() {
        if sign.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(sign.to_ascii_lowercase());
    }
    format!("{name}-{}", percentile.replace('.', "-"))
}

fn profiling(options: &Options) -> Vec<String> {
    let workload = |key: &str| format!("- {{name: runs, agentTrace: {{configMap: {key}}}}}");
    match &options.trace {
        Some(key) => {
            let mut all = lines(&[
                "  # Replays recorded runs with every candidate (format: docs/profiling.md).",
                "  profiling:",
                "    workloads:",
            ]);
            all.push(format!("    {}", workload(&reference(key))));
            all.push("    budget: {gpuHours: \"4\"}".to_owned());
            all
        }
        None => {
            let mut all = lines(&[
                "  # Nothing is measured without it: the first engine serves. Give more values above, and record runs:",
                "  # docs/profiling.md has the format.",
                "  #profiling:",
                "  #  workloads:",
            ]);
            all.push(format!("  #  {}", workload("{name: agent-traffic, key: trace.jsonl}")));
            all.push("  #  budget: {gpuHours: \"4\"}".to_owned());
            all
        }
    }
}

fn agent() -> Vec<String> {
    lines(&[
        "  agent:",
        "    systemPrompt: Answer briefly, and use your tools for facts.",
        "    # Tokens of each answer of the model, with its thoughts: 256 without it. Models that think first need room.",
        "    #maxOutputTokens: 4096",
        "    # Tools that the model may call.",
        "    #tools:",
        "    #- name: search",
        "    #  type: HTTP",
        "    #  description: Searches the catalogue.",
        "    #  http: {url: \"http://catalogue.tools.svc/{query}\", arguments: [query], idempotent: true}",
    ])
}

fn serving(options: &Options) -> Vec<String> {
    let mut all = lines(&["  serving:"]);
    all.push(format!("    replicas: {}", options.replicas));
    if let Some((_, gpus)) = &options.gpu {
        all.push("    tritonResources:".to_owned());
        all.push(format!("      limits: {{{GPU_RESOURCE}: \"{gpus}\"}}"));
    }
    all
}

fn rollout(options: &Options) -> Vec<String> {
    if options.replicas < 2 {
        return lines(&[
            "  # A change takes over when its pods are ready. With a gateway, traffic moves step by step:",
            "  # docs/rollout.md says how.",
        ]);
    }
    lines(&[
        "  # A change takes over when its pods are ready. To move traffic step by step, judged by the objectives:",
        "  #rollout:",
        "  #  traffic: {type: ReplicaRatio}",
        "  #  steps: [{weight: 20}, {weight: 50}]",
    ])
}
