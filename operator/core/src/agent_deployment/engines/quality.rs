//! The quality gate: an engine that may answer worse than the objective allows is refused before anything of it is measured.
//! Pure.
//!
//! The reference is the first engine that was built: the most exact precision. Every other engine is compared with it sample by
//! sample, so the reference is scored first.

use serde::Serialize;
use slipway_crds::{
    conditions::Reason,
    identity::{IdentityError, content_hash},
    v1alpha1::agent_deployment::{EngineChoice, MeasuredQuality, QualityEvaluator, QualityObjective},
};
use slipway_worker_contract::{Digest, EngineRef, Outcome, QualityMetric, QualityResult, QualityTask};

use super::{BuiltEngine, build};
use crate::{
    agent_deployment::{
        draft::Draft,
        job_step::JobStep,
        resolve::{Resolved, foreign_result},
        world::{DatasetView, World},
    },
    jobs::attempts::AttemptStep,
    plan::{Child, Note, SOON},
    why::{Step, Why},
};

/// Kind of the Job, and its name's first part.
const KIND: &str = "quality";
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
    let mut accepted = Vec::new();
    let mut pending = None;
    let mut measured = 0;
    for (index, engine) in built.iter().enumerate() {
        let reference = (index > 0).then(|| &built[0].reference);
        let case = Case { engine, reference, objective, digest, prompts };
        match measure(world, resolved, &case, draft)? {
            Measurement::Known(quality) => {
                measured += 1;
                if quality.accepted {
                    accepted.push(engine.clone());
                }
            }
            Measurement::Failed(why) if index == 0 => return Ok(Step::Stopped(why)),
            Measurement::Failed(why) => {
                measured += 1;
                refuse(world, draft, engine, &format!("its quality could not be measured: {why}"));
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
}

fn measure(
    world: &World,
    resolved: &Resolved,
    case: &Case<'_>,
    draft: &mut Draft,
) -> Result<Measurement, IdentityError> {
    let metric = match case.objective.evaluator {
        QualityEvaluator::ExactMatch => QualityMetric::ExactMatch,
        QualityEvaluator::RougeL => QualityMetric::RougeL,
    };
    let input_hash = content_hash(&QualityInput {
        engine: &case.engine.reference,
        reference: case.reference,
        metric,
        dataset_digest: case.digest,
    })?;
    let step = JobStep { kind: KIND, input_hash: input_hash.short(), is_single: false };
    if let Some(known) = known(world, case, &step) {
        return Ok(Measurement::Known(gate(world, case, known, draft)));
    }
    Ok(match step.next(world, draft) {
        AttemptStep::Record(attempt) => Measurement::Waiting(Why::JobStarting { job: step.job_name(attempt) }),
        AttemptStep::Create(attempt) => {
            let name = step.job_name(attempt);
            let task = QualityTask {
                metric,
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
            Measurement::Waiting(Why::JobStarting { job: name })
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
            format!("quality {score:.2} %, the reference")
        }
    };
    let is_accepted = quality.accepted;
    if let Some(choice) = choice_of(draft, case.engine) {
        choice.quality = Some(quality.clone());
        choice.state = format!("{}; {words}", choice.state).chars().take(256).collect();
    }
    if !is_accepted {
        let mut why = format!("{words}; spec.slo.quality.maxDrop allows {}", case.objective.max_drop);
        // What was seen is within the limit: it is the number of samples that leaves more possible.
        if quality.drop_parts_per_million.is_some_and(|drop| i64::from(drop) <= limit) {
            why += &format!("; {} samples cannot show less: give spec.slo.quality.dataset more", quality.samples);
        }
        refuse(world, draft, case.engine, &why);
    }
    quality
}

/// Refuses an engine; the event is published when that is new.
fn refuse(world: &World, draft: &mut Draft, engine: &BuiltEngine, why: &str) {
    let state: String = format!("refused: {why}").chars().take(256).collect();
    let is_told = world.status.engines.iter().any(|c| c.name == engine.reference.identity && c.state == state);
    if !is_told {
        draft.notes.push(Note::warning(Reason::EngineRefused, format!("{}: {why}", engine.display_name)));
    }
    if let Some(choice) = choice_of(draft, engine) {
        choice.state = state;
    }
}

fn choice_of<'a>(draft: &'a mut Draft, engine: &BuiltEngine) -> Option<&'a mut EngineChoice> {
    draft.status.engines.iter_mut().find(|choice| choice.name == engine.reference.identity)
}
