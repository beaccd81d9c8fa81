//! How engines say that a prompt does not fit their context: in a code, where they have one, and in words. Pure.

/// What servers put in `code` or `type` of an error.
const CODES: [&str; 2] = [
    // OpenAI's `code`, and Groq's (OpenHands/OpenHands issue 1902).
    "context_length_exceeded",
    // llama.cpp's `type` (`ERROR_TYPE_EXCEED_CONTEXT_SIZE`, tools/server/server-task.cpp).
    "exceed_context_size_error",
];

/// What engines write, in lower case; each word is of one of them and of no other failure.
const WORDS: [&str; 15] = [
    // vLLM's own server: "This model's maximum context length is 4096 tokens. However, ..." Mistral: "Prompt contains
    // 9 tokens, too large for model with 8 maximum context length"
    "maximum context length",
    // The same, later: "However, the model's context length is only 4096 tokens"
    "context length is only",
    // vLLM's engine, also below Triton: "The decoder prompt (length 5000) is longer than the maximum model length of
    // 4096."
    "longer than the maximum model length",
    // SGLang, python/sglang/srt/managers/tokenizer_manager.py at c60799d: "The input (9 tokens) is longer than the
    // model's context length (8 tokens)."
    "longer than the model's context length",
    // TensorRT-LLM: "Prompt length (1025) exceeds maximum input length (1024)."
    "exceeds maximum input length",
    // Its LLM API: "The sum of prompt length (4000) ... max_tokens (256) should not exceed max_seq_len (4096)"
    "should not exceed max_seq_len",
    // TensorRT-LLM's PyTorch flow: "`default_max_tokens` (-2785) must be greater than 0, ... = max_seq_len (69632) -
    // ..." Later it has vLLM's first words.
    "`default_max_tokens` (",
    // TGI, router/src/validation.rs at 06227f7: "`inputs` tokens + `max_new_tokens` must be <= 8. Given: ..."
    "`inputs` tokens + `max_new_tokens` must be <=",
    // The same: "`inputs` must have less than 8 tokens. Given: 9"
    "`inputs` must have less than",
    // llama.cpp, tools/server/server-context.cpp: "request (9 tokens) exceeds the available context size (8 tokens)"
    "exceeds the available context size",
    // OpenAI, of later models: "Your input exceeds the context window of this model."
    "exceeds the context window",
    // Groq, without numbers (OpenHands/OpenHands issue 1902).
    "reduce the length of the messages",
    // xAI: "This model's maximum prompt length is 8 but the request contains 9 tokens." (cline/cline issue 3120)
    "maximum prompt length is",
    // Gemini: "The input token count (9) exceeds the maximum number of tokens allowed (8)." (google-gemini/gemini-cli
    // issue 6678)
    "exceeds the maximum number of tokens allowed",
    // Anthropic: "prompt is too long: 9 tokens > 8 maximum" (earendil-works/pi issue 102)
    "prompt is too long",
];

/// Whether an engine's words say that the prompt is too long for it.
pub fn is_overflow(words: &str) -> bool {
    let words = words.to_lowercase();
    WORDS.iter().any(|known| words.contains(known))
}

/// Whether a code says so.
pub fn is_code(code: &str) -> bool {
    CODES.contains(&code)
}

/// How many tokens there is room for, where a refusal says what the prompt has and what fits.
pub fn room(words: &str) -> Option<u32> {
    of_llm_api(words).or_else(|| of_sum(words)).or_else(|| of_parts(words))
}

/// TensorRT-LLM's LLM API: it names each length, and its number in brackets.
fn of_llm_api(words: &str) -> Option<u32> {
    // It writes lengths as Python writes what it has divided: 4000.0.
    let number = |name: &str| digits(words.split_once(name)?.1.trim_start().strip_prefix('(')?);
    let (prompt, all) = (number("prompt length")?, number("should not exceed max_seq_len")?);
    all.checked_sub(prompt)?.checked_sub(number("query length").unwrap_or(0))
}

/// OpenAI, and vLLM until vllm/entrypoints/openai/serving_engine.py at 7ded96b: "maximum context length is 4096 tokens.
/// However, you requested 4200 tokens (4000 in the messages, 200 in the completion)". Functions may be a third part.
fn of_sum(words: &str) -> Option<u32> {
    let (all, asked) = (behind(words, "maximum context length is")?, behind(words, "you requested")?);
    let answer = before(words, "in the completion").or_else(|| before(words, "for the completion"))?;
    all.checked_sub(asked.checked_sub(answer)?)
}

/// Those that count the prompt by itself. Later versions of vLLM do not: they stop at one token too many and say "at
/// least" (`get_encode_kwargs`, vllm/renderers/params.py at 017638d).
fn of_parts(words: &str) -> Option<u32> {
    // vLLM: "maximum context length is 4096 tokens and your request has 4000 input tokens (200 > 4096 - 4000)"
    let vllm = || behind(words, "maximum context length is")?.checked_sub(behind(words, "and your request has")?);
    // SGLang: "maximum context length of 4096 tokens. You requested a total of 4200 tokens: 4000 tokens from the input
    // messages ..." The sum has to be less than that.
    let sglang = || {
        let prompt = before(words, "tokens from the input messages")?;
        behind(words, "maximum context length of")?.checked_sub(prompt)?.checked_sub(1)
    };
    // TGI: "must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`"
    let tgi = || behind(words, "`max_new_tokens` must be <=")?.checked_sub(before(words, "`inputs` tokens and")?);
    vllm().or_else(sglang).or_else(tgi)
}

