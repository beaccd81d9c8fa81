//! Quality Jobs that have ended hold the artifacts beside which their scores lie.

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::labels;
use slipway_worker_contract::{FailureClass, Outcome, QualityMetric, QualityResult, SweepResult};

use super::{DAY, Life, artifact, checkpoint, digest};
use crate::{
    jobs::view::{JobPhase, JobView},
    store::references::Namespace,
};

/// A Job that was to score an artifact, and how it ended.
fn quality_job(namespace: &mut Namespace, (engine, manifest): (usize, usize), phase: JobPhase) {
    let name = format!("quality-{engine}");
    let job = json!({
        "metadata": {"name": name, "labels": {labels::APP_COMPONENT: "quality"}},
        "spec": {"template": {"spec": {"containers": [], "initContainers": [{"name": "materialize", "args": [
            "materialize", format!("--identity=engine-{engine}"), format!("--manifest-digest={}", digest(manifest))]}]}}},
    });
    let ended_at = Some("2026-01-01T00:00:00Z".parse().expect("a time"));
    namespace.jobs.push(serde_json::from_value(job).expect("a Job"));
    namespace.views.insert(name.clone(), JobView { ended_at, ..JobView::in_phase(&name, phase) });
}

fn scored() -> JobPhase {
    let result = QualityResult {
        metric: QualityMetric::ExactMatch,
        dataset_digest: digest(5).parse().expect("a digest"),
        samples: 1,
        score_ppm: 1_000_000,
        reference: None,
    };
    JobPhase::Succeeded { outcome: Box::new(Outcome::Quality(result)), milliseconds: 5 }
}

#[test]
fn a_quality_job_that_ended_well_holds_the_artifact_beside_which_its_scores_lie() {
    let ended = |phase: JobPhase| {
        Life::serving().edited(|namespace| {
            *namespace = Namespace::default();
            quality_job(namespace, (1, 10), phase);
        })
    };
    let well = ended(scored());
    assert_eq!(well.record.items[&artifact(1, 10)].held_by, ["Job quality-1"]);
    let early = well.looked(7 * DAY - 1);
    assert!(early.begun.is_empty() && early.namespace.jobs.len() == 1);
    let late = early.looked(1);
    assert_eq!((late.begun[0].remove.clone(), late.namespace.jobs.len()), (vec![checkpoint(9)], 0));
    let after = late.swept(SweepResult::default()).looked(3_600);
    assert_eq!(after.begun[1].remove, [artifact(1, 10)], "an hour after the proof of its scores has gone");

    let failure = "no".to_owned();
    let badly = ended(JobPhase::Failed { class: FailureClass::BadModel, failure, finished_at: None });
    assert_eq!(badly.looked(7 * DAY).begun[0].remove, [checkpoint(9), artifact(1, 10)]);
}
