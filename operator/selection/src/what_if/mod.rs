//! What other objectives, prices or traffic would lead to, from rows that are known: nothing is measured. Pure.
//!
//! Rows are judged, ranked and chosen by the code of campaigns.

mod figures;
mod question;

use serde::Serialize;
use slipway_crds::v1alpha1::{
    ProfileStatus,
    agent_deployment::{OptimizeFor, ProfilingDriver, ThroughputUnit},
    profile::{
        Infeasible, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileChoice, ProfileInputs,
    },
};

pub use crate::bounds::Interval;

pub use self::{
    figures::{Cost, Fleet},
    question::{AskedObjective, AskedPrice, Question, Unanswerable, Which},
};
use crate::{
    bounds, close,
    confirm::{Conclusion, conclude},
    cost::ReplicaPrice,
    infeasible,
    judged::{Judged, judge},
    select,
    target::target_per_kilosecond,
};

/// What would be chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// How rows were ranked.
    pub optimize_for: OptimizeFor,
    /// What the rows of exploration count.
    pub unit: ThroughputUnit,
    /// Number of points that meet the objectives.
    pub candidates: usize,
    /// The point that would serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// Why none would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<Infeasible>,
    /// Points whose bounds leave an objective open. A campaign would measure them again, and one may turn out better.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Open>,
}

/// The point that would serve.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// Position of its row in `status.measurements`.
    pub row: usize,
    /// Name of the Engine object.
    pub engine: String,
    /// Name of the configuration.
    pub configuration: String,
    /// Requests or runs in flight on a replica.
    pub level: i32,
    /// Whether it is the choice of the Profile.
    pub is_unchanged: bool,
    /// Whether a confirm run holds it.
    pub confirmation: Confirmation,
    /// Why it would be chosen.
    pub why: String,
    /// Its throughput per 1,000 seconds.
    pub per_kilosecond: Interval,
    /// Its latencies that are bounded, with their 95 % bounds.
    pub latencies: Vec<MeasuredLatency>,
    /// What it costs. Absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What the traffic needs. Absent where none is asked about, and where runs are that no confirm run had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
}

/// Whether a confirm run holds a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Confirmation {
    /// It does.
    Confirmed,
    /// A campaign would run one: none that is known has this load.
    Missing,
    /// There are no recorded runs to confirm with.
    NotPossible,
}

/// A point that the rows do not decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Open {
    /// Position of its row in `status.measurements`.
    pub row: usize,
    /// The point in words.
    pub point: String,
    /// Name of the objective.
    pub objective: String,
}

/// Rows as another question judges them, with their positions in the status.
struct Rejudged {
    positions: Vec<usize>,
    rows: Vec<Measurement>,
    open: Vec<Open>,
}

/// Answers a question from the rows of a Profile.
///
/// # Errors
/// [`Unanswerable`] says what the question or the Profile lacks.
pub fn answer(inputs: &ProfileInputs, status: &ProfileStatus, question: &Question) -> Result<Answer, Unanswerable> {
    if status.measurements.is_empty() {
        return Err(Unanswerable::NoRows);
    }
    let asked = question::asked(inputs, status, question)?;
    let known = rejudged(inputs, &asked, &status.measurements);
    let conclusion = conclude(&asked, &known.rows);
    let found = match conclusion {
        Conclusion::Confirmed { point, row } => Some((point, Some(row), Confirmation::Confirmed)),
        Conclusion::Confirm { point } => Some((point, None, Confirmation::Missing)),
        Conclusion::Measured { point } => Some((point, None, Confirmation::NotPossible)),
        Conclusion::NoCandidate | Conclusion::Exhausted { .. } => None,
    };
    let choice = match found {
        Some((point, confirm, confirmation)) => {
            let is_unchanged = status.choice.as_ref().is_some_and(|choice| is_choice(choice, &known.rows[point]));
            let confirm = confirm.map(|row| &known.rows[row]);
            let fleet = fleet(&asked, question, (&known.rows[point], confirm));
            Some(Choice { is_unchanged, confirmation, fleet, ..chosen(&asked, &known, point) })
        }
        None => None,
    };
    Ok(Answer {
        optimize_for: asked.optimize_for,
        unit: asked.driver.unit(),
        candidates: select::ranked(&asked, &known.rows).len(),
        infeasible: choice.is_none().then(|| explained(&asked, &known, conclusion)),
        choice,
        open: known.open,
    })
}

