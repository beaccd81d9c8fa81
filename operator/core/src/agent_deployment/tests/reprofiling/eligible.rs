//! What is held against what serves, and when nothing is measured.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    agent_deployment::ReprofilingResult,
    profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfilePhase},
};

use super::{
    super::{
        cluster::{Cluster, digest},
        profiling::{end, ended, profiled, row},
    },
    TO_MONDAY, profiling, scheduled, weekly,
};
use crate::agent_deployment::world::WorkloadView;

/// A confirm run that could bound nothing has shown no objective to be met: a campaign would not choose that point
/// either.
#[test]
fn what_no_confirm_run_could_bound_gives_way_where_there_are_objectives() {
    let with_trace = |cluster: Cluster| {
        let mut cluster = profiling(cluster, |profiling| {
            let workload = "{name: runs, agentTrace: {configMap: {name: chat, key: trace.jsonl}}}";
            profiling.workloads.push(serde_norway::from_str(workload).expect("a workload"));
        });
        let data = WorkloadView::Lines { digest: digest("trace") };
        cluster.world.workloads.insert(("chat".to_owned(), "trace.jsonl".to_owned()), data);
        cluster
    };
    let weekly = scheduled(ended(with_trace(profiled()), ProfilePhase::Chosen).with_pods_ready(), "{cron: 0 3 * * 1}");
    let mut cluster = weekly.after(TO_MONDAY);
    let name = cluster.run().profile.expect("it has a Profile");
    let engines: Vec<String> = cluster.world.status.engines.iter().map(|engine| engine.name.clone()).collect();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engines[0].clone()));
    let feasible = |engine: &String| Measurement { verdict: MeasurementVerdict::Feasible, ..row(engine) };
    let unbounded = Measurement {
        verdict: MeasurementVerdict::Unbounded,
        purpose: MeasurementPurpose::Confirm,
        ..row(&engines[1])
    };
    let profile = cluster.world.profiles.get_mut(&name).expect("the Profile exists");
    profile.measurements = vec![feasible(&engines[1]), unbounded, feasible(&engines[0])];
    cluster.settle();
    assert_eq!(cluster.run().result, Some(ReprofilingResult::Changed));
}

#[test]
fn an_agent_that_scales_itself_is_measured_whatever_its_spec_has_for_replicas() {
    let autoscaling = serde_norway::from_str("{minReplicas: 1, maxReplicas: 3}").expect("valid autoscaling");
    let scaled = weekly().edited(|spec| {
        spec.serving.replicas = 0;
        spec.serving.autoscaling = Some(autoscaling);
    });
    assert_eq!(scaled.with_pods_ready().after(TO_MONDAY).run().number, 1);
}
