//! The model's configuration is asked for before the pod is ready. A model that does not fit is named, and sampling is
//! passed on in the inputs that the model has. Against a stand-in that speaks Triton's protocol.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::Router;
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use slipway_agent_runtime::{
    api::{admission::Readiness, run_names::Seal},
    app::{App, Parts},
    backend::{
        Backend, Entry, Generation, Triton,
        inference::{
            DataType::{self, TypeBool, TypeFp32, TypeFp64, TypeInt32, TypeInt64, TypeString, TypeUint32, TypeUint64},
            InferTensorContents, ModelConfig, ModelInput, ModelOutput, ModelTransactionPolicy,
            model_infer_request::InferInputTensor,
        },
        tokens::Tokenizer,
    },
    clock::Clock,
};
use slipway_runtime_config::{RuntimeConfig, Sampling};
use tonic::Status;

use crate::{
    fixture::{START, or_hang, post},
    triton::{Behavior, StandIn, response, stand_in, start},
};

fn input(name: &str, data_type: DataType, optional: bool) -> ModelInput {
    ModelInput { name: name.into(), data_type: data_type.into(), optional }
}

fn required(name: &str, data_type: DataType) -> ModelInput {
    input(name, data_type, false)
}

fn optional(name: &str, data_type: DataType) -> ModelInput {
    input(name, data_type, true)
}

fn output(name: &str, data_type: DataType) -> ModelOutput {
    ModelOutput { name: name.into(), data_type: data_type.into() }
}

fn decoupled(max_batch_size: i32, input: Vec<ModelInput>, output: Vec<ModelOutput>) -> ModelConfig {
    let model_transaction_policy = Some(ModelTransactionPolicy { decoupled: true });
    ModelConfig { platform: String::new(), max_batch_size, input, output, model_transaction_policy }
}

/// A model of a builder of one's own.
fn custom() -> ModelConfig {
    let input = vec![
        required("text_input", TypeString),
        required("max_tokens", TypeInt32),
        optional("stop_words", TypeString),
        optional("stream", TypeBool),
    ];
    let output = vec![
        output("text_output", TypeString),
        output("finish_reason", TypeString),
        output("output_tokens", TypeInt32),
    ];
    decoupled(0, input, output)
}

/// The same with further inputs.
fn custom_with(inputs: &[(&str, DataType)]) -> ModelConfig {
    let mut model = custom();
    model.input.extend(inputs.iter().map(|(name, data_type)| optional(name, *data_type)));
    model
}

/// TensorRT-LLM's engine, as far as its inputs are about text and sampling.
fn engine(seed: &str) -> ModelConfig {
    let input = vec![
        optional("input_ids", TypeInt32),
        required("input_lengths", TypeInt32),
        required("request_output_len", TypeInt32),
        optional("end_id", TypeInt32),
        optional("stop_words_list", TypeInt32),
        optional("temperature", TypeFp32),
        optional("runtime_top_k", TypeInt32),
        optional("runtime_top_p", TypeFp32),
        optional("presence_penalty", TypeFp32),
        optional("frequency_penalty", TypeFp32),
        optional(seed, TypeUint64),
        optional("streaming", TypeBool),
    ];
    decoupled(8, input, vec![output("output_ids", TypeInt32), output("sequence_length", TypeInt32)])
}

/// TensorRT-LLM's ensemble. What it streams is what its engine streams, so it has no policy of its own.
fn ensemble() -> ModelConfig {
    let input = vec![
        required("text_input", TypeString),
        required("max_tokens", TypeInt32),
        optional("stop_words", TypeString),
        optional("stream", TypeBool),
        optional("temperature", TypeFp32),
        optional("top_k", TypeInt32),
        optional("top_p", TypeFp32),
        optional("seed", TypeUint64),
    ];
    ModelConfig {
        platform: "ensemble".into(),
        max_batch_size: 8,
        input,
        output: vec![output("text_output", TypeString)],
        model_transaction_policy: None,
    }
}

