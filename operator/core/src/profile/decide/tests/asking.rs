//! Engines that are built when the search asks for them, and several that are measured at once.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_crds::{
    labels::GPU_PRODUCT,
    v1alpha1::{
        agent_deployment::{KvCachePrecision, Precision},
        profile::{
            EngineAxes, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs, ProfilePhase,
            ProfiledEngine,
        },
    },
};
use slipway_worker_contract::{Campaign, FailureClass, ProfileEnd};

use super::{
    super::{
        ledger::{self, Next},
        *,
    },
    cluster::{Cluster, cluster, row},
};
use crate::{
    jobs::view::JobPhase,
    profile::{rows, scope::Subject, world::Offer},
};

/// The campaign to its end; every engine that it asks for is offered.
pub(super) fn finish(cluster: &mut Cluster) -> ProfileStatus {
    for _ in 0..40 {
        cluster.settle();
        let missing =
            cluster.world.status.asked.iter().find(|asked| {
                asked.manifest_digest.is_none() && !cluster.world.agent.offers.contains_key(&asked.engine)
            });
        match (cluster.running(), missing.map(|asked| asked.engine.clone())) {
            (Some(job), _) => cluster.end_job(&job, ProfileEnd::Complete, 0),
            (None, Some(engine)) => cluster.offer(&engine),
            (None, None) => return cluster.world.status.clone(),
        }
    }
    panic!("it does not end: {:?}", cluster.world.status);
}

#[test]
fn a_campaign_that_asks_begins_with_the_first_engine_while_no_other_is_built() {
    let mut cluster = cluster().asking();
    cluster.settle();
    assert_eq!((cluster.asked(), cluster.tasks.len()), (vec!["engine-a"], 0));
    cluster.offer("engine-a");
    cluster.settle();
    assert_eq!((cluster.asked(), cluster.tasks.len()), (vec!["engine-a"], 1));
    assert_eq!(cluster.tasks[0].engine.manifest_digest.as_str(), "aa".repeat(32));
    let running = cluster.running().expect("its Job runs");
    cluster.end_job(&running, ProfileEnd::Complete, 0);
    cluster.settle();
    assert_eq!(cluster.asked(), ["engine-a", "engine-b"], "the search asks for the next");
    assert_eq!(cluster.tasks.len(), 1, "which is not built yet");
}

#[test]
fn a_campaign_that_asks_chooses_as_one_whose_engines_are_all_there() {
    let mut asking = cluster().asking();
    let asked = finish(&mut asking);
    let mut eager = cluster();
    let all = eager.finish();
    assert_eq!(asked.choice, all.choice);
    assert_eq!(asked.measurements, all.measurements);
    assert_eq!(asking.tasks[1].other_engines, eager.tasks[1].other_engines);
}

#[test]
fn an_engine_that_was_refused_has_its_reason_and_the_rest_goes_on() {
    let mut cluster = cluster().asking();
    let refusal = Offer::None("refused: quality 61.00 %".to_owned());
    cluster.world.agent.offers.insert("engine-a".to_owned(), refusal);
    let status = finish(&mut cluster);
    let reasons: Vec<_> = status.not_measured.iter().map(|entry| (&*entry.engine, &*entry.reason)).collect();
    assert_eq!(reasons, [("engine-a", "it cannot be measured: refused: quality 61.00 %")]);
    assert_eq!(status.choice.map(|choice| choice.engine).as_deref(), Some("engine-b"));
}

#[test]
fn what_the_budget_does_not_allow_is_never_built() {
    let mut cluster = cluster().asking();
    cluster.world.spec.inputs.budget.measurements = 4;
    let status = finish(&mut cluster);
    assert_eq!(cluster.asked(), ["engine-a"]);
    assert_eq!(status.phase, Some(ProfilePhase::Chosen));
    let [entry] = status.not_measured.as_slice() else { panic!("{:?}", status.not_measured) };
    let words = "not built: spec.profiling.budget.measurements 4 is used up: raise it to measure more";
    assert_eq!((entry.engine.as_str(), entry.reason.as_str()), ("engine-b", words));
}

