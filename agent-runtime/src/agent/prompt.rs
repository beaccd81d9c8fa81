//! Renders the prompt of a run. Pure.

use std::sync::Arc;

use slipway_runtime_config::{PromptTemplate, PromptValues};

use crate::{chat_template::RenderError, clock::Timestamp, tools::Catalog};

use super::{
    chat::{Author, ChatFormat, ChatFormatError, Vocabulary},
    conversation::Conversation,
    opening::TranscriptOpening,
    state::Opening,
    wishes::Wishes,
};

/// What writes an agent's prompts.
#[derive(Clone)]
pub enum Prompts {
    /// A template of ours, followed by the transcript.
    Transcript(PromptBuilder),
    /// The checkpoint's chat template.
    Chat(Arc<ChatFormat>),
}

/// Why a conversation has no prompt.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Our template has no place for it.
    #[error(transparent)]
    Transcript(PromptError),
    /// The chat template refuses it, or fails.
    #[error(transparent)]
    Chat(RenderError),
}

impl Prompts {
    /// The same for other tools.
    ///
    /// # Errors
    /// The template cannot show them.
    pub fn with_tools(&self, catalog: &Catalog) -> Result<Self, ChatFormatError> {
        Ok(match self {
            Self::Transcript(builder) => {
                Self::Transcript(PromptBuilder { tools: catalog.listing(), ..builder.clone() })
            }
            Self::Chat(format) => Self::Chat(Arc::new(format.with_tools(&catalog.shown)?)),
        })
    }

    /// Whether the next prompt waits until the checkpoint's tokenizer is read, which may take a second.
    pub fn waits_for_vocabulary(&self) -> bool {
        match self {
            Self::Transcript(_) => false,
            Self::Chat(format) => format.waits_for_vocabulary(),
        }
    }

    /// Opens a run with its first prompt.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        &self,
        conversation: &Conversation,
        wishes: &Arc<Wishes>,
        now: Timestamp,
    ) -> Result<Opening, OpenError> {
        match self {
            Self::Transcript(builder) => {
                builder.render(conversation).map(Opening::Transcript).map_err(OpenError::Transcript)
            }
            Self::Chat(format) => format
                .open(conversation, wishes, now)
                .map(|talk| Opening::Chat(Box::new(talk)))
                .map_err(OpenError::Chat),
        }
    }
}

/// Everything of a prompt that is the same for all runs of an agent.
#[derive(Clone)]
pub struct PromptBuilder {
    /// The parsed template.
    pub template: PromptTemplate,
    /// The agent's system prompt; may be empty.
    pub system_prompt: String,
    /// One line per tool.
    pub tools: String,
    /// What turns prompts into tokens, where the engine takes these.
    pub vocabulary: Option<Arc<Vocabulary>>,
}

/// What of a conversation the template has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// Earlier turns.
    #[error("has earlier turns, and this agent's promptTemplate holds one question only; send a single user message")]
    OneQuestionOnly,
    /// Calls of the client's tools.
    #[error(
        "has calls of tools of yours, and this agent's prompts are ReAct transcripts, which hold none; send user and \
         assistant texts only"
    )]
    NoCalls,
    /// The client's instructions.
    #[error("has instructions, and this agent's promptTemplate has no {{systemPrompt}}; send no system message")]
    NoInstructions,
}

impl PromptBuilder {
    /// Renders the prompt up to the model's first turn. The client's instructions follow the agent's own on the same
    /// line: they add to what the agent's author wrote and cannot come before it, nor write lines of the transcript.
    ///
    /// # Errors
    /// See [`PromptError`].
    pub fn render(&self, conversation: &Conversation) -> Result<TranscriptOpening, PromptError> {
        if conversation.has_calls() {
            return Err(PromptError::NoCalls);
        }
        if conversation.turns().len() > 1 && !self.template.takes_conversation() {
            return Err(PromptError::OneQuestionOnly);
        }
        let instructions = self.harmless(&conversation.instructions_text());
        if !instructions.is_empty() && !self.template.takes_system_prompt() {
            return Err(PromptError::NoInstructions);
        }
        let both = [self.system_prompt.trim_end(), &instructions];
        let both: Vec<_> = both.into_iter().filter(|text| !text.is_empty()).collect();
        let text = self.template.render(&PromptValues {
            system_prompt: &both.join(" "),
            messages: &self.harmless(&conversation.write()),
            question: &self.harmless(&conversation.question_text()),
            tools: &self.harmless(&self.tools),
        });
        Ok(TranscriptOpening::new(text, self.vocabulary.clone()))
    }

    /// A text of somebody else's, whose marks do not count. Where prompts are texts, the engine decides.
    fn harmless(&self, text: &str) -> String {
        let Some(vocabulary) = &self.vocabulary else { return text.to_owned() };
        vocabulary.harmless(Author::Other, text).into_owned()
    }
}
