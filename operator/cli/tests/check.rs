//! `kubectl slipway check`: what a person reads of files that no API server has seen.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, path::PathBuf};

use kubectl_slipway::{
    check::{File, Problem, check, text},
    output::{Format, document},
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_backends::config_json::{self, ConfigFigures};

fn file(path: &str) -> File {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    File { name: path.to_owned(), text: fs::read_to_string(root.join(path)).unwrap() }
}

fn typed(text: &str) -> File {
    File { name: "agent.yaml".to_owned(), text: text.to_owned() }
}

/// What is printed, and what the command ends with.
fn told(files: &[File]) -> (String, String) {
    told_of(files, None)
}

/// The same with a model whose shape is known.
fn told_of(files: &[File], model: Option<&ConfigFigures>) -> (String, String) {
    match check(files, model) {
        Ok(checked) => (text(&checked), checked.verdict(files).map_or_else(|e| e.to_string(), |()| "0".into())),
        Err(unfit) => (String::new(), unfit.to_string()),
    }
}

#[test]
fn the_demos_manifest_is_accepted_with_what_it_will_take() {
    let (text, end) = told(&[file("e2e/manifests/demo/agent.yaml")]);
    insta::assert_snapshot!("check_demo", text);
    assert_eq!(end, "0");
}

#[test]
fn an_engine_for_several_gpus_counts_them_for_every_pod() {
    let (text, end) = told(&[file("docs/examples/lab-react-fp8.yaml")]);
    insta::assert_snapshot!("check_lab", text);
    assert_eq!(end, "0");
}

#[test]
fn a_model_that_another_server_has_takes_pods_alone() {
    let (text, end) = told(&[file("docs/examples/hosted-model.yaml")]);
    let expected = "docs/examples/hosted-model.yaml: AgentDeployment support-agent: accepted\n  \
        serving: 2 pods without a GPU\n  pod hours: 48 a day to serve; pods of new revisions come on top\n";
    assert_eq!((text.as_str(), end.as_str()), (expected, "0"));
}

#[test]
fn a_refused_object_is_shown_with_every_reason_and_the_others_are_checked_too() {
    let files = [
        file("crds/tests/fixtures/good.yaml"),
        file("crds/tests/fixtures/bad-weight.yaml"),
        file("crds/tests/fixtures/bad-unknown-field.yaml"),
    ];
    let (text, end) = told(&files);
    insta::assert_snapshot!("check_refused", text);
    assert_eq!(end, "2 of 3 objects would be refused");
}

/// config.json of meta-llama/Llama-3.1-8B-Instruct, as far as it is read.
fn llama() -> ConfigFigures {
    let config = br#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}"#;
    config_json::read(config, None).unwrap()
}

/// The same of a model with 405 B parameters.
fn large() -> ConfigFigures {
    ConfigFigures {
        hidden_size: 16_384,
        layers: 126,
        heads: 128,
        key_value_heads: 8,
        head_dim: 128,
        intermediate_size: Some(53_248),
        ..llama()
    }
}

#[test]
fn the_memory_of_every_engine_is_estimated_where_the_model_is_known() {
    let (text, end) = told_of(&[file("docs/examples/no-build-vllm.yaml")], Some(&llama()));
    insta::assert_snapshot!("check_memory", text);
    assert_eq!(end, "0");
}

/// What it leaves out is what the operator would take.
#[test]
fn the_smallest_manifest_is_accepted_and_its_memory_planned_by_what_is_taken() {
    let (text, end) = told_of(&[file("docs/examples/smallest.yaml")], Some(&llama()));
    insta::assert_snapshot!("check_smallest", text);
    assert_eq!(end, "0");
}

#[test]
fn every_backend_plans_by_its_own_share_of_memory() {
    let shown = ["lab-react-fp8", "no-build-sglang", "no-build-tensorrt-llm-pytorch", "no-build-vllm-open-ai"]
        .map(|name| told_of(&[file(&format!("docs/examples/{name}.yaml"))], Some(&llama())).0);
    insta::assert_snapshot!("check_memory_of_backends", shown.join("\n"));
}

#[test]
fn what_the_operator_would_refuse_of_a_model_is_refused_before() {
    let (text, end) = told_of(&[file("docs/examples/no-build-vllm.yaml")], Some(&large()));
    insta::assert_snapshot!("check_memory_refused", text);
    assert_eq!(end, "1 of 1 objects would be refused");
}

/// A large model fits into one of two GPU models; both tables are shown, and the other is named.
#[test]
fn the_memory_of_engines_is_planned_on_each_of_several_gpu_models() {
    let file = on_two_products(["NVIDIA-H200", "NVIDIA-L4"], ", precision: [BF16], maxBatchSize: [16, 64]");
    let (text, end) = told_of(&[file], Some(&ConfigFigures { layers: 64, ..llama() }));
    insta::assert_snapshot!("check_memory_of_gpu_models", text);
    assert_eq!(end, "1 of 1 objects would be refused");
}

#[test]
fn engines_of_the_users_own_builder_have_no_estimate() {
    let files = [file("e2e/manifests/demo/agent.yaml")];
    assert_eq!(told_of(&files, Some(&llama())), told(&files));
}

#[test]
fn an_answer_is_a_document_with_every_reason_and_every_figure() {
    let files = [file("docs/examples/no-build-vllm.yaml"), file("crds/tests/fixtures/bad-weight.yaml")];
    let checked = check(&files, Some(&llama())).unwrap();
    insta::assert_snapshot!("document", document(Format::Json, &checked).unwrap());
}

const FOREIGN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: runs}\n";