#[test]
fn an_artifact_that_is_built_again_meanwhile_changes_no_measurement() {
    let mut cluster = cluster().asking();
    cluster.settle();
    cluster.offer("engine-a");
    cluster.settle();
    cluster.world.agent.offers.insert("engine-a".to_owned(), Offer::Artifact("cc".repeat(32)));
    cluster.settle();
    assert_eq!(cluster.world.status.asked[0].manifest_digest, Some("aa".repeat(32)));
    assert_eq!(cluster.tasks.len(), 1);
}

#[test]
fn several_engines_are_measured_at_once_and_share_the_budget() {
    let mut cluster = cluster();
    cluster.world.agent.parallel_jobs = Some(2);
    cluster.settle();
    let engines: Vec<_> = cluster.tasks.iter().map(|task| task.engine.identity.clone()).collect();
    assert_eq!(engines, ["engine-a", "engine-b"]);
    let budgets = cluster.tasks.iter().map(|task| match &task.campaign {
        Campaign::Explore { max_measurements, max_gpu_millis, .. } => (*max_measurements, *max_gpu_millis),
        other => panic!("{other:?}"),
    });
    assert_eq!(budgets.collect::<Vec<_>>(), [(50, 14_400_000); 2]);
    // The second ends first.
    for job in cluster.named.clone().into_iter().rev() {
        cluster.end_job(&job, ProfileEnd::Complete, 0);
        cluster.settle();
    }
    let status = finish(&mut cluster);
    assert_eq!(status.choice.map(|choice| choice.engine).as_deref(), Some("engine-b"));
    assert_eq!(status.rows, 8);
}

/// Budgets of the Jobs so far: measurements and GPU milliseconds.
fn budgets(cluster: &Cluster) -> Vec<(u32, u64)> {
    let of = |task: &slipway_worker_contract::ProfileTask| match &task.campaign {
        Campaign::Explore { max_measurements, max_gpu_millis, .. } => (*max_measurements, *max_gpu_millis),
        other => panic!("{other:?}"),
    };
    cluster.tasks.iter().map(of).collect()
}

#[test]
fn jobs_at_once_share_what_is_left_however_many_engines_were_never_asked_for() {
    let mut cluster = cluster().asking();
    cluster.world.agent.parallel_jobs = Some(2);
    let more = ["engine-c", "engine-d", "engine-e", "engine-f"]
        .map(|name| ProfiledEngine { name: name.to_owned(), ..cluster.world.spec.inputs.engines[1].clone() });
    cluster.world.spec.inputs.engines.extend(more);
    cluster.offer("engine-a");
    cluster.settle();
    assert_eq!(budgets(&cluster), [(50, 14_400_000)], "half of it, and not a sixth");
    let next = cluster.asked()[1].to_owned();
    cluster.offer(&next);
    cluster.settle();
    assert_eq!(budgets(&cluster), [(50, 14_400_000); 2]);
    let first = cluster.named[0].clone();
    cluster.end_job(&first, ProfileEnd::Complete, 0);
    cluster.settle();
    let third = cluster.asked().get(2).map(|name| (*name).to_owned()).expect("it asks for a third");
    cluster.offer(&third);
    cluster.settle();
    assert_eq!(budgets(&cluster)[2].0, 46, "all that four rows and the promise to the second leave");
}

#[test]
fn a_job_waits_while_all_that_is_left_is_promised_to_another() {
    let mut cluster = cluster();
    cluster.world.agent.parallel_jobs = Some(2);
    cluster.world.spec.inputs.budget.measurements = 1;
    cluster.settle();
    assert_eq!(budgets(&cluster).iter().map(|budget| budget.0).collect::<Vec<_>>(), [1]);
    assert!(cluster.told().1.ends_with("waiting for what other engines leave of the budget"), "{:?}", cluster.told());
    let status = finish(&mut cluster);
    assert_eq!((status.rows, cluster.tasks.len()), (1, 1));
}

