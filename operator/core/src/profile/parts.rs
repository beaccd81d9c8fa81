//! What planners of Profiles return: a value, and with it their part of the plan. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    agent_deployment::JobAttempt,
    profile::{AskedEngine, Infeasible, MeasuredEngine, Measurement, NotMeasured, ProfileChoice, WarmStart},
};

use crate::parts::{self, Findings};

/// Entries of `status.measurements`.
pub(super) const MAX_MEASUREMENTS: usize = 320;
/// Entries of `status.notMeasured`.
const MAX_NOT_MEASURED: usize = 128;

/// What a planner contributes to the plan.
pub type Parts = parts::Parts<Found>;

/// A planner's value, and what it contributes.
pub type Planned<T> = parts::Planned<T, Found>;

/// What was found out for the status. Absent parts of the status stay as they were.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Rows, in the order in which they were found. One of a point that already has a row for its purpose is left out.
    pub measurements: Vec<Measurement>,
    /// What was not measured, and why. Entries that are already known are left out.
    pub not_measured: Vec<NotMeasured>,
    /// What the search begins with.
    pub warm_start: Option<WarmStart>,
    /// Engines that the search asks for. A known one gets its artifact.
    pub asked: Vec<AskedEngine>,
    /// Engines whose measurements have ended.
    pub engines: Vec<MeasuredEngine>,
    /// Attempts of Jobs; each replaces the previous one with the same kind and input.
    pub jobs: Vec<JobAttempt>,
    /// Positions of the rows that nothing beats in both latency and throughput.
    pub front: Option<Vec<i32>>,
    /// The choice.
    pub choice: Option<ProfileChoice>,
    /// Why there is no choice.
    pub infeasible: Option<Infeasible>,
}

impl Findings for Found {
    fn and(self, later: Self) -> Self {
        let Self { measurements, not_measured, warm_start, asked, engines, jobs, front, choice, infeasible } = later;
        Self {
            measurements: [self.measurements, measurements].concat(),
            not_measured: [self.not_measured, not_measured].concat(),
            warm_start: warm_start.or(self.warm_start),
            asked: [self.asked, asked].concat(),
            engines: [self.engines, engines].concat(),
            jobs: [self.jobs, jobs].concat(),
            front: front.or(self.front),
            choice: choice.or(self.choice),
            infeasible: infeasible.or(self.infeasible),
        }
    }
}

impl Found {
    /// The status with what was found out so far, for the planners that come next.
    pub fn seen_from(&self, before: &ProfileStatus) -> ProfileStatus {
        self.clone().into_status(before.clone())
    }

    /// The status with what was found out.
    pub fn into_status(self, before: ProfileStatus) -> ProfileStatus {
        let Self { measurements, not_measured, warm_start, asked, engines, jobs, front, choice, infeasible } = self;
        ProfileStatus {
            measurements: measurements.into_iter().fold(before.measurements, with_row),
            not_measured: not_measured.into_iter().fold(before.not_measured, with_not_measured),
            warm_start: warm_start.or(before.warm_start),
            asked: asked.into_iter().fold(before.asked, with_asked),
            engines: [before.engines, engines].concat(),
            jobs: jobs.into_iter().fold(before.jobs, with_attempt),
            front: front.unwrap_or(before.front),
            choice: choice.or(before.choice),
            infeasible: infeasible.or(before.infeasible),
            ..before
        }
    }
}

fn with_row(mut rows: Vec<Measurement>, row: Measurement) -> Vec<Measurement> {
    if rows.len() < MAX_MEASUREMENTS && !rows.iter().any(|known| is_same_point(known, &row)) {
        rows.push(row);
    }
    rows
}

/// Whether two rows are of the same configuration of an engine at the same level, for the same purpose and
/// round.
fn is_same_point(a: &Measurement, b: &Measurement) -> bool {
    (&a.engine, &a.configuration, a.level, a.purpose, a.round)
        == (&b.engine, &b.configuration, b.level, b.purpose, b.round)
}

fn with_not_measured(mut known: Vec<NotMeasured>, entry: NotMeasured) -> Vec<NotMeasured> {
    let what = |of: &NotMeasured| (of.engine.clone(), of.configuration.clone(), of.from_level, of.to_level);
    if known.len() < MAX_NOT_MEASURED && !known.iter().any(|known| what(known) == what(&entry)) {
        known.push(entry);
    }
    known
}

fn with_asked(mut known: Vec<AskedEngine>, asked: AskedEngine) -> Vec<AskedEngine> {
    match known.iter_mut().find(|known| known.engine == asked.engine) {
        Some(known) => known.manifest_digest = asked.manifest_digest.or(known.manifest_digest.take()),
        None => known.push(asked),
    }
    known
}

fn with_attempt(mut jobs: Vec<JobAttempt>, attempt: JobAttempt) -> Vec<JobAttempt> {
    match jobs.iter_mut().find(|job| job.kind == attempt.kind && job.input_hash == attempt.input_hash) {
        Some(job) => *job = attempt,
        None => jobs.push(attempt),
    }
    jobs
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn attempt(input: &str, attempt: i32) -> JobAttempt {
        JobAttempt { kind: "explore".to_owned(), input_hash: input.to_owned(), attempt }
    }

    fn skipped(engine: &str, reason: &str) -> NotMeasured {
        let (configuration, from_level, to_level) = (None, None, None);
        NotMeasured { engine: engine.to_owned(), configuration, from_level, to_level, reason: reason.to_owned() }
    }

    #[test]
    fn an_attempt_keeps_the_place_of_the_one_that_it_replaces() {
        let before = ProfileStatus { jobs: vec![attempt("a", 1), attempt("b", 1)], ..ProfileStatus::default() };
        let found = Found { jobs: vec![attempt("a", 2), attempt("c", 1)], ..Found::default() };
        assert_eq!(found.seen_from(&before).jobs, [attempt("a", 2), attempt("b", 1), attempt("c", 1)]);
    }

    #[test]
    fn what_was_not_measured_keeps_its_first_reason() {
        let found =
            Found { not_measured: vec![skipped("a", "too slow"), skipped("b", "too slow")], ..Found::default() };
        let later = Found { not_measured: vec![skipped("a", "out of memory")], ..Found::default() };
        let status = found.and(later).into_status(ProfileStatus::default());
        assert_eq!(status.not_measured, [skipped("a", "too slow"), skipped("b", "too slow")]);
    }

    #[test]
    fn without_findings_a_status_stays_as_it_is() {
        let before = ProfileStatus { front: vec![3], jobs: vec![attempt("a", 1)], rows: 4, ..ProfileStatus::default() };
        assert_eq!(Found::default().into_status(before.clone()), before);
    }
}