#[rstest]
#[case::foreign(
    FOREIGN,
    "no object of slipway.dev in agent.yaml: name a file with an AgentDeployment, Engine or Profile"
)]
#[case::empty(
    "---\n",
    "no object of slipway.dev in agent.yaml: name a file with an AgentDeployment, Engine or Profile"
)]
#[case::broken("spec: [", "agent.yaml cannot be read as YAML")]
fn a_file_with_nothing_to_check_says_so(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(told(&[typed(text)]), (String::new(), expected.to_owned()));
}

#[test]
fn documents_and_lists_are_checked_object_by_object() {
    let engine = "{apiVersion: slipway.dev/v1alpha1, kind: Engine, metadata: {name: engine-1}, spec: {}}";
    let text = format!("{FOREIGN}---\nkind: List\napiVersion: v1\nitems: [{engine}, {engine}]\n");
    let (text, end) = told(&[typed(&text)]);
    let of_each =
        "agent.yaml: Engine engine-1: refused\n  spec.build: Required value\n  spec.placement: Required value\n";
    let unchecked = "  some validation rules were not checked because the object was invalid; correct the existing \
                     errors to complete validation\n";
    let of_each = format!("{of_each}{unchecked}");
    assert_eq!((text, end.as_str()), (of_each.repeat(2), "2 of 2 objects would be refused"));
}

