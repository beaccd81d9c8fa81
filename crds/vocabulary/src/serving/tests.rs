//! What is asked, what is loaded and what is written, by what serves.

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

const fn tensorrt_llm(ranks: u32, entry: EngineEntry) -> ServedBy {
    ServedBy::TensorRtLlm { ranks, entry }
}

#[rstest]
#[case::custom(ServedBy::Custom, ("agent", &["agent"][..], "agent", false))]
#[case::engine(
    tensorrt_llm(2, EngineEntry::Engine),
    ("tensorrt_llm", &["tensorrt_llm"][..], "tensorrt_llm", true)
)]
#[case::ensemble(
    tensorrt_llm(1, EngineEntry::Ensemble),
    ("ensemble", &["preprocessing", "tensorrt_llm", "postprocessing", "ensemble"][..], "tensorrt_llm", false)
)]
#[case::bls(
    tensorrt_llm(1, EngineEntry::BLS),
    (
        "tensorrt_llm_bls",
        &["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"][..],
        "tensorrt_llm",
        false
    )
)]
#[case::own_server(ServedBy::NoBuild(NoBuildBackend::VLLMOpenAI), ("agent", &["agent"][..], "agent", false))]
fn what_is_asked_what_is_loaded_and_what_is_configured(
    #[case] served_by: ServedBy,
    #[case] expected: (&str, &[&str], &str, bool),
) {
    let found = (served_by.model(), served_by.models(), served_by.configured(), served_by.takes_tokens());
    assert_eq!(found, expected);
}

#[rstest]
#[case::custom(ServedBy::Custom, "{}", false)]
#[case::one_process(tensorrt_llm(1, EngineEntry::Engine), r#"{"tensorrtLlmRanks":1}"#, false)]
#[case::several_processes(
    tensorrt_llm(2, EngineEntry::BLS),
    r#"{"tensorrtLlmRanks":2,"tensorrtLlmEntry":"BLS"}"#,
    true
)]
#[case::behind_triton(ServedBy::NoBuild(NoBuildBackend::VLLM), r#"{"noBuild":"VLLM"}"#, false)]
#[case::own_server(ServedBy::NoBuild(NoBuildBackend::VLLMOpenAI), r#"{"noBuild":"VLLMOpenAI"}"#, true)]
#[case::trtllm_serve(
    ServedBy::NoBuild(NoBuildBackend::TensorRTLLMPyTorchOpenAI),
    r#"{"noBuild":"TensorRTLLMPyTorchOpenAI"}"#,
    true
)]
fn what_is_written_is_read_and_says_who_loads_at_the_start(
    #[case] served_by: ServedBy,
    #[case] written: &str,
    #[case] is_loaded_at_start: bool,
) {
    assert_eq!(serde_json::to_string(&served_by).unwrap(), written);
    assert_eq!(serde_json::from_str::<ServedBy>(written).unwrap(), served_by);
    assert_eq!(served_by.is_loaded_at_start(), is_loaded_at_start);
}

#[test]
fn names_of_the_api_are_those_that_are_written() {
    let backends = NoBuildBackend::ALL.map(|backend| (serde_json::to_value(backend).unwrap(), backend.as_str()));
    let entries = [EngineEntry::Engine, EngineEntry::Ensemble, EngineEntry::BLS];
    let entries = entries.map(|entry| (serde_json::to_value(entry).unwrap(), entry.as_str()));
    for (written, name) in backends.into_iter().chain(entries) {
        assert_eq!(written, name);
    }
}

#[rstest]
#[case::our_own(TextDialect::Text, false)]
#[case::ensemble(TextDialect::Ensemble, false)]
#[case::vllm_behind_triton(TextDialect::Vllm, false)]
#[case::pytorch_flow(TextDialect::LlmApi, false)]
#[case::vllms_own_server(TextDialect::OpenAi, true)]
#[case::sglangs_own_server(TextDialect::SgLang, true)]
#[case::trtllm_serve(TextDialect::TrtLlm, true)]
#[case::completions_of_any_make(TextDialect::Completions, false)]
#[case::chats_of_any_make(TextDialect::Chat, false)]
fn a_dialect_says_whether_its_requests_may_have_formats(#[case] dialect: TextDialect, #[case] expected: bool) {
    assert_eq!(dialect.takes_formats(), expected);
}
