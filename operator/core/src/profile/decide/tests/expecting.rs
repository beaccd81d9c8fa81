//! Campaigns of engines of which something is expected.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{ExpectedLevel, FrozenData, ProfileInputs, ProfiledEngine},
    shared::ConfigMapKeyReference,
};

use super::{
    super::ledger::{self, Next},
    asking::{finish, split},
    cluster::{Cluster, cluster},
};

/// A figure of an engine of the split campaign: requests a second at one in flight.
type Rates = [(&'static str, f64); 4];

/// FP16 is expected to be the faster, against what the roofline says.
const FP16_FASTER: Rates = [("fp16-8", 30.0), ("fp8-8", 10.0), ("fp8-16", 10.0), ("fp16-16", 30.0)];

fn levels(inputs: &ProfileInputs, per_second: f64) -> Vec<ExpectedLevel> {
    let at = |level: &i32| {
        let rate = per_second * f64::from(*level).powf(0.8);
        let micros = f64::from(*level) / rate * 1e6;
        ExpectedLevel {
            level: *level,
            per_kilosecond: (rate * 1e3) as i64,
            request_microseconds: micros as i64,
            first_token_microseconds: (micros / 10.0) as i64,
            inter_token_microseconds: (micros / 100.0) as i64,
        }
    };
    inputs.levels.iter().map(at).collect()
}

fn expecting(mut inputs: ProfileInputs, rate: impl Fn(&ProfiledEngine) -> f64) -> ProfileInputs {
    let config_map = ConfigMapKeyReference { name: "expectations".to_owned(), key: "pareto.csv".to_owned() };
    inputs.prior = Some(FrozenData { config_map, digest: format!("sha256:{}", "0".repeat(64)) });
    let expected: Vec<_> = inputs.engines.iter().map(|engine| levels(&inputs, rate(engine))).collect();
    inputs.engines.iter_mut().zip(expected).for_each(|(engine, expected)| engine.expected = expected);
    inputs
}

fn first(inputs: &ProfileInputs) -> String {
    let open: Vec<&ProfiledEngine> = inputs.engines.iter().collect();
    match ledger::next(inputs, &ProfileStatus::default(), &open) {
        Next::Ask { engine, .. } => open[engine].name.clone(),
        done => panic!("{done:?}"),
    }
}

#[test]
fn a_search_begins_with_the_engine_of_which_the_most_is_expected() {
    let rate = |engine: &ProfiledEngine| FP16_FASTER.into_iter().find(|(name, _)| *name == engine.name).unwrap().1;
    let (bare, given) = (first(&split()), first(&expecting(split(), rate)));
    assert!(bare.starts_with("fp8-") && given.starts_with("fp16-"), "{bare} {given}");
}

#[test]
fn a_campaign_asks_first_for_the_engine_of_which_the_most_is_expected() {
    let asked = |of: fn(&ProfiledEngine) -> f64| {
        let mut cluster = cluster().asking();
        cluster.world.spec.inputs = expecting(cluster.world.spec.inputs, of);
        cluster.settle();
        cluster.asked().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(asked(|engine| if engine.name == "engine-b" { 40.0 } else { 10.0 }), ["engine-b"]);
    assert_eq!(asked(|engine| if engine.name == "engine-a" { 40.0 } else { 10.0 }), ["engine-a"]);
}

#[test]
fn jobs_have_what_is_expected_of_their_engine_and_of_those_before_it() {
    let mut cluster = cluster();
    cluster.world.spec.inputs =
        expecting(cluster.world.spec.inputs, |engine| if engine.name == "engine-b" { 40.0 } else { 10.0 });
    cluster.finish();
    let rates = |expected: &[slipway_worker_contract::Expected]| {
        expected.iter().map(|of| of.per_kilosecond).collect::<Vec<_>>()
    };
    let (slow, fast) = (vec![10_000, 30_314], vec![40_000, 121_257]);
    assert_eq!((rates(&cluster.tasks[0].expected), rates(&cluster.tasks[1].expected)), (slow.clone(), fast));
    assert_eq!(rates(&cluster.tasks[1].other_engines[0].expected), slow);
}

fn chosen(mut cluster: Cluster) -> (ProfileStatus, usize) {
    let status = finish(&mut cluster);
    let rows = status.measurements.len();
    (status, rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The cells are few, so every engine is measured: what is expected changes the order of rows, and no verdict.
    #[test]
    fn expectations_change_no_verdict_and_no_choice_from_the_same_rows(rates in prop::collection::vec(1.0_f64..100.0, 2)) {
        let mut without = cluster();
        let bare = without.finish();
        let mut with = cluster();
        let of = |engine: &ProfiledEngine| rates[usize::from(engine.name == "engine-b")];
        with.world.spec.inputs = expecting(with.world.spec.inputs, of);
        let given = with.finish();
        prop_assert_eq!(&given.choice, &bare.choice);
        prop_assert_eq!(&given.measurements, &bare.measurements);
    }

    #[test]
    fn a_campaign_that_is_told_wrong_still_ends_with_a_choice_that_is_feasible(
        rates in prop::collection::vec(1.0_f64..1000.0, 2),
    ) {
        let mut cluster = cluster().asking();
        let of = |engine: &ProfiledEngine| rates[usize::from(engine.name == "engine-b")];
        cluster.world.spec.inputs = expecting(cluster.world.spec.inputs, of);
        let (status, rows) = chosen(cluster);
        prop_assert!(rows > 0);
        let choice = status.choice.expect("the truth has a feasible row");
        let row = &status.measurements[usize::try_from(choice.predicted_by).expect("a position")];
        prop_assert_eq!(row.verdict, slipway_crds::v1alpha1::profile::MeasurementVerdict::Feasible);
    }
}