fn vllm() -> ModelConfig {
    let switches = ["stream", "exclude_input_in_output", "return_finish_reason", "return_num_output_tokens"];
    let input = [required("text_input", TypeString), optional("sampling_parameters", TypeString)];
    let input = input.into_iter().chain(switches.map(|name| optional(name, TypeBool))).collect();
    let output = vec![
        output("text_output", TypeString),
        output("finish_reason", TypeString),
        output("num_output_tokens", TypeUint32),
    ];
    decoupled(0, input, output)
}

fn llm_api() -> ModelConfig {
    let input = vec![
        required("text_input", TypeString),
        optional("streaming", TypeBool),
        optional("sampling_param_temperature", TypeFp32),
        optional("sampling_param_top_k", TypeInt32),
        optional("sampling_param_top_p", TypeFp32),
        optional("sampling_param_frequency_penalty", TypeFp32),
        optional("sampling_param_presence_penalty", TypeFp32),
        optional("sampling_param_max_tokens", TypeInt32),
        optional("sampling_param_seed", TypeUint64),
        optional("sampling_param_exclude_input_from_output", TypeBool),
        optional("return_finish_reason", TypeBool),
    ];
    decoupled(0, input, vec![output("text_output", TypeString), output("finish_reason", TypeString)])
}

fn tokens() -> Entry {
    let demo: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/model/checkpoints/react-512");
    Entry::Tokens(Arc::new(Tokenizer::read(&demo).expect("the folder has a tokenizer")))
}

/// A server of this model.
fn serving(model: ModelConfig) -> StandIn {
    let server = stand_in(Behavior::Sends(vec![response("Answer: 5\n\n", 9, "stop")]));
    server.configuration.send_modify(|told| *told = Ok(model));
    server
}

async fn connected(server: &StandIn, entry: Entry) -> Triton {
    Triton::new(&start(server.clone()).await, "agent", entry).expect("the endpoint is a URI")
}

const ALL: [&str; 6] = ["temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "seed"];

#[rstest]
#[case::custom(Entry::Text, custom(), &[])]
#[case::custom_with_inputs(Entry::Text, custom_with(&[("temperature", TypeFp32), ("seed", TypeInt64)]), &["temperature", "seed"])]
#[case::custom_with_inputs_of_other_types(Entry::Text, custom_with(&[("temperature", TypeFp64), ("top_k", TypeFp32)]), &[])]
#[case::engine(tokens(), engine("seed"), &ALL)]
#[case::engine_of_an_earlier_release(tokens(), engine("random_seed"), &ALL)]
#[case::ensemble(Entry::Ensemble, ensemble(), &["temperature", "top_p", "top_k", "seed"])]
#[case::vllm(Entry::Vllm, vllm(), &ALL)]
#[case::llm_api(Entry::LlmApi, llm_api(), &ALL)]
#[tokio::test]
async fn a_model_that_fits_is_ready_and_its_inputs_say_what_sampling_it_takes(
    #[case] entry: Entry,
    #[case] model: ModelConfig,
    #[case] takes: &[&str],
) {
    let backend = connected(&serving(model), entry).await;
    or_hang(backend.ready()).await.expect("the model fits");
    assert_eq!(backend.sampling().names(), takes);
}

/// A model without the input or output of this name.
fn without(mut model: ModelConfig, name: &str) -> ModelConfig {
    let before = model.input.len() + model.output.len();
    model.input.retain(|input| input.name != name);
    model.output.retain(|output| output.name != name);
    assert_eq!(model.input.len() + model.output.len() + 1, before, "{name}");
    model
}

fn changed(mut model: ModelConfig, change: impl FnOnce(&mut ModelConfig)) -> ModelConfig {
    change(&mut model);
    model
}

#[rstest]
#[case::once(Entry::Text, changed(custom(), |model| model.model_transaction_policy = None),
    "it answers a request once and cannot stream: set decoupled: true in its model_transaction_policy")]
#[case::not_decoupled(tokens(),
    changed(engine("seed"), |model| model.model_transaction_policy = Some(ModelTransactionPolicy { decoupled: false })),
    "it answers a request once and cannot stream: set decoupled: true in its model_transaction_policy")]
#[case::batched(Entry::Text, changed(custom(), |model| model.max_batch_size = 8),
    "its max_batch_size is 8, and requests have no batch dimension: set it to 0")]
