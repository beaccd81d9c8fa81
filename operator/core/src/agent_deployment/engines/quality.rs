//! The quality gate: an engine that may answer worse than the objective allows is refused before anything of it is
//! measured. Pure.
//!
//! The reference is the first engine that was built: the most exact precision. Every other engine is compared with it
//! sample by sample, so the reference is scored first.

use jiff::Timestamp;
use serde::Serialize;
use slipway_crds::{
    conditions::Reason,
    identity::{ContentHash, IdentityError, content_hash},
    v1alpha1::agent_deployment::{EngineChoice, MeasuredQuality, QualityEvaluator, QualityObjective, ResolvedModel},
    values::Percent,
};
use slipway_worker_contract::{Digest, EngineRef, FailureClass, Outcome, QualityMetric, QualityResult, QualityTask};

use super::{build, built::BuiltEngine};
use crate::{
    agent_deployment::{
        facts::{self, EngineFact},
        job_step::JobStep,
        parts::{Found, Halt, JobChange, Parts, Planned, Planning},
        resolve::{Resolved, foreign_result},
        world::{DatasetView, World},
    },
    jobs::{attempts::AttemptStep, kind::JobKind, view::JobPhase},
    plan::{Child, Note, SOON},
    why::{Blocked, Step, Why},
};

/// Confidence of the bound on the drop, in parts per million.
const CONFIDENCE_PARTS_PER_MILLION: u32 = 950_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QualityInput<'a> {
    engine: &'a EngineRef,
    reference: Option<&'a EngineRef>,
    metric: QualityMetric,
    dataset_digest: &'a Digest,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GateInput<'a> {
    max_drop: &'a Percent,
    metric: QualityMetric,
    dataset_digest: &'a Digest,
}

/// Hash of what decides which engines pass. Nothing without an objective, or while its samples cannot be read.
pub(in crate::agent_deployment) fn gate_hash(world: &World) -> Result<Option<ContentHash>, IdentityError> {
    let (Some(objective), Some(DatasetView::Samples { digest, prompts: _ })) =
        (&world.spec.slo.quality, &world.dataset)
    else {
        return Ok(None);
    };
    let input = GateInput { max_drop: &objective.max_drop, metric: metric(objective), dataset_digest: digest };
    content_hash(&input).map(Some)
}

/// What is known of an engine's quality.
enum Measurement {
    Known(MeasuredQuality),
    Waiting(Why),
    Failed(Why),
}

/// The engines that pass, in their order.
pub(super) fn decide(
    world: &World,
    resolved: &Resolved,
    built: &[BuiltEngine],
    choices: Vec<EngineChoice>,
) -> Planning<Vec<BuiltEngine>> {
    Planned::of(|parts| {
        let Some(objective) = &world.spec.slo.quality else { return Ok(built.to_vec()) };
        let (digest, prompts) = parts.join(dataset(world, objective))?;
        let cases = cases(built, objective, digest, prompts)?;
        parts.add(forget_other_inputs(&cases));
        let missed_at = missed_at(world, &cases);
        let mut choices = choices;
        let mut accepted = Vec::new();
        let mut pending = None;
        let mut measured = 0;
        for (index, case) in cases.iter().enumerate() {
            let engine = case.engine;
            let gated = match parts.join(measure(world, resolved, (case, missed_at))) {
                Measurement::Known(quality) => gate(case, quality, is_quantized(&resolved.model)),
                Measurement::Failed(why) if index == 0 => return Err(Halt::stopped(why)),
                Measurement::Failed(why) => {
                    let subject = facts::subject(&why, &world.spec, &choices);
                    Gated::Refused { quality: None, subject, why: format!("its quality could not be measured: {why}") }
                }
                Measurement::Waiting(why) => {
                    pending = pending.or(Some(format!("{}: {why}", engine.display_name)));
                    // No engine can be compared with a reference that has no scores yet.
                    if index == 0 {
                        break;
                    }
                    continue;
                }
            };
            measured += 1;
            if matches!(gated, Gated::Passed { .. }) {
                accepted.push(engine.clone());
            }
            parts.add(recorded(world, engine, &gated));
            choices = choices.into_iter().map(|choice| gated.beside(engine, choice)).collect();
        }
        parts.add(Parts::of_found(Found { engines: Some(choices), ..Found::default() }));
        match pending {
            Some(state) => Err(Halt::waiting(Why::MeasuringQuality { measured, total: built.len(), state })),
            None => Ok(accepted),
        }
    })
}

