//! The contracts with Triton's vLLM backend and with TensorRT-LLM's `llmapi` model, ensemble and BLS, against a
//! stand-in that speaks the same protocol over a real connection.

use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_agent_runtime::backend::{
    Backend, BackendError, Entry, FinishReason, Generation, Piece, Triton,
    inference::{
        InferTensorContents, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
        model_infer_request::InferInputTensor,
    },
};

use crate::{
    fixture::or_hang,
    triton::{Behavior, StandIn, output, stand_in, start, text_bytes},
};

fn generation() -> Generation {
    Generation {
        id: "run-1".into(),
        prompt: "Question: é?\n".into(),
        max_tokens: 7,
        stop_words: vec!["\n\n".into()],
        ..Generation::default()
    }
}

async fn generate(server: StandIn, entry: Entry) -> Result<Vec<Piece>, BackendError> {
    let backend = Triton::new(&start(server).await, "agent", entry).expect("the endpoint is a URI");
    let pieces: Vec<_> = or_hang(backend.generate(generation()).collect()).await;
    pieces.into_iter().collect()
}

fn of(outputs: &[(&str, &str, Vec<u8>)]) -> ModelStreamInferResponse {
    let infer_response = ModelInferResponse {
        model_name: "agent".into(),
        outputs: outputs.iter().map(|(name, datatype, _)| output(name, datatype)).collect(),
        raw_output_contents: outputs.iter().map(|(.., bytes)| bytes.clone()).collect(),
        ..ModelInferResponse::default()
    };
    ModelStreamInferResponse { error_message: String::new(), infer_response: Some(infer_response) }
}

/// A response of vLLM: the new text, and how many tokens it has.
fn vllm(text: &str, tokens: u32, finish: &str) -> ModelStreamInferResponse {
    of(&[
        ("text_output", "BYTES", text_bytes(text)),
        ("finish_reason", "BYTES", text_bytes(finish)),
        ("num_output_tokens", "UINT32", tokens.to_le_bytes().to_vec()),
    ])
}

/// A response of the `llmapi` model: all text so far.
fn llm_api(text: &str, finish: &str) -> ModelStreamInferResponse {
    of(&[("text_output", "BYTES", text_bytes(text)), ("finish_reason", "BYTES", text_bytes(finish))])
}

/// A response of the ensemble: the new text.
fn ensemble(text: &str) -> ModelStreamInferResponse {
    of(&[("text_output", "BYTES", text_bytes(text)), ("cum_log_probs", "FP32", vec![0; 4])])
}

/// What Triton may close a decoupled request with.
fn empty() -> ModelStreamInferResponse {
    of(&[])
}

fn failure(words: &str) -> ModelStreamInferResponse {
    ModelStreamInferResponse { error_message: words.into(), infer_response: None }
}

/// The same tensor of the only request of a batch.
fn of_batch(tensor: InferInputTensor) -> InferInputTensor {
    InferInputTensor { shape: [&[1], tensor.shape.as_slice()].concat(), ..tensor }
}

fn piece(text: &str, output_tokens: u32, finish: Option<FinishReason>) -> Piece {
    Piece { text: text.into(), output_tokens, finish, ..Piece::default() }
}

fn tensor(name: &str, datatype: &str, contents: InferTensorContents) -> InferInputTensor {
    InferInputTensor { name: name.into(), datatype: datatype.into(), shape: vec![1], contents: Some(contents) }
}

fn text(name: &str, text: &str) -> InferInputTensor {
    tensor(name, "BYTES", InferTensorContents { bytes_contents: vec![text.into()], ..Default::default() })
}

fn on(name: &str) -> InferInputTensor {
    tensor(name, "BOOL", InferTensorContents { bool_contents: vec![true], ..Default::default() })
}

fn number(name: &str, number: i32) -> InferInputTensor {
    tensor(name, "INT32", InferTensorContents { int_contents: vec![number], ..Default::default() })
}

#[rstest]
#[case::vllm(Entry::Vllm, vllm("", 1, "length"), vec![
    text("text_input", "Question: é?\n"),
    on("stream"),
    on("exclude_input_in_output"),
    text("sampling_parameters", r#"{"max_tokens":7,"stop":["\n\n"],"temperature":0}"#),
    on("return_finish_reason"),
    on("return_num_output_tokens"),
])]
#[case::ensemble(Entry::Ensemble, ensemble(""), vec![
    of_batch(text("text_input", "Question: é?\n")),
    of_batch(number("max_tokens", 7)),
    of_batch(on("stream")),
    of_batch(text("stop_words", "\n\n")),
])]
#[case::llm_api(Entry::LlmApi, llm_api("", "length"), vec![
    text("text_input", "Question: é?\n"),
    on("streaming"),
    number("sampling_param_max_tokens", 7),
    number("sampling_param_top_k", 1),
    on("sampling_param_exclude_input_from_output"),
    on("return_finish_reason"),
])]
#[tokio::test]
async fn the_request_has_the_tensors_of_the_entry(
    #[case] entry: Entry,
    #[case] response: ModelStreamInferResponse,
    #[case] inputs: Vec<InferInputTensor>,
) {
    let server = stand_in(Behavior::Sends(vec![response]));
    let seen = server.seen.subscribe();
    generate(server, entry).await.expect("the generation succeeds");
    let (model_name, id) = ("agent".into(), "run-1".into());
    assert_eq!(seen.borrow().requests, [ModelInferRequest { model_name, model_version: String::new(), id, inputs }]);
}

