//! What is known of a run: its transcript, its steps and their times. Pure data.

mod failure;

use slipway_runtime_config::Sampling;

use crate::{
    backend::{FinishReason, Guide, TokenLogprob, tokens::StopWords},
    chat_template::RenderError,
    clock::Timestamp,
};

use super::{
    chat::{ChatTurn, Talk},
    dialect,
    grammar::{self, Observation, ToolCall, TurnReader},
    marks::Written,
    opening::TranscriptOpening,
    room::Compaction,
    transcript::{Begin, Kept, Transcript},
    wishes::{ClientCall, Wishes},
};

pub use failure::{Failure, ModelError};

/// What bounds a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most model calls.
    pub max_steps: u32,
    /// The most tokens of one model call.
    pub max_tokens_per_step: u32,
    /// The most tokens of all model calls together, where the client named a limit.
    pub max_tokens: Option<u32>,
}

/// What of a run's first model call the client sent, beside what its conversation says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Characters of its conversation and its tools, about.
    pub characters: u64,
    /// How it wants tokens chosen.
    pub sampling: Sampling,
}

/// A run between two events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub(super) limits: Limits,
    pub(super) opening: Opening,
    /// All text of a chat's turns so far, as it was handed out. Of a transcript only where the client names stops.
    pub(super) said: String,
    /// Where the client wants the answer to end.
    pub(super) stops: Option<StopWords>,
    /// What the engine holds the present turn to.
    pub(super) guide: Option<Guide>,
    pub(super) started_at: Timestamp,
    /// The steps begun so far.
    pub(super) steps: Vec<Step>,
    pub(super) phase: Phase,
    pub(super) side_effects: SideEffects,
    /// The prompt of the last model call in tokens, where the engine takes these.
    pub(super) transcript: Transcript,
    /// How many tokens the model's context holds, where that is known.
    pub(super) context: Option<u32>,
    /// What of the first model call the client sent.
    pub(super) sent: Sent,
    /// What was left out of prompts to make room, in order.
    pub(super) compactions: Vec<Compaction>,
    /// When the first part of the answer could be handed to the client.
    pub(super) answer_began_at: Option<Timestamp>,
}

/// What a run's prompts begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The rendered template. Turns follow it in the transcript.
    Transcript(TranscriptOpening),
    /// A conversation, for the checkpoint's chat template.
    Chat(Box<Talk>),
}

impl From<&str> for Opening {
    fn from(prompt: &str) -> Self {
        Self::Transcript(TranscriptOpening::new(prompt.to_owned(), None))
    }
}

/// Reads the turn that the model writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Of the transcript.
    Transcript(TurnReader),
    /// Of a chat.
    Chat(dialect::Turn),
}

/// Whether a run may have changed something outside, so that it must not be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEffects {
    /// All tools that it called may be called again.
    None,
    /// It called a tool that is not idempotent. Whether that reached its service is not known in every case.
    Possible,
}

/// Phase of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has happened.
    New,
    /// The model is writing the last step's turn.
    Model(Box<Reader>),
    /// The last step's tools are running.
    Tools,
    /// The run is over; nothing changes any more.
    Finished { outcome: Outcome, at: Timestamp },
}

/// One model call and the tools it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// From one.
    pub number: u32,
    /// What the model wrote, so far.
    pub text: String,
    /// Tokens of its prompt, where they are counted.
    pub prompt_tokens: Option<u32>,
    /// How many of these the engine had in its cache, where it says so.
    pub cached_tokens: Option<u32>,
    /// The tokens of its prompt, where they were put as such.
    pub prompt: Option<Kept>,
    /// Tokens it wrote, so far.
    pub output_tokens: u32,
    /// The same themselves, where the engine gives them and until the run ends.
    pub generated: Vec<u32>,
    /// How many of these are thoughts.
    pub reasoning_tokens: u32,
    /// Its tokens and their probabilities, where the client asked for them.
    pub logprobs: Vec<TokenLogprob>,
    /// When the call was made.
    pub sent_at: Timestamp,
    /// When its first token came, and how many tokens came with it.
    pub first_token: Option<FirstToken>,
    /// When its last piece came, or it failed or was cancelled.
    pub model_finished_at: Option<Timestamp>,
    /// The tools it asked for, in order.
    pub calls: Vec<Call>,
    /// What the model reads behind its turn in place of results, where that had mistakes: a message of a chat, or the
    /// lines that follow in a transcript.
    pub repair: Option<String>,
    /// What else a chat's turn is; nothing in a transcript.
    pub chat: Option<ChatTurn>,
}