/// The operator takes a driver that measures what users wait for. Where the spec names another one, a note says what
/// that leaves out.
#[rstest]
#[case::left_out("", "")]
#[case::named(
    "driver: ModelAnalyzer, ",
    "  note: no candidate is compared by first-token (TimeToFirstToken): driver ModelAnalyzer does not measure it, and \
     only the confirm run judges it. To compare candidates by it, set spec.profiling.driver to AgentRun\n"
)]
fn an_objective_that_no_candidate_will_be_compared_by_is_named_with_the_remedy(
    #[case] driver: &str,
    #[case] expected: &str,
) {
    let manifest = format!(
        "apiVersion: slipway.dev/v1alpha1
kind: AgentDeployment
metadata: {{name: support}}
spec:
  model: {{uri: http://models.example/react/}}
  engine: {{backend: Custom, custom: {{builderImage: example.com/builder:1, tritonImage: example.com/triton:1}}}}
  slo:
    objectives:
    - {{name: reply, metric: RequestLatency, percentile: p95, max: 500ms}}
    - {{name: first-token, metric: TimeToFirstToken, percentile: p95, max: 1s}}
  profiling:
    {{{driver}workloads: [{{name: chat, prompts: {{configMap: {{name: chat, key: prompts.jsonl}}}}}},
      {{name: runs, synthetic: {{inputTokens: 800, outputTokens: 150}}}}]}}
  agent: {{systemPrompt: Answer.}}
"
    );
    let (text, end) = told(&[typed(&manifest)]);
    let notes: String = text.lines().filter(|line| line.contains("note:")).map(|line| format!("{line}\n")).collect();
    assert_eq!((notes.as_str(), end.as_str()), (expected, "0"), "{text}");
}

/// The notes of an accepted manifest.
fn noted(file: File) -> Vec<String> {
    let (text, end) = told(&[file]);
    assert_eq!(end, "0", "{text}");
    text.lines().filter_map(|line| line.trim().strip_prefix("note: ")).map(str::to_owned).collect()
}

#[rstest]
#[case::labelled("NVIDIA-H200", "", &[])]
#[case::short("h200", "", &[
    "spec.hardware.nodeSelector[nvidia.com/gpu.product] is h200, which only nodes that are labelled by hand have: GPU \
     feature discovery writes NVIDIA-H200",
])]
#[case::long_answers("NVIDIA-H200", ", maxOutputTokens: 2048", &[
    "spec.agent.maxOutputTokens is 2048, and prompt and answer together have 2048 tokens: no answer will be that long. \
     Lower it, or raise maxSeqLen",
])]
fn what_does_less_than_it_seems_to_is_noted(#[case] product: &str, #[case] agent: &str, #[case] expected: &[&str]) {
    let engine = format!(
        "  engine: {{backend: VLLM, vllm: {{server: OpenAI, maxSeqLen: 2048}}}}
  hardware: {{nodeSelector: {{nvidia.com/gpu.product: {product}}}}}
  serving: {{tritonResources: {{limits: {{nvidia.com/gpu: '1'}}}}}}"
    );
    let agent = format!("{{systemPrompt: Answer.{agent}}}");
    assert_eq!(noted(agent_of("{uri: 'hf://Qwen/Qwen3-8B'}", &engine, &agent)), expected);
}

/// A rule about the whole object has no path before its words.
#[test]
fn a_name_that_is_too_long_is_told_by_itself() {
    let manifest = agent_of("{uri: http://models.example/react/}", CUSTOM, "{systemPrompt: Answer.}");
    let text = manifest.text.replace("name: support}", &format!("name: {}}}", "a".repeat(41)));
    let (text, end) = told(&[File { text, ..manifest }]);
    let expected = "Invalid value: \"object\": metadata.name must have at most 40 characters, so that the names of its \
                    objects fit";
    assert_eq!((text.lines().nth(1).map(str::trim), end.as_str()), (Some(expected), "1 of 1 objects would be refused"));
}

#[test]
fn a_refusal_is_a_document_with_the_path_of_its_field() {
    let agent = "{systemPrompt: Answer., runTimeout: 2h}";
    let checked = check(&[agent_of("{uri: http://models.example/react/}", CUSTOM, agent)], None).unwrap();
    let refused: Vec<_> = checked.objects.into_iter().flat_map(|answer| answer.refusals).collect();
    let message = "is 2h; must be between 1ms and 1h".to_owned();
    assert_eq!(refused, [Problem { field: Some("spec.agent.runTimeout".to_owned()), message }]);
}

/// An agent whose spec is accepted by the API server, with these parts.
fn agent_of(model: &str, engine: &str, agent: &str) -> File {
    typed(&format!(
        "apiVersion: slipway.dev/v1alpha1
kind: AgentDeployment
metadata: {{name: support}}
spec:
  model: {model}
{engine}
  slo: {{objectives: [{{name: reply, metric: RequestLatency, percentile: p95, max: 500ms}}]}}
  agent: {agent}
"
    ))
}

