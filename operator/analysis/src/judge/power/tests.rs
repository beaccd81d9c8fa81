use proptest::prelude::*;
use slipway_vocabulary::evidence::{Histogram, Metric, Unit};

use super::{Arm, CanaryPods, Config, Expectation, Outlook, Plan, Reference, Step, Traffic, Window, outlooks};
use crate::judge::Observation;

/// A window of stable's with so many units; the logarithm of its latency is normal.
fn window(per_window: u64, sigma_buckets: f64) -> Window {
    let mut buckets = Histogram::new();
    for i in 0..per_window {
        let share = (i as f64 + 0.5) / per_window as f64;
        // Nearly a normal's quantile function.
        let z = (share / (1.0 - share)).ln() / 1.7;
        let octaves = (z * sigma_buckets / 32.0).clamp(-8.0, 8.0);
        buckets.record((1e6 * octaves.exp2()) as u64);
    }
    let observation = |pod: u64| Observation {
        arm: Arm::Stable,
        pod: format!("s{pod}"),
        metric: Metric::RequestLatency,
        unit: Unit::Run,
        stratum: String::new(),
        started: Some(if pod == 0 { per_window } else { 0 }),
        new_sessions: 0,
        in_flight_ages: Some(vec![(1, 2)]),
        count: per_window,
        errors: 0,
        buckets: if pod == 0 { buckets.clone() } else { Histogram::new() },
    };
    Window { end_seconds: 10, observations: (0..4).map(observation).collect(), ..Window::default() }
}

/// Two minutes of them.
fn windows(per_window: u64, sigma_buckets: f64) -> Vec<Window> {
    let window = window(per_window, sigma_buckets);
    (1..=12).map(|n| Window { end_seconds: n * 10, ..window.clone() }).collect()
}

fn traffic(per_window: u64, sigma_buckets: f64) -> Traffic {
    let mut traffic = Traffic::default();
    windows(per_window, sigma_buckets).iter().for_each(|window| traffic.observe(window));
    traffic
}

fn plan(canary_pods: usize) -> Plan {
    let canary_pods = CanaryPods::Fixed(canary_pods);
    Plan { steps: Config::default().steps, stable_pods: 4, canary_pods, reference: Reference::Rest }
}

fn as_the_operator() -> Plan {
    Plan { canary_pods: CanaryPods::ByWeight, ..plan(1) }
}

#[test]
fn traffic_is_described_by_rate_spread_pods_and_units_in_flight() {
    let traffic = traffic(200, 20.0);
    assert_eq!((traffic.units_per_second(), traffic.stable_pods(), traffic.in_flight()), (20.0, 4, 8.0));
    let spread = traffic.spread(Metric::RequestLatency).unwrap();
    assert!((0.40..0.46).contains(&spread), "20 buckets are 0.43: {spread}");
    assert_eq!(traffic.spread(Metric::ToolTime), None);
}

#[test]
fn half_again_as_slow_is_decidable_at_twenty_units_a_second_and_not_at_one_in_a_minute() {
    let config = Config::default();
    let busy = traffic(200, 20.0).forecast(&config, &plan(4), 1.5);
    assert!(busy.seconds.is_some_and(|seconds| seconds <= 600), "{busy:?}");
    let quiet = traffic(200, 20.0);
    let quiet = Traffic { windows: quiet.windows * 1_000, ..quiet }.forecast(&config, &plan(4), 1.5);
    assert!(!quiet.is_decidable(), "{quiet:?}");
}

#[test]
fn an_equal_canary_is_never_found() {
    assert_eq!(traffic(2_000, 20.0).forecast(&Config::default(), &plan(4), 1.0).seconds, None);
}

#[test]
fn a_schedule_that_begins_with_more_traffic_is_faster_and_stands_first() {
    let traffic = traffic(20, 32.0);
    let all = traffic.schedules(&Config::default(), &plan(2), 1.5);
    assert_eq!(all.len(), 6, "two numbers of pods, three first steps");
    let as_it_is = all.iter().find(|forecast| forecast.plan == plan(2)).unwrap();
    assert!(all[0].seconds.unwrap() < as_it_is.seconds.unwrap_or(u64::MAX), "{all:?}");
    assert!(all[0].plan.steps[0].weight_percent > 5.0, "{all:?}");
}