/// The digest of the questions, and the questions as a builder is asked them.
fn dataset<'a>(world: &'a World, objective: &QualityObjective) -> Planned<Step<(&'a Digest, &'a str)>> {
    let config_map = objective.dataset.config_map.name.clone();
    match &world.dataset {
        None | Some(DatasetView::Missing) => {
            let problem = format!("it does not exist or has no key {}: create it", objective.dataset.config_map.key);
            let why = Why::DatasetUnusable { config_map, problem };
            // No watch reports the user's ConfigMaps.
            Parts::look_within(SOON).with(Err(Blocked::Waiting(why)))
        }
        Some(DatasetView::Invalid { problem }) => {
            let why = Why::DatasetUnusable { config_map, problem: problem.clone() };
            Parts::default().with(Err(Blocked::Stopped(why)))
        }
        Some(DatasetView::Samples { digest, prompts }) => Parts::default().with(Ok((digest, prompts.as_str()))),
    }
}

/// One engine, with what it is measured by.
struct Case<'a> {
    engine: &'a BuiltEngine,
    reference: Option<&'a EngineRef>,
    objective: &'a QualityObjective,
    digest: &'a Digest,
    prompts: &'a str,
    metric: QualityMetric,
    /// What decides the scores.
    input_hash: ContentHash,
}

impl Case<'_> {
    fn step(&self) -> JobStep<'_> {
        JobStep { kind: JobKind::Quality, input_hash: self.input_hash.short(), is_single: false }
    }
}

fn metric(objective: &QualityObjective) -> QualityMetric {
    match objective.evaluator {
        QualityEvaluator::ExactMatch => QualityMetric::ExactMatch,
        QualityEvaluator::RougeL => QualityMetric::RougeL,
    }
}

fn cases<'a>(
    built: &'a [BuiltEngine],
    objective: &'a QualityObjective,
    digest: &'a Digest,
    prompts: &'a str,
) -> Result<Vec<Case<'a>>, IdentityError> {
    let metric = metric(objective);
    let case = |(index, engine): (usize, &'a BuiltEngine)| {
        let reference = (index > 0).then(|| &built[0].reference);
        let input = QualityInput { engine: &engine.reference, reference, metric, dataset_digest: digest };
        let input_hash = content_hash(&input)?;
        Ok(Case { engine, reference, objective, digest, prompts, metric, input_hash })
    };
    built.iter().enumerate().map(case).collect()
}