const CUSTOM: &str =
    "  engine: {backend: Custom, custom: {builderImage: example.com/builder:1, tritonImage: example.com/triton:1}}";

/// What is refused of a manifest, line by line.
fn refused(file: File) -> Vec<String> {
    let (text, end) = told(&[file]);
    assert_eq!(end, "1 of 1 objects would be refused", "{text}");
    text.lines().skip(1).filter(|line| line.contains("refuse")).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn what_no_agent_runtime_would_take_is_said_all_at_once() {
    let agent = r#"
    systemPrompt: Answer.
    tools:
    - {name: tree, type: HTTP, http: {url: 'http://169.254.169.254/tree'}, inputSchema: {type: object,
        properties: {a: {$ref: '#/$defs/node'}}, $defs: {node: {type: object, properties: {b: {$ref: '#/$defs/node'}}}}}}
    - {name: look_up, type: HTTP, http: {url: 'http://{host}/x', arguments: [host]}}"#;
    let model = "{uri: http://models.example/react/}";
    let refused = refused(agent_of(model, CUSTOM, agent));
    insta::assert_snapshot!("check_agent_refused", refused.join("\n").replace("; ", ";\n  "));
}

#[rstest]
#[case::path("https://llm.example/v1/chat/completions", "")]
#[case::port("https://llm.example:99999", "")]
#[case::loopback("http://127.0.0.1:8000", "")]
#[case::key_in_the_clear("http://llm.example", ", headersFrom: {name: key}")]
fn an_upstream_that_no_pod_could_ask_is_refused(#[case] url: &str, #[case] key: &str) {
    let model = format!("{{upstream: {{url: '{url}', model: qwen3{key}}}}}");
    let (text, end) = told(&[agent_of(&model, "", "{systemPrompt: Answer.}")]);
    assert_eq!(end, "1 of 1 objects would be refused", "{text}");
    let case = url.split("//").nth(1).unwrap_or_default().replace(['/', ':', '.'], "_");
    insta::assert_snapshot!(format!("check_upstream_{case}"), text);
}

/// What needs no model is said without one.
#[rstest]
#[case::version(
    "version: 0.1.0, server: OpenAI",
    "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu: '1'",
    "spec.engine.vllm.version: "
)]
#[case::product(
    "server: OpenAI",
    "H100",
    "nvidia.com/gpu: '1'",
    "spec.hardware.nodeSelector[nvidia.com/gpu.product]: \"H100\" "
)]
#[case::no_gpu(
    "server: OpenAI",
    "NVIDIA-H100-80GB-HBM3",
    "cpu: '8'",
    "spec.serving.tritonResources.limits: 1 GPUs are needed: set nvidia.com/gpu to 1 or more"
)]
fn what_rests_on_no_model_is_refused_without_one(
    #[case] block: &str,
    #[case] product: &str,
    #[case] limit: &str,
    #[case] expected: &str,
) {
    let engine = format!(
        "  engine: {{backend: VLLM, vllm: {{{block}}}}}
  hardware: {{nodeSelector: {{nvidia.com/gpu.product: {product}}}}}
  serving: {{tritonResources: {{limits: {{{limit}}}}}}}"
    );
    let refused = refused(agent_of("{uri: 'hf://Qwen/Qwen3-8B'}", &engine, "{systemPrompt: Answer.}"));
    let expected = format!("the operator would refuse it: {expected}");
    assert!(refused.len() == 1 && refused[0].starts_with(&expected), "{refused:?}");
}

/// A manifest that names two GPU models.
fn on_two_products(products: [&str; 2], search: &str) -> File {
    let engine = format!(
        "  engine: {{backend: VLLM, vllm: {{version: 0.11.0, server: OpenAI, maxSeqLen: 2048}}}}
  search: {{gpuProducts: [{}]{search}}}
  profiling: {{workloads: [{{name: usual, synthetic: {{inputTokens: 800, outputTokens: 150}}}}]}}
  serving: {{tritonResources: {{limits: {{nvidia.com/gpu: '1'}}}}}}",
        products.join(", ")
    );
    agent_of("{uri: 'hf://Qwen/Qwen3-8B'}", &engine, "{systemPrompt: Answer.}")
}

