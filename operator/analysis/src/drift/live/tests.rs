use pretty_assertions::assert_eq;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use slipway_vocabulary::evidence::{Histogram, Metric, MetricWindow, Unit};

use super::{BASELINE_SECONDS, Baseline, Counted, Counts, Drift, Family, Identity, LiveTest, Part, Signal};

/// A day and a few hours of traffic: windows of ten minutes, slower by day than by night.
struct Traffic {
    /// Latency of live traffic over the baseline's.
    latency: f64,
    /// Output tokens of live traffic over the baseline's.
    tokens: f64,
    /// Prompt band of live traffic; the baseline's is 9.
    prompt_band: u8,
    /// Errors in a thousand of live traffic; the baseline has 5.
    errors: u64,
    /// Bands of units in flight that live traffic lies above the baseline's.
    more_in_flight: u8,
    hours: u64,
}

fn traffic() -> Traffic {
    Traffic { latency: 1.0, tokens: 1.0, prompt_band: 9, errors: 5, more_in_flight: 0, hours: 48 }
}

fn identity() -> Identity {
    Identity::from([("engine".to_owned(), "sha256:1".to_owned()), ("gpu".to_owned(), "H100".to_owned())])
}

impl Traffic {
    fn windows(&self, rng: &mut Pcg64Mcg, is_live: bool, end_seconds: u64) -> Vec<MetricWindow> {
        let (latency, tokens, band, errors) =
            if is_live { (self.latency, self.tokens, self.prompt_band, self.errors) } else { (1.0, 1.0, 9, 5) };
        let hour = (end_seconds / 3_600) % 24;
        // By day there is more load: the in-flight band says so, and latency follows it.
        let (load, n) = if (8..20).contains(&hour) { (2, 300) } else { (0, 100) };
        let slow = 1.0 + 0.3 * f64::from(load) + 0.05 * rng.random::<f64>();
        let mut draw = |scale: f64, n: u64| -> Histogram {
            (0..n)
                .map(|_| (scale * (0.7 * ((0..4).map(|_| rng.random::<f64>()).sum::<f64>() - 2.0)).exp()) as u64)
                .collect()
        };
        let failed = n * errors / 1_000 + u64::from((end_seconds / 600).is_multiple_of(2));
        let window = |metric, stratum: String, buckets: Histogram, errors| MetricWindow {
            metric,
            unit: Unit::Run,
            stratum,
            started: n,
            new_sessions: 0,
            in_flight: 0,
            oldest_in_flight_microseconds: 0,
            in_flight_ages: None,
            count: n,
            errors,
            sum_microseconds: 0,
            buckets,
        };
        let in_flight = load + if is_live { self.more_in_flight } else { 0 };
        let stratum = format!("miss/p{band}/f{in_flight}");
        let (latencies, lengths) = (draw(200_000.0 * latency * slow, n - failed), draw(120.0 * tokens, n));
        vec![
            window(Metric::AgentRunLatency, stratum, latencies, failed),
            window(Metric::OutputTokensPerRun, String::new(), lengths, 0),
        ]
    }

    fn test(&self, seed: u64) -> LiveTest {
        let mut rng = Pcg64Mcg::new(u128::from(seed));
        let mut baseline = Baseline::new(identity(), 0);
        let mut end_seconds = 0;
        loop {
            end_seconds += 600;
            let windows = self.windows(&mut rng, false, end_seconds);
            if !baseline.add(end_seconds, &windows) {
                break;
            }
        }
        let mut test = LiveTest::new(baseline, 0.01);
        for _ in 0..self.hours * 6 {
            let windows = self.windows(&mut rng, true, end_seconds);
            test.consume(end_seconds, &windows);
            end_seconds += 600;
        }
        test
    }

    fn drift(&self, seed: u64) -> Drift {
        self.test(seed).drift(&identity())
    }
}

fn signal(drift: Drift) -> Option<(bool, Signal)> {
    match drift {
        Drift::WorkloadDrift { signal, .. } => Some((true, signal)),
        Drift::BehaviorDrift { signal, .. } => Some((false, signal)),
        Drift::NotEnough | Drift::NoDrift { .. } | Drift::Incomparable(_) => None,
    }
}

#[test]
fn the_same_traffic_is_no_drift_by_day_and_by_night() {
    for seed in 0..20 {
        assert!(matches!(traffic().drift(seed), Drift::NoDrift { .. }), "seed {seed}: {:?}", traffic().drift(seed));
    }
}

