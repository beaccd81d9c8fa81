//! What the judge says, and why. Pure.

use std::fmt;

use serde::Serialize;
pub use slipway_vocabulary::RolloutVerdict as Verdict;
use slipway_vocabulary::{Percentile, evidence::Metric};

use super::{
    guard::{Evidence, Harm},
    observation::Key,
};

/// Why, with the numbers. Displayed as `Code: numbers`.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// No pod of the canary has reported for a minute.
    EvidenceUnreachable {
        /// Seconds since the last report.
        silent_seconds: u64,
    },
    /// The canary reports and nothing has started there for a minute.
    NoTraffic {
        /// Seconds since a unit last started or finished.
        idle_seconds: u64,
    },
    /// The step is younger than its shortest soak.
    Soaking {
        /// Seconds at this step.
        elapsed_seconds: u64,
        /// Shortest soak.
        min_seconds: u64,
    },
    /// Too few units of the canary have finished at this step.
    TooFewUnits {
        /// Finished units.
        finished: u64,
        /// Units needed.
        needed: u64,
    },
    /// The evidence of harm is too strong to go on and too weak to roll back.
    HarmSuspected {
        /// What looks worst.
        suspect: Suspect,
        /// Log of the weighted mean of e-values.
        ln_e: f64,
        /// Log at which the canary is rolled back.
        ln_rollback: f64,
    },
    /// Pods of the canary fail together, and stable's do not. No test says so but a rule: few pods can never show harm
    /// at a level of 1 %, for what fails on one pod fails together.
    PodsFailing {
        /// Pods of the canary that fail at least half of their units.
        failing: usize,
        /// Pods of the canary with traffic.
        pods: usize,
        /// Seconds for which they have failed.
        seconds: u64,
    },
    /// The canary has more errors than stable, and at least half of them came together on a pod: that may be the pod's
    /// fault. More pods, or a longer soak, tell it from the revision's.
    ErrorsWithinPods {
        /// The metric.
        metric: Metric,
        /// Errors that came together with others of their pod.
        together: u64,
        /// All errors of the canary.
        failed: u64,
    },
    /// The canary's error rate is above `errorRateMax`.
    ErrorRateExceeded {
        /// The metric.
        metric: Metric,
        /// Errors per finished unit.
        rate: f64,
        /// The limit.
        limit: f64,
    },
    /// An objective's percentile has been compared with too few units. Below so many an equal canary is not expected to
    /// be shown non-inferior either.
    TooFewUnitsAtPercentile {
        /// The metric.
        metric: Metric,
        /// The objective's percentile.
        percentile: Percentile,
        /// Units that were compared, as if both revisions had as many.
        finished: u64,
        /// Units per revision that are needed; `None` where pods of a revision differ too much for any number.
        needed: Option<u64>,
    },
    /// Non-inferiority is not shown yet.
    NotYetNonInferior {
        /// The metric that is furthest from it.
        metric: Metric,
        /// Its log e-value.
        ln_e: f64,
        /// Log of what is needed.
        ln_needed: f64,
    },
    /// The longest soak has passed without a verdict.
    VerdictUnreachable {
        /// Seconds at this step.
        elapsed_seconds: u64,
        /// Longest soak.
        max_seconds: u64,
        /// What is missing.
        missing: Box<Reason>,
    },
    /// The step is passed.
    StepPassed {
        /// Finished units of the canary at this step.
        finished: u64,
    },
    /// Every guard is non-inferior and nothing is harmed.
    NonInferior {
        /// The smallest log e-value of non-inferiority; infinite when there is nothing to compare with.
        ln_e: f64,
    },
    /// Harm is shown.
    HarmShown {
        /// What contributes most.
        suspect: Suspect,
        /// Log of the weighted mean of e-values.
        ln_e: f64,
        /// Log at which the canary is rolled back.
        ln_rollback: f64,
    },
}

/// A guard and the harm that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The guard.
    pub key: Key,
    /// The harm.
    pub harm: Harm,
}

/// Which part of an agent made a canary worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Blame {
    /// The engine or its configuration.
    Engine,
    /// The tools.
    Tools,
    /// More steps, or longer answers.
    Steps,
}

impl Blame {
    /// The name in messages and in the JSON of the offline judge.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "Engine",
            Self::Tools => "Tools",
            Self::Steps => "Steps",
        }
    }
}