#[case::not_batched(Entry::Ensemble, changed(ensemble(), |model| model.max_batch_size = 0),
    "its max_batch_size is 0, and requests have a batch dimension: set it to 1 or more")]
#[case::no_input(
    Entry::Text,
    without(custom(), "stop_words"),
    "it has no input \"stop_words\": add it as TYPE_STRING, or use a version of its backend that has it"
)]
#[case::no_output(
    Entry::Vllm,
    without(vllm(), "num_output_tokens"),
    "it has no output \"num_output_tokens\": add it as TYPE_UINT32, or use a version of its backend that has it"
)]
#[case::ids_where_text_is_wanted(Entry::Ensemble, changed(ensemble(), |model| {
    model.input[0] = required("text_input", TypeInt32);
}), "its input \"text_input\" is TYPE_INT32: make it TYPE_STRING")]
#[case::output_type(tokens(), changed(engine("seed"), |model| model.output[0] = output("output_ids", TypeInt64)),
    "its output \"output_ids\" is TYPE_INT64: make it TYPE_INT32")]
#[case::another_required_input(Entry::Text, changed(custom(), |model| model.input.push(required("language", TypeString))),
    "its input \"language\" is required, and not every request has it: set optional: true")]
#[case::stop_words_required(Entry::Text, changed(custom(), |model| model.input[2] = required("stop_words", TypeString)),
    "its input \"stop_words\" is required, and not every request has it: set optional: true")]
#[case::several(
    Entry::LlmApi,
    without(without(llm_api(), "streaming"), "finish_reason"),
    "it has no input \"streaming\": add it as TYPE_BOOL, or use a version of its backend that has it; \
     it has no output \"finish_reason\": add it as TYPE_STRING, or use a version of its backend that has it"
)]
#[tokio::test]
async fn a_model_that_does_not_fit_is_named_with_what_is_to_be_done(
    #[case] entry: Entry,
    #[case] model: ModelConfig,
    #[case] problem: &str,
) {
    let server = serving(model);
    let backend = connected(&server, entry).await;
    let error = or_hang(backend.ready()).await.expect_err("the model does not fit");
    let message = format!("Triton's model \"agent\" does not fit: {problem}");
    assert_eq!((error.kind(), error.to_string(), error.is_unavailable()), ("misfit", message.clone(), true));
    // It is asked for again: another model may have been loaded.
    assert_eq!(or_hang(backend.ready()).await.expect_err("it is the same").to_string(), message);
    assert_eq!(server.seen.borrow().configurations, 2);
}

#[rstest]
#[case::shut(Status::unavailable("This protocol is restricted, expecting header 'no'"))]
#[case::unknown(Status::unimplemented("no such method"))]
#[tokio::test]
async fn a_server_that_does_not_tell_is_ready_and_takes_no_sampling(#[case] answer: Status) {
    let server = stand_in(Behavior::Sends(Vec::new()));
    server.configuration.send_modify(|told| *told = Err(answer));
    let backend = connected(&server, Entry::Text).await;
    for _ in 0..2 {
        or_hang(backend.ready()).await.expect("the model is ready");
    }
    assert_eq!((backend.sampling().names(), server.seen.borrow().configurations), (Vec::new(), 1));
}

#[tokio::test]
async fn a_failure_at_the_question_is_no_answer() {
    let server = serving(custom());
    server.configuration.send_modify(|told| *told = Err(Status::deadline_exceeded("too late")));
    let backend = connected(&server, Entry::Text).await;
    let error = or_hang(backend.ready()).await.expect_err("nothing is known of the model");
    assert_eq!(error.kind(), "unreachable");
    server.configuration.send_modify(|told| *told = Ok(custom()));
    or_hang(backend.ready()).await.expect("the model fits");
}