/// The first piece with tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstToken {
    /// When it came.
    pub at: Timestamp,
    /// How many tokens it held.
    pub tokens: u32,
}

/// One tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was called.
    pub call: ToolCall,
    /// When.
    pub started_at: Timestamp,
    /// Its outcome; nothing while it runs.
    pub end: Option<CallEnd>,
    /// Characters of what it gave, if that was left out of the transcript since, to make room.
    pub left_out: Option<u64>,
}

/// Outcome of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// When.
    pub at: Timestamp,
    /// Whether and how the tool answered.
    pub result: CallResult,
}

/// Whether and how a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// It gave a result or an error.
    Answered(Observation),
    /// The run ended before it did.
    Cancelled,
}

/// Names a tool call within its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The step's number, from one.
    pub step: u32,
    /// The call's position in the step, from zero.
    pub index: usize,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Answered {
        /// The answer.
        text: String,
        /// `Length` when the limit on tokens cut it short.
        finish: FinishReason,
    },
    /// With calls of the client's tools.
    Called {
        /// What the agent said before.
        text: String,
        /// The calls, at least one. Who hands them out names them.
        calls: Vec<ClientCall>,
    },
    /// Without one.
    Failed(Failure),
}

impl State {
    /// A run that has not begun: what its prompts begin with, and its limits.
    pub fn new(opening: Opening, limits: Limits) -> Self {
        let transcript = match &opening {
            Opening::Transcript(_) => Transcript::new(Begin::Added),
            Opening::Chat(_) => Transcript::new(Begin::SpelledOut),
        };
        Self {
            limits,
            opening,
            said: String::new(),
            stops: None,
            guide: None,
            started_at: Timestamp::default(),
            steps: Vec::new(),
            phase: Phase::New,
            side_effects: SideEffects::None,
            transcript,
            context: None,
            sent: Sent::default(),
            compactions: Vec::new(),
            answer_began_at: None,
        }
    }

    /// The same run, for a model whose context holds so many tokens.
    #[must_use]
    pub fn with_context(mut self, context: Option<u32>) -> Self {
        self.context = context;
        self
    }

    /// The same run of a client that sent so much of it.
    #[must_use]
    pub fn with_sent(mut self, sent: Sent) -> Self {
        self.sent = sent;
        self
    }

    /// What was left out of prompts to make room, in order.
    pub fn compactions(&self) -> &[Compaction] {
        &self.compactions
    }

    /// The same run, whose answer ends where the client wants.
    #[must_use]
    pub fn with_stops(mut self, wishes: &Wishes) -> Self {
        self.stops = (!wishes.stops.is_empty()).then(|| StopWords::new(wishes.stops.clone()));
        self
    }

    /// What the engine holds the present turn to.
    pub fn guide(&self) -> Option<&Guide> {
        self.guide.as_ref()
    }

    /// Notes that a tool is called that must not be called twice.
    pub(super) fn note_side_effects(&mut self) {
        self.side_effects = SideEffects::Possible;
    }

    /// Whether the run may have changed something outside.
    pub fn side_effects(&self) -> SideEffects {
        self.side_effects
    }

    /// The prompt of the next model call: what it begins with, and every turn whose tools have all answered.
    ///
    /// # Errors
    /// The chat template refuses it.
    pub fn prompt(&self) -> Result<Written, RenderError> {
        match &self.opening {
            Opening::Transcript(opening) => Ok(opening.write(self.steps.iter().filter_map(Step::written))),
            Opening::Chat(talk) => talk.prompt(&self.steps),
        }
    }