/// The judge's answer for one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The second at which the window ends.
    pub end_seconds: u64,
    /// The step that was judged, counted from zero.
    pub step: usize,
    /// What is to be done.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
}

impl Reason {
    /// The closed name of the reason: for conditions, events and metric labels.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EvidenceUnreachable { .. } => "EvidenceUnreachable",
            Self::NoTraffic { .. } => "NoTraffic",
            Self::Soaking { .. } => "Soaking",
            Self::TooFewUnits { .. } => "TooFewUnits",
            Self::HarmSuspected { .. } => "HarmSuspected",
            Self::PodsFailing { .. } => "PodsFailing",
            Self::ErrorsWithinPods { .. } => "ErrorsWithinPods",
            Self::ErrorRateExceeded { .. } => "ErrorRateExceeded",
            Self::TooFewUnitsAtPercentile { .. } => "TooFewUnitsAtPercentile",
            Self::NotYetNonInferior { .. } => "NotYetNonInferior",
            Self::VerdictUnreachable { .. } => "VerdictUnreachable",
            Self::StepPassed { .. } => "StepPassed",
            Self::NonInferior { .. } => "NonInferior",
            Self::HarmShown { suspect, .. } => match suspect.harm {
                Harm::Relative => "RelativeHarm",
                Harm::Absolute(_) => "AbsoluteHarm",
                Harm::Errors => "ErrorHarm",
                Harm::Hanging => "Hanging",
            },
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code())?;
        match self {
            Self::EvidenceUnreachable { silent_seconds } => {
                write!(f, "no pod of the canary has reported for {silent_seconds} s")
            }
            Self::NoTraffic { idle_seconds } => write!(f, "nothing started on the canary for {idle_seconds} s"),
            Self::Soaking { elapsed_seconds, min_seconds } => write!(f, "{elapsed_seconds} of {min_seconds} s"),
            Self::TooFewUnits { finished, needed } => write!(f, "{finished} of {needed} finished units of the canary"),
            Self::HarmSuspected { suspect, ln_e, ln_rollback } | Self::HarmShown { suspect, ln_e, ln_rollback } => {
                write!(f, "{suspect}; log evidence {ln_e:.2}, rollback at {ln_rollback:.2}")
            }
            Self::PodsFailing { failing, pods, seconds } => {
                write!(
                    f,
                    "{failing} of {pods} pods of the canary fail at least half of their units for {seconds} s, by rule"
                )
            }
            Self::ErrorsWithinPods { metric, together, failed } => {
                write!(
                    f,
                    "{together} of {failed} errors of the canary came together on a pod; counted by unit, {metric} would \
                     be harmed: more pods or a longer soak tell"
                )
            }
            Self::ErrorRateExceeded { metric, rate, limit } => {
                write!(f, "{metric} fails in {:.2} % of units, limit {:.2} %", rate * 100.0, limit * 100.0)
            }
            Self::TooFewUnitsAtPercentile { metric, percentile, finished, needed: Some(needed) } => {
                write!(f, "{metric} at {percentile} has {finished} of {needed} comparable units of each revision")
            }
            Self::TooFewUnitsAtPercentile { metric, percentile, finished, needed: None } => {
                write!(
                    f,
                    "{metric} at {percentile}: pods of a revision differ too much, after {finished} units of each"
                )
            }
            Self::NotYetNonInferior { metric, ln_e, ln_needed } => {
                write!(f, "{metric} has log evidence {ln_e:.2} of {ln_needed:.2}")
            }
            Self::VerdictUnreachable { elapsed_seconds, max_seconds, missing } => {
                write!(f, "{elapsed_seconds} s at this step, longest {max_seconds} s; {missing}")
            }
            Self::StepPassed { finished } => write!(f, "{finished} finished units of the canary, no harm"),
            Self::NonInferior { ln_e } => write!(f, "smallest log evidence {ln_e:.2}, no harm"),
        }
    }
}

impl fmt::Display for Suspect {
    /// The name of a piece of evidence, as in `logEvidence`: `RequestLatency/relative`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.key.metric)?;
        match self.harm {
            Harm::Relative => write!(f, "relative"),
            Harm::Absolute(position) => write!(f, "absolute/{position}"),
            Harm::Errors => write!(f, "errors"),
            Harm::Hanging => write!(f, "hanging"),
        }
    }
}

