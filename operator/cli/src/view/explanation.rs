//! Why a configuration serves and why no other does, as types. Pure.

use kube::ResourceExt;
use serde::Serialize;
use slipway_crds::{
    v1alpha1::{
        AgentDeployment, AgentDeploymentStatus, Profile,
        agent_deployment::{
            EngineChoice, LatencyMetric, MeasuredQuality, ObjectiveStatus, OptimizeFor, RejectedPlan,
            SelectedConfiguration, Stage, WrittenObjective,
        },
        profile::{Infeasible, MeasuredCost, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict},
    },
    values::Percentile,
};
use slipway_selection::{close, cost::dollars};

use crate::{
    output::Shown,
    progress::{Progress, progress},
    revisions::{Role, shares},
    study::{Assessment, Study, bounded, rate, time},
};

/// Why a configuration serves, and why no other does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The AgentDeployment's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether this is about the latest change of the spec.
    pub is_current: bool,
    /// The choice. Absent before there is one, and where another candidate is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// Why there is no choice yet. Absent where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
    /// Why nothing meets the objectives, as the campaign found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<Infeasible>,
    /// Every other candidate that was considered.
    pub others: Vec<Other>,
    /// Plans that served users and were rolled back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rolled_back: Vec<RejectedPlan>,
}

impl Shown for Explanation {
    const KIND: &'static str = "Explanation";
}

/// The choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chosen {
    /// Display name of the engine.
    pub engine: String,
    /// Name of the Engine object. Absent where another server has the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_object: Option<String>,
    /// Name of the configuration. Absent where nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// Runs in flight on a replica, at most.
    pub max_in_flight: i32,
    /// Why it was chosen, in the campaign's words.
    pub why: String,
    /// Whether configurations were measured at all.
    pub is_measured: bool,
    /// Where it stands.
    pub standing: Standing,
    /// Latency objectives, with what was predicted and what is observed.
    pub latencies: Vec<Bounded>,
    /// Objectives other than latencies, as the API has them.
    pub others: Vec<ObjectiveStatus>,
    /// Quality of its answers. Absent where none is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<MeasuredQuality>,
    /// What the other value of `slo.optimizeFor` would prefer. Absent where that is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternative: Option<Alternative>,
}

/// Where the choice stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// In one word.
    pub state: State,
    /// The revision that it is about. Absent where there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Its share of the traffic, in percent.
    pub share_percent: i32,
}

/// Where the choice stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum State {
    /// It is about to start.
    Starting,
    /// It is on trial beside the revision before.
    OnTrial,
    /// It waits for a person.
    AwaitsApproval,
    /// It was rolled back, and the revision before serves.
    RolledBack,
    /// It serves.
    Serving,
}

/// A latency objective, with what was predicted for the choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounded {
    /// The objective, as the spec has it.
    #[serde(flatten)]
    pub objective: WrittenObjective,
    /// What was measured at the predicted load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<MeasuredLatency>,
    /// What the pods observed, as the API has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
}

/// A candidate that another ranking would prefer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    /// The value of `slo.optimizeFor`.
    pub optimize_for: OptimizeFor,
    /// `int8/instances-2 at 4 in flight`.
    pub name: String,
    /// Its figures beside those of the choice, in words.
    pub figures: String,
}

/// A candidate that does not serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Other {
    /// `int8`, `int8/instances-2`, or `int8/instances-2 at 8 in flight`.
    pub name: String,
    /// Why not, in one word.
    pub reason: Lost,
    /// Why not, with figures.
    pub why: String,
}

impl Other {
    fn of(name: impl Into<String>, reason: Lost, why: impl Into<String>) -> Self {
        Self { name: name.into(), reason, why: why.into() }
    }
}

/// Why a candidate does not serve, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Lost {
    /// The engine was refused, failed, or is not built yet.
    Engine,
    /// Its answers may be worse than allowed.
    Quality,
    /// It was not measured.
    NotMeasured,
    /// It could not be measured.
    Failed,
    /// Another one is no slower and serves no less.
    Beaten,
    /// It meets the objectives, and another one ranks higher.
    RanksLower,
    /// It misses an objective.
    Misses,
    /// Too few measurements to tell.
    Undecided,
}