#[tokio::test]
async fn a_model_that_is_loaded_again_is_asked_again() {
    let server = serving(custom());
    let backend = connected(&server, Entry::Text).await;
    for _ in 0..2 {
        or_hang(backend.ready()).await.expect("the model fits");
    }
    assert_eq!((backend.sampling().names(), server.seen.borrow().configurations), (Vec::new(), 1));
    server.model_ready.send_modify(|told| *told = Ok(false));
    or_hang(backend.ready()).await.expect_err("no model is loaded");
    server.configuration.send_modify(|told| *told = Ok(custom_with(&[("seed", TypeUint64)])));
    server.model_ready.send_modify(|told| *told = Ok(true));
    or_hang(backend.ready()).await.expect("the model fits");
    assert_eq!((backend.sampling().names(), server.seen.borrow().configurations), (vec!["seed"], 2));
}

/// What the first request has beside the tensors of one without sampling, and what it lacks of these.
async fn beside(entry: Entry, model: ModelConfig, sampling: Sampling) -> (Vec<InferInputTensor>, Vec<String>) {
    let server = serving(model);
    let backend = connected(&server, entry.clone()).await;
    or_hang(backend.ready()).await.expect("the model fits");
    let generation = Generation { prompt: "2+2?".into(), max_tokens: 7, ..Generation::default() };
    let plain = entry.request("agent", generation.clone()).expect("the prompt has tokens").inputs;
    // The reader of another entry fails at the answer, which is not what is looked at.
    let _ = or_hang(backend.generate(Generation { sampling, ..generation }).next()).await;
    let sent = server.seen.borrow().requests[0].inputs.clone();
    let lacking = plain.iter().filter(|tensor| !sent.contains(tensor)).map(|tensor| tensor.name.clone()).collect();
    (sent.into_iter().filter(|tensor| !plain.contains(tensor)).collect(), lacking)
}

fn tensor(name: &str, datatype: &str, shape: &[i64], contents: InferTensorContents) -> InferInputTensor {
    InferInputTensor { name: name.into(), datatype: datatype.into(), shape: shape.into(), contents: Some(contents) }
}

fn float(name: &str, shape: &[i64], value: f32) -> InferInputTensor {
    tensor(name, "FP32", shape, InferTensorContents { fp32_contents: vec![value], ..Default::default() })
}

fn integer(name: &str, shape: &[i64], value: i32) -> InferInputTensor {
    tensor(name, "INT32", shape, InferTensorContents { int_contents: vec![value], ..Default::default() })
}

fn unsigned_long(name: &str, shape: &[i64], value: u64) -> InferInputTensor {
    tensor(name, "UINT64", shape, InferTensorContents { uint64_contents: vec![value], ..Default::default() })
}

fn everything() -> Sampling {
    Sampling {
        temperature_thousandths: Some(700),
        top_p_thousandths: Some(900),
        top_k: Some(20),
        presence_penalty_thousandths: Some(-500),
        frequency_penalty_thousandths: Some(250),
        seed: Some(u32::MAX),
    }
}

#[rstest]
#[case::engine(tokens(), engine("random_seed"), vec![
    float("temperature", &[1, 1], 0.7),
    float("runtime_top_p", &[1, 1], 0.9),
    integer("runtime_top_k", &[1, 1], 20),
    float("presence_penalty", &[1, 1], -0.5),
    float("frequency_penalty", &[1, 1], 0.25),
    unsigned_long("random_seed", &[1, 1], u32::MAX.into()),
], &[])]
#[case::ensemble(Entry::Ensemble, ensemble(), vec![
    float("temperature", &[1, 1], 0.7),
    float("top_p", &[1, 1], 0.9),
    integer("top_k", &[1, 1], 20),
    unsigned_long("seed", &[1, 1], u32::MAX.into()),
], &[])]
// The likeliest token is no longer asked for.
#[case::llm_api(Entry::LlmApi, llm_api(), vec![
    float("sampling_param_temperature", &[1], 0.7),
    float("sampling_param_top_p", &[1], 0.9),
    integer("sampling_param_top_k", &[1], 20),
    float("sampling_param_presence_penalty", &[1], -0.5),
    float("sampling_param_frequency_penalty", &[1], 0.25),
    unsigned_long("sampling_param_seed", &[1], u32::MAX.into()),
], &["sampling_param_top_k"])]
#[case::custom(Entry::Text, custom_with(&[("temperature", TypeFp32), ("seed", TypeInt32), ("top_k", TypeUint32)]), vec![
    float("temperature", &[1], 0.7),
    tensor("top_k", "UINT32", &[1], InferTensorContents { uint_contents: vec![20], ..Default::default() }),
    integer("seed", &[1], -1),
], &[])]
#[case::custom_without_inputs(Entry::Text, custom(), vec![], &[])]
#[tokio::test]
async fn sampling_is_passed_on_in_the_inputs_that_the_model_has(
    #[case] entry: Entry,
    #[case] model: ModelConfig,
    #[case] expected: Vec<InferInputTensor>,
    #[case] lacking: &[&str],
) {
    let (added, left_out) = beside(entry, model, everything()).await;
    assert_eq!((added, left_out), (expected, lacking.iter().map(|name| (*name).to_owned()).collect()));
}

