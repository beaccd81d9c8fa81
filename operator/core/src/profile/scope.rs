//! What one Job measures. Pure.

use serde_json::json;
use slipway_crds::{
    identity::content_hash,
    v1alpha1::profile::{MeasurementPurpose, NamedConfiguration, ProfiledEngine},
};

/// Begins the name of every Job; the hash of its scope and the number of the attempt follow.
pub const JOB_PREFIX: &str = "profile-";
/// The kind of a Job that compares configurations, in the status.
pub const EXPLORE: &str = "explore";
/// The kind of a Job that runs one point at its target rate, in the status.
pub const CONFIRM: &str = "confirm";

/// The engine and the purpose that a Job measures for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// Name of the Engine object.
    pub engine: &'a str,
    /// What its rows are for.
    pub purpose: MeasurementPurpose,
}

/// What one Job measures.
#[derive(Debug, Clone, Copy)]
pub enum JobScope<'a> {
    /// The configurations of an engine.
    Explore {
        /// The engine.
        engine: &'a ProfiledEngine,
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
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Explore { .. } => EXPLORE,
            Self::Confirm { .. } => CONFIRM,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &'a ProfiledEngine {
        match self {
            Self::Explore { engine } | Self::Confirm { engine, .. } => engine,
        }
    }

    /// What its rows are for.
    pub fn purpose(&self) -> MeasurementPurpose {
        match self {
            Self::Explore { .. } => MeasurementPurpose::Explore,
            Self::Confirm { .. } => MeasurementPurpose::Confirm,
        }
    }

    /// What its rows are of.
    pub fn subject(&self) -> Subject<'a> {
        Subject { engine: &self.engine().name, purpose: self.purpose() }
    }

    /// Short hash of what decides the Job, for its name.
    pub fn hash(&self, input_hash: &str) -> String {
        let point = match self {
            Self::Explore { .. } => json!(null),
            Self::Confirm { configuration, level, .. } => json!([configuration.name, level]),
        };
        let value = json!({
            "profile": input_hash, "engine": self.engine().name, "kind": self.kind(), "point": point,
        });
        content_hash(&value).expect("texts and integers have a canonical form").short().to_owned()
    }
}
