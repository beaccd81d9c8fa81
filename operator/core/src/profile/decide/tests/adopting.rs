//! An edited objective, after a campaign has ended.

use pretty_assertions::assert_eq;
use slipway_crds::{v1alpha1::profile::MeasurementVerdict, values::Percentile};

use super::cluster::{Cluster, cluster};
use crate::profile::world::Earlier;

/// A campaign that comes after another one has ended.
fn after_another() -> Cluster {
    let mut earlier = cluster();
    earlier.finish();
    let mut next = cluster();
    next.world.earlier = vec![Earlier {
        name: "facts-earlier".to_owned(),
        inputs: earlier.world.spec.inputs.clone(),
        status: earlier.world.status,
    }];
    next
}

fn limited_to(mut cluster: Cluster, max: &str) -> Cluster {
    cluster.world.spec.inputs.objectives[0].max = max.parse().expect("a duration");
    cluster
}

/// Engine, configuration and level of what the Jobs of a campaign had to measure.
fn measured(cluster: &Cluster) -> Vec<String> {
    let rows = &cluster.world.status.measurements;
    let own = rows.iter().filter(|row| row.measured_in.is_none());
    own.map(|row| format!("{} {} {}", row.engine, row.configuration, row.level)).collect()
}

#[test]
fn an_edited_objective_is_answered_from_what_an_earlier_campaign_measured() {
    let mut cluster = limited_to(after_another(), "60ms");
    let status = cluster.finish().clone();
    assert!(cluster.tasks.is_empty(), "no Job is started");
    let choice = status.choice.expect("a choice");
    assert_eq!((choice.engine.as_str(), choice.configuration.as_str(), choice.level), ("engine-b", "instances-2", 1));
    assert_eq!((status.rows, status.gpu_milliseconds), (8, 0), "rows of another campaign have been paid for");
    assert!(status.measurements.iter().all(|row| row.measured_in.as_deref() == Some("facts-earlier")));
    let line = |engine| format!("{engine}: 4 of 4 points were measured by earlier campaigns");
    assert_eq!(cluster.notes[..2], [line("fp32"), line("int8")]);
}

#[test]
fn who_measures_anew_takes_nothing_over() {
    let mut cluster = after_another();
    cluster.world.spec.inputs.repetition = Some(1);
    let status = cluster.finish().clone();
    assert!(status.measurements.iter().all(|row| row.measured_in.is_none()));
    assert_eq!((measured(&cluster).len(), cluster.tasks.is_empty()), (status.measurements.len(), false));
}

#[test]
fn what_the_new_objective_leaves_open_is_measured_again() {
    let mut cluster = limited_to(after_another(), "52ms");
    cluster.finish();
    assert_eq!(measured(&cluster), ["engine-b instances-1 1", "engine-b instances-2 1"]);
    assert_eq!(cluster.tasks.len(), 1, "the other engine's rows say enough");
}

#[test]
fn a_point_is_judged_by_the_new_limit_on_errors() {
    let mut cluster = after_another();
    for row in &mut cluster.world.earlier[0].status.measurements {
        row.errors = 2;
    }
    cluster.world.spec.inputs.error_rate = Some(serde_norway::from_str("max: 1%").expect("a limit"));
    let status = cluster.finish();
    let verdicts: Vec<_> = status.measurements.iter().map(|row| (row.verdict, row.reason.as_str())).collect();
    assert_eq!(verdicts, [(MeasurementVerdict::Infeasible, "2 of 122 failed"); 8]);
}

#[test]
fn another_percentile_is_measured() {
    let mut cluster = after_another();
    cluster.world.spec.inputs.objectives[0].percentile = Percentile::P99;
    cluster.settle();
    assert_eq!((cluster.world.status.rows, cluster.tasks[0].measured.len()), (0, 0));
}

#[test]
fn rows_of_other_prompts_places_engines_or_settings_are_not_taken_over() {
    let edits: [fn(&mut slipway_crds::v1alpha1::profile::ProfileInputs); 5] = [
        |inputs| inputs.prompts[0].data.digest = "ee".repeat(32),
        |inputs| inputs.prompts[0].weight = 2,
        |inputs| inputs.placement.triton_image = "example.com/triton:2".to_owned(),
        |inputs| inputs.engines.iter_mut().for_each(|engine| engine.manifest_digest = "ee".repeat(32)),
        |inputs| inputs.configurations.iter_mut().for_each(|named| named.settings.instances = Some(9)),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        let mut cluster = after_another();
        edit(&mut cluster.world.spec.inputs);
        cluster.settle();
        assert_eq!((number, cluster.world.status.rows), (number, 0));
    }
}

#[test]
fn a_campaign_that_has_begun_takes_nothing_over() {
    let mut cluster = cluster();
    cluster.settle();
    cluster.world.earlier = after_another().world.earlier;
    cluster.settle();
    assert_eq!(cluster.world.status.rows, 0);
}
