//! An AgentDeployment as a type. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;
use slipway_crds::v1alpha1::{
    AgentDeployment, Profile,
    agent_deployment::{
        DriftStatus, EngineChoice, ObjectiveStatus, ResolvedModel, SelectedConfiguration, Stage, WrittenObjective,
    },
    profile::{
        Infeasible, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict, NotMeasured, ProfilePhase,
    },
};

use crate::{
    measured::Measurements,
    output::Shown,
    revisions::{Share, shares},
    study::{Assessment, Study},
};

/// An AgentDeployment: stage, conditions, engines, candidates, choice, revisions and objectives.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether the operator has processed the latest change of the spec.
    pub is_current: bool,
    /// Summary for people; programs read the conditions. Absent before the operator has processed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Ready pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods: Option<i32>,
    /// Wanted pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted_pods: Option<i32>,
    /// Conditions as the API has them.
    pub conditions: Vec<Condition>,
    /// The model as the API has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ResolvedModel>,
    /// Engines as the API has them, with their quality.
    pub engines: Vec<EngineChoice>,
    /// The campaign. Absent where nothing is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<Campaign>,
    /// The choice as the API has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<SelectedConfiguration>,
    /// The revisions with their shares of the traffic. `rollout` has more.
    pub revisions: Vec<Share>,
    /// Objectives as the API has them, with what the pods count now.
    pub objectives: Vec<ObjectiveView>,
    /// Drift as the API has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// Why the pods' counts could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

impl Shown for StatusView {
    const KIND: &'static str = "Status";
}

/// A campaign with the outcomes of its candidates.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Campaign {
    /// Name of the Profile.
    pub profile: String,
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ProfilePhase>,
    /// The phase in words.
    pub message: String,
    /// What was measured, in the order of time. The first has number 1.
    pub candidates: Vec<Candidate>,
    /// What was not measured, as the API has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasured>,
    /// Why nothing was chosen, as the API has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<Infeasible>,
}

/// One measurement and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Its number, from 1.
    pub number: usize,
    /// Display name of the engine.
    pub engine: String,
    /// Name of the Engine object.
    pub engine_object: String,
    /// Name of the configuration.
    pub configuration: String,
    /// Requests or runs in flight.
    pub in_flight: i32,
    /// Purpose of the measurement.
    pub purpose: MeasurementPurpose,
    /// Whether the objectives are met.
    pub verdict: MeasurementVerdict,
    /// Its outcome.
    pub assessment: Assessed,
    /// Number of the candidate that beats it in latency and throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beaten_by: Option<usize>,
    /// What is counted: `requests` or `runs`.
    pub unit: &'static str,
    /// Those that succeeded.
    pub count: i32,
    /// Those that failed.
    pub errors: i32,
    /// Successes per 1,000 seconds.
    pub per_kilosecond: i64,
    /// Percentiles with their 95 % bounds.
    pub latencies: Vec<MeasuredLatency>,
    /// Remarks of the campaign.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Earlier Profile that measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_in: Option<String>,
}

/// The outcome of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Assessed {
    /// It serves.
    Chosen,
    /// Run once more at the target load: the prediction.
    Prediction,
    /// Nothing was chosen, and this comes nearest.
    Nearest,
    /// On the Pareto front.
    Front,
    /// Another one is no slower and serves no less.
    Beaten,
    /// It meets the objectives as far as they are measured.
    Meets,
    /// It misses an objective.
    Misses,
    /// Too few measurements to tell.
    Undecided,
    /// Measured again. It leaves an objective open, and its figures count.
    Compared,
    /// It could not be measured.
    Failed,
}

/// An objective, and what the pods count now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveView {
    /// As the API has it.
    #[serde(flatten)]
    pub status: ObjectiveStatus,
    /// What the pods counted in the last hour, of a latency. Absent without traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Now>,
}

