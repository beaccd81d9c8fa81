//! The quality gate: an engine that may answer worse than the objective allows is refused before anything of it is measured.
//! Pure.
//!
//! The reference is the first engine that was built: the most exact precision. Every other engine is compared with it sample by
//! sample, so the reference is scored first.

use serde::Serialize;
use slipway_crds::{
    conditions::Reason,
    identity::{ContentHash, IdentityError, content_hash},
    v1alpha1::agent_deployment::{EngineChoice, MeasuredQuality, QualityEvaluator, QualityObjective},
};
use slipway_worker_contract::{Digest, EngineRef, Outcome, QualityMetric, QualityResult, QualityTask};

use super::{BuiltEngine, build};
use crate::{
    agent_deployment::{
        draft::Draft,
        facts,
        job_step::JobStep,
        resolve::{Resolved, foreign_result},
        world::{DatasetView, World},
    },
    jobs::{attempts::AttemptStep, kind::JobKind},
    plan::{Child, Note, SOON},
    why::{Step, Why},
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

/// What an engine's quality is known to be.
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
    draft: &mut Draft,
) -> Result<Step<Vec<BuiltEngine>>, IdentityError> {
    let Some(objective) = &world.spec.slo.quality else { return Ok(Step::Done(built.to_vec())) };
    let config_map = objective.dataset.config_map.name.clone();
    let (digest, prompts) = match &world.dataset {
        None | Some(DatasetView::Missing) => {
            // No watch tells of a ConfigMap of the user's.
            draft.requeue = draft.requeue.min(SOON);
            let problem = format!("it does not exist or has no key {}: create it", objective.dataset.config_map.key);
            return Ok(Step::Waiting(Why::DatasetUnusable { config_map, problem }));
        }
        Some(DatasetView::Invalid { problem }) => {
            return Ok(Step::Stopped(Why::DatasetUnusable { config_map, problem: problem.clone() }));
        }
        Some(DatasetView::Samples { digest, prompts }) => (digest, prompts),
    };
    let cases = cases(built, objective, digest, prompts)?;
    forget_other_inputs(&cases, draft);
    let mut accepted = Vec::new();
    let mut pending = None;
    let mut measured = 0;
    for (index, case) in cases.iter().enumerate() {
        let engine = case.engine;
        match measure(world, resolved, case, draft)? {
            Measurement::Known(quality) => {
                measured += 1;
                if quality.accepted {
                    accepted.push(engine.clone());
                }
            }
            Measurement::Failed(why) if index == 0 => return Ok(Step::Stopped(why)),
            Measurement::Failed(why) => {
                measured += 1;
                let subject = facts::subject(&why, &world.spec, &draft.status.engines);
                refuse(
                    world,
                    draft,
                    engine,
                    Refusal { subject, why: format!("its quality could not be measured: {why}") },
                );
            }
            Measurement::Waiting(why) => {
                pending = pending.or(Some(format!("{}: {why}", engine.display_name)));
                // Nobody can be compared with a reference that has no scores yet.
                if index == 0 {
                    break;
                }
            }
        }
    }
    Ok(match pending {
        Some(state) => Step::Waiting(Why::MeasuringQuality { measured, total: built.len(), state }),
        None => Step::Done(accepted),
    })
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

fn cases<'a>(
    built: &'a [BuiltEngine],
    objective: &'a QualityObjective,
    digest: &'a Digest,
    prompts: &'a str,
) -> Result<Vec<Case<'a>>, IdentityError> {
    let metric = match objective.evaluator {
        QualityEvaluator::ExactMatch => QualityMetric::ExactMatch,
        QualityEvaluator::RougeL => QualityMetric::RougeL,
    };
    let case = |(index, engine): (usize, &'a BuiltEngine)| {
        let reference = (index > 0).then(|| &built[0].reference);
        let input = QualityInput { engine: &engine.reference, reference, metric, dataset_digest: digest };
        let input_hash = content_hash(&input)?;
        Ok(Case { engine, reference, objective, digest, prompts, metric, input_hash })
    };
    built.iter().enumerate().map(case).collect()
}