const TOO_MANY: &str =
    "The sum of prompt length (4092) and query length (0) max_tokens (7) should not exceed max_seq_len (4096)";

#[tokio::test]
async fn an_engine_that_refuses_more_tokens_than_fit_is_asked_for_those_that_do() {
    let answers = vec![vec![failure(TOO_MANY)], vec![llm_api("Answer: 5", "length")]];
    let server = stand_in(Behavior::InTurn(answers));
    let seen = server.seen.subscribe();
    let pieces = generate(server, Entry::LlmApi).await.expect("the generation succeeds");
    assert_eq!(pieces, [piece("Answer: 5", 1, Some(FinishReason::Length))]);
    let limits: Vec<_> = seen.borrow().requests.iter().map(|request| request.inputs[2].clone()).collect();
    assert_eq!(limits, [7, 4].map(|limit| number("sampling_param_max_tokens", limit)));
}

#[rstest]
#[case::no_room(TOO_MANY.replace("4092", "4096"))]
#[case::another_failure("CUDA out of memory".to_owned())]
#[tokio::test]
async fn a_refusal_without_room_is_final(#[case] words: String) {
    let server = stand_in(Behavior::InTurn(vec![vec![failure(&words)]]));
    let error = generate(server, Entry::LlmApi).await.expect_err("nothing fits");
    assert_eq!(error.to_string(), format!("the engine failed: {words}"));
}

#[tokio::test]
async fn an_engine_that_refuses_twice_is_not_asked_a_third_time() {
    let server = stand_in(Behavior::InTurn(vec![vec![failure(TOO_MANY)], vec![failure(TOO_MANY)]]));
    let error = generate(server, Entry::LlmApi).await.expect_err("nothing fits");
    assert_eq!((error.kind(), error.to_string()), ("context_length", format!("the engine failed: {TOO_MANY}")));
}

#[tokio::test]
async fn the_pieces_of_vllm_arrive_with_all_tokens_so_far() {
    let responses = vec![vllm("Answer: ", 2, "None"), vllm("", 0, "None"), vllm("ü", 1, "stop")];
    assert_eq!(
        generate(stand_in(Behavior::Sends(responses)), Entry::Vllm).await.expect("the generation succeeds"),
        [piece("Answer: ", 2, None), piece("", 2, None), piece("ü", 3, Some(FinishReason::Stop))]
    );
}

#[tokio::test]
async fn of_all_text_so_far_what_is_new_arrives() {
    let responses = vec![llm_api("An", "None"), llm_api("An", "None"), llm_api("Answer: ü\n", "length")];
    assert_eq!(
        generate(stand_in(Behavior::Sends(responses)), Entry::LlmApi).await.expect("the generation succeeds"),
        [piece("An", 1, None), piece("", 2, None), piece("swer: ü\n", 3, Some(FinishReason::Length))]
    );
}

/// Seven tokens may be generated; a response is one, whatever text it has.
#[rstest]
#[case::the_model_ended(vec![ensemble("Answer: "), ensemble(""), ensemble("ü"), empty()], vec![
    piece("Answer: ", 1, None), piece("", 2, None), piece("ü", 3, None), piece("", 3, Some(FinishReason::Stop)),
])]
#[case::the_limit_was_reached(["a", "b", "c", "d", "e", "f", "g"].map(ensemble).to_vec(), vec![
    piece("a", 1, None), piece("b", 2, None), piece("c", 3, None), piece("d", 4, None), piece("e", 5, None),
    piece("f", 6, None), piece("g", 7, None), piece("", 7, Some(FinishReason::Length)),
])]
#[case::what_was_held_back_comes_at_the_end(vec![ensemble("5"), ensemble("\n")], vec![
    piece("5", 1, None), piece("", 2, None), piece("\n", 2, Some(FinishReason::Stop)),
])]
#[case::the_model_said_nothing(vec![empty()], vec![piece("", 0, Some(FinishReason::Stop))])]
#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_an_ensembles_answer(
    #[case] responses: Vec<ModelStreamInferResponse>,
    #[case] expected: Vec<Piece>,
) {
    let pieces = generate(stand_in(Behavior::Sends(responses)), Entry::Ensemble).await;
    assert_eq!(pieces.expect("the generation succeeds"), expected);
}