/// What the pods counted in the last hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Now {
    /// The percentile is at most this: the upper edge of its bucket. Absent where it is a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_microseconds: Option<u64>,
    /// Units that finished.
    pub count: u64,
}

impl StatusView {
    /// The state of an AgentDeployment. Of its pods, what they counted, or why that could not be read.
    pub fn of(object: &AgentDeployment, profile: Option<&Profile>, counted: Result<&Measurements, String>) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let nothing = Measurements::default();
        let (measurements, unread) = match counted {
            Ok(measurements) => (measurements, None),
            Err(why) => (&nothing, Some(why)),
        };
        let objective = |entry: ObjectiveStatus| {
            let written = object.spec.slo.objectives.iter().find(|objective| objective.name == entry.name);
            ObjectiveView { now: written.and_then(|written| now(written, measurements)), status: entry }
        };
        Self {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            is_current: object.status.is_some() && status.observed_generation == object.metadata.generation,
            stage: status.stage,
            ready_pods: status.ready_pods,
            wanted_pods: status.wanted_pods,
            conditions: status.conditions,
            // That of an engine of an earlier spec says nothing of what another server has.
            model: status.model.filter(|_| object.spec.upstream().is_none()),
            engines: status.engines,
            campaign: profile.and_then(Campaign::of),
            selected: status.selected,
            revisions: shares(object),
            objectives: status.slo.into_iter().map(objective).collect(),
            drift: status.drift,
            unread,
        }
    }
}

fn now(objective: &WrittenObjective, measurements: &Measurements) -> Option<Now> {
    let count = measurements.count(objective.metric);
    let found = measurements.percentile(objective.metric, objective.percentile);
    (count > 0).then(|| Now { at_most_microseconds: found.map(|found| found.upper_microseconds), count })
}

impl Campaign {
    /// A campaign; nothing where it has found nothing yet.
    pub fn of(profile: &Profile) -> Option<Self> {
        let study = Study::of(profile)?;
        let status = study.status();
        Some(Self {
            profile: profile.name_any(),
            phase: status.phase,
            message: status.message.clone(),
            candidates: study.rows().map(|(position, row)| Candidate::of(&study, position, row)).collect(),
            not_measured: status.not_measured.clone(),
            infeasible: status.infeasible.clone(),
        })
    }
}

impl Candidate {
    /// A measurement at its position among those of a campaign.
    pub fn of<'a>(study: &Study<'a>, position: usize, row: &'a Measurement) -> Self {
        let (assessment, beaten_by) = assessed(study.assessment(position, row));
        Self {
            number: position + 1,
            engine: study.engine(&row.engine).to_owned(),
            engine_object: row.engine.clone(),
            configuration: row.configuration.clone(),
            in_flight: row.level,
            purpose: row.purpose,
            verdict: row.verdict,
            assessment,
            beaten_by,
            unit: study.unit(row.purpose),
            count: row.count,
            errors: row.errors,
            per_kilosecond: row.per_kilosecond,
            latencies: row.latencies.clone(),
            reason: row.reason.clone(),
            measured_in: row.measured_in.clone(),
        }
    }
}

/// The outcome of a candidate, and the number of the one that beats it.
fn assessed(assessment: Assessment) -> (Assessed, Option<usize>) {
    let alone = |assessed| (assessed, None);
    match assessment {
        Assessment::Beaten(by) => (Assessed::Beaten, Some(by + 1)),
        Assessment::Chosen => alone(Assessed::Chosen),
        Assessment::Prediction => alone(Assessed::Prediction),
        Assessment::Nearest => alone(Assessed::Nearest),
        Assessment::Front => alone(Assessed::Front),
        Assessment::Meets => alone(Assessed::Meets),
        Assessment::Misses => alone(Assessed::Misses),
        Assessment::Undecided => alone(Assessed::Undecided),
        Assessment::Compared => alone(Assessed::Compared),
        Assessment::Failed => alone(Assessed::Failed),
    }
}
