//! Why runs have no answer. Pure data.

use slipway_runtime_config::metrics::RunOutcome;

use crate::{
    agent::grammar::MalformedTurn,
    backend::{BackendError, EngineFault},
};

/// Why a run has no answer. The messages are for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The last allowed model call asked for tools again.
    #[error("the agent reached no answer within {max_steps} step(s); raise maxSteps or simplify the question")]
    MaxSteps {
        /// The limit.
        max_steps: u32,
    },
    /// The client's limit on tokens is spent.
    #[error("the agent reached no answer within {max_tokens} token(s); raise max_tokens")]
    TokenBudget {
        /// The limit.
        max_tokens: u32,
    },
    /// The model wrote something that is not a turn.
    #[error("the model's output in step {step} cannot be read: {reason}")]
    MalformedOutput {
        /// The step.
        step: u32,
        /// What is wrong.
        reason: MalformedTurn,
    },
    /// The model did not do what the client asks for, though it was told so.
    #[error("the model did not do in step {step} what the request asks for: {reason}")]
    Unmet {
        /// The step.
        step: u32,
        /// What is wrong.
        reason: MalformedTurn,
    },
    /// The engine does not do what the client asks for.
    #[error("the engine refuses what the request asks for: {error}")]
    Refused {
        /// What the engine says.
        error: ModelError,
    },
    /// The client has cancelled the run.
    #[error("the run was cancelled")]
    Cancelled,
    /// The chat template refuses what the run has become.
    #[error("the prompt of step {step} cannot be written: {problem}")]
    Prompt {
        /// The step.
        step: u32,
        /// The template's words.
        problem: String,
    },
    /// The engine failed.
    #[error("the model call of step {step} failed: {error}")]
    Model {
        /// The step.
        step: u32,
        /// How.
        error: ModelError,
    },
    /// The client's conversation is longer than the model's context.
    #[error("messages: they do not fit the model's context; send a shorter conversation ({error})")]
    ContextLength {
        /// What the engine says.
        error: ModelError,
    },
    /// The run took too long.
    #[error("the run did not finish within {milliseconds} ms")]
    Timeout {
        /// The time it had.
        milliseconds: u64,
    },
    /// The pod shut down before the run was done.
    #[error("the pod was shut down before the run finished")]
    CutByShutdown,
}

impl Failure {
    /// How the run is counted.
    pub fn outcome(&self) -> RunOutcome {
        match self {
            Self::MaxSteps { .. } => RunOutcome::MaxStepsExceeded,
            Self::TokenBudget { .. } => RunOutcome::MaxTokensExceeded,
            Self::MalformedOutput { .. } => RunOutcome::MalformedModelOutput,
            Self::Model { error, .. } if error.is_unavailable => RunOutcome::ModelUnavailable,
            Self::Prompt { .. } | Self::Model { .. } => RunOutcome::ModelError,
            Self::ContextLength { .. } => RunOutcome::ContextLengthExceeded,
            Self::Unmet { .. } | Self::Refused { .. } | Self::Cancelled => RunOutcome::Cancelled,
            Self::Timeout { .. } => RunOutcome::RunTimeout,
            Self::CutByShutdown => RunOutcome::ShuttingDown,
        }
    }

    /// A bounded label, also the `code` of an error answer.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unmet { .. } => "request_unmet",
            Self::Refused { .. } => "request_refused",
            failure => failure.outcome().as_str(),
        }
    }
}

/// A failed model call, as values: the state of a run can be compared and copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What happened, without the transport's details.
    pub message: String,
    /// The label of the cause.
    pub kind: &'static str,
    /// Whether another attempt may find the engine back.
    pub is_unavailable: bool,
    /// What it is due to.
    pub fault: EngineFault,
}

impl From<&BackendError> for ModelError {
    fn from(error: &BackendError) -> Self {
        Self {
            message: error.to_string(),
            kind: error.kind(),
            is_unavailable: error.is_unavailable(),
            fault: error.fault(),
        }
    }
}