#[test]
fn a_slower_engine_is_behavior_drift() {
    let slower = Traffic { latency: 1.3, ..traffic() };
    assert_eq!(signal(slower.drift(1)), Some((false, Signal::Slower(Metric::AgentRunLatency))));
    let failing = Traffic { errors: 40, ..traffic() };
    assert_eq!(signal(failing.drift(1)), Some((false, Signal::Errors(Metric::AgentRunLatency))));
}

#[test]
fn longer_answers_are_workload_drift_even_when_runs_become_slower() {
    let longer = Traffic { latency: 1.5, tokens: 1.5, ..traffic() };
    assert_eq!(signal(longer.drift(2)), Some((true, Signal::Longer(Metric::OutputTokensPerRun))));
    let shorter = Traffic { tokens: 0.6, ..traffic() };
    assert_eq!(signal(shorter.drift(2)), Some((true, Signal::Shorter(Metric::OutputTokensPerRun))));
}

#[test]
fn other_prompts_are_workload_drift() {
    assert_eq!(signal(Traffic { prompt_band: 11, ..traffic() }.drift(3)), Some((true, Signal::LongerPrompts)));
    assert_eq!(signal(Traffic { prompt_band: 7, ..traffic() }.drift(3)), Some((true, Signal::ShorterPrompts)));
}

#[test]
fn a_load_that_the_baseline_never_had_is_workload_drift_and_that_of_its_busy_hours_is_not() {
    assert_eq!(signal(Traffic { more_in_flight: 3, ..traffic() }.drift(3)), Some((true, Signal::MoreInFlight)));
    let shown = traffic().test(3).shown(Family::Workload);
    assert_eq!(shown, vec![]);
}

#[test]
fn what_is_shown_begins_with_the_strongest_and_leaves_out_what_is_not() {
    let test = Traffic { latency: 1.5, errors: 40, ..traffic() }.test(1);
    let shown = test.shown(Family::Behavior);
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].1 >= shown[1].1, "{shown:?}");
    assert_eq!(test.shown(Family::Workload), vec![]);
}

#[test]
fn another_identity_is_incomparable_never_a_regression() {
    let test = Traffic { latency: 3.0, ..traffic() }.test(4);
    let mut other = identity();
    other.insert("gpu".to_owned(), "A100".to_owned());
    let Drift::Incomparable(incomparable) = test.drift(&other) else { panic!("comparable") };
    assert_eq!(incomparable.to_string(), "gpu was H100 and is A100");
}

#[test]
fn the_first_day_is_not_live() {
    let mut test = traffic().test(5);
    let before = test.drift(&identity());
    test.consume(BASELINE_SECONDS, &[]);
    assert_eq!(test.drift(&identity()), before);
    let fresh = LiveTest::new(Baseline::new(identity(), 0), 0.01);
    assert_eq!(fresh.drift(&identity()), Drift::NotEnough);
}

#[test]
fn a_test_that_is_stored_after_each_block_says_the_same_as_one_that_never_stops() {
    let drifting = Traffic { latency: 1.15, ..traffic() };
    let (mut whole, mut rng) = (traffic().test(6), Pcg64Mcg::new(9));
    whole.close(u64::MAX);
    let mut resumed = whole.clone();
    for block in 1..100 {
        let end_seconds = BASELINE_SECONDS + 48 * 3_600 + 600 * (block + 1);
        let windows = drifting.windows(&mut rng, true, end_seconds);
        whole.consume(end_seconds, &windows);
        resumed.consume(end_seconds, &windows);
        resumed.close(end_seconds);
        resumed = LiveTest::resume(resumed.baseline.clone(), 0.01, &resumed.encode()).unwrap();
    }
    whole.close(u64::MAX);
    assert_eq!(resumed.encode(), whole.encode());
}

#[test]
fn a_stratum_that_is_forgotten_keeps_its_counts() {
    let mut counted = traffic().test(1).baseline.counted;
    let before = counted.total(Metric::AgentRunLatency);
    let has_values = |counted: &Counted| -> Vec<bool> {
        counted.strata(Metric::AgentRunLatency).map(|(_, counts)| !counts.buckets.is_empty()).collect()
    };
    counted.forget_least();
    assert_eq!(has_values(&counted), [false, true], "by night there are fewer");
    (0..3).for_each(|_| counted.forget_least());
    let after = counted.total(Metric::AgentRunLatency);
    assert_eq!((after.count, after.errors, after.buckets.is_empty()), (before.count, before.errors, true));
    counted.pool_forgotten();
    let pooled: Vec<&str> = counted.strata(Metric::AgentRunLatency).map(|(stratum, _)| stratum).collect();
    assert_eq!((pooled, counted.total(Metric::AgentRunLatency).count), (vec![""], before.count));
}