#[tokio::test]
async fn a_temperature_alone_draws_from_all_candidates() {
    let warm = Sampling { temperature_thousandths: Some(700), ..Sampling::default() };
    let expected = vec![float("temperature", &[1, 1], 0.7), float("runtime_top_p", &[1, 1], 1.0)];
    assert_eq!(beside(tokens(), engine("seed"), warm).await, (expected, Vec::new()));
    let of_five = Sampling { top_k: Some(5), ..warm };
    let expected = vec![float("temperature", &[1, 1], 0.7), integer("runtime_top_k", &[1, 1], 5)];
    assert_eq!(beside(tokens(), engine("seed"), of_five).await, (expected, Vec::new()));
}

#[rstest]
#[case::zero(Some(0))]
#[case::nothing_said(None)]
#[tokio::test]
async fn without_a_temperature_the_likeliest_token_is_taken(#[case] temperature_thousandths: Option<u32>) {
    let sampling = Sampling { temperature_thousandths, presence_penalty_thousandths: None, ..everything() };
    let kept = vec![
        float("sampling_param_frequency_penalty", &[1], 0.25),
        unsigned_long("sampling_param_seed", &[1], u32::MAX.into()),
    ];
    assert_eq!(beside(Entry::LlmApi, llm_api(), sampling).await, (kept, Vec::new()));
}

/// The API of an agent whose model has an input for the temperature alone, once it was found ready.
async fn api() -> (Router, StandIn) {
    let server = serving(custom_with(&[("temperature", TypeFp32)]));
    let backend = Arc::new(connected(&server, Entry::Text).await);
    or_hang(backend.ready()).await.expect("the model fits");
    let config = RuntimeConfig::new("support", "support-1", "http://127.0.0.1:8001");
    let (clock, _time) = Clock::manual(START);
    let app = App::new(Parts { config, pod: "support-1-x".into(), backend, clock, seal: Seal::new(|number| number) });
    let app = app.expect("the configuration can be set up");
    app.admission().set_readiness(Readiness::Ready);
    (app.api(), server)
}

#[tokio::test]
async fn a_chat_passes_on_what_the_model_takes_and_lists_the_rest() {
    let (api, server) = api().await;
    let messages = json!([{ "role": "user", "content": "2+3?" }]);
    let request = json!({ "model": "support", "messages": messages, "temperature": 0.7, "top_p": 7, "seed": 5 });
    let answer = or_hang(post(&api, "/v1/chat/completions", request)).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-slipway-ignored-fields")), (200, "seed, top_p"));
    let sent = server.seen.borrow().requests[0].inputs.last().cloned();
    assert_eq!(sent, Some(float("temperature", &[1], 0.7)));
}

#[tokio::test]
async fn a_run_that_asks_for_what_the_model_does_not_take_is_refused() {
    let (api, server) = api().await;
    let request = json!({ "input": "2+3?", "temperature": 0.7, "top_k": 5, "seed": 5 });
    let answer = or_hang(post(&api, "/v1/runs", request)).await;
    let refused = "top_k, seed: is not supported: this agent's model has no input for it; leave it out";
    assert_eq!((answer.status.as_u16(), answer.error()), (400, refused.to_owned()));
    let answer = or_hang(post(&api, "/v1/runs", json!({ "input": "2+3?", "temperature": 0.7 }))).await;
    assert_eq!((answer.status.as_u16(), server.seen.borrow().requests.len()), (200, 1));
}
