//! The contract with `tensorrt_llm`, against a stand-in that speaks the same protocol over a real connection. The
//! tokenizer is the demo's: its first 256 tokens are bytes, nothing begins a prompt and 258 ends an answer.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_agent_runtime::backend::{
    Backend, BackendError, Entry, FinishReason, Generation, Piece, Triton,
    inference::{
        InferTensorContents, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
        model_infer_request::InferInputTensor,
    },
    tokens::Tokenizer,
};
use tokio::sync::Notify;

use crate::{
    fixture::or_hang,
    triton::{Behavior, StandIn, output, stand_in, start},
};

const END: i32 = 258;

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/model/checkpoints/react-512")
}

async fn serve(server: StandIn) -> Triton {
    serve_with(server, &demo()).await
}

async fn serve_with(server: StandIn, folder: &Path) -> Triton {
    let tokenizer = Tokenizer::read(folder).expect("the folder has a tokenizer");
    let endpoint = start(server).await;
    Triton::new(&endpoint, "tensorrt_llm", Entry::Tokens(Arc::new(tokenizer))).expect("the endpoint is a URI")
}

fn raw(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A response of the engine: its tokens, and room that it did not fill.
fn of_tokens(tokens: &[i32]) -> ModelStreamInferResponse {
    let length = i32::try_from(tokens.len()).expect("answers are short");
    let infer_response = ModelInferResponse {
        model_name: "tensorrt_llm".into(),
        outputs: vec![output("sequence_length", "INT32"), output("output_ids", "INT32")],
        raw_output_contents: vec![raw(&[length]), raw(&[tokens, &[-1]].concat())],
        ..ModelInferResponse::default()
    };
    ModelStreamInferResponse { error_message: String::new(), infer_response: Some(infer_response) }
}

fn of_text(text: &str) -> ModelStreamInferResponse {
    of_tokens(&text.bytes().map(i32::from).collect::<Vec<_>>())
}

fn generation() -> Generation {
    Generation {
        id: "run-1".into(),
        prompt: "2+2?".into(),
        max_tokens: 9,
        stop_words: vec!["\n\n".into()],
        ..Generation::default()
    }
}

async fn collect(behavior: Behavior) -> Result<Vec<Piece>, BackendError> {
    let backend = serve(stand_in(behavior)).await;
    let pieces: Vec<_> = or_hang(backend.generate(generation()).collect()).await;
    pieces.into_iter().collect()
}

fn piece(text: &str, output_tokens: u32, finish: Option<FinishReason>) -> Piece {
    // The demo's tokenizer makes one of every byte.
    Piece { text: text.into(), prompt_tokens: Some(4), output_tokens, finish, ..Piece::default() }
}

#[tokio::test]
async fn tokens_arrive_as_text() {
    let euro: Vec<i32> = "€".bytes().map(i32::from).collect();
    let responses = vec![of_text("A "), of_tokens(&euro[..1]), of_tokens(&euro[1..]), of_tokens(&[END])];
    let expected =
        [piece("A ", 2, None), piece("", 3, None), piece("€", 5, None), piece("", 5, Some(FinishReason::Stop))];
    assert_eq!(collect(Behavior::Sends(responses)).await.expect("the generation succeeds"), expected);
}

#[tokio::test]
async fn the_request_has_the_tensors_of_the_engine() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::copy(demo().join("tokenizer.json"), folder.path().join("tokenizer.json")).expect("it can be copied");
    let ends = r#"{"eos_token_id": [258, 256]}"#;
    std::fs::write(folder.path().join("generation_config.json"), ends).expect("it can be written");
    let server = stand_in(Behavior::Sends(vec![of_tokens(&[END])]));
    let seen = server.seen.subscribe();
    let backend = serve_with(server, folder.path()).await;
    let generation = Generation { stop_words: vec!["\n\n".into(), "#".into()], ..generation() };
    or_hang(backend.generate(generation).next()).await.expect("a piece comes").expect("the generation succeeds");
    let tensor = |name: &str, datatype: &str, shape: &[i64], contents| InferInputTensor {
        name: name.into(),
        datatype: datatype.into(),
        shape: shape.to_vec(),
        contents: Some(contents),
    };
    let integers = |name: &str, shape: &[i64], int_contents: &[i32]| {
        tensor(name, "INT32", shape, InferTensorContents { int_contents: int_contents.to_vec(), ..Default::default() })
    };
    let expected = ModelInferRequest {
        model_name: "tensorrt_llm".into(),
        model_version: String::new(),
        id: "run-1".into(),
        inputs: vec![
            integers("input_ids", &[1, 4], &[50, 43, 50, 63]),
            integers("input_lengths", &[1, 1], &[4]),
            integers("request_output_len", &[1, 1], &[9]),
            tensor(
                "streaming",
                "BOOL",
                &[1, 1],
                InferTensorContents { bool_contents: vec![true], ..Default::default() },
            ),
            integers("end_id", &[1, 1], &[END]),
            // "#" is one token; 256 is the other end.
            integers("stop_words_list", &[1, 2, 2], &[35, 256, 1, 2]),
        ],
    };
    assert_eq!(seen.borrow().requests, [expected]);
}