/// The number right behind a text.
fn behind(words: &str, text: &str) -> Option<u32> {
    digits(words.split_once(text)?.1.trim_start())
}

/// The number right before a text.
fn before(words: &str, text: &str) -> Option<u32> {
    let words = words.split_once(text)?.0.trim_end();
    digits(&words[words.trim_end_matches(|character: char| character.is_ascii_digit()).len()..])
}

/// The number that a text begins with.
fn digits(text: &str) -> Option<u32> {
    text.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{is_code, is_overflow, room};

    #[rstest]
    #[case::llm_api(
        "The sum of prompt length (4000) and query length (6) max_tokens (256) should not exceed max_seq_len (4096)",
        Some(90)
    )]
    #[case::llm_api_divided(
        "The sum of prompt length (4000.0), query length (0) max_tokens (256) should not exceed max_seq_len (4096)",
        Some(96)
    )]
    #[case::llm_api_without_room(
        "The sum of prompt length (5000) and query length (0) max_tokens (1) should not exceed max_seq_len (4096)",
        None
    )]
    #[case::another_limit(
        "The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)",
        None
    )]
    #[case::chat(
        "This model's maximum context length is 4096 tokens. However, you requested 4200 tokens (4000 in the messages, \
         200 in the completion). Please reduce the length of the messages or completion.",
        Some(96)
    )]
    #[case::chat_with_functions(
        "This model's maximum context length is 4096 tokens. However, you requested 4200 tokens (3900 in the \
         messages, 100 in the functions, and 200 in the completion).",
        Some(96)
    )]
    #[case::completion(
        "This model's maximum context length is 4097 tokens, however you requested 4322 tokens (4066 in your prompt; \
         256 for the completion).",
        Some(31)
    )]
    #[case::vllm(
        "'max_tokens' or 'max_completion_tokens' is too large: 200. This model's maximum context length is 4096 tokens \
         and your request has 4000 input tokens (200 > 4096 - 4000).",
        Some(96)
    )]
    #[case::vllm_stops_counting(
        "This model's maximum context length is 4096 tokens. However, you requested 200 output tokens and your prompt \
         contains at least 3897 input tokens, for a total of at least 4097 tokens.",
        None
    )]
    #[case::sglang(
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of \
         4200 tokens: 4000 tokens from the input messages and 200 tokens for the completion.",
        Some(95)
    )]
    #[case::tgi(
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and \
         200 `max_new_tokens`",
        Some(96)
    )]
    #[case::prompt_alone("This model's maximum context length is 8 tokens. However, you requested 9 tokens.", None)]
    #[case::no_numbers("Please reduce the length of the messages or completion.", None)]
    #[case::memory("CUDA out of memory", None)]
    fn a_refusal_says_how_many_tokens_there_is_room_for(#[case] words: &str, #[case] expected: Option<u32>) {
        assert_eq!(room(words), expected, "{words}");
    }

    #[rstest]
    #[case::vllm("This model's maximum context length is 8 tokens. However, you requested 9 tokens.", true)]
    #[case::vllm_later("You passed 9 input tokens. However, the model's context length is only 8 tokens.", true)]
    #[case::vllm_engine("The decoder prompt (length 9) is longer than the maximum model length of 8.", true)]
    #[case::sglang("The input (9 tokens) is longer than the model's context length (8 tokens).", true)]
    #[case::tensorrt_llm("Encountered an error: Prompt length (9) exceeds maximum input length (8).", true)]
    #[case::llm_api(
        "The sum of prompt length (4) and query length (0) max_tokens (8) should not exceed max_seq_len (8)",
        true
    )]
    #[case::py_torch_flow(
        "`default_max_tokens` (-2) must be greater than 0, `default_max_tokens` (-2) = max_seq_len (8) - `splited_prompt_len` (10)",
        true
    )]
    #[case::tgi("Input validation error: `inputs` must have less than 8 tokens. Given: 9", true)]
    #[case::tgi_sum("`inputs` tokens + `max_new_tokens` must be <= 8. Given: 4 `inputs` tokens and 5 ...", true)]
    #[case::llama_cpp("request (9 tokens) exceeds the available context size (8 tokens), try increasing it", true)]
    #[case::open_ai("Your input exceeds the context window of this model. Please adjust your input.", true)]
    #[case::groq("Please reduce the length of the messages or completion.", true)]
    #[case::xai("This model's maximum prompt length is 8 but the request contains 9 tokens.", true)]
    #[case::gemini("The input token count (9) exceeds the maximum number of tokens allowed (8).", true)]
    #[case::anthropic("prompt is too long: 9 tokens > 8 maximum", true)]
    #[case::mistral("Prompt contains 9 tokens, too large for model with 8 maximum context length", true)]
    #[case::memory("CUDA out of memory", false)]
    #[case::model("The model `agent` does not exist.", false)]
    #[case::rate("Rate limit reached on tokens per minute (TPM): Limit 6000, Requested 16955", false)]
    fn an_engines_words_tell_a_prompt_that_is_too_long(#[case] words: &str, #[case] expected: bool) {
        assert_eq!(is_overflow(words), expected, "{words}");
    }

    #[rstest]
    #[case::open_ai("context_length_exceeded", true)]
    #[case::llama_cpp("exceed_context_size_error", true)]
    #[case::any_request("invalid_request_error", false)]
    fn a_code_tells_a_prompt_that_is_too_long(#[case] code: &str, #[case] expected: bool) {
        assert_eq!(is_code(code), expected, "{code}");
    }
}
