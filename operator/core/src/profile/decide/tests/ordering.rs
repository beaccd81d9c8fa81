//! Which of the built engines is measured first.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::Precision;
use slipway_worker_contract::{MOST_WALKED, ProfileEnd};

use super::cluster::{Cluster, cluster};

/// The cluster with so many levels; its engines have two configurations.
fn with_levels(levels: usize) -> Cluster {
    let mut cluster = cluster();
    cluster.world.spec.inputs.levels = (1..).take(levels).collect();
    cluster
}

fn measured(cluster: &Cluster) -> Vec<&str> {
    cluster.tasks.iter().map(|task| task.engine.identity.as_str()).collect()
}

#[test]
fn of_spaces_that_are_searched_the_engine_with_fewer_bits_is_measured_first() {
    let order = |levels| {
        let mut cluster = with_levels(levels);
        cluster.settle();
        cluster.end(ProfileEnd::Complete, 0);
        cluster.settle();
        measured(&cluster).iter().map(|engine| (*engine).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(MOST_WALKED / 2), ["engine-a", "engine-b"], "each cell is walked, in any order");
    assert_eq!(order(MOST_WALKED / 2 + 1), ["engine-b", "engine-a"], "int8 before fp32");
}

#[test]
fn the_precision_is_the_longest_that_the_name_begins_with_and_an_unknown_one_comes_last() {
    let mut cluster = with_levels(20);
    let engines = &mut cluster.world.spec.inputs.engines;
    engines[0].display_name = "int8weightonly-tp4".into();
    engines[1].display_name = "int4awq-tp4".into();
    cluster.settle();
    assert_eq!(measured(&cluster), ["engine-b"], "of four bits");
    let mut unknown = with_levels(20);
    unknown.world.spec.inputs.engines[1].display_name = "tuned".into();
    unknown.settle();
    assert_eq!(measured(&unknown), ["engine-a"]);
    assert_eq!(Precision::ALL.map(Precision::weight_bits), [32, 16, 16, 8, 8, 8, 4, 8, 4, 4, 4, 4]);
}

#[test]
fn an_engine_whose_job_has_begun_is_measured_to_its_end_before_another_begins() {
    let mut cluster = with_levels(MOST_WALKED / 2);
    cluster.settle();
    // An operator that orders otherwise takes over.
    cluster.world.spec.inputs.levels.push(99);
    cluster.settle();
    assert_eq!(measured(&cluster), ["engine-a"]);
    cluster.end(ProfileEnd::Complete, 0);
    cluster.settle();
    assert_eq!(measured(&cluster), ["engine-a", "engine-b"]);
}