#[tokio::test]
async fn a_prompt_of_tokens_is_sent_as_it_is_and_its_answer_has_tokens() {
    let server = stand_in(Behavior::Sends(vec![of_text("5"), of_tokens(&[33, END, 34])]));
    let seen = server.seen.subscribe();
    let backend = serve(server).await;
    let generation = Generation { tokens: Some(vec![257, 50, 258]), ..generation() };
    let pieces: Vec<_> = or_hang(backend.generate(generation).collect()).await;
    let tokens = pieces.into_iter().map(|piece| piece.expect("the generation succeeds").tokens);
    assert_eq!(tokens.collect::<Vec<_>>(), [vec![53], vec![33, 258]]);
    let contents = seen.borrow().requests[0].inputs[0].contents.clone().expect("a tensor has contents");
    assert_eq!(contents.int_contents, [257, 50, 258]);
}

#[rstest]
#[case::by_itself(&["5"], piece("", 1, Some(FinishReason::Stop)))]
#[case::at_the_limit(&["five", " or 5"], piece(" or 5", 9, Some(FinishReason::Length)))]
#[case::at_a_stop_word(&["5\n", "\nand"], piece("", 6, Some(FinishReason::Stop)))]
#[case::with_a_stop_word_begun(&["5\n"], piece("\n", 2, Some(FinishReason::Stop)))]
#[tokio::test]
async fn an_engine_that_ends_without_a_reason_has_one(#[case] texts: &[&str], #[case] last: Piece) {
    let responses = texts.iter().map(|text| of_text(text)).collect();
    let pieces = collect(Behavior::Sends(responses)).await.expect("the generation succeeds");
    assert_eq!(pieces.last(), Some(&last));
    assert!(pieces[..pieces.len() - 1].iter().all(|piece| piece.finish.is_none()), "{pieces:?}");
}

#[tokio::test]
async fn a_stop_word_ends_the_generation_at_an_engine_that_goes_on() {
    let server = stand_in(Behavior::SendsAndHangs(vec![of_text("5\n\nand so")]));
    let mut seen = server.seen.subscribe();
    let backend = serve(server).await;
    let pieces: Vec<_> = or_hang(backend.generate(generation()).collect()).await;
    let pieces: Vec<_> = pieces.into_iter().collect::<Result<_, _>>().expect("the generation succeeds");
    assert_eq!(pieces, [piece("5", 9, Some(FinishReason::Stop))]);
    or_hang(seen.wait_for(|seen| seen.cancelled == 1)).await.expect("the server lives");
}

#[tokio::test]
async fn dropping_the_stream_cancels_at_the_engine() {
    let server = stand_in(Behavior::SendsAndHangs(vec![of_text("5")]));
    let mut seen = server.seen.subscribe();
    let backend = serve(server).await;
    let mut pieces = backend.generate(generation());
    assert_eq!(or_hang(pieces.next()).await.expect("a piece comes").expect("it begins"), piece("5", 1, None));
    drop(pieces);
    or_hang(seen.wait_for(|seen| seen.cancelled == 1)).await.expect("the server lives");
}

#[tokio::test]
async fn an_engine_at_its_own_end_is_not_reset() {
    let end = Arc::new(Notify::new());
    let server = stand_in(Behavior::SendsAndWaits(vec![of_tokens(&[53, END])], end.clone()));
    let mut seen = server.seen.subscribe();
    let backend = serve(server).await;
    let mut pieces = backend.generate(generation());
    or_hang(pieces.next()).await.expect("a piece comes").expect("the generation succeeds");
    drop(pieces);
    end.notify_one();
    or_hang(seen.wait_for(|seen| seen.ended + seen.cancelled > 0)).await.expect("the server lives");
    assert_eq!((seen.borrow().ended, seen.borrow().cancelled), (1, 0));
}

/// A response whose outputs are of another making.
fn changed(change: impl FnOnce(&mut ModelInferResponse)) -> Vec<ModelStreamInferResponse> {
    let mut response = of_text("5");
    change(response.infer_response.as_mut().expect("it was just made"));
    vec![response]
}

#[rstest]
#[case::engine(vec![ModelStreamInferResponse { error_message: "prompt too long".into(), infer_response: None }],
    "engine", "the engine failed: prompt too long")]
#[case::no_tokens(changed(|response| response.outputs[1].name = "tokens".into()), "protocol",
    "the engine's answer cannot be read: output \"output_ids\" is missing")]
#[case::no_numbers(changed(|response| response.raw_output_contents[1] = vec![1, 2]), "protocol",
    "the engine's answer cannot be read: output \"output_ids\" is not INT32")]
#[case::no_token(vec![of_tokens(&[-1])], "protocol",
    "the engine's answer cannot be read: output \"output_ids\" has a token -1")]
#[tokio::test]
async fn a_generation_that_fails_says_why(
    #[case] responses: Vec<ModelStreamInferResponse>,
    #[case] kind: &str,
    #[case] message: &str,
) {
    let error = collect(Behavior::Sends(responses)).await.expect_err("the generation fails");
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
}
