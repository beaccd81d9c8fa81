//! How engines say that a prompt does not fit their context. None of them has a code for it, so their messages are
//! matched. Pure.

/// What engines write, in lower case; each word is of one of them and of no other failure.
const WORDS: [&str; 7] = [
    // vLLM's own server: "This model's maximum context length is 4096 tokens. However, ..."
    "maximum context length",
    // The same, later: "However, the model's context length is only 4096 tokens"
    "context length is only",
    // vLLM's engine, also below Triton: "The decoder prompt (length 5000) is longer than the maximum model length of
    // 4096."
    "longer than the maximum model length",
    // TensorRT-LLM: "Prompt length (1025) exceeds maximum input length (1024)."
    "exceeds maximum input length",
    // Its LLM API: "The sum of prompt length (4000) ... max_tokens (256) should not exceed max_seq_len (4096)"
    "should not exceed max_seq_len",
    // TensorRT-LLM's PyTorch flow: "`default_max_tokens` (-2785) must be greater than 0, ... = max_seq_len (69632) -
    // ..." Later it has vLLM's first words.
    "`default_max_tokens` (",
    // OpenAI, of later models: "Your input exceeds the context window of this model."
    "exceeds the context window",
];

/// Whether an engine's words say that the prompt is too long for it.
pub fn is_overflow(words: &str) -> bool {
    let words = words.to_lowercase();
    WORDS.iter().any(|known| words.contains(known))
}

/// How many tokens there is room for, where a refusal of TensorRT-LLM's LLM API says what the prompt has and what fits.
pub fn room(words: &str) -> Option<u32> {
    let number = |name: &str| {
        let behind = words.split_once(name)?.1.trim_start().strip_prefix('(')?;
        // It writes lengths as Python writes what it has divided: 4000.0.
        behind.split([')', '.']).next()?.parse::<u32>().ok()
    };
    let (prompt, all) = (number("prompt length")?, number("should not exceed max_seq_len")?);
    all.checked_sub(prompt)?.checked_sub(number("query length").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{is_overflow, room};

    #[rstest]
    #[case(
        "The sum of prompt length (4000) and query length (6) max_tokens (256) should not exceed max_seq_len (4096)",
        Some(90)
    )]
    #[case(
        "The sum of prompt length (4000.0), query length (0) max_tokens (256) should not exceed max_seq_len (4096)",
        Some(96)
    )]
    #[case(
        "The sum of prompt length (5000) and query length (0) max_tokens (1) should not exceed max_seq_len (4096)",
        None
    )]
    #[case("The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)", None)]
    #[case("CUDA out of memory", None)]
    fn a_refusal_says_how_many_tokens_there_is_room_for(#[case] words: &str, #[case] expected: Option<u32>) {
        assert_eq!(room(words), expected, "{words}");
    }

    #[rstest]
    #[case::vllm("This model's maximum context length is 8 tokens. However, you requested 9 tokens.", true)]
    #[case::vllm_later("You passed 9 input tokens. However, the model's context length is only 8 tokens.", true)]
    #[case::vllm_engine("The decoder prompt (length 9) is longer than the maximum model length of 8.", true)]
    #[case::tensorrt_llm("Encountered an error: Prompt length (9) exceeds maximum input length (8).", true)]
    #[case::llm_api(
        "The sum of prompt length (4) and query length (0) max_tokens (8) should not exceed max_seq_len (8)",
        true
    )]
    #[case::py_torch_flow(
        "`default_max_tokens` (-2) must be greater than 0, `default_max_tokens` (-2) = max_seq_len (8) - `splited_prompt_len` (10)",
        true
    )]
    #[case::hosted("Your input exceeds the context window of this model. Please adjust your input.", true)]
    #[case::memory("CUDA out of memory", false)]
    #[case::model("The model `agent` does not exist.", false)]
    fn an_engines_words_tell_a_prompt_that_is_too_long(#[case] words: &str, #[case] expected: bool) {
        assert_eq!(is_overflow(words), expected, "{words}");
    }
}
