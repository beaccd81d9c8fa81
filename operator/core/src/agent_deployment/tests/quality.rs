//! The quality gate: which engines are accepted, which are refused, and with which message.

use std::time::Duration;

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::Precision;
use slipway_worker_contract::{EngineRef, FailureClass, Outcome, QualityMetric, QualityResult, ReferenceScores};

use super::{
    cluster::{Cluster, digest, lines, world},
    stories::FULL_VOLUME,
};
use crate::{
    agent_deployment::world::DatasetView,
    jobs::view::{JobPhase, JobView},
};

const GATED: &str = "
model: {uri: 'http://models.example/react'}
engine: {backend: Custom, custom: {builderImage: 'example.com/builder:1', tritonImage: 'example.com/triton:1'}}
search: {precision: [FP32, INT8]}
slo: {quality: {maxDrop: 2%, dataset: {configMap: {name: evaluation, key: samples.jsonl}}}}
agent: {systemPrompt: Answer.}
";

/// Both engines are built, and the data set is there.
pub(super) fn gated() -> Cluster {
    let mut cluster = world().edited(|spec| *spec = serde_norway::from_str(GATED).expect("a valid spec"));
    let prompts = r#"{"id":"1","prompt":"Question: 1+1\n","maxTokens":8,"stopWords":[]}"#.to_owned();
    cluster.world.dataset = Some(DatasetView::Samples { digest: digest("samples"), prompts });
    cluster.resolved().fetched().with_engine_built(Precision::FP32).with_engine_built(Precision::INT8)
}

/// What a quality Job found, in parts per million: the score, and drop and bound if there is a reference.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) score: u32,
    pub(super) drop: Option<(i32, i32)>,
}

fn quality_jobs(cluster: &Cluster) -> Vec<String> {
    cluster.running_jobs().into_iter().filter(|name| name.starts_with("quality-")).collect()
}

/// The only quality Job that runs ends so.
pub(super) fn scored(mut cluster: Cluster, found: Found) -> Cluster {
    cluster.settle();
    let name = quality_jobs(&cluster).remove(0);
    let phase = well(&cluster, found);
    cluster.world.jobs.insert(name.clone(), JobView::in_phase(name, phase));
    cluster
}

fn well(cluster: &Cluster, found: Found) -> JobPhase {
    let reference = found.drop.map(|(drop_ppm, drop_upper_ppm)| ReferenceScores {
        engine: EngineRef { identity: cluster.world.status.engines[0].name.clone(), manifest_digest: digest("fp32") },
        score_ppm: 980_000,
        drop_ppm,
        drop_upper_ppm,
        confidence_ppm: 950_000,
        worse: 0,
        better: 0,
    });
    let result = QualityResult {
        metric: QualityMetric::ExactMatch,
        dataset_digest: digest("samples"),
        samples: 400,
        score_ppm: found.score,
        reference,
    };
    JobPhase::Succeeded { outcome: Box::new(Outcome::Quality(result)), milliseconds: 9_000 }
}

fn states(cluster: &Cluster) -> Vec<String> {
    cluster.plan().status.engines.into_iter().map(|engine| engine.state).collect()
}

const REFERENCE: Found = Found { score: 980_000, drop: None };

#[test]
fn the_reference_is_scored_before_anyone_is_compared_with_it() {
    let mut cluster = gated();
    cluster.settle();
    let first = quality_jobs(&cluster);
    assert_eq!(first.len(), 1, "{first:?}");
    let message = format!("the quality of 0 of 2 engines is known; fp32: Job {} runs", first[0]);
    assert!(lines(&cluster.plan()).contains(&format!("Reconciling=True MeasuringQuality: {message}")));
    let mut cluster = scored(cluster, REFERENCE);
    cluster.settle();
    assert_eq!(quality_jobs(&cluster).len(), 1);
}

/// The quality Job that runs ends ten seconds later; its name is returned.
fn ended(cluster: &mut Cluster, phase: impl FnOnce(&Cluster) -> JobPhase) -> String {
    cluster.settle();
    cluster.pass(10);
    let name = quality_jobs(cluster).remove(0);
    let view = JobView { ended_at: Some(cluster.world.now), ..JobView::in_phase(&name, phase(cluster)) };
    cluster.world.jobs.insert(name.clone(), view);
    cluster.settle();
    name
}

#[test]
fn a_store_that_scores_fill_is_in_the_conditions_with_its_figures() {
    let mut cluster = gated();
    let job = ended(&mut cluster, |cluster| JobPhase::Failed {
        class: FailureClass::Infrastructure,
        failure: FULL_VOLUME.to_owned(),
        finished_at: Some(cluster.world.now),
    });
    let message = format!("fp32: Job {job} failed ({FULL_VOLUME}); attempt 2 of 3 follows");
    let line = lines(&cluster.plan()).into_iter().find(|line| line.starts_with("Reconciling="));
    assert!(line.as_ref().is_some_and(|line| line.ends_with(&message)), "{line:?}");
}

