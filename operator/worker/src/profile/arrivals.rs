//! When runs arrive in an open loop. Pure: the seed is an argument.

use std::{iter::repeat_n, time::Duration};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How runs arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At random moments.
    Random {
        /// So many at each.
        burst: u32,
    },
    /// As they once did, at another rate: what lies between two of them, one for each of them at least.
    Recorded(Vec<Duration>),
}

impl Arrivals {
    /// Of users who know nothing of each other.
    pub const POISSON: Self = Self::Random { burst: 1 };

    /// When they arrive, ascending. The number is what the rate implies, because a short run would otherwise be one at
    /// another rate.
    pub fn times(&self, per_kilosecond: u64, length: Duration, seed: u64) -> Vec<Duration> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let number = (per_kilosecond as f64 * length.as_secs_f64() / 1e3).round().max(1.0) as usize;
        match self {
            Self::Random { burst } => random(number, (*burst).max(1) as usize, length, &mut rng),
            Self::Recorded(gaps) => recorded(number, gaps, length, &mut rng),
        }
    }

    /// As they once did, from when each came. At random if one of these is not known, or they all came at once.
    pub fn as_recorded(arrived_micros: &[Option<u64>]) -> Self {
        let mut times: Vec<u64> = arrived_micros.iter().copied().collect::<Option<_>>().unwrap_or_default();
        times.sort_unstable();
        let gaps: Vec<Duration> = times.windows(2).map(|pair| Duration::from_micros(pair[1] - pair[0])).collect();
        if gaps.iter().any(|gap| !gap.is_zero()) { Self::Recorded(gaps) } else { Self::POISSON }
    }
}

/// Goes through the recorded gaps from one that is drawn, as often as it takes, and stretches them to the length.
fn recorded(number: usize, gaps: &[Duration], length: Duration, rng: &mut Pcg64Mcg) -> Vec<Duration> {
    let first = rng.random_range(0..gaps.len().max(1));
    let mut passed = Duration::ZERO;
    let moments = gaps.iter().cycle().skip(first).take(number).map(|gap| {
        let moment = passed;
        passed += *gap;
        moment
    });
    let moments: Vec<Duration> = moments.collect();
    let stretch = if passed.is_zero() { 0.0 } else { length.as_secs_f64() / passed.as_secs_f64() };
    moments.into_iter().map(|moment| moment.mul_f64(stretch)).collect()
}

/// Gives arrival times of a Poisson process of bursts, conditioned on the number. Given their number, moments are
/// uniform and independent.
///
/// Source: Kingman, Poisson Processes (1993), section 2.4.
fn random(number: usize, burst: usize, length: Duration, rng: &mut Pcg64Mcg) -> Vec<Duration> {
    let mut moments: Vec<Duration> = (0..number.div_ceil(burst)).map(|_| length.mul_f64(rng.random())).collect();
    moments.sort_unstable();
    moments.into_iter().flat_map(|moment| repeat_n(moment, burst)).take(number).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LENGTH: Duration = Duration::from_secs(400);

    /// The mean of the gaps, and their standard deviation over it.
    fn gaps(times: &[Duration]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn as_many_arrive_as_the_rate_says_and_at_random() {
        for seed in 0..20 {
            let times = Arrivals::POISSON.times(2_000, LENGTH, seed);
            assert_eq!(times.len(), 800);
            assert!(times.is_sorted() && times.iter().all(|time| *time < LENGTH));
            // The gaps of a Poisson process have a standard deviation as large as their mean.
            let (mean, variation) = gaps(&times);
            assert!((variation - 1.0).abs() < 0.2, "{mean} {variation}");
        }
    }

    #[test]
    fn a_burst_arrives_at_one_moment_and_changes_no_rate() {
        let times = Arrivals::Random { burst: 8 }.times(2_001, LENGTH, 3);
        assert_eq!((times.len(), times.is_sorted()), (800, true));
        assert_eq!(times.iter().collect::<BTreeSet<_>>().len(), 100);
        assert_eq!(Arrivals::Random { burst: 64 }.times(100, LENGTH, 3).len(), 40, "the last burst is cut");
    }

    #[test]
    fn what_was_recorded_arrives_as_unevenly_at_another_rate() {
        // Ten at once every minute, of an hour.
        let recorded: Vec<_> = (0..600_u64).map(|run| Some(run / 10 * 60_000_000)).collect();
        let arrivals = Arrivals::as_recorded(&recorded);
        let times = arrivals.times(2_000, LENGTH, 3);
        assert_eq!((times.len(), times.is_sorted(), times[0]), (800, true, Duration::ZERO));
        assert!(times.iter().all(|time| *time <= LENGTH));
        let moments = times.iter().collect::<BTreeSet<_>>().len();
        assert!((78..=81).contains(&moments), "about ten still come at once: {moments}");
        assert_ne!(arrivals.times(2_000, LENGTH, 4), times, "another seed begins elsewhere");
    }

    #[test]
    fn arrivals_are_random_where_their_times_are_not_known() {
        let known = Arrivals::as_recorded(&[Some(9), Some(4)]);
        assert_eq!(known, Arrivals::Recorded(vec![Duration::from_micros(5)]));
        for unknown in [&[][..], &[Some(4)], &[Some(4), None], &[Some(4), Some(4)]] {
            assert_eq!(Arrivals::as_recorded(unknown), Arrivals::POISSON);
        }
    }

    #[test]
    fn a_low_rate_still_has_an_arrival() {
        assert_eq!(Arrivals::POISSON.times(1, Duration::from_secs(10), 7).len(), 1);
    }
}