fn is_choice(choice: &ProfileChoice, row: &Measurement) -> bool {
    (&choice.engine, &choice.configuration, choice.level) == (&row.engine, &row.configuration, row.level)
}

/// Rows keep their verdicts where neither objectives nor tolerated failures are others. Confirm runs are left out that
/// had less load than is asked about: they show nothing of it.
fn rejudged(inputs: &ProfileInputs, asked: &ProfileInputs, measurements: &[Measurement]) -> Rejudged {
    let is_judged_alike = inputs.objectives == asked.objectives && inputs.error_rate == asked.error_rate;
    let has_load = |row: &Measurement| {
        let of_runs = |inputs| target_per_kilosecond(inputs, &row.engine, ProfilingDriver::AgentRun);
        let (before, target) = (of_runs(inputs), of_runs(asked));
        row.purpose != MeasurementPurpose::Confirm
            || target <= before
            || target.is_some_and(|target| crate::natural(row.per_kilosecond) >= target)
    };
    let mut known = Rejudged { positions: Vec::new(), rows: Vec::new(), open: Vec::new() };
    for (position, row) in measurements.iter().enumerate().filter(|(_, row)| has_load(row)) {
        known.positions.push(position);
        // What a round left open, the first measurement of its point decides.
        let is_judged = !is_judged_alike && !close::is_open_round(row);
        known.rows.push(match is_judged.then(|| judge(asked, row)) {
            None | Some(Judged::Failed) => row.clone(),
            Some(Judged::Decided { verdict, reason }) => Measurement { verdict, reason, ..row.clone() },
            Some(Judged::Open { objective }) => {
                let reason = format!("{objective} lies within the bounds of {} requests", row.count);
                known.open.push(Open { row: position, point: select::place(asked, row), objective });
                Measurement { verdict: MeasurementVerdict::Unbounded, reason, ..row.clone() }
            }
        });
    }
    known
}

/// Why no point would serve.
fn explained(asked: &ProfileInputs, known: &Rejudged, conclusion: Conclusion) -> Infeasible {
    let purpose = match conclusion {
        Conclusion::Exhausted { .. } => MeasurementPurpose::Confirm,
        Conclusion::NoCandidate
        | Conclusion::Measured { .. }
        | Conclusion::Confirmed { .. }
        | Conclusion::Confirm { .. } => MeasurementPurpose::Explore,
    };
    let found = infeasible::explain(asked, &known.rows, purpose);
    let position = |at: i32| known.positions.get(usize::try_from(at).ok()?).and_then(|at| i32::try_from(*at).ok());
    Infeasible { nearest: found.nearest.and_then(position), ..found }
}

/// A point by its measurements alone, as if nothing confirmed it.
fn chosen(asked: &ProfileInputs, known: &Rejudged, point: usize) -> Choice {
    let row = &known.rows[close::figures(asked, &known.rows, point).unwrap_or(point)];
    let is_bounded =
        |of: &&MeasuredLatency| asked.objectives.iter().any(|o| (o.metric, o.percentile) == (of.metric, of.percentile));
    Choice {
        row: known.positions[point],
        engine: row.engine.clone(),
        configuration: row.configuration.clone(),
        level: row.level,
        is_unchanged: false,
        confirmation: Confirmation::Missing,
        why: select::why(asked, &known.rows, point),
        per_kilosecond: bounds::throughput(row),
        latencies: row.latencies.iter().filter(is_bounded).cloned().collect(),
        cost: ReplicaPrice::of_engine(asked, &row.engine).and_then(|price| figures::cost(price, row)),
        fleet: None,
    }
}

/// What the traffic needs, by the row that counts what it counts: runs are counted by confirm runs, whatever sent the
/// load of exploration.
fn fleet(
    asked: &ProfileInputs,
    question: &Question,
    (point, confirm): (&Measurement, Option<&Measurement>),
) -> Option<Fleet> {
    let traffic = question.traffic.as_ref()?;
    let unit = question.unit.unwrap_or(asked.driver.unit());
    let confirm = confirm.filter(|_| unit == ThroughputUnit::Runs);
    let row = if unit == asked.driver.unit() { point } else { confirm? };
    figures::fleet((traffic, unit), (row, confirm), (ReplicaPrice::of_engine(asked, &point.engine), question.replicas))
}

#[cfg(test)]
mod tests;
