//! The answer of `GET /slipway/v1/evidence?after=ID`. Types only.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{RING_WINDOWS, bounded::at_most, plausible::MOST_METRICS};
use crate::{
    LatencyMetric,
    evidence::Histogram,
    telemetry::{GpuWindow, MOST_GPUS},
};

/// Version of the form that this program writes, and the latest that it reads. A field that older readers may leave out
/// raises nothing; a change that they would misread does.
///
/// | version | change |
/// |---|---|
/// | 1 | `TimeToFirstToken` is the run's longest wait for the first token of a model request |
/// | 2 | that is `RequestTimeToFirstToken`; `TimeToFirstToken` is the wait for the first token of the answer |
pub const VERSION: u32 = 2;

/// Longest age that is told apart, in windows: a day.
pub const OLDEST_AGE: u16 = 8_640;

/// Everything a pod has to report after the window the reader named.
///
/// In memory the metrics have the meaning of [`VERSION`], whatever version was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Written")]
pub struct Evidence {
    /// Version of the form that the pod writes. Pods that do not say it write version 1.
    pub version: u32,
    /// The revision the pod serves.
    pub revision: String,
    /// The pod's name.
    pub pod: String,
    /// When the process started (RFC 3339, UTC). Another value means another process: its windows start again, and what
    /// the earlier one had in flight is lost.
    pub started_at: String,
    /// Finished windows, ascending by id. A window in which nothing happened is present, with no or idle metrics.
    pub windows: Vec<Window>,
}

/// One UTC-aligned window of ten seconds; see [`window_id`](crate::evidence::window_id).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Unix seconds of the window's start divided by ten.
    pub id: u64,
    /// One entry per (metric, unit, stratum) that started, finished or was in flight.
    #[serde(deserialize_with = "at_most::<MOST_METRICS, _, _>")]
    pub metrics: Vec<MetricWindow>,
    /// What the pod carried; absent from pods that do not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// What the pod's GPUs did; empty from pods that nobody looks at them for.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<MOST_GPUS, _, _>")]
    pub gpus: Vec<GpuWindow>,
}

/// What a pod carried in one window: the time that each was in flight within it, summed. Over the window's length this
/// is the mean number in flight, without the noise of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Of runs, from admission to their end.
    pub run_microseconds: u64,
    /// Of model requests, from send to last token; a run waits for one at a time.
    pub model_request_microseconds: u64,
}

/// What happened to one metric in one stratum within one window. All are deltas, but for the in-flight figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricWindow {
    /// The metric.
    pub metric: Metric,
    /// What one observation is: there is one observation per unit and metric.
    pub unit: Unit,
    /// The text form of [`Stratum`](crate::evidence::Stratum); empty when the metric is not stratified.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stratum: String,
    /// Units that started in the window.
    #[serde(default)]
    pub started: u64,
    /// Sessions whose first unit started in the window: what the test of the traffic split counts.
    #[serde(default)]
    pub new_sessions: u64,
    /// Units in flight at the window's end.
    #[serde(default)]
    pub in_flight: u64,
    /// Age of the oldest unit in flight at the window's end, microseconds; 0 when none is in flight.
    #[serde(default)]
    pub oldest_in_flight_microseconds: u64,
    /// How old the units in flight are at the window's end: pairs of an age and of the units of that age, without those
    /// of age 0, each age once. An age is what is already certain of the unit's value, in whole windows, at most
    /// [`OLDEST_AGE`]. The age of a run of `AgentRunLatency` is therefore the number of windows that ended since it
    /// started, without this one. Absent from pods that do not count it, and where nothing is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_ages: Option<Vec<(u16, u64)>>,
    /// Units that finished in the window, errors included.
    pub count: u64,
    /// Units that finished with an error, timeouts and cancels past the objective included.
    pub errors: u64,
    /// Sum over the successes, in the metric's unit of value.
    #[serde(default)]
    pub sum_microseconds: u64,
    /// Successes per bucket, in the metric's unit of value.
    #[serde(default)]
    pub buckets: Histogram,
}

impl MetricWindow {
    /// The ages of the units in flight; `None` when the pod does not count them.
    #[must_use]
    pub fn ages(&self) -> Option<Vec<(u16, u64)>> {
        self.in_flight_ages.clone().or_else(|| (self.in_flight == 0).then(Vec::new))
    }
}

/// The form as it was written, by a pod of any version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default = "unsaid_version")]
    version: u32,
    revision: String,
    pod: String,
    started_at: String,
    #[serde(deserialize_with = "at_most::<RING_WINDOWS, _, _>")]
    windows: Vec<Window>,
}

const fn unsaid_version() -> u32 {
    1
}