    /// Bytes of what the run holds: its prompt, what the model wrote, and what tools gave.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.steps.iter().map(|step| step.text.len()).sum();
        let prompt = match &self.opening {
            Opening::Transcript(opening) => opening.text().len(),
            Opening::Chat(talk) => talk.first().len(),
        };
        prompt + texts + self.said.len() + self.result_bytes() + self.transcript.bytes()
    }

    /// The steps begun so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// When the run began.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// How and when the run ended, if it has.
    pub fn finished(&self) -> Option<(&Outcome, Timestamp)> {
        match &self.phase {
            Phase::Finished { outcome, at } => Some((outcome, *at)),
            Phase::New | Phase::Model(_) | Phase::Tools => None,
        }
    }

    /// Tokens of the prompts of all steps; nothing where those of one are not counted.
    pub fn prompt_tokens(&self) -> Option<u32> {
        let counted = self.steps.iter().map(|step| step.prompt_tokens).sum::<Option<u32>>();
        counted.filter(|_| !self.steps.is_empty())
    }

    /// Tokens read and written in all steps. Prompts count as far as the engine counts their tokens.
    pub fn used_tokens(&self) -> u64 {
        let of_step = |step: &Step| u64::from(step.prompt_tokens.unwrap_or(0)) + u64::from(step.output_tokens);
        self.steps.iter().map(of_step).sum()
    }

    /// Tokens of prompts that the engine had in its cache, in all steps; nothing where it does not say.
    pub fn cached_tokens(&self) -> Option<u32> {
        self.steps.iter().filter_map(|step| step.cached_tokens).reduce(u32::saturating_add)
    }

    /// Tokens of thoughts in all steps.
    pub fn reasoning_tokens(&self) -> u32 {
        self.steps.iter().fold(0, |total, step| total.saturating_add(step.reasoning_tokens))
    }

    /// What the model thought in all steps, an empty line between two.
    pub fn thoughts(&self) -> String {
        let thoughts = self.steps.iter().filter_map(|step| Some(step.chat.as_ref()?.thoughts.as_str()));
        thoughts.filter(|thoughts| !thoughts.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Whether the client asked for probabilities of tokens.
    pub fn wants_logprobs(&self) -> bool {
        match &self.opening {
            Opening::Chat(talk) => talk.wishes().logprobs.is_some(),
            Opening::Transcript(_) => false,
        }
    }

    /// The tokens of the answer and their probabilities. Where the tokens do not add up to the last turn's text, it is
    /// all of that turn.
    pub fn logprobs(&self) -> &[TokenLogprob] {
        let Some(step) = self.steps.last() else { return &[] };
        let all = step.logprobs.as_slice();
        let content = step.chat.as_ref().map_or("", |chat| chat.content.as_str());
        let adds_up = all.iter().map(|token| token.token.len()).sum::<usize>() == step.text.len();
        let Some(begin) = step.text.rfind(content).filter(|_| adds_up) else { return all };
        let mut ends = all.iter().scan(0, |end, token| {
            *end += token.token.len();
            Some(*end)
        });
        let first = ends.position(|end| end > begin).unwrap_or(all.len());
        let count = all[first..].iter().scan(0, |length, token| {
            let before = *length;
            *length += token.token.len();
            Some(before)
        });
        let count = count.take_while(|before| *before < content.len()).count();
        &all[first..first + count]
    }

    /// Tokens written in all steps.
    pub fn output_tokens(&self) -> u32 {
        self.steps.iter().fold(0, |total, step| total.saturating_add(step.output_tokens))
    }
}

impl Step {
    pub(super) fn new(number: u32, sent_at: Timestamp) -> Self {
        Self {
            number,
            text: String::new(),
            prompt_tokens: None,
            cached_tokens: None,
            prompt: None,
            output_tokens: 0,
            generated: Vec::new(),
            reasoning_tokens: 0,
            logprobs: Vec::new(),
            sent_at,
            first_token: None,
            model_finished_at: None,
            calls: Vec::new(),
            repair: None,
            chat: None,
        }
    }

    /// Calls that still run.
    pub(super) fn running(&self) -> impl Iterator<Item = CallId> {
        let running = self.calls.iter().enumerate().filter(|(_, call)| call.end.is_none());
        running.map(|(index, _)| CallId { step: self.number, index })
    }

    /// The step's turn and what its tools gave, as both stand in the transcript; nothing before all have answered.
    fn written(&self) -> Option<String> {
        if let Some(repair) = &self.repair {
            return Some(format!("{}{repair}", self.text));
        }
        let answered = |call: &Call| match &call.end {
            Some(CallEnd { result: CallResult::Answered(observation), .. }) => Some(observation.clone()),
            Some(CallEnd { result: CallResult::Cancelled, .. }) | None => None,
        };
        let observations: Vec<_> = self.calls.iter().map(answered).collect::<Option<_>>()?;
        (!observations.is_empty()).then(|| grammar::write_turn(&self.text, &observations))
    }
}