#[test]
fn scores_of_the_reference_that_the_store_lost_are_made_again_before_anyone_is_compared() {
    let mut cluster = gated();
    let reference = ended(&mut cluster, |cluster| well(cluster, REFERENCE));
    let compared = ended(&mut cluster, |cluster| JobPhase::Failed {
        class: FailureClass::MissingArtifact,
        failure: "the reference engine has no scores under this data set; score it first".to_owned(),
        finished_at: Some(cluster.world.now),
    });
    let second = |job: &str| format!("{}-2", job.strip_suffix("-1").expect("a first attempt"));
    assert_eq!(quality_jobs(&cluster), [second(&reference)], "nobody is compared meanwhile");
    assert_eq!(ended(&mut cluster, |cluster| well(cluster, REFERENCE)), second(&reference));
    assert_eq!(quality_jobs(&cluster), [second(&compared)]);
    ended(&mut cluster, |cluster| well(cluster, Found { score: 979_000, drop: Some((1_000, 20_000)) }));
    assert_eq!(quality_jobs(&cluster), Vec::<String>::new());
    assert!(cluster.world.status.engines[1].quality.as_ref().is_some_and(|quality| quality.accepted));
}

#[test]
fn an_engine_that_may_be_worse_is_refused_with_its_score_its_bound_and_the_limit() {
    let mut cluster = scored(scored(gated(), REFERENCE), Found { score: 120_000, drop: Some((860_000, 889_200)) });
    let words =
        "quality 12.00 %: a drop of 86.00 % from the reference, at most 88.92 %; spec.slo.quality.maxDrop allows 2%";
    let told = format!("Warning EngineRefused: int8: {words}");
    assert_eq!(lines(&cluster.plan()).iter().filter(|line| **line == told).count(), 1);
    assert_eq!(states(&cluster), ["built: 17.4 MB; quality 98.00 %, the reference", &format!("refused: {words}")]);
    cluster.step();
    assert!(!lines(&cluster.plan()).contains(&told), "a refusal is told once");

    let served = cluster.with_pods_ready().world.status;
    assert_eq!(served.selected.map(|selected| selected.display_name), Some("fp32".to_owned()));
    let gate: Vec<_> = served.engines.iter().map(|e| e.quality.as_ref().map(|quality| quality.accepted)).collect();
    assert_eq!(gate, [Some(true), Some(false)]);
}

#[test]
fn an_engine_that_too_few_samples_refuse_asks_for_more() {
    let cluster = scored(scored(gated(), REFERENCE), Found { score: 980_000, drop: Some((0, 22_600)) });
    let told = "Warning EngineRefused: int8: quality 98.00 %: a drop of 0.00 % from the reference, at most 2.26 %; \
                spec.slo.quality.maxDrop allows 2%; 400 samples cannot show a smaller drop: add samples to \
                spec.slo.quality.dataset";
    assert_eq!(lines(&cluster.plan()).iter().filter(|line| *line == told).count(), 1, "{:?}", lines(&cluster.plan()));
}

#[test]
fn what_counts_is_the_bound_and_not_the_drop_that_was_seen() {
    for (upper, expected) in [(20_000, true), (20_001, false)] {
        let found = Found { score: 979_000, drop: Some((1_000, upper)) };
        let mut cluster = scored(scored(gated(), REFERENCE), found);
        cluster.settle();
        let quality = cluster.world.status.engines[1].quality.clone().expect("it was measured");
        assert_eq!(quality.accepted, expected, "{quality:?}");
    }
}

#[test]
fn a_data_set_that_is_missing_is_named_and_looked_for_soon() {
    let mut cluster = gated();
    cluster.world.dataset = Some(DatasetView::Missing);
    let plan = cluster.plan();
    let message =
        "spec.slo.quality.dataset: ConfigMap evaluation: it does not exist or has no key samples.jsonl: create it";
    assert!(lines(&plan).contains(&format!("Reconciling=True DatasetUnusable: {message}")), "{:?}", lines(&plan));
    assert!(plan.requeue <= Duration::from_secs(5), "no watch tells of the ConfigMap: {:?}", plan.requeue);
}

#[test]
fn a_data_set_that_is_edited_often_leaves_room_in_the_status() {
    let mut cluster = gated();
    let mut edit = |name: &str| {
        let Some(DatasetView::Samples { digest: edited, .. }) = &mut cluster.world.dataset else { unreachable!() };
        *edited = digest(name);
        cluster.settle();
        let of_quality = cluster.world.status.jobs.iter().filter(|job| job.kind == "quality");
        of_quality.map(|job| job.input_hash.clone()).collect::<Vec<_>>()
    };
    let first = edit("samples-0");
    let kept: Vec<usize> = (1..40).map(|edited| edit(&format!("samples-{edited}")).len()).collect();
    assert_eq!(kept, [1; 39], "one attempt each, of the reference");
    assert_eq!(edit("samples-0"), first, "an edit that is taken back is the same Job");
}