/// Explains an AgentDeployment as far as its status and its campaign know it.
pub fn explanation(object: &AgentDeployment, profile: Option<&Profile>) -> Explanation {
    let nothing = AgentDeploymentStatus::default();
    let status = object.status.as_ref().unwrap_or(&nothing);
    let study = profile.and_then(Study::of);
    let chosen = status.selected.as_ref().map(|selected| chosen(object, (status, selected), study.as_ref()));
    let pending = match (&chosen, progress(object)) {
        (Some(_), _) | (None, Progress::Ready) => None,
        (None, Progress::InProgress(why) | Progress::Stalled(why) | Progress::Suspended(why)) => Some(why),
    };
    Explanation {
        name: object.name_any(),
        namespace: object.namespace().unwrap_or_default(),
        is_current: object.status.is_some() && status.observed_generation == object.metadata.generation,
        chosen,
        pending,
        infeasible: study.as_ref().and_then(|study| study.status().infeasible.clone()),
        others: others(object, status, study.as_ref()),
        rolled_back: status.rollout.iter().flat_map(|rollout| rollout.rejected.clone()).collect(),
    }
}

fn chosen(
    object: &AgentDeployment,
    (status, selected): (&AgentDeploymentStatus, &SelectedConfiguration),
    study: Option<&Study<'_>>,
) -> Chosen {
    let choice = study.and_then(|study| study.status().choice.as_ref());
    let row = study.and_then(|study| study.at(choice?.predicted_by)).map(|(_, row)| row);
    let objectives = study.map_or(&object.spec.slo.objectives, |study| &study.inputs().objectives);
    let is_latency = |entry: &&ObjectiveStatus| objectives.iter().any(|objective| objective.name == entry.name);
    let bounded = |objective: &WrittenObjective| {
        let entry = status.slo.iter().find(|entry| entry.name == objective.name);
        Bounded {
            objective: objective.clone(),
            predicted: row.and_then(|row| latency(row, (objective.metric, objective.percentile))).cloned(),
            observed: entry.and_then(|entry| entry.observed.clone()),
        }
    };
    let engine = status.engines.iter().find(|engine| selected.engine() == Some(&engine.name));
    Chosen {
        engine: selected.display_name.clone(),
        engine_object: selected.engine().cloned(),
        configuration: choice.map(|choice| choice.configuration.clone()),
        max_in_flight: selected.max_in_flight,
        why: selected.why.clone(),
        is_measured: study.is_some() || object.spec.profiling.is_some(),
        standing: standing(object, status),
        latencies: objectives.iter().map(bounded).collect(),
        others: status.slo.iter().filter(|entry| !is_latency(entry)).cloned().collect(),
        quality: engine.and_then(|engine| engine.quality.clone()),
        alternative: study.and_then(alternative),
    }
}

fn standing(object: &AgentDeployment, status: &AgentDeploymentStatus) -> Standing {
    let shares = shares(object);
    let of = |role: Role| shares.iter().find(|share| share.role == role);
    let proposed = status.rollout.as_ref().and_then(|rollout| rollout.proposed.as_ref());
    let (state, share) = match (proposed, of(Role::Canary), of(Role::Stable)) {
        (Some(_), _, _) => (State::AwaitsApproval, None),
        (None, Some(canary), _) => (State::OnTrial, Some(canary)),
        (None, None, Some(stable)) if status.stage == Some(Stage::RolledBack) => (State::RolledBack, Some(stable)),
        (None, None, Some(stable)) => (State::Serving, Some(stable)),
        (None, None, None) => (State::Starting, None),
    };
    let revision = share.map(|share| share.revision.clone()).or_else(|| proposed.map(|of| of.plan_hash.clone()));
    Standing { state, revision, share_percent: share.map_or(0, |share| share.share_percent) }
}

/// The candidate of the front that the other ranking prefers, where it is not the choice.
fn alternative(study: &Study<'_>) -> Option<Alternative> {
    let choice = study.status().choice.as_ref()?;
    let front = study.status().front.iter().filter_map(|at| study.at(*at)).map(|(_, row)| row);
    let (optimize_for, best) = match study.inputs().optimize_for {
        OptimizeFor::Throughput => {
            let of_latency = |row: &&Measurement| study.latency(row).map_or(i64::MAX, |latency| latency.microseconds);
            (OptimizeFor::Latency, front.min_by_key(of_latency)?)
        }
        OptimizeFor::Latency | OptimizeFor::Cost => {
            (OptimizeFor::Throughput, front.max_by_key(|row| row.per_kilosecond)?)
        }
    };
    let is_choice =
        (&choice.engine, &choice.configuration, choice.level) == (&best.engine, &best.configuration, best.level);
    let chosen = study.rows().map(|(_, row)| row).find(|row| is_same(study, row, best.purpose))?;
    (!is_choice).then(|| Alternative { optimize_for, name: study.place(best), figures: compared(study, best, chosen) })
}