#[test]
fn the_operators_rule_gives_a_canary_pods_by_its_weight() {
    let pods = |weight, stable| CanaryPods::ByWeight.at(weight, stable);
    assert_eq!([pods(0.05, 4), pods(0.2, 4), pods(0.5, 4), pods(0.9, 4), pods(0.05, 0)], [1, 1, 4, 4, 1]);
    assert_eq!(CanaryPods::Fixed(0).at(0.5, 4), 1);
}

#[test]
fn an_outlook_says_of_each_schedule_when_an_equal_canary_passes_and_a_slower_one_is_found() {
    let of = |per_window| outlooks(&Config::default(), &windows(per_window, 20.0), &as_the_operator(), 1.5);
    let seconds = |outlook: &Outlook| match outlook.promotion {
        Expectation::Seconds(seconds) => seconds,
        Expectation::Unknown | Expectation::Unreachable { .. } => u64::MAX,
    };
    let busy = of(200);
    let weights: Vec<Vec<f64>> =
        busy.iter().map(|of| of.plan.steps.iter().map(|step| step.weight_percent).collect()).collect();
    assert_eq!(weights, [vec![5.0, 20.0, 50.0], vec![20.0, 50.0], vec![50.0]]);
    assert_eq!(busy.iter().map(seconds).collect::<Vec<_>>(), [1_800, 1_200, 600]);
    assert!(busy.iter().all(|of| of.rollback_seconds.is_some_and(|seconds| seconds <= 600)), "{busy:?}");
    let quiet = of(2);
    assert!(quiet.iter().zip(&busy).all(|(quiet, busy)| seconds(quiet) > seconds(busy)), "{quiet:?}");
}

#[test]
fn a_baseline_takes_longer_because_two_small_shares_are_compared() {
    let of = |reference| {
        let plan = Plan { reference, steps: vec![Config::default().steps[1]], ..as_the_operator() };
        outlooks(&Config::default(), &windows(200, 20.0), &plan, 1.5)[0].rollback_seconds
    };
    let rest = of(Reference::Rest).unwrap();
    assert!(of(Reference::Baseline).is_none_or(|baseline| baseline >= rest), "{rest} s");
}

#[test]
fn nothing_is_said_of_traffic_that_was_not_seen() {
    let all = outlooks(&Config::default(), &[], &as_the_operator(), 1.5);
    let said: Vec<_> = all.iter().map(|of| (of.promotion, of.rollback_seconds)).collect();
    assert_eq!(said, [(Expectation::Unknown, None); 3]);
}

#[test]
fn what_a_canary_counted_changes_no_outlook() {
    let stable = windows(40, 20.0);
    let mut both = stable.clone();
    for window in &mut both {
        let slow =
            |of: &Observation| Observation { arm: Arm::Canary, pod: format!("c{}", of.pod), errors: 0, ..of.clone() };
        let canary: Vec<_> = window.observations.iter().map(slow).collect();
        window.observations.extend(canary);
    }
    let of = |windows: &[Window]| outlooks(&Config::default(), windows, &as_the_operator(), 1.5);
    assert_eq!(of(&both), of(&stable));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn more_traffic_more_harm_and_longer_soaks_never_take_longer(
        per_window in 10_u64..400, times in 2_u64..5, ratio in 1.2..2.0_f64, more in 1.05..1.5_f64, sigma in 8.0..60.0_f64,
    ) {
        let config = Config::default();
        let seconds = |traffic: &Traffic, plan: &Plan, ratio| {
            traffic.forecast(&config, plan, ratio).seconds.unwrap_or(u64::MAX)
        };
        let one = traffic(per_window, sigma);
        let busier = Traffic { started: one.started.iter().map(|(metric, n)| (*metric, n * times)).collect(), ..one.clone() };
        let before = seconds(&one, &plan(4), ratio);
        prop_assert!(seconds(&busier, &plan(4), ratio) <= before);
        prop_assert!(seconds(&one, &plan(4), ratio * more) <= before);
        let longer = |step: &Step| Step { min_soak_seconds: 3_600, max_soak_seconds: 7_200, ..*step };
        let soaked = Plan { steps: vec![longer(&plan(4).steps[2])], ..plan(4) };
        let short = Plan { steps: vec![plan(4).steps[2]], ..plan(4) };
        prop_assert!(seconds(&one, &soaked, ratio) <= seconds(&one, &short, ratio));
    }
}
