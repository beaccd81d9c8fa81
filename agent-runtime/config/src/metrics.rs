//! Names of the counters that others compute with: the agent runtime exports them, generated alerting rules read them.

/// Counter of runs judged by a latency objective; labels `objective` and `good` (`true`, `false`).
pub const SLO_EVENTS_TOTAL: &str = "slipway_slo_events_total";
/// Counter of runs that ended; label `outcome`, one of [`RunOutcome`].
pub const RUNS_TOTAL: &str = "slipway_runs_total";

/// How a run ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunOutcome {
    /// With an answer.
    Answered,
    /// The client went away.
    Cancelled,
    /// The limit on tokens that the client set is spent.
    MaxTokensExceeded,
    /// The client's conversation is longer than the model's context.
    ContextLengthExceeded,
    /// The last allowed model call asked for tools again.
    MaxStepsExceeded,
    /// The model wrote something that is not a turn.
    MalformedModelOutput,
    /// The engine could not be reached.
    ModelUnavailable,
    /// The engine failed.
    ModelError,
    /// The run took too long.
    RunTimeout,
    /// The pod shut down before the run was done.
    ShuttingDown,
}

/// What such an end says about the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// It did what it is for.
    Success,
    /// It failed.
    Error,
    /// Nothing: the client ended the run, or asked for something impossible.
    Caller,
}

impl RunOutcome {
    /// Every outcome.
    pub const ALL: [Self; 10] = [
        Self::Answered,
        Self::Cancelled,
        Self::MaxTokensExceeded,
        Self::ContextLengthExceeded,
        Self::MaxStepsExceeded,
        Self::MalformedModelOutput,
        Self::ModelUnavailable,
        Self::ModelError,
        Self::RunTimeout,
        Self::ShuttingDown,
    ];

    /// The value of the label `outcome`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Cancelled => "cancelled",
            Self::MaxTokensExceeded => "max_tokens_exceeded",
            Self::ContextLengthExceeded => "context_length_exceeded",
            Self::MaxStepsExceeded => "max_steps_exceeded",
            Self::MalformedModelOutput => "malformed_model_output",
            Self::ModelUnavailable => "model_unavailable",
            Self::ModelError => "model_error",
            Self::RunTimeout => "run_timeout",
            Self::ShuttingDown => "shutting_down",
        }
    }

    /// What it says about the agent.
    pub const fn blame(self) -> Blame {
        match self {
            Self::Answered => Blame::Success,
            Self::Cancelled | Self::MaxTokensExceeded | Self::ContextLengthExceeded => Blame::Caller,
            Self::MaxStepsExceeded
            | Self::MalformedModelOutput
            | Self::ModelUnavailable
            | Self::ModelError
            | Self::RunTimeout
            | Self::ShuttingDown => Blame::Error,
        }
    }
}
