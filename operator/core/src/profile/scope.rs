//! What one Job measures. Pure.

use serde_json::{Value, json};
use slipway_crds::{
    identity::content_hash,
    v1alpha1::{
        ProfileStatus,
        profile::{MeasurementPurpose, NamedConfiguration, ProfiledEngine},
    },
};

/// Begins the name of every Job; the hash of its scope and the number of the attempt follow.
pub const JOB_PREFIX: &str = "profile-";
/// The kind of a Job that compares configurations, in the status.
pub const EXPLORE: &str = "explore";
/// Begins the kind of a Job that measures close points again, in the status; the number of the round follows.
pub const REPEAT: &str = "repeat-";
/// The kind of a Job that runs one point at its target rate, in the status.
pub const CONFIRM: &str = "confirm";

/// The engine and the purpose that a Job measures for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// Name of the Engine object.
    pub engine: &'a str,
    /// What its rows are for.
    pub purpose: MeasurementPurpose,
    /// The round of points that are measured again.
    pub round: Option<i32>,
}

impl<'a> Subject<'a> {
    /// An engine whose configurations are compared.
    pub const fn explored(engine: &'a str) -> Self {
        Self { engine, purpose: MeasurementPurpose::Explore, round: None }
    }
}

/// A configuration of an engine at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point<'a> {
    /// The configuration.
    pub configuration: &'a NamedConfiguration,
    /// Requests or runs in flight.
    pub level: i32,
}

/// What one Job measures.
#[derive(Debug, Clone)]
pub enum JobScope<'a> {
    /// The configurations of an engine.
    Explore {
        /// The engine.
        engine: &'a ProfiledEngine,
    },
    /// Close points of an engine, once more each.
    Repeat {
        /// The engine.
        engine: &'a ProfiledEngine,
        /// The round, from 1.
        round: i32,
        /// The points, in their order.
        points: Vec<Point<'a>>,
    },
    /// One point at its target rate.
    Confirm {
        /// The engine.
        engine: &'a ProfiledEngine,
        /// The configuration.
        configuration: &'a NamedConfiguration,
        /// Runs in flight.
        level: i32,
        /// Runs that arrive in 1,000 seconds.
        arrivals_per_kilosecond: u64,
    },
}

impl<'a> JobScope<'a> {
    /// The kind in the status.
    pub fn kind(&self) -> String {
        match self {
            Self::Explore { .. } => EXPLORE.to_owned(),
            Self::Repeat { round, .. } => format!("{REPEAT}{round}"),
            Self::Confirm { .. } => CONFIRM.to_owned(),
        }
    }

    /// The engine.
    pub fn engine(&self) -> &'a ProfiledEngine {
        match self {
            Self::Explore { engine } | Self::Repeat { engine, .. } | Self::Confirm { engine, .. } => engine,
        }
    }

    /// What its rows are for.
    pub fn purpose(&self) -> MeasurementPurpose {
        match self {
            Self::Explore { .. } => MeasurementPurpose::Explore,
            Self::Repeat { .. } => MeasurementPurpose::Repeat,
            Self::Confirm { .. } => MeasurementPurpose::Confirm,
        }
    }

    /// What its rows are of.
    pub fn subject(&self) -> Subject<'a> {
        let round = match self {
            Self::Repeat { round, .. } => Some(*round),
            Self::Explore { .. } | Self::Confirm { .. } => None,
        };
        Subject { engine: &self.engine().name, purpose: self.purpose(), round }
    }

    /// Short hash of what decides the Job, for its name. AgentDeployments of a namespace may have equal inputs, so the
    /// Profile's name is a part of it. A Job that an earlier release recorded keeps its name.
    pub fn hash(&self, profile: &str, input_hash: &str, status: &ProfileStatus) -> String {
        let point = match self {
            Self::Explore { .. } | Self::Repeat { .. } => json!(null),
            Self::Confirm { configuration, level, .. } => json!([configuration.name, level]),
        };
        let kind = self.kind();
        let mut value = json!({"profile": input_hash, "engine": self.engine().name, "kind": kind, "point": point});
        let short =
            |value: &Value| content_hash(value).expect("texts and integers have a canonical form").short().to_owned();
        let of_earlier_release = short(&value);
        if status.jobs.iter().any(|job| job.kind == kind && job.input_hash == of_earlier_release) {
            return of_earlier_release;
        }
        value["name"] = json!(profile);
        short(&value)
    }
}
