//! Campaigns of a model for which earlier ones made a choice under another load.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{ProfileInputs, WarmStart},
};
use slipway_worker_contract::{Arm, Cell, MOST_WALKED, ProfileEnd};

use super::{
    asking::finish,
    cluster::{Cluster, cluster},
};
use crate::profile::world::Earlier;

fn campaign(name: &str, ended: Cluster) -> Earlier {
    let Cluster { world, .. } = ended;
    Earlier { name: name.to_owned(), inputs: world.spec.inputs, status: world.status }
}

/// A campaign with other prompts than [`cluster`]'s. It chose int8/instances-2 at 4 in flight.
fn other_load() -> Cluster {
    let mut earlier = cluster();
    earlier.world.spec.inputs.prompts[0].data.digest = "cc".repeat(32);
    earlier.finish();
    earlier
}

fn after(earlier: Vec<Earlier>) -> Cluster {
    let mut next = cluster();
    next.world.earlier = earlier;
    next
}

fn choice(profile: &str) -> WarmStart {
    let (engine, configuration) = ("engine-b".to_owned(), "instances-2".to_owned());
    WarmStart { profile: profile.to_owned(), engine, configuration, level: 4 }
}

/// As many levels as make the search of an engine worth one.
fn searched(inputs: &mut ProfileInputs) {
    inputs.levels = (1..=16).collect();
    assert!(inputs.levels.len() * inputs.configurations.len() > MOST_WALKED);
}

#[test]
fn a_campaign_begins_with_what_an_earlier_one_chose_under_another_load() {
    let mut cluster = after(vec![campaign("facts-earlier", other_load())]);
    cluster.settle();
    assert_eq!(cluster.world.status.warm_start, Some(choice("facts-earlier")));
    let line = "Profile facts-earlier chose int8/instances-2 at 4 in flight before";
    assert_eq!(cluster.notes.iter().filter(|note| *note == line).count(), 1, "{:?}", cluster.notes);
    assert!(cluster.world.status.measurements.iter().all(|row| row.measured_in.is_none()), "no row is taken over");
}

#[test]
fn the_first_job_has_the_point_and_no_other_does_whatever_becomes_of_the_earlier_campaign() {
    let mut cluster = after(vec![campaign("facts-earlier", other_load())]);
    searched(&mut cluster.world.spec.inputs);
    cluster.settle();
    cluster.world.earlier.clear();
    cluster.finish();
    let firsts: Vec<_> = cluster.tasks.iter().map(|task| (task.engine.identity.as_str(), task.first.clone())).collect();
    let config = cluster.tasks[0].first.clone().expect("a point").arm.config;
    let first = Cell { arm: Arm { id: "instances-2".to_owned(), config }, level: 4 };
    assert_eq!(firsts[0], ("engine-b", Some(first)), "its engine comes first");
    assert!(firsts.len() > 1 && firsts[1..].iter().all(|(_, first)| first.is_none()), "{firsts:?}");
}

/// Another engine may be measured beside it, and a Job may fail.
#[test]
fn the_job_of_the_engine_has_the_point_whatever_was_measured_beside_it() {
    let mut cluster = after(vec![campaign("facts-earlier", other_load())]).asking();
    cluster.world.agent.parallel_jobs = Some(2);
    cluster.settle();
    cluster.offer("engine-a");
    cluster.settle();
    let beside = cluster.running().expect("the first of the spec is built, and measured meanwhile");
    cluster.end_job(&beside, ProfileEnd::Complete, 0);
    cluster.offer("engine-b");
    cluster.settle();
    let of =
        |engine: &str| cluster.tasks.iter().find(|task| task.engine.identity == engine).expect("a task").first.clone();
    assert_eq!((of("engine-a").is_none(), of("engine-b").map(|first| first.level)), (true, Some(4)));
}