impl From<Written> for Evidence {
    fn from(Written { version, revision, pod, started_at, mut windows }: Written) -> Self {
        if version == 1 {
            for counted in windows.iter_mut().flat_map(|window| &mut window.metrics) {
                if counted.metric == Metric::TimeToFirstToken {
                    counted.metric = Metric::RequestTimeToFirstToken;
                }
            }
        }
        Self { version, revision, pod, started_at, windows }
    }
}

impl Evidence {
    /// Whether the pod counts how long users wait for the first token of an answer.
    #[must_use]
    pub const fn has_time_to_first_token(&self) -> bool {
        self.version >= 2
    }
}

/// What one observation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// A whole agent run.
    Run,
    /// One model request.
    Request,
    /// One session of a user.
    Session,
}

/// What is measured. Values are microseconds unless stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Metric {
    /// A run from admission to its last byte.
    AgentRunLatency,
    /// The part of a run's critical path that the model takes.
    ModelTime,
    /// The part of a run's critical path that tools take.
    ToolTime,
    /// A model request from send to last token; in agent mode the run's worst.
    RequestLatency,
    /// A model request from send to its first token; in agent mode the run's worst.
    RequestTimeToFirstToken,
    /// A request's mean time between tokens; in agent mode the run's worst.
    InterTokenLatency,
    /// Model calls of a run. Values are calls.
    ModelCallsPerRun,
    /// Output tokens of a run. Values are tokens.
    OutputTokensPerRun,
    /// Whether runs ended with an answer: `count` runs, of which `errors` did not. It has no values.
    RunSuccess,
    /// Time a run waited for a human's approval; not part of any latency.
    ApprovalWait,
    /// Units the client cancelled within the objective; values are their age at the cancel.
    Cancelled,
    /// Units refused for load (429), never started.
    Shed,
    /// Whether runs did what they were for, as clients say afterwards: `count` runs were judged, of which `errors` did
    /// not. Values are the scores of the others, in millionths.
    TaskSuccess,
    /// A run from admission to the first token of its answer.
    TimeToFirstToken,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 14] = [
        Self::AgentRunLatency,
        Self::ModelTime,
        Self::ToolTime,
        Self::RequestLatency,
        Self::RequestTimeToFirstToken,
        Self::InterTokenLatency,
        Self::ModelCallsPerRun,
        Self::OutputTokensPerRun,
        Self::RunSuccess,
        Self::ApprovalWait,
        Self::Cancelled,
        Self::Shed,
        Self::TaskSuccess,
        Self::TimeToFirstToken,
    ];

    /// The metric by which the evidence counts what an objective can bound.
    #[must_use]
    pub const fn of(latency: LatencyMetric) -> Self {
        match latency {
            LatencyMetric::RequestLatency => Self::RequestLatency,
            LatencyMetric::TimeToFirstToken => Self::TimeToFirstToken,
            LatencyMetric::RequestTimeToFirstToken => Self::RequestTimeToFirstToken,
            LatencyMetric::InterTokenLatency => Self::InterTokenLatency,
            LatencyMetric::AgentRunLatency => Self::AgentRunLatency,
        }
    }

    /// The latency that it counts, if an objective can bound it.
    #[must_use]
    pub const fn latency(self) -> Option<LatencyMetric> {
        match self {
            Self::RequestLatency => Some(LatencyMetric::RequestLatency),
            Self::TimeToFirstToken => Some(LatencyMetric::TimeToFirstToken),
            Self::RequestTimeToFirstToken => Some(LatencyMetric::RequestTimeToFirstToken),
            Self::InterTokenLatency => Some(LatencyMetric::InterTokenLatency),
            Self::AgentRunLatency => Some(LatencyMetric::AgentRunLatency),
            Self::ModelTime
            | Self::ToolTime
            | Self::ModelCallsPerRun
            | Self::OutputTokensPerRun
            | Self::RunSuccess
            | Self::ApprovalWait
            | Self::Cancelled
            | Self::Shed
            | Self::TaskSuccess => None,
        }
    }

    /// The metric's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AgentRunLatency => "AgentRunLatency",
            Self::ModelTime => "ModelTime",
            Self::ToolTime => "ToolTime",
            Self::RequestLatency => "RequestLatency",
            Self::TimeToFirstToken => "TimeToFirstToken",
            Self::RequestTimeToFirstToken => "RequestTimeToFirstToken",
            Self::InterTokenLatency => "InterTokenLatency",
            Self::ModelCallsPerRun => "ModelCallsPerRun",
            Self::OutputTokensPerRun => "OutputTokensPerRun",
            Self::RunSuccess => "RunSuccess",
            Self::ApprovalWait => "ApprovalWait",
            Self::Cancelled => "Cancelled",
            Self::Shed => "Shed",
            Self::TaskSuccess => "TaskSuccess",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
