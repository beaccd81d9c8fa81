use proptest::prelude::*;
use slipway_vocabulary::evidence::{Histogram, Metric, Unit};

use super::{Arm, Config, Plan, Step, Traffic, Window};
use crate::judge::Observation;

/// Two minutes of stable's traffic at so many units a second; the logarithm of its latency is normal.
fn traffic(per_window: u64, sigma_buckets: f64) -> Traffic {
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
    let window = Window { end_seconds: 10, observations: (0..4).map(observation).collect(), ..Window::default() };
    let mut traffic = Traffic::default();
    (0..12).for_each(|_| traffic.observe(&window));
    traffic
}

fn plan(canary_pods: usize) -> Plan {
    Plan { steps: Config::default().steps, stable_pods: 4, canary_pods }
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