#[test]
fn a_campaign_that_its_agent_has_left_waits_for_no_engine() {
    let mut cluster = cluster().asking();
    cluster.settle();
    cluster.world.created = Some(cluster.world.now - jiff::SignedDuration::from_mins(3));
    cluster.world.agent.campaigns = Some(vec![cluster.world.name.clone()]);
    cluster.settle();
    assert_eq!(cluster.told().0, Some(ProfilePhase::Exploring), "it is the current one");
    cluster.world.agent.campaigns = Some(vec!["facts-another".to_owned()]);
    cluster.settle();
    assert_eq!((cluster.told().0, cluster.tasks.len()), (Some(ProfilePhase::Exploring), 0));
    let words = "fp32: the AgentDeployment has left this campaign, which goes on if its spec is restored";
    assert_eq!(cluster.told().1, words);
    // It is the current one again.
    cluster.world.agent.campaigns = Some(vec![cluster.world.name.clone()]);
    let status = finish(&mut cluster);
    assert_eq!(
        (status.not_measured, status.choice.map(|choice| choice.engine)),
        (Vec::new(), Some("engine-b".to_owned()))
    );
}

#[test]
fn a_campaign_that_was_left_after_its_first_engine_gives_no_answer_by_that_one_alone() {
    let mut cluster = cluster().asking();
    cluster.offer("engine-a");
    cluster.settle();
    cluster.world.created = Some(cluster.world.now - jiff::SignedDuration::from_mins(3));
    cluster.world.agent.campaigns = Some(Vec::new());
    cluster.end(ProfileEnd::Complete, 0);
    cluster.settle();
    assert_eq!((cluster.told().0, cluster.asked()), (Some(ProfilePhase::Exploring), vec!["engine-a"]));
    cluster.world.agent.campaigns = Some(vec![cluster.world.name.clone()]);
    let status = finish(&mut cluster);
    assert_eq!(status.choice.map(|choice| choice.engine).as_deref(), Some("engine-b"));
}

/// The store lost the artifact: the Job of its engine fails.
fn lose(cluster: &mut Cluster, job: &str) {
    let failure = "the store does not have it".to_owned();
    let finished_at = Some(cluster.world.now);
    let phase = JobPhase::Failed { class: FailureClass::MissingArtifact, failure, finished_at };
    cluster.world.jobs.get_mut(job).expect("the Job is there").phase = phase;
    cluster.world.agent.offers.remove("engine-a");
}

#[test]
fn an_artifact_that_the_store_lost_before_its_first_row_is_measured_as_it_is_built_again() {
    let mut cluster = cluster().asking();
    cluster.offer("engine-a");
    cluster.settle();
    let job = cluster.running().expect("its Job runs");
    lose(&mut cluster, &job);
    cluster.world.now += jiff::SignedDuration::from_hours(1);
    cluster.settle();
    assert_eq!((cluster.tasks.len(), cluster.told().1), (1, "waiting for engine fp32, which the search asks for"));
    cluster.world.agent.offers.insert("engine-a".to_owned(), Offer::Artifact("cc".repeat(32)));
    cluster.settle();
    assert_eq!(cluster.tasks[1].engine.manifest_digest.as_str(), "cc".repeat(32));
    assert_eq!(cluster.world.status.asked[0].manifest_digest, Some("cc".repeat(32)));
    let status = finish(&mut cluster);
    assert_eq!((status.rows, status.not_measured), (8, Vec::new()));
}

#[test]
fn where_fewer_jobs_are_allowed_since_those_that_run_are_still_polled() {
    let mut cluster = cluster();
    cluster.world.agent.parallel_jobs = Some(2);
    cluster.settle();
    cluster.world.agent.parallel_jobs = None;
    let second = cluster.named[1].clone();
    cluster.end_job(&second, ProfileEnd::Complete, 0);
    cluster.settle();
    let rows = cluster.world.status.measurements.iter().filter(|row| row.engine == "engine-b").count();
    assert_eq!((rows, cluster.tasks.len()), (4, 2));
}

