//! Renders the prompt of a run. Pure.

use slipway_runtime_config::{PromptTemplate, PromptValues};

use super::conversation::Conversation;

/// Everything of a prompt that is the same for all runs of an agent.
#[derive(Clone, Debug)]
pub struct PromptBuilder {
    /// The parsed template.
    pub template: PromptTemplate,
    /// The agent's system prompt; may be empty.
    pub system_prompt: String,
    /// One line per tool.
    pub tools: String,
}

/// The template has no place for earlier turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has earlier turns, and this agent's promptTemplate holds one question only; send a single user message")]
pub struct OneQuestionOnly;

impl PromptBuilder {
    /// Renders the prompt up to the model's first turn.
    ///
    /// # Errors
    /// The conversation has earlier turns and the template takes the question alone.
    pub fn render(&self, conversation: &Conversation) -> Result<String, OneQuestionOnly> {
        if !conversation.is_new() && !self.template.takes_conversation() {
            return Err(OneQuestionOnly);
        }
        Ok(self.template.render(&PromptValues {
            system_prompt: self.system_prompt.trim_end(),
            messages: &conversation.write(),
            question: &conversation.question_text(),
            tools: &self.tools,
        }))
    }
}
