//! Which dialect a checkpoint writes, by its chat template. Pure.

use slipway_vocabulary::ToolCallDialect;

/// The dialect that a chat template teaches; the first rule counts of which the template has all words.
///
/// A template shows the model calls as the model writes them, so its own marks stand in it.
pub fn choose(template: &str) -> ToolCallDialect {
    const RULES: [(&[&str], ToolCallDialect); 14] = [
        (&["<|channel|>", "<|message|>"], ToolCallDialect::Harmony),
        (&["<function=", "<parameter="], ToolCallDialect::Qwen3Coder),
        (&["<｜tool▁calls▁begin｜>"], ToolCallDialect::DeepSeek),
        (&["[TOOL_CALLS]"], ToolCallDialect::Mistral),
        (&["<|/tool_call|>"], ToolCallDialect::Phi4),
        (&["functools"], ToolCallDialect::Phi4),
        (&["<|tool|>", "<|/tool|>"], ToolCallDialect::Phi4),
        (&["<tool_call>", "</tool_call>"], ToolCallDialect::Hermes),
        (&["<|start_of_role|>"], ToolCallDialect::Granite),
        (&["<function_call>"], ToolCallDialect::Granite),
        (&["<|python_start|>"], ToolCallDialect::Llama4Pythonic),
        (&["[func_name1("], ToolCallDialect::Llama4Pythonic),
        (&["<|python_tag|>"], ToolCallDialect::Llama3Json),
        (&["<|start_header_id|>", "\"parameters\""], ToolCallDialect::Llama3Json),
    ];
    let teaches = |words: &[&str]| words.iter().all(|word| template.contains(word));
    RULES.iter().find(|(words, _)| teaches(words)).map_or(ToolCallDialect::JSON, |(_, dialect)| *dialect)
}