#[test]
fn a_test_that_resumes_between_blocks_says_the_same() {
    let drifting = Traffic { latency: 1.15, ..traffic() };
    let mut whole = drifting.test(6);
    let baseline = whole.baseline.clone();
    let mut resumed = LiveTest::resume(baseline.clone(), 0.01, &whole.encode()).unwrap();
    resumed.block = whole.block.clone();
    resumed.block_ends_seconds = whole.block_ends_seconds;
    let mut rng = Pcg64Mcg::new(9);
    for block in 1..100 {
        let end_seconds = BASELINE_SECONDS + 48 * 3_600 + 600 * (block + 1);
        let windows = drifting.windows(&mut rng, true, end_seconds);
        whole.consume(end_seconds, &windows);
        resumed.consume(end_seconds, &windows);
    }
    assert_eq!(resumed.drift(&identity()), whole.drift(&identity()));
    assert_eq!(resumed.encode(), whole.encode());
    assert!(whole.encode().len() <= 8 * 1024);

    let mut other = baseline;
    other.promoted_seconds += 1;
    let error = LiveTest::resume(other, 0.01, &whole.encode()).unwrap_err();
    assert_eq!(error.to_string(), "stored state belongs to another configuration or baseline");
}

#[test]
fn the_time_of_whole_runs_is_of_no_part_and_a_part_without_signals_is_never_slower() {
    let slower = Traffic { latency: 1.5, ..traffic() }.test(1);
    assert_eq!(slower.shown(Family::Behavior)[0].0, Signal::Slower(Metric::AgentRunLatency));
    assert_eq!([Part::Model, Part::Tools].map(|part| slower.is_slower(part)), [false, false]);
    let parts: Vec<(Metric, Part)> =
        Metric::ALL.into_iter().filter_map(|metric| Some((metric, Signal::Slower(metric).part()?))).collect();
    let expected = [
        (Metric::ModelTime, Part::Model),
        (Metric::ToolTime, Part::Tools),
        (Metric::RequestLatency, Part::Model),
        (Metric::RequestTimeToFirstToken, Part::Model),
        (Metric::InterTokenLatency, Part::Model),
    ];
    assert_eq!(parts, expected);
    assert!(Metric::ALL.into_iter().all(|metric| Signal::Errors(metric).part().is_none()));
}

/// Statuses in users' clusters hold these names, and memories the codes.
#[test]
fn names_and_codes_of_signals_stay() {
    let metric = Metric::ModelTime;
    let signals = [
        (Signal::Slower(metric), "ModelTime is slower", (0, 1)),
        (Signal::Errors(metric), "ModelTime has more errors", (1, 1)),
        (Signal::Longer(metric), "ModelTime is higher", (2, 1)),
        (Signal::Shorter(metric), "ModelTime is lower", (3, 1)),
        (Signal::LongerPrompts, "more prompts are long", (4, 0)),
        (Signal::ShorterPrompts, "more prompts are short", (5, 0)),
        (Signal::MoreInFlight, "more runs are in flight", (6, 0)),
    ];
    for (signal, name, (kind, metric)) in signals {
        assert_eq!((signal.name().as_str(), signal.code()), (name, (kind, metric)));
        assert_eq!(Signal::from_code(kind, metric), Some(signal));
    }
}

/// A memory of three signals, as releases wrote it whose fingerprint was that of a derived text.
const STORED: &str = include_str!("tests/stored.txt");

#[test]
fn a_memory_of_an_earlier_release_goes_on_where_it_ended() {
    let mut baseline = Baseline::new(identity(), 600);
    let buckets = Histogram::from_pairs([(16, 1), (17, 3)]).unwrap();
    baseline.counted.set(Metric::ModelTime, "miss/p9/f0".to_owned(), Counts { count: 5, errors: 1, buckets });
    baseline.counted.set(Metric::RunSuccess, String::new(), Counts { count: 5, errors: 1, ..Counts::default() });
    let test = LiveTest::resume(baseline, 0.01, STORED.trim_end()).expect("a memory of this baseline");
    let signals = [Signal::Slower(Metric::ModelTime), Signal::Errors(Metric::RunSuccess), Signal::MoreInFlight];
    assert_eq!(test.signals.keys().copied().collect::<Vec<_>>(), signals);
    assert_eq!(test.encode(), STORED.trim_end());
}