/// Whether a measurement is one of the choice, with a purpose.
fn is_same(study: &Study<'_>, row: &Measurement, purpose: MeasurementPurpose) -> bool {
    study.status().choice.as_ref().is_some_and(|choice| {
        (&choice.engine, &choice.configuration, choice.level) == (&row.engine, &row.configuration, row.level)
            && row.purpose == purpose
    })
}

/// Everything that does not serve: engines that were refused, points that were measured, and what was not measured.
fn others(object: &AgentDeployment, status: &AgentDeploymentStatus, study: Option<&Study<'_>>) -> Vec<Other> {
    let is_measured = |engine: &&EngineChoice| {
        study.is_some_and(|study| study.inputs().engines.iter().any(|profiled| profiled.name == engine.name))
    };
    let serves = |engine: &&EngineChoice| status.selected.as_ref().is_some_and(|of| of.engine() == Some(&engine.name));
    let engines = status.engines.iter().filter(|engine| !is_measured(engine) && !serves(engine));
    let mut others: Vec<Other> = engines.map(|engine| of_engine(object, engine)).collect();
    let Some(study) = study else { return others };
    others.extend(study.rows().filter_map(|(position, row)| of_point(study, position, row)));
    others.extend(study.status().not_measured.iter().map(|skipped| {
        let engine = study.engine(&skipped.engine);
        let name = skipped.configuration.as_ref().map_or(engine.to_owned(), |of| format!("{engine}/{of}"));
        let name = match (skipped.from_level, skipped.to_level) {
            (Some(from), Some(to)) if from == to => format!("{name} at {from} in flight"),
            (Some(from), Some(to)) => format!("{name} at {from} to {to} in flight"),
            (Some(_) | None, _) => name,
        };
        Other::of(name, Lost::NotMeasured, format!("not measured: {}", skipped.reason))
    }));
    others
}

/// Why an engine was not even measured.
fn of_engine(object: &AgentDeployment, engine: &EngineChoice) -> Other {
    let percent = |parts: i32| f64::from(parts) / 10_000.0;
    match (&engine.quality, &object.spec.slo.quality) {
        (
            Some(MeasuredQuality { accepted: false, drop_upper_bound_parts_per_million: Some(drop), .. }),
            Some(asked),
        ) => {
            let (drop, most) = (percent(*drop), &asked.max_drop);
            let why = format!(
                "refused: its answers may be worse than the reference's by {drop:.1} %, and slo.quality.maxDrop allows {most}"
            );
            Other::of(&engine.display_name, Lost::Quality, why)
        }
        _ => Other::of(&engine.display_name, Lost::Engine, &engine.state),
    }
}

/// Why a measured point does not serve; nothing for the one that does.
fn of_point<'a>(study: &Study<'a>, position: usize, row: &'a Measurement) -> Option<Other> {
    // What was measured again is the point of another row.
    if row.purpose == MeasurementPurpose::Repeat {
        return None;
    }
    let (reason, why) = match study.assessment(position, row) {
        Assessment::Chosen | Assessment::Prediction => return None,
        Assessment::Beaten(by) => {
            let (_, better) = study.at(i32::try_from(by).ok()?)?;
            let place = study.place(better);
            (Lost::Beaten, format!("{place} is no slower and serves no less: {}", compared(study, better, row)))
        }
        Assessment::Front | Assessment::Meets if is_refuted(study, position) => {
            (Lost::Misses, "met the objectives once, and missed one in most of its rounds".to_owned())
        }
        Assessment::Front | Assessment::Meets => (Lost::RanksLower, less(study, row)),
        Assessment::Misses => (Lost::Misses, verdict_words(study, row)),
        Assessment::Undecided | Assessment::Compared => (Lost::Undecided, verdict_words(study, row)),
        Assessment::Nearest if row.verdict == MeasurementVerdict::Unbounded => {
            (Lost::Undecided, verdict_words(study, row))
        }
        Assessment::Nearest => (Lost::Misses, verdict_words(study, row)),
        Assessment::Failed => (Lost::Failed, format!("could not be measured: {}", row.reason)),
    };
    let place = study.place(row);
    let name = match row.purpose {
        MeasurementPurpose::Explore | MeasurementPurpose::Repeat => place,
        MeasurementPurpose::Confirm => format!("{place}, confirm run"),
    };
    Some(Other::of(name, reason, why))
}