#[test]
fn jobs_that_failed_get_their_shares_again() {
    let mut cluster = cluster();
    cluster.world.agent.parallel_jobs = Some(2);
    cluster.world.spec.inputs.budget.measurements = 2;
    cluster.settle();
    for job in cluster.named.clone() {
        let failure = "the node is gone".to_owned();
        let phase =
            JobPhase::Failed { class: FailureClass::Infrastructure, failure, finished_at: Some(cluster.world.now) };
        cluster.world.jobs.get_mut(&job).expect("the Job is there").phase = phase;
    }
    cluster.world.now += jiff::SignedDuration::from_mins(1);
    cluster.settle();
    assert_eq!(budgets(&cluster).iter().map(|budget| budget.0).collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[test]
fn a_new_campaign_has_time_to_be_named_by_its_agent() {
    let mut cluster = cluster().asking();
    cluster.world.created = Some(cluster.world.now);
    cluster.world.agent.campaigns = Some(vec!["facts-another".to_owned()]);
    cluster.settle();
    assert_eq!((cluster.told().0, cluster.asked()), (Some(ProfilePhase::Exploring), vec!["engine-a"]));
}

#[test]
fn one_engine_after_the_other_is_measured_unless_more_are_allowed() {
    let mut cluster = cluster();
    cluster.settle();
    assert_eq!(cluster.tasks.len(), 1);
}

/// Engines of TensorRT-LLM on a GPU whose memory is slow: FP16 and FP8, each with two limits of its batches.
pub(super) fn split() -> ProfileInputs {
    let mut inputs = cluster().asking().world.spec.inputs;
    inputs.placement.node_selector.insert(GPU_PRODUCT.to_owned(), "NVIDIA-L4".to_owned());
    inputs.configurations.truncate(1);
    let first = inputs.engines[0].clone();
    let engine = |(name, precision, max_batch_size): (&str, Precision, i32)| ProfiledEngine {
        name: name.to_owned(),
        axes: Some(EngineAxes {
            precision,
            kv_cache_precision: Some(KvCachePrecision::Auto),
            tensor_parallel: Some(1),
            pipeline_parallel: Some(1),
            max_batch_size: Some(max_batch_size),
            max_num_tokens: Some(8192),
            variant: String::new(),
        }),
        ..first.clone()
    };
    let (of_8, of_16) = (Precision::FP8, Precision::FP16);
    let engines = [("fp16-8", of_16, 8), ("fp8-8", of_8, 8), ("fp8-16", of_8, 16), ("fp16-16", of_16, 16)];
    inputs.engines = engines.map(engine).to_vec();
    inputs
}

/// What the search says after some of these engines: the one that is asked for, or the reasons for none.
fn after(measured: &[(&str, [(u64, u64); 2])]) -> (Vec<String>, Next) {
    let inputs = split();
    let status = measured.iter().fold(ProfileStatus::default(), |status, (engine, points)| {
        let of = inputs.levels.iter().zip(points);
        let rows: Vec<_> = of.map(|(level, point)| row("instances-1", level.unsigned_abs(), *point)).collect();
        rows::found(Subject::explored(engine), &rows, &[]).into_status(status)
    });
    let is_open = |engine: &&ProfiledEngine| measured.iter().all(|(name, _)| *name != engine.name);
    let open: Vec<&ProfiledEngine> = inputs.engines.iter().filter(is_open).collect();
    (open.iter().map(|engine| engine.name.clone()).collect(), ledger::next(&inputs, &status, &open))
}

const FP16: [(u64, u64); 2] = [(11_500, 170_000), (36_000, 215_000)];
const FP8: [(u64, u64); 2] = [(22_000, 91_000), (69_000, 116_000)];

#[test]
fn after_an_fp16_the_search_asks_for_an_engine_that_reads_half_as_much() {
    let (open, next) = after(&[("fp16-8", FP16)]);
    let Next::Ask { engine, why } = next else { panic!("{next:?}") };
    assert!(open[engine].starts_with("fp8-"), "{} because {why}", open[engine]);
}

#[test]
fn a_measured_fp8_excludes_a_worse_engine_by_a_bound_that_is_stated() {
    let (open, next) = after(&[("fp16-8", FP16), ("fp8-8", FP8), ("fp8-16", FP8)]);
    assert_eq!(open, ["fp16-16"]);
    let Next::Done { reasons } = next else { panic!("{next:?}") };
    let [reason] = reasons.as_slice() else { panic!("{reasons:?}") };
    let (end, bound) = reason.split_once("; of it a gain of ").expect("the bound is stated");
    assert_eq!(end, "no further run promises a gain of 1.0 %");
    let gain: f64 = bound.split_once(" % at most").expect("a share").0.parse().expect("a number");
    assert!(gain < 1.0, "{reason}");
}

/// Rows of an engine's configurations at both levels, as a speed and a latency have them.
fn measured(engine: &str, points: &[(u64, u64)]) -> Vec<Measurement> {
    let cells = ["instances-1", "instances-2"].into_iter().flat_map(|arm| [1, 4].map(|level| (arm, level)));
    let rows: Vec<_> = cells.zip(points).map(|((arm, level), point)| row(arm, level, *point)).collect();
    rows::found(Subject::explored(engine), &rows, &[]).into_status(ProfileStatus::default()).measurements
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_ledger_leads_to_the_same_decision_whoever_reads_it(
        points in prop::collection::vec((1_000u64..20_000, 20_000u64..400_000), 0..4),
    ) {
        let cluster = cluster().asking();
        let inputs = &cluster.world.spec.inputs;
        let open: Vec<&ProfiledEngine> = inputs.engines.iter().skip(1).collect();
        let status = ProfileStatus { measurements: measured("engine-a", &points), ..ProfileStatus::default() };
        let decided = ledger::next(inputs, &status, &open);
        let text = serde_json::to_string(&status).expect("a status is data");
        let read: ProfileStatus = serde_json::from_str(&text).expect("a status");
        prop_assert_eq!(&ledger::next(inputs, &read, &open), &decided);
        match decided {
            Next::Ask { engine, why } => prop_assert!(engine < open.len() && !why.is_empty()),
            Next::Done { reasons } => prop_assert!(reasons.iter().all(|reason| !reason.is_empty())),
        }
    }

    #[test]
    fn a_campaign_that_asks_ends_with_rows_or_a_reason_for_every_engine(
        refused in prop::collection::vec(any::<bool>(), 2),
        broken in any::<bool>(),
        parallel in 1i32..3,
        measurements in 1i32..12,
    ) {
        let mut cluster = cluster().asking();
        cluster.world.agent.parallel_jobs = Some(parallel);
        cluster.world.spec.inputs.budget.measurements = measurements;
        cluster.broken = if broken { vec!["engine-b"] } else { Vec::new() };
        for (engine, refused) in ["engine-a", "engine-b"].into_iter().zip(refused) {
            if refused {
                cluster.world.agent.offers.insert(engine.to_owned(), Offer::None("refused".to_owned()));
            }
        }
        let status = finish(&mut cluster);
        prop_assert!(status::ended(&status).is_some(), "{:?}", status);
        let asked: std::collections::BTreeSet<_> = status.asked.iter().map(|asked| &asked.engine).collect();
        prop_assert_eq!(asked.len(), status.asked.len(), "none is asked for twice");
        let explored = status.measurements.iter().filter(|row| row.purpose == MeasurementPurpose::Explore);
        prop_assert!(i32::try_from(explored.count()).expect("few") <= measurements);
        for engine in ["engine-a", "engine-b"] {
            let has_row = status.measurements.iter().any(|row| {
                row.engine == engine && row.verdict != MeasurementVerdict::Failed
            });
            let has_reason = status.not_measured.iter().any(|entry| entry.engine == engine);
            prop_assert!(has_row || has_reason || status.phase == Some(ProfilePhase::Failed), "{}", engine);
        }
    }
}
