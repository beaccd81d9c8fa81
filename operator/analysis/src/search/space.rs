//! The frozen space of a search: arms (what an engine start fixes), load levels, and what is measured. Pure.

use serde::{Deserialize, Serialize};

use crate::pareto::Direction;
use crate::slo::{Bound, Limit};

/// What a column of an arm's identity means. It feeds the analytic prior and the baselines' coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// GPU product.
    GpuType,
    /// GPUs one model instance is split over.
    TensorParallel,
    /// Model instances per GPU set.
    Instances,
    /// Largest batch the engine forms.
    MaxBatchSize,
    /// Weight or KV-cache precision.
    Precision,
    /// Requests in flight; the role of the level.
    Concurrency,
}

/// One coordinate of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// An ordered quantity.
    Number(f64),
    /// A name.
    Text(String),
}

impl Value {
    /// The name, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) => None,
        }
    }
}

/// A coordinate's name and meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Axis {
    /// Name, as people see it.
    pub name: String,
    /// Meaning, where known.
    pub role: Option<Role>,
}

/// One configuration: what stays fixed while a warm engine walks the load levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arm {
    /// One value per axis.
    pub values: Vec<Value>,
    /// GPUs it occupies.
    pub gpus: f64,
    /// What an hour of one GPU costs, where a metric is divided by money.
    #[serde(default)]
    pub price: Option<f64>,
    /// Expected seconds from "not loaded" to ready; `None` when nothing is known before it was started once.
    pub start_seconds: Option<f64>,
    /// The engine (built artifact) it is served from; arms of one engine share its build.
    pub engine: usize,
    /// Which levels exist, one entry per level of the space.
    pub levels: Vec<bool>,
}

/// What kind of quantity a metric is: how it changes with load and how it couples to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetricKind {
    /// Work a second, whatever the unit and whatever it is divided by.
    Throughput,
    /// Time of a whole request.
    Latency,
    /// Time to first token: noisy and only loosely monotone in load.
    FirstToken,
    /// Time per output token.
    PerToken,
    /// Memory: fixed by the arm.
    Memory,
    /// Busy share of a device.
    Utilization,
    /// Power that a device draws.
    Power,
    /// Share of failed requests; often exactly zero.
    ErrorRate,
    /// Anything else.
    Other,
}

impl MetricKind {
    /// Whether Little's law ties it to throughput: time = concurrency / throughput up to a slowly varying factor.
    #[must_use]
    pub fn is_time(self) -> bool {
        match self {
            Self::Latency | Self::FirstToken | Self::PerToken => true,
            Self::Throughput | Self::Memory | Self::Utilization | Self::Power | Self::ErrorRate | Self::Other => false,
        }
    }

    /// Whether it is sampled of a device now and then, and tied to throughput by nothing that is known.
    #[must_use]
    pub fn is_sampled(self) -> bool {
        match self {
            Self::Utilization | Self::Power => true,
            Self::Throughput
            | Self::Latency
            | Self::FirstToken
            | Self::PerToken
            | Self::Memory
            | Self::ErrorRate
            | Self::Other => false,
        }
    }
}

/// A quantity every run reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Name, as people see it.
    pub name: String,
    /// Kind.
    pub kind: MetricKind,
    /// Expected values per arm and level from an outside model; empty without one. Cells that it leaves out follow the
    /// analytic prior from the nearest level of their arm, or from the mean of all cells.
    pub prior: Vec<Vec<Option<f64>>>,
}

/// What the prior columns of all metrics are worth. The default is that of columns which were made for the space.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Columns {
    /// How their units compare with what is measured.
    pub unit: ColumnUnit,
    /// Positions of the axes that they leave out: their equal values there say nothing.
    pub silent: Vec<usize>,
}

/// How the unit of prior columns compares with what is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnUnit {
    /// It is the same.
    #[default]
    Same,
    /// It may be off by any factor that all cells share, because the columns are of other requests.
    OtherWork,
}

/// A bound on a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// Position of the metric.
    pub metric: usize,
    /// The bound.
    pub bound: Bound,
}

/// The size of a language model, in parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSize {
    /// All of them, those of every expert too.
    pub parameters: f64,
    /// Those that compute one token: fewer in a mixture of experts.
    pub active: f64,
}

/// Everything a search is given before its first measurement. Frozen: a search is a function of it, a seed and the
/// measurements so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Space {
    /// Coordinates of an arm.
    pub axes: Vec<Axis>,
    /// The configurations.
    pub arms: Vec<Arm>,
    /// Load levels, ascending.
    pub levels: Vec<f64>,
    /// Seconds a full run takes; `None` when it is known only afterwards.
    pub run_seconds: Option<f64>,
    /// What is measured.
    pub metrics: Vec<Metric>,
    /// Position of the metric that is optimised.
    pub objective: usize,
    /// Which way it is better.
    pub direction: Direction,
    /// What a configuration must meet.
    pub constraints: Vec<Constraint>,
    /// Expected share of a run that an early verdict charges when the run is infeasible; 1 without early verdicts.
    pub abort_fraction: f64,
    /// Whether metrics that are divided by money are divided by the arms' prices.
    #[serde(default)]
    pub prices_known: bool,
    /// What the prior columns are worth.
    #[serde(default)]
    pub columns: Columns,
    /// The size of the language model that all arms serve, where it is known.
    #[serde(default)]
    pub model: Option<ModelSize>,
}

/// One arm at one level: what one run measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// Position of the arm.
    pub arm: usize,
    /// Position of the level.
    pub level: usize,
}

impl Space {
    /// Whether a cell exists.
    #[must_use]
    pub fn has(&self, cell: Cell) -> bool {
        self.arms.get(cell.arm).is_some_and(|arm| arm.levels.get(cell.level).copied().unwrap_or(false))
    }

    /// All cells, arm by arm, levels ascending.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        self.arms.iter().enumerate().flat_map(|(arm, a)| {
            a.levels.iter().enumerate().filter(|(_, exists)| **exists).map(move |(level, _)| Cell { arm, level })
        })
    }

    /// The position of the first axis with a role.
    #[must_use]
    pub fn axis(&self, role: Role) -> Option<usize> {
        self.axes.iter().position(|axis| axis.role == Some(role))
    }

    /// An arm's number on the axis with a role.
    #[must_use]
    pub fn number(&self, arm: usize, role: Role) -> Option<f64> {
        match self.arms[arm].values.get(self.axis(role)?)? {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// An arm's name on the axis with a role.
    #[must_use]
    pub fn text(&self, arm: usize, role: Role) -> Option<&str> {
        self.arms[arm].values.get(self.axis(role)?)?.text()
    }

    /// Whether values, one per metric, meet every constraint.
    #[must_use]
    pub fn meets(&self, values: &[f64]) -> bool {
        self.constraints.iter().all(|c| self.limit(c).is_met(values[c.metric]))
    }

    /// The greatest factor by which values miss a constraint; at most 1 when all are met, 0 without constraints.
    #[must_use]
    pub fn worst_excess(&self, values: &[f64]) -> f64 {
        self.constraints.iter().map(|c| self.limit(c).excess(values[c.metric])).fold(0.0, f64::max)
    }

    /// A constraint with its metric's name.
    #[must_use]
    pub fn limit(&self, constraint: &Constraint) -> Limit {
        Limit::new(self.metrics[constraint.metric].name.as_str(), constraint.bound)
    }

    /// Orders two values of the objective: `Greater` is better.
    #[must_use]
    pub fn compare(&self, a: f64, b: f64) -> std::cmp::Ordering {
        self.direction.as_cost(b).total_cmp(&self.direction.as_cost(a))
    }
}
