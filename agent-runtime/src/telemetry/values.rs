//! The values of one run, finished or under way. Pure.

use slipway_vocabulary::evidence::Metric;

use crate::clock::Timestamp;

/// The values of a run that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunValues {
    /// From admission to the end, microseconds.
    pub run_micros: u64,
    /// Waiting for the model, microseconds.
    pub model_micros: u64,
    /// Waiting for tools, microseconds.
    pub tool_micros: u64,
    /// The run's slowest model request, microseconds.
    pub worst_request_micros: Option<u64>,
    /// From admission to the first token of the answer, microseconds.
    pub first_token_micros: Option<u64>,
    /// The longest wait for the first token of a model request, microseconds.
    pub worst_request_first_token_micros: Option<u64>,
    /// The worst of the requests' mean gaps between tokens, microseconds.
    pub worst_inter_token_micros: Option<u64>,
    /// How many model calls it made.
    pub model_calls: u64,
    /// How many tokens the model wrote.
    pub output_tokens: u64,
}

/// What is already certain of a run under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time in finished model calls.
    pub model_micros: u64,
    /// Time in finished turns of tools.
    pub tool_micros: u64,
    /// The slowest finished model request.
    pub worst_request_micros: u64,
    /// The wait for the first token of the answer; nothing before it has come.
    pub first_token_micros: Option<u64>,
    /// The longest wait for the first token of a model request that has come.
    pub worst_request_first_token_micros: u64,
    /// What the run waits for.
    pub waiting: Waiting,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing that takes time.
    #[default]
    Nothing,
    /// A model call.
    Model {
        /// Since when.
        since: Timestamp,
        /// Whether a first token has come.
        has_first_token: bool,
    },
    /// Tools.
    Tools {
        /// Since when.
        since: Timestamp,
    },
}

impl Waiting {
    /// Whether a model request is in flight.
    pub(super) const fn is_for_model(self) -> bool {
        matches!(self, Self::Model { .. })
    }
}

/// The metrics of a run, in the order of the wire.
pub(super) const RUN_METRICS: [Metric; 10] = [
    Metric::AgentRunLatency,
    Metric::ModelTime,
    Metric::ToolTime,
    Metric::RequestLatency,
    Metric::RequestTimeToFirstToken,
    Metric::InterTokenLatency,
    Metric::ModelCallsPerRun,
    Metric::OutputTokensPerRun,
    Metric::RunSuccess,
    Metric::TimeToFirstToken,
];

/// Whether a metric says when tokens come, which nobody sees of answers that the engine sends as one.
pub(super) const fn is_of_tokens(metric: Metric) -> bool {
    match metric {
        Metric::RequestTimeToFirstToken | Metric::InterTokenLatency | Metric::TimeToFirstToken => true,
        Metric::AgentRunLatency
        | Metric::ModelTime
        | Metric::ToolTime
        | Metric::RequestLatency
        | Metric::ModelCallsPerRun
        | Metric::OutputTokensPerRun
        | Metric::RunSuccess
        | Metric::TaskSuccess
        | Metric::ApprovalWait
        | Metric::Cancelled
        | Metric::Shed => false,
    }
}

impl RunValues {
    /// The value of a metric; nothing where the run has none, as a run of one token has no gap between tokens.
    pub(super) fn of(&self, metric: Metric) -> Option<u64> {
        match metric {
            Metric::AgentRunLatency => Some(self.run_micros),
            Metric::ModelTime => Some(self.model_micros),
            Metric::ToolTime => Some(self.tool_micros),
            Metric::RequestLatency => self.worst_request_micros,
            Metric::TimeToFirstToken => self.first_token_micros,
            Metric::RequestTimeToFirstToken => self.worst_request_first_token_micros,
            Metric::InterTokenLatency => self.worst_inter_token_micros,
            Metric::ModelCallsPerRun => Some(self.model_calls),
            Metric::OutputTokensPerRun => Some(self.output_tokens),
            Metric::RunSuccess | Metric::TaskSuccess | Metric::ApprovalWait | Metric::Cancelled | Metric::Shed => None,
        }
    }
}

impl Progress {
    /// The least that a latency of a run under way will be, in microseconds: what is "already longer than" a threshold
    /// will be so in the end. Zero for metrics that do not measure waiting.
    pub(super) fn at_least(&self, metric: Metric, started: Timestamp, now: Timestamp) -> u64 {
        let (in_model, in_first_token, in_tools) = match self.waiting {
            Waiting::Nothing => (0, 0, 0),
            Waiting::Model { since, has_first_token } => {
                let waited = now.micros_since(since);
                (waited, if has_first_token { 0 } else { waited }, 0)
            }
            Waiting::Tools { since } => (0, 0, now.micros_since(since)),
        };
        match metric {
            Metric::AgentRunLatency | Metric::RunSuccess => now.micros_since(started),
            Metric::ModelTime => self.model_micros + in_model,
            Metric::ToolTime => self.tool_micros + in_tools,
            Metric::RequestLatency => self.worst_request_micros.max(in_model),
            Metric::TimeToFirstToken => self.first_token_micros.unwrap_or_else(|| now.micros_since(started)),
            Metric::RequestTimeToFirstToken => self.worst_request_first_token_micros.max(in_first_token),
            Metric::InterTokenLatency | Metric::ModelCallsPerRun | Metric::OutputTokensPerRun => 0,
            Metric::TaskSuccess | Metric::ApprovalWait | Metric::Cancelled | Metric::Shed => 0,
        }
    }
}