/// Rows of the same load are adopted where the engine is known already; one that is asked for has none yet.
#[test]
fn a_campaign_that_asks_for_engines_begins_with_a_choice_under_the_same_load_too() {
    let mut earlier = campaign("facts-earlier", other_load());
    let mut cluster = cluster().asking();
    earlier.inputs.prompts.clone_from(&cluster.world.spec.inputs.prompts);
    cluster.world.earlier = vec![earlier];
    cluster.settle();
    assert_eq!(cluster.world.status.warm_start, Some(choice("facts-earlier")));
}

#[test]
fn a_campaign_that_asks_for_engines_asks_first_for_the_one_that_was_chosen() {
    let mut cluster = after(vec![campaign("facts-earlier", other_load())]).asking();
    cluster.settle();
    assert_eq!(cluster.asked(), ["engine-b"]);
    assert_eq!(cluster.world.status.asked[0].why, "Profile facts-earlier chose it before");
}

#[test]
fn of_several_campaigns_the_latest_that_chose_a_point_of_this_one_counts() {
    let whole = |name| campaign(name, other_load());
    let mut undecided = whole("facts-undecided");
    undecided.status.choice = None;
    let mut elsewhere = whole("facts-elsewhere");
    elsewhere.status.choice.as_mut().expect("a choice").level = 7;
    let mut cluster = after(vec![undecided, elsewhere, whole("facts-later"), whole("facts-earlier")]);
    cluster.settle();
    assert_eq!(cluster.world.status.warm_start, Some(choice("facts-later")));
}

/// Why an earlier choice is not taken.
#[derive(Debug, Clone, Copy)]
enum Obstacle {
    /// It measures everything again.
    Repetition,
    /// A table says what to expect.
    Table,
    /// The earlier load was the same: its rows are taken over.
    SameLoad,
    /// Other engines, by what they are built from.
    OtherEngines,
    /// Other settings under the same name.
    OtherSettings,
    /// Other nodes.
    OtherNodes,
    /// More GPUs.
    OtherResources,
}

#[rstest]
fn a_campaign_begins_by_itself_where_the_earlier_choice_is_none_of_its_points_or_something_says_more(
    #[values(
        Obstacle::Repetition,
        Obstacle::Table,
        Obstacle::SameLoad,
        Obstacle::OtherEngines,
        Obstacle::OtherSettings,
        Obstacle::OtherNodes,
        Obstacle::OtherResources
    )]
    why: Obstacle,
) {
    let mut earlier = campaign("facts-earlier", other_load());
    let mut cluster = cluster();
    let inputs = &mut cluster.world.spec.inputs;
    match why {
        Obstacle::Repetition => inputs.repetition = Some(1),
        Obstacle::Table => {
            let table = "{configMap: {name: expectations, key: pareto.csv}, digest: aa}";
            inputs.prior = Some(serde_norway::from_str(table).expect("a table"));
        }
        Obstacle::SameLoad => earlier.inputs.prompts.clone_from(&inputs.prompts),
        Obstacle::OtherEngines => inputs.engines.iter_mut().for_each(|engine| engine.name.push('x')),
        Obstacle::OtherSettings => inputs.configurations[1].settings.instances = Some(3),
        Obstacle::OtherNodes => drop(inputs.placement.node_selector.insert("zone".to_owned(), "b".to_owned())),
        Obstacle::OtherResources => {
            inputs.placement.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "2".to_owned());
        }
    }
    cluster.world.earlier = vec![earlier];
    cluster.settle();
    assert_eq!(cluster.world.status.warm_start, None, "{why:?}");
}

#[test]
fn a_warm_start_changes_no_choice_from_the_same_rows() {
    let mut warm = after(vec![campaign("facts-earlier", other_load())]).asking();
    let mut cold = cluster().asking();
    let point = |status: ProfileStatus| {
        let choice = status.choice.expect("a choice");
        (choice.engine, choice.configuration, choice.level, choice.why)
    };
    let (begun, by_itself) = (finish(&mut warm), finish(&mut cold));
    let first = |status: &ProfileStatus| status.asked[0].engine.clone();
    assert_eq!((first(&begun), first(&by_itself)), ("engine-b".to_owned(), "engine-a".to_owned()));
    assert_eq!(point(begun), point(by_itself), "only the order of the rows differs");
}