/// Drops the attempts of engines and data sets that are of interest no more: the status has room for 32 attempts, and every edit
/// of a data set would leave one for each engine. An edit that is taken back finds its Jobs by their names.
fn forget_other_inputs(cases: &[Case<'_>], draft: &mut Draft) {
    let is_current = |input_hash: &str| cases.iter().any(|case| case.input_hash.short() == input_hash);
    draft.status.jobs.retain(|job| job.kind != JobKind::Quality.as_str() || is_current(&job.input_hash));
}

fn measure(
    world: &World,
    resolved: &Resolved,
    case: &Case<'_>,
    draft: &mut Draft,
) -> Result<Measurement, IdentityError> {
    let step = JobStep { kind: JobKind::Quality, input_hash: case.input_hash.short(), is_single: false };
    if let Some(known) = known(world, case, &step) {
        return Ok(Measurement::Known(gate(world, case, known, draft)));
    }
    Ok(match step.next(world, draft) {
        AttemptStep::Record(attempt) => Measurement::Waiting(Why::JobStarting { job: step.job(attempt) }),
        AttemptStep::Create(attempt) => {
            let name = step.job_name(attempt);
            let task = QualityTask {
                metric: case.metric,
                confidence_ppm: CONFIDENCE_PARTS_PER_MILLION,
                reference: case.reference.cloned(),
                engine: Some(case.engine.reference.clone()),
            };
            let dataset = &case.objective.dataset.config_map;
            let inputs = build::quality_job::QualityInputs {
                task,
                prompts: case.prompts,
                dataset,
                custom: &resolved.custom,
                served_by: case.engine.served_by,
            };
            let (config_map, job) = build::quality_job::quality_job(world, &name, &case.engine.reference, inputs);
            draft.children.push(Child::ConfigMap(Box::new(config_map)));
            draft.children.push(Child::Job(Box::new(job)));
            Measurement::Waiting(Why::JobStarting { job: step.job(attempt) })
        }
        AttemptStep::Wait(why) => Measurement::Waiting(why),
        AttemptStep::GivenUp(why) => Measurement::Failed(why),
        AttemptStep::Succeeded { outcome, .. } => match *outcome {
            Outcome::Quality(result) => Measurement::Known(gate(world, case, measured(case, &result), draft)),
            Outcome::Resolve(_)
            | Outcome::Fetch(_)
            | Outcome::Build(_)
            | Outcome::Materialize(_)
            | Outcome::Profile(_) => Measurement::Failed(foreign_result(&step, world)),
        },
    })
}

/// What the status holds, if it is about this artifact, this data set and this way of scoring.
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

/// Lets an engine through or refuses it, and writes that beside it.
fn gate(world: &World, case: &Case<'_>, mut quality: MeasuredQuality, draft: &mut Draft) -> MeasuredQuality {
    let limit = i64::from(case.objective.max_drop.parts_per_million());
    let percent = |parts: i32| f64::from(parts) / 1e4;
    let score = percent(quality.score_parts_per_million);
    let words = match (quality.drop_parts_per_million, quality.drop_upper_bound_parts_per_million) {
        (Some(drop), Some(upper)) => {
            quality.accepted = i64::from(upper) <= limit;
            let (drop, upper) = (percent(drop), percent(upper));
            format!("quality {score:.2} %: a drop of {drop:.2} % from the reference, at most {upper:.2} %")
        }
        _ => {
            quality.accepted = true;
            if is_quantized(draft) {
                format!("quality {score:.2} %; the checkpoint is quantized, so nothing more exact is compared with it")
            } else {
                format!("quality {score:.2} %, the reference")
            }
        }
    };
    if let Some(choice) = choice_of(draft, case.engine) {
        choice.quality = Some(quality.clone());
        choice.state = format!("{}; {words}", choice.state).chars().take(256).collect();
    }
    if quality.accepted {
        facts::forget_engine(&case.engine.reference.identity, &mut draft.status);
    } else {
        let mut why = format!("{words}; spec.slo.quality.maxDrop allows {}", case.objective.max_drop);
        // What was seen is within the limit: it is the number of samples that leaves more possible.
        if quality.drop_parts_per_million.is_some_and(|drop| i64::from(drop) <= limit) {
            why += &format!("; {} samples cannot show less: give spec.slo.quality.dataset more", quality.samples);
        }
        refuse(world, draft, case.engine, Refusal { subject: figures(&quality, limit), why });
    }
    quality
}

/// Whether the model came quantized: what that lost cannot be measured here.
fn is_quantized(draft: &Draft) -> bool {
    let shape = draft.status.model.as_ref().and_then(|model| model.shape.as_ref());
    shape.is_some_and(|shape| shape.quantization.is_some())
}

/// Why an engine is refused.
struct Refusal {
    /// What tells it from other refusals of the engine.
    subject: String,
    /// In words.
    why: String,
}

/// The figures that a refusal follows from: samples, then score, drop, its bound and the limit in parts per million.
fn figures(quality: &MeasuredQuality, limit: i64) -> String {
    let (drop, upper) = (quality.drop_parts_per_million, quality.drop_upper_bound_parts_per_million);
    let MeasuredQuality { samples, score_parts_per_million: score, .. } = quality;
    format!("{samples}/{score}/{}/{}/{limit}", drop.unwrap_or(0), upper.unwrap_or(0))
}

/// Refuses an engine; the event is published when that is new.
fn refuse(world: &World, draft: &mut Draft, engine: &BuiltEngine, Refusal { subject, why }: Refusal) {
    if facts::refuse_engine(world, &engine.reference.identity, subject, &mut draft.status) {
        let line = format!("{}: {why}", engine.display_name);
        draft.notes.push(Note::warning(Reason::EngineRefused, line).of_engine(&engine.display_name));
    }
    if let Some(choice) = choice_of(draft, engine) {
        choice.state = format!("refused: {why}").chars().take(256).collect();
    }
}

fn choice_of<'a>(draft: &'a mut Draft, engine: &BuiltEngine) -> Option<&'a mut EngineChoice> {
    draft.status.engines.iter_mut().find(|choice| choice.name == engine.reference.identity)
}