/// The engine knows a stop word by its tokens, and the text may have it in others.
#[tokio::test]
async fn an_ensemble_is_cut_at_a_stop_word_and_cancelled() {
    let server = stand_in(Behavior::SendsAndHangs(vec![ensemble("5\n"), ensemble("\nQuestion")]));
    let mut seen = server.seen.subscribe();
    assert_eq!(
        generate(server, Entry::Ensemble).await.expect("the generation succeeds"),
        [piece("5", 1, None), piece("", 2, Some(FinishReason::Stop))]
    );
    or_hang(seen.wait_for(|seen| seen.cancelled == 1)).await.expect("the server lives");
}

#[tokio::test]
async fn the_llm_api_is_cut_at_a_stop_word_and_cancelled() {
    let server = stand_in(Behavior::SendsAndHangs(vec![llm_api("5\n", "None"), llm_api("5\n\nQuestion", "None")]));
    let mut seen = server.seen.subscribe();
    assert_eq!(
        generate(server, Entry::LlmApi).await.expect("the generation succeeds"),
        [piece("5", 1, None), piece("", 2, Some(FinishReason::Stop))]
    );
    or_hang(seen.wait_for(|seen| seen.cancelled == 1)).await.expect("the server lives");
}

/// The same contract against a real Triton whose repository was assembled of the stand-in image's templates, which
/// answers every prompt the same.
#[rstest]
#[case("ensemble")]
#[case("tensorrt_llm_bls")]
#[tokio::test]
#[ignore = "needs a Triton; name its gRPC port in SLIPWAY_TEST_TRITON_TEXT"]
async fn real_triton_streams_text_from_models_around_an_engine(#[case] model: &str) {
    let endpoint = std::env::var("SLIPWAY_TEST_TRITON_TEXT").expect("SLIPWAY_TEST_TRITON_TEXT names a gRPC port");
    let backend = Triton::new(&endpoint, model, Entry::Ensemble).expect("the endpoint is a URI");
    backend.ready().await.expect("the model is ready");
    let all = async |generation| {
        let pieces: Vec<_> = or_hang(backend.generate(generation).collect()).await;
        let pieces: Vec<Piece> = pieces.into_iter().collect::<Result<_, _>>().expect("the generation succeeds");
        let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        (text, pieces.len(), pieces.last().and_then(|piece| piece.finish))
    };
    let whole = "Answer: 42\n\nand what a stop word cuts off";
    let limit = |max_tokens| Generation { max_tokens, ..generation() };
    let unstopped = |max_tokens| Generation { stop_words: Vec::new(), ..limit(max_tokens) };
    // Three bytes a response, each of which counts as one token.
    for _ in 0..50 {
        assert_eq!(all(limit(64)).await, ("Answer: 42".to_owned(), 4, Some(FinishReason::Stop)));
        assert_eq!(all(unstopped(64)).await, (whole.to_owned(), 15, Some(FinishReason::Stop)));
    }
    assert_eq!(all(unstopped(1)).await, ("A".to_owned(), 2, Some(FinishReason::Length)));
}

#[rstest]
#[case::vllm_is_cancelled(Entry::Vllm, vec![vllm("", 0, "abort")],
    "the engine's answer cannot be read: finish_reason is \"abort\"; expected \"None\", \"stop\" or \"length\"")]
#[case::vllm_without_count(Entry::Vllm, vec![llm_api("x", "None")],
    "the engine's answer cannot be read: output \"num_output_tokens\" is missing")]
#[case::vllm_ends(Entry::Vllm, vec![vllm("x", 1, "None")], "the engine ended the stream in the middle of a generation")]
#[case::llm_api_ends(Entry::LlmApi, vec![llm_api("x", "None")], "the engine ended the stream in the middle of a generation")]
#[case::ensemble_without_text(Entry::Ensemble, vec![of(&[("OUTPUT", "BYTES", text_bytes("x"))])],
    "the engine's answer cannot be read: output \"text_output\" is missing")]
#[case::ensemble_fails(Entry::Ensemble, vec![ensemble("x"), failure("in ensemble 'ensemble', prompt is too long")],
    "the engine failed: in ensemble 'ensemble', prompt is too long")]
#[case::llm_api_takes_back(Entry::LlmApi, vec![llm_api("x", "None"), llm_api("y", "None")],
    "the engine's answer cannot be read: text_output does not begin with the text of the response before")]
#[tokio::test]
async fn an_answer_that_cannot_be_read_says_why(
    #[case] entry: Entry,
    #[case] responses: Vec<ModelStreamInferResponse>,
    #[case] message: &str,
) {
    let error = generate(stand_in(Behavior::Sends(responses)), entry).await.expect_err("the generation fails");
    assert_eq!(error.to_string(), message);
}