/// Returns who is to blame for a rollback.
///
/// Evidence that alone reaches `K / alpha` among `K` pieces accuses (Bonferroni for e-values); when none does, the
/// largest. More steps make more model time and more tool time, so those two accuse only when steps are not accused.
#[must_use]
pub fn blame(evidence: &[Evidence], alpha: f64) -> Vec<Blame> {
    let limit = (evidence.len() as f64 / alpha).ln();
    let worst = evidence.iter().filter(|evidence| evidence.weight > 0.0).map(|evidence| evidence.ln_e);
    let limit = limit.min(worst.fold(f64::NEG_INFINITY, f64::max));
    let accused: Vec<Metric> =
        evidence.iter().filter(|evidence| evidence.ln_e >= limit).map(|evidence| evidence.key.metric).collect();
    let accuses = |metrics: &[Metric]| accused.iter().any(|metric| metrics.contains(metric));
    let has_more_steps = accuses(&[Metric::ModelCallsPerRun, Metric::OutputTokensPerRun]);
    let mut blame = Vec::new();
    if accuses(&[Metric::RequestLatency, Metric::RequestTimeToFirstToken, Metric::InterTokenLatency])
        || (accuses(&[Metric::ModelTime]) && !has_more_steps)
    {
        blame.push(Blame::Engine);
    }
    if accuses(&[Metric::ToolTime]) && !has_more_steps {
        blame.push(Blame::Tools);
    }
    if has_more_steps {
        blame.push(Blame::Steps);
    }
    blame
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use slipway_vocabulary::{
        Percentile,
        evidence::{Metric, Unit},
    };

    use super::{Blame, Evidence, Harm, Key, Reason, Suspect, blame};

    #[rstest]
    #[case(&[(Metric::ModelTime, 20.0), (Metric::ToolTime, 0.0)], &[Blame::Engine])]
    #[case(&[(Metric::ModelTime, 0.0), (Metric::ToolTime, 20.0)], &[Blame::Tools])]
    #[case(&[(Metric::ModelTime, 20.0), (Metric::ToolTime, 15.0), (Metric::ModelCallsPerRun, 30.0)], &[Blame::Steps])]
    #[case(&[(Metric::InterTokenLatency, 20.0), (Metric::OutputTokensPerRun, 30.0)], &[Blame::Engine, Blame::Steps])]
    #[case(&[(Metric::AgentRunLatency, 20.0), (Metric::ModelTime, 1.0)], &[])]
    fn blame_follows_the_part_that_changed(#[case] ln_e: &[(Metric, f64)], #[case] expected: &[Blame]) {
        let evidence: Vec<Evidence> = ln_e
            .iter()
            .map(|(metric, ln_e)| Evidence {
                key: Key { metric: *metric, unit: Unit::Run },
                harm: Harm::Relative,
                ln_e: *ln_e,
                weight: 0.1,
            })
            .collect();
        assert_eq!(blame(&evidence, 0.01), expected);
    }

    #[test]
    fn a_reason_carries_its_numbers() {
        let suspect = Suspect { key: Key { metric: Metric::ModelTime, unit: Unit::Run }, harm: Harm::Absolute(2) };
        let reason = Reason::HarmShown { suspect, ln_e: 5.0, ln_rollback: 4.605 };
        assert_eq!(reason.to_string(), "AbsoluteHarm: ModelTime/absolute/2; log evidence 5.00, rollback at 4.61");
        let reason = Reason::Soaking { elapsed_seconds: 30, min_seconds: 600 };
        assert_eq!(reason.to_string(), "Soaking: 30 of 600 s");
        let (metric, percentile) = (Metric::ModelTime, Percentile::P95);
        let few = |needed| Reason::TooFewUnitsAtPercentile { metric, percentile, finished: 812, needed }.to_string();
        let words = "TooFewUnitsAtPercentile: ModelTime at p95 has 812 of 4100 comparable units of each revision";
        assert_eq!(few(Some(4_100)), words);
        let words =
            "TooFewUnitsAtPercentile: ModelTime at p95: pods of a revision differ too much, after 812 units of each";
        assert_eq!(few(None), words);
        let reason = Reason::PodsFailing { failing: 2, pods: 3, seconds: 60 };
        let words = "PodsFailing: 2 of 3 pods of the canary fail at least half of their units for 60 s, by rule";
        assert_eq!(reason.to_string(), words);
    }
}