/// Whether a point met the objectives at first, and most of the rounds that measured it again missed them.
fn is_refuted(study: &Study<'_>, position: usize) -> bool {
    let measurements = &study.status().measurements;
    let is_explored = |row: &Measurement| row.purpose == MeasurementPurpose::Explore;
    measurements.get(position).is_some_and(is_explored)
        && close::figures(study.inputs(), measurements, position).is_none()
}

/// Why a point that meets the objectives was not chosen: what it has less of.
fn less(study: &Study<'_>, row: &Measurement) -> String {
    let Some(best) = study.rows().map(|(_, other)| other).find(|other| is_same(study, other, row.purpose)) else {
        return "it meets the objectives as far as they are measured".to_owned();
    };
    let wanted = match study.inputs().optimize_for {
        OptimizeFor::Throughput => "throughput",
        OptimizeFor::Latency => "latency",
        OptimizeFor::Cost => "cost",
    };
    format!("it meets the objectives, and {wanted} decides: {}", compared(study, best, row))
}

/// `39.06 against 33.37 requests/s, RequestLatency p90 385ms against 944ms`, the better one first.
fn compared(study: &Study<'_>, better: &Measurement, row: &Measurement) -> String {
    let unit = study.unit(row.purpose);
    let mut text = format!("{} against {} {unit}/s", rate(better.per_kilosecond), rate(row.per_kilosecond));
    let compared_by = study.inputs().objectives.first().map(|first| (first.metric, first.percentile));
    let judged = |row: &Measurement| {
        let named = compared_by.and_then(|by| latency(row, by)).cloned();
        named.or_else(|| row.latencies.first().cloned())
    };
    if let (Some(of_better), Some(own)) = (judged(better), judged(row)) {
        text.push_str(&format!(
            ", {} {} {} against {}",
            own.metric,
            own.percentile,
            time(of_better.microseconds),
            time(own.microseconds)
        ));
    }
    if let (Some(of_better), Some(own)) = (better.cost, row.cost) {
        let shown = |cost: MeasuredCost| dollars(cost.microdollars_per_thousand);
        text.push_str(&format!(", {} against {} for 1,000 {unit}", shown(of_better), shown(own)));
    }
    text
}

/// Which objective is missed or open, with its figures; in the campaign's words where no latency says it.
fn verdict_words(study: &Study<'_>, row: &Measurement) -> String {
    let limit = |objective: &WrittenObjective| i64::try_from(objective.max.microseconds()).unwrap_or(i64::MAX);
    let of = |objective: &WrittenObjective| latency(row, (objective.metric, objective.percentile));
    let objectives = &study.inputs().objectives;
    let missed = objectives.iter().find_map(|objective| {
        let latency = of(objective).filter(|latency| latency.lower > limit(objective))?;
        Some(format!("misses {}: {}", bound(objective), bounded(latency)))
    });
    let open = || {
        objectives.iter().find_map(|objective| {
            let is_met = |upper: i64| upper <= limit(objective);
            let latency = of(objective).filter(|latency| !latency.upper.is_some_and(is_met))?;
            Some(format!("too few measurements to tell {}: {}", bound(objective), bounded(latency)))
        })
    };
    let words = match row.verdict {
        MeasurementVerdict::Infeasible => missed,
        MeasurementVerdict::Unbounded => missed.or_else(open),
        MeasurementVerdict::Feasible | MeasurementVerdict::Failed => None,
    };
    words.unwrap_or_else(|| row.reason.clone())
}

/// `reply: RequestLatency p90, at most 5s`.
pub fn bound(objective: &WrittenObjective) -> String {
    let WrittenObjective { name, metric, percentile, max } = objective;
    format!("{name}: {metric} {percentile}, at most {max}")
}

fn latency(row: &Measurement, by: (LatencyMetric, Percentile)) -> Option<&MeasuredLatency> {
    row.latencies.iter().find(|latency| (latency.metric, latency.percentile) == by)
}