#[test]
fn an_unknown_one_of_several_gpu_models_is_refused_by_its_name() {
    let refused = refused(on_two_products(["NVIDIA-L40S", "H100"], ""));
    let expected = "the operator would refuse it: spec.search.gpuProducts: \"H100\" is not a label of GPU nodes: write \
                    NVIDIA-H100-80GB-HBM3, as GPU feature discovery labels them, or remove it";
    assert_eq!(refused, [expected]);
}

#[test]
fn engines_of_all_gpu_models_count_towards_the_limit() {
    let search = ", maxBatchSize: [8, 16, 32, 64], maxNumTokens: [2048, 4096, 8192]";
    let refused = refused(on_two_products(["NVIDIA-L40S", "NVIDIA-H200"], search));
    assert_eq!(
        refused,
        ["the operator would refuse it: spec.search: 24 engines exceed the limit of 16: name fewer values"]
    );
}

#[test]
fn a_short_name_among_several_gpu_models_is_noted() {
    let noted = noted(on_two_products(["h200", "NVIDIA-L40S"], ""));
    assert_eq!(
        noted,
        [
            "spec.search.gpuProducts is h200, which only nodes that are labelled by hand have: GPU feature discovery writes \
          NVIDIA-H200"
        ]
    );
}

#[rstest]
#[case("https://models.example/react", "use a folder with a manifest.json")]
#[case("hf://Qwen/Qwen3/8B", "use hf://organization/name@revision")]
fn a_model_that_no_job_could_read_is_refused(#[case] uri: &str, #[case] remedy: &str) {
    let refused = refused(agent_of(&format!("{{uri: '{uri}'}}"), CUSTOM, "{systemPrompt: Answer.}"));
    let begin = format!("the operator would refuse it: spec.model.uri: the model URI {uri:?} is malformed: {remedy}");
    assert!(refused.len() == 1 && refused[0].starts_with(&begin), "{refused:?}");
}

/// YAML makes a number of what has no quotes, and the API server's words do not say what to do.
#[rstest]
#[case::unquoted("0.7", "must be of type string: \"number\": put it in quotes")]
#[case::beyond("'2.5'", "write a number from 0 to 2 with at most four places, such as 0.7")]
#[case::negative("'-1'", "write a number from 0 to 2 with at most four places, such as 0.7")]
fn a_temperature_is_refused_with_what_to_write(#[case] temperature: &str, #[case] remedy: &str) {
    let agent = format!("{{systemPrompt: Answer., sampling: {{temperature: {temperature}}}}}");
    let (text, end) = told(&[agent_of("{uri: http://models.example/react/}", CUSTOM, &agent)]);
    assert!(text.lines().any(|line| line.contains("temperature") && line.ends_with(remedy)), "{text}");
    assert_eq!(end, "1 of 1 objects would be refused");
}

#[test]
fn two_tools_of_one_name_are_refused_with_the_remedy() {
    let agent = "{systemPrompt: Answer., tools: [{name: sum, type: Calculator}, {name: sum, type: Calculator}]}";
    let (text, _) = told(&[agent_of("{uri: http://models.example/react/}", CUSTOM, agent)]);
    let line = "spec.agent.tools[1]: Duplicate value: {\"name\":\"sum\"}: give each entry its own";
    assert_eq!(text.lines().nth(1).map(str::trim), Some(line), "{text}");
}

#[test]
fn the_likeliest_token_may_be_asked_for() {
    let agent = "{systemPrompt: Answer., sampling: {temperature: '0', topP: '1'}}";
    let (text, end) = told(&[agent_of("{uri: http://models.example/react/}", CUSTOM, agent)]);
    assert_eq!(end, "0", "{text}");
}
