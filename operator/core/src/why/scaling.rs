//! Why an agent that scales itself has as many pods as it has, with the numbers.

use std::fmt;

use slipway_crds::{conditions::Reason, v1alpha1::agent_deployment::UnknownLoad};

/// What follows from the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaling {
    /// Pods that there were.
    pub before: i32,
    /// Pods that there are to be.
    pub pods: i32,
    /// The load; absent while it is not known.
    pub load: Option<Needed>,
    /// Why these pods.
    pub because: Because,
}

/// The load, and the pods that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// Model requests in flight: `12.4`.
    pub requests: String,
    /// The same number in thousandths.
    pub requests_thousandths: i64,
    /// Those that one pod is to carry at most.
    pub target: i32,
    /// Runs that were refused in half a minute.
    pub refused: u64,
    /// Pods that are needed, whatever is allowed.
    pub pods: i32,
}

/// Why there are to be so many pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// They are what the load needs.
    Fits,
    /// More are needed than there were.
    More,
    /// Fewer have been enough for long.
    Fewer,
    /// Fewer would do, but not for long enough.
    NotForLong {
        /// How long it must be so.
        delay: String,
    },
    /// Fewer would do, but a rollout is under way.
    RollingOut,
    /// More are needed than are allowed.
    Limit,
    /// The load is not known.
    Unknown {
        /// Why.
        cause: UnknownLoad,
        /// The same in words, with the remedy.
        problem: String,
    },
}

impl Scaling {
    /// The reason, for conditions and events.
    pub fn reason(&self) -> Reason {
        match &self.because {
            Because::Fits => Reason::ScaledToLoad,
            Because::More => Reason::ScaledUp,
            Because::Fewer => Reason::ScaledDown,
            Because::NotForLong { .. } | Because::RollingOut => Reason::ScaleDownDelayed,
            Because::Limit => Reason::ScalingLimited,
            Because::Unknown { .. } => Reason::LoadUnknown,
        }
    }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, pods, load, because } = self;
        let needed = load.as_ref().map_or(*pods, |load| load.pods);
        if let Some(Needed { requests, target, refused, .. }) = load {
            write!(f, "{requests} model requests in flight, at most {target} a pod")?;
            if *refused > 0 {
                write!(f, ", {refused} runs refused in half a minute")?;
            }
            f.write_str(": ")?;
        }
        let counted = super::counted_pods(*pods);
        match because {
            Because::Fits => f.write_str(&counted),
            Because::More | Because::Fewer => write!(f, "{counted} after {before}"),
            Because::NotForLong { delay } => {
                write!(f, "{needed} would suffice; {counted} stay until that has held for {delay}")
            }
            Because::RollingOut => write!(f, "{needed} would suffice; {counted} stay until the rollout ends"),
            Because::Limit => {
                write!(f, "{needed} are needed but {counted} allowed: raise spec.serving.autoscaling.maxReplicas")
            }
            Because::Unknown { cause: _, problem } => {
                write!(f, "{counted} stay, because the load is unknown: {problem}")
            }
        }
    }
}

/// A number of pods for people: `1 pod`, `3 pods`.
pub fn counted_pods(pods: i32) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}
