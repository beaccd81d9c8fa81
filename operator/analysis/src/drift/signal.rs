//! What may drift, and which part of a run it is about. Pure.

use std::fmt;

use slipway_vocabulary::evidence::Metric;

use crate::judge::state::codes;

/// What drifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// A metric lies above its baseline within matched strata.
    Slower(Metric),
    /// More units fail than in the baseline.
    Errors(Metric),
    /// Lengths or steps lie above the baseline.
    Longer(Metric),
    /// Lengths or steps lie below the baseline.
    Shorter(Metric),
    /// More long prompts.
    LongerPrompts,
    /// More short prompts.
    ShorterPrompts,
    /// More units in flight than the baseline ever had: what is served there has nothing to be compared with.
    MoreInFlight,
}

/// What a signal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// What is asked.
    Workload,
    /// How it is served.
    Behavior,
}

/// Whose time a signal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The model's, which another engine or configuration changes.
    Model,
    /// The tools', which no engine changes.
    Tools,
}

impl Signal {
    /// What the signal is about.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::Longer(_) | Self::Shorter(_) | Self::LongerPrompts | Self::ShorterPrompts | Self::MoreInFlight => {
                Family::Workload
            }
            Self::Slower(_) | Self::Errors(_) => Family::Behavior,
        }
    }

    /// Whose time it is; `None` where it may be that of both, as the time of a run is. A run that fails does so in
    /// every metric, so failures have no part.
    #[must_use]
    pub const fn part(self) -> Option<Part> {
        match self {
            Self::Slower(metric) => match metric {
                Metric::ModelTime
                | Metric::RequestLatency
                | Metric::RequestTimeToFirstToken
                | Metric::InterTokenLatency => Some(Part::Model),
                Metric::ToolTime => Some(Part::Tools),
                Metric::AgentRunLatency
                | Metric::TimeToFirstToken
                | Metric::ModelCallsPerRun
                | Metric::OutputTokensPerRun
                | Metric::RunSuccess
                | Metric::TaskSuccess
                | Metric::ApprovalWait
                | Metric::Cancelled
                | Metric::Shed => None,
            },
            Self::Errors(_)
            | Self::Longer(_)
            | Self::Shorter(_)
            | Self::LongerPrompts
            | Self::ShorterPrompts
            | Self::MoreInFlight => None,
        }
    }

    /// Kind and metric as they are stored; signals without a metric store 0.
    pub(super) fn code(self) -> (u8, u8) {
        match self {
            Self::Slower(metric) => (0, codes::of_metric(metric)),
            Self::Errors(metric) => (1, codes::of_metric(metric)),
            Self::Longer(metric) => (2, codes::of_metric(metric)),
            Self::Shorter(metric) => (3, codes::of_metric(metric)),
            Self::LongerPrompts => (4, 0),
            Self::ShorterPrompts => (5, 0),
            Self::MoreInFlight => (6, 0),
        }
    }

    pub(super) fn from_code(kind: u8, metric: u8) -> Option<Self> {
        let metric = codes::metric(metric)?;
        match kind {
            0 => Some(Self::Slower(metric)),
            1 => Some(Self::Errors(metric)),
            2 => Some(Self::Longer(metric)),
            3 => Some(Self::Shorter(metric)),
            4 => Some(Self::LongerPrompts),
            5 => Some(Self::ShorterPrompts),
            6 => Some(Self::MoreInFlight),
            _ => None,
        }
    }

    /// The name in the status. It is recorded and compared there, so it stays even where messages say the same
    /// otherwise.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Slower(metric) => format!("{} is slower", metric.as_str()),
            Self::Errors(metric) => format!("{} has more errors", metric.as_str()),
            Self::Longer(metric) => format!("{} is higher", metric.as_str()),
            Self::Shorter(metric) => format!("{} is lower", metric.as_str()),
            Self::LongerPrompts => "more prompts are long".to_owned(),
            Self::ShorterPrompts => "more prompts are short".to_owned(),
            Self::MoreInFlight => "more runs are in flight".to_owned(),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slower(metric) => write!(f, "{metric} is slower"),
            Self::Errors(metric) => write!(f, "{metric} has more errors"),
            Self::Longer(metric) => write!(f, "{metric} is higher"),
            Self::Shorter(metric) => write!(f, "{metric} is lower"),
            Self::LongerPrompts => f.write_str("more prompts are long"),
            Self::ShorterPrompts => f.write_str("more prompts are short"),
            Self::MoreInFlight => f.write_str("more runs are in flight"),
        }
    }
}