/// Drops the attempts of engines and data sets that no longer matter. The status has room for 32 attempts, and every
/// edit of a data set would leave one for each engine. A reverted edit finds its Jobs by their names.
fn forget_other_inputs(cases: &[Case<'_>]) -> Parts {
    let current = cases.iter().map(|case| case.input_hash.short().to_owned()).collect();
    Parts::of_found(Found { jobs: vec![JobChange::ForgotBut(JobKind::Quality, current)], ..Found::default() })
}

/// When an engine last missed something in the store: the scores of the reference, as a rule.
fn missed_at(world: &World, cases: &[Case<'_>]) -> Option<Timestamp> {
    let compared = cases.iter().filter(|case| case.reference.is_some());
    let missed = compared.filter_map(|case| match &case.step().latest(world)?.phase {
        JobPhase::Failed { class: FailureClass::MissingArtifact, finished_at, .. } => *finished_at,
        JobPhase::Failed { .. }
        | JobPhase::Unscheduled { .. }
        | JobPhase::ImageUnavailable(_)
        | JobPhase::SecretUnavailable(_)
        | JobPhase::PodsRefused(_)
        | JobPhase::Running { .. }
        | JobPhase::Succeeded { .. } => None,
    });
    missed.max()
}

fn measure(
    world: &World,
    resolved: &Resolved,
    (case, missed_at): (&Case<'_>, Option<Timestamp>),
) -> Planned<Measurement> {
    let step = case.step();
    let latest = step.latest(world);
    // The reference's scores lay in the store when its Job ended, and not when another engine was to be compared.
    let is_lost = case.reference.is_none()
        && missed_at.is_some_and(|missed| latest.and_then(|job| job.ended_at).is_none_or(|ended| ended <= missed));
    if is_lost && latest.is_some_and(|job| matches!(job.phase, JobPhase::Succeeded { .. })) {
        let next = step.recorded(world).saturating_add(1);
        return step.record(next).with(Measurement::Waiting(Why::JobStarting { job: step.job(next) }));
    }
    if let Some(known) = known(world, case, &step).filter(|_| !is_lost) {
        return Parts::default().with(Measurement::Known(known));
    }
    Planned::of(|parts| match parts.join(step.next(world)) {
        AttemptStep::Record(attempt) => Measurement::Waiting(Why::JobStarting { job: step.job(attempt) }),
        AttemptStep::Create(attempt) => {
            parts.add(Parts::of_children(job(world, resolved, case, &step.job_name(attempt))));
            Measurement::Waiting(Why::JobStarting { job: step.job(attempt) })
        }
        AttemptStep::Wait(why) => Measurement::Waiting(why),
        AttemptStep::GivenUp(why) => Measurement::Failed(why),
        AttemptStep::Succeeded { outcome, .. } => match *outcome {
            Outcome::Quality(result) => Measurement::Known(measured(case, &result)),
            Outcome::Resolve(_)
            | Outcome::Fetch(_)
            | Outcome::Build(_)
            | Outcome::Materialize(_)
            | Outcome::Sweep(_)
            | Outcome::Profile(_) => Measurement::Failed(foreign_result(&step, world)),
        },
    })
}

/// The Job of an attempt, after its task.
fn job(world: &World, resolved: &Resolved, case: &Case<'_>, name: &str) -> [Child; 2] {
    let task = QualityTask {
        metric: case.metric,
        confidence_ppm: CONFIDENCE_PARTS_PER_MILLION,
        reference: case.reference.cloned(),
        engine: Some(case.engine.reference.clone()),
    };
    let inputs = build::quality_job::QualityInputs {
        task,
        prompts: case.prompts,
        dataset: &case.objective.dataset.config_map,
        custom: &resolved.custom,
        served_by: case.engine.served_by,
        gpu_product: case.engine.gpu_product.as_deref(),
    };
    let (config_map, job) = build::quality_job::quality_job(world, name, &case.engine.reference, inputs);
    [Child::ConfigMap(Box::new(config_map)), Child::Job(Box::new(job))]
}

/// What the status holds, if it is about this artifact, this data set and this scoring.
fn known(world: &World, case: &Case<'_>, step: &JobStep<'_>) -> Option<MeasuredQuality> {
    let choice = world.status.engines.iter().find(|choice| choice.name == case.engine.reference.identity)?;
    let quality = choice.quality.clone()?;
    let is_current = quality.manifest_digest == case.engine.reference.manifest_digest.as_str()
        && quality.dataset_digest == case.digest.as_str()
        && quality.drop_parts_per_million.is_some() == case.reference.is_some()
        && step.recorded(world) > 0;
    is_current.then_some(quality)
}

fn measured(case: &Case<'_>, result: &QualityResult) -> MeasuredQuality {
    let signed = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    MeasuredQuality {
        manifest_digest: case.engine.reference.manifest_digest.to_string(),
        dataset_digest: result.dataset_digest.to_string(),
        samples: signed(result.samples),
        score_parts_per_million: signed(result.score_ppm),
        drop_parts_per_million: result.reference.as_ref().map(|reference| reference.drop_ppm),
        drop_upper_bound_parts_per_million: result.reference.as_ref().map(|reference| reference.drop_upper_ppm),
        accepted: false,
    }
}

/// Whether an engine is accepted.
enum Gated {
    Passed {
        quality: MeasuredQuality,
        /// Its figures, for people.
        words: String,
    },
    Refused {
        /// Absent where it could not be measured.
        quality: Option<MeasuredQuality>,
        /// What distinguishes it from other refusals of the engine.
        subject: String,
        /// In words.
        why: String,
    },
}

impl Gated {
    /// An engine under consideration, with this beside it if it is about that engine.
    fn beside(&self, engine: &BuiltEngine, choice: EngineChoice) -> EngineChoice {
        if choice.name != engine.reference.identity {
            return choice;
        }
        let (quality, state) = match self {
            Self::Passed { quality, words } => (Some(quality), format!("{}; {words}", choice.state)),
            Self::Refused { quality, why, subject: _ } => (quality.as_ref(), format!("refused: {why}")),
        };
        let quality = quality.cloned().or(choice.quality);
        EngineChoice { quality, state: state.chars().take(256).collect(), ..choice }
    }
}

/// Whether the model came quantized: the quality that this cost cannot be measured here.
fn is_quantized(model: &ResolvedModel) -> bool {
    model.shape.as_ref().is_some_and(|shape| shape.quantization.is_some())
}

/// Accepts an engine or refuses it.
fn gate(case: &Case<'_>, quality: MeasuredQuality, is_quantized: bool) -> Gated {
    let limit = i64::from(case.objective.max_drop.parts_per_million());
    let percent = |parts: i32| f64::from(parts) / 1e4;
    let score = percent(quality.score_parts_per_million);
    let (accepted, words) = match (quality.drop_parts_per_million, quality.drop_upper_bound_parts_per_million) {
        (Some(drop), Some(upper)) => {
            let is_within = i64::from(upper) <= limit;
            let (drop, upper) = (percent(drop), percent(upper));
            let words = format!("quality {score:.2} %: a drop of {drop:.2} % from the reference, at most {upper:.2} %");
            (is_within, words)
        }
        _ if is_quantized => (
            true,
            format!("quality {score:.2} %; the checkpoint is quantized, so nothing more exact is compared with it"),
        ),
        _ => (true, format!("quality {score:.2} %, the reference")),
    };
    let quality = MeasuredQuality { accepted, ..quality };
    if accepted {
        return Gated::Passed { quality, words };
    }
    let mut why = format!("{words}; spec.slo.quality.maxDrop allows {}", case.objective.max_drop);
    // The observed drop is within the limit, but too few samples rule out a larger one.
    if quality.drop_parts_per_million.is_some_and(|drop| i64::from(drop) <= limit) {
        why += &format!(
            "; {} samples cannot show a smaller drop: add samples to spec.slo.quality.dataset",
            quality.samples
        );
    }
    Gated::Refused { subject: figures(&quality, limit), quality: Some(quality), why }
}

/// The figures that a refusal follows from: samples, then score, drop, its bound and the limit in parts per million.
fn figures(quality: &MeasuredQuality, limit: i64) -> String {
    let (drop, upper) = (quality.drop_parts_per_million, quality.drop_upper_bound_parts_per_million);
    let MeasuredQuality { samples, score_parts_per_million: score, .. } = quality;
    format!("{samples}/{score}/{}/{}/{limit}", drop.unwrap_or(0), upper.unwrap_or(0))
}

/// What is recorded of an engine; the event of a refusal is published when that is new.
fn recorded(world: &World, engine: &BuiltEngine, gated: &Gated) -> Parts {
    let name = &engine.reference.identity;
    let (fact, line) = match gated {
        Gated::Passed { .. } => (EngineFact::none(name), None),
        Gated::Refused { subject, why, quality: _ } => (EngineFact::refused(name, subject.clone()), Some(why)),
    };
    let line = line.filter(|_| fact.is_new(world)).map(|why| format!("{}: {why}", engine.display_name));
    let note = line.map(|line| Note::warning(Reason::EngineRefused, line).of_engine(&engine.display_name));
    Parts::of_notes(note).and(Parts::of_found(Found { facts: vec![fact], ..Found::default() }))
}
