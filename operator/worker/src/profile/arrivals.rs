//! When runs arrive in an open loop, and which ones. Pure: the seed is an argument.

use std::{iter::repeat_n, time::Duration};

use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_pcg::Pcg64Mcg;

/// How runs arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At random moments, in a random order.
    Random {
        /// So many at each.
        burst: u32,
    },
    /// As they once did, at another rate: one after the other, the first after the last.
    Recorded(Vec<Recorded>),
}

/// A run that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its place among all runs.
    pub run: usize,
    /// How long after it the next one came.
    pub gap: Duration,
}

/// A run that is to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, from the beginning of the loop.
    pub at: Duration,
    /// Its place among all runs.
    pub run: usize,
}

impl Arrivals {
    /// Of users who know nothing of each other.
    pub const POISSON: Self = Self::Random { burst: 1 };

    /// What arrives of so many runs, by time. The number is what the rate implies, because a short run would otherwise
    /// be one at another rate.
    pub fn schedule(&self, runs: usize, per_kilosecond: u64, length: Duration, seed: u64) -> Vec<Arrival> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let number = (per_kilosecond as f64 * length.as_secs_f64() / 1e3).round().max(1.0) as usize;
        match self {
            Self::Random { burst } => {
                let moments = random(number, (*burst).max(1) as usize, length, &mut rng);
                moments.into_iter().zip(shuffled(runs, seed).into_iter().cycle()).map(Arrival::from).collect()
            }
            Self::Recorded(recorded) => stretched(recorded, number, length, &mut rng),
        }
    }

    /// As they once did, by when each came. At random if one of these is not known, or they all came at once.
    pub fn as_recorded(arrived_micros: &[Option<u64>]) -> Self {
        let known: Option<Vec<u64>> = arrived_micros.iter().copied().collect();
        let mut times: Vec<(u64, usize)> = known.unwrap_or_default().into_iter().zip(0..).collect();
        times.sort_unstable();
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        let all: u64 = gaps.iter().sum();
        if all == 0 {
            return Self::POISSON;
        }
        // Nobody came after the last one: what follows it comes as soon as another on average.
        let mean = all / gaps.len() as u64;
        let gaps = gaps.into_iter().chain([mean]).map(Duration::from_micros);
        Self::Recorded(times.into_iter().zip(gaps).map(|((_, run), gap)| Recorded { run, gap }).collect())
    }
}

impl From<(Duration, usize)> for Arrival {
    fn from((at, run): (Duration, usize)) -> Self {
        Self { at, run }
    }
}

/// All runs in a random order.
pub fn shuffled(runs: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs).collect();
    order.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    order
}

/// Goes through what was recorded from a run that is drawn, as often as it takes, and stretches it to the length.
fn stretched(recorded: &[Recorded], number: usize, length: Duration, rng: &mut Pcg64Mcg) -> Vec<Arrival> {
    let first = rng.random_range(0..recorded.len().max(1));
    let mut passed = Duration::ZERO;
    let mut arrivals: Vec<Arrival> = Vec::with_capacity(number);
    for Recorded { run, gap } in recorded.iter().cycle().skip(first).take(number) {
        arrivals.push(Arrival { at: passed, run: *run });
        passed += *gap;
    }
    let stretch = if passed.is_zero() { 0.0 } else { length.as_secs_f64() / passed.as_secs_f64() };
    arrivals.into_iter().map(|Arrival { at, run }| Arrival { at: at.mul_f64(stretch), run }).collect()
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

    fn times(arrivals: &Arrivals, per_kilosecond: u64, seed: u64) -> Vec<Duration> {
        arrivals.schedule(50, per_kilosecond, LENGTH, seed).into_iter().map(|arrival| arrival.at).collect()
    }

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
            let moments = times(&Arrivals::POISSON, 2_000, seed);
            assert_eq!(moments.len(), 800);
            assert!(moments.is_sorted() && moments.iter().all(|time| *time < LENGTH));
            // The gaps of a Poisson process have a standard deviation as large as their mean.
            let (mean, variation) = gaps(&moments);
            assert!((variation - 1.0).abs() < 0.2, "{mean} {variation}");
        }
    }

    #[test]
    fn a_burst_arrives_at_one_moment_and_changes_no_rate() {
        let arrivals = Arrivals::Random { burst: 8 };
        let moments = times(&arrivals, 2_001, 3);
        assert_eq!((moments.len(), moments.is_sorted()), (800, true));
        assert_eq!(moments.iter().collect::<BTreeSet<_>>().len(), 100);
        assert_eq!(times(&Arrivals::Random { burst: 64 }, 100, 3).len(), 40, "the last burst is cut");
    }

    #[test]
    fn every_run_arrives_at_random_before_one_comes_again() {
        let arrivals = Arrivals::POISSON.schedule(50, 2_000, LENGTH, 3);
        let runs: Vec<usize> = arrivals.iter().map(|arrival| arrival.run).collect();
        assert_eq!(runs[..50].iter().collect::<BTreeSet<_>>().len(), 50);
        assert_eq!((runs[..50] == runs[50..100], runs[..50].is_sorted()), (true, false));
    }

    #[test]
    fn what_was_recorded_arrives_in_its_order_and_as_unevenly_at_another_rate() {
        // Ten at once every minute, of an hour; the file has the last one first.
        let recorded: Vec<_> = (0..600_u64).map(|run| Some((599 - run) / 10 * 60_000_000)).collect();
        let arrivals = Arrivals::as_recorded(&recorded);
        let schedule = arrivals.schedule(600, 2_000, LENGTH, 3);
        let times: Vec<Duration> = schedule.iter().map(|arrival| arrival.at).collect();
        assert_eq!((times.len(), times.is_sorted(), times[0]), (800, true, Duration::ZERO));
        assert!(times.iter().all(|time| *time <= LENGTH));
        let moments = times.iter().collect::<BTreeSet<_>>().len();
        assert!((79..=82).contains(&moments), "ten still come at once: {moments}");
        let minute = |arrival: &Arrival| (599 - arrival.run) / 10;
        let goes_on = |pair: &[Arrival]| (minute(&pair[1]) + 60 - minute(&pair[0])) % 60 <= 1;
        assert!(schedule.windows(2).all(goes_on), "the first comes after the last");
        assert_ne!(arrivals.schedule(600, 2_000, LENGTH, 4), schedule, "another seed begins elsewhere");
    }

    #[test]
    fn the_rate_of_the_record_gives_the_gaps_of_the_record() {
        let seconds = |seconds: u64| Duration::from_secs(seconds);
        let arrivals = Arrivals::as_recorded(&[9, 0, 3].map(|second| Some(second * 1_000_000)));
        let micros = |micros| Duration::from_micros(micros);
        let recorded = [(1, seconds(3)), (2, seconds(6)), (0, micros(4_500_000))];
        assert_eq!(arrivals, Arrivals::Recorded(recorded.map(|(run, gap)| Recorded { run, gap }).into()));
        // Three in 13.5 s.
        let of = |seed| arrivals.schedule(3, 222, micros(13_500_000), seed);
        let from_the_first = (0..).map(of).find(|schedule| schedule[0].run == 1).unwrap();
        let expected = [(0, 1), (3, 2), (9, 0)].map(|(second, run)| Arrival { at: seconds(second), run });
        assert_eq!(from_the_first, expected);
    }

    #[test]
    fn arrivals_are_random_where_their_times_are_not_known() {
        for unknown in [&[][..], &[Some(4)], &[Some(4), None], &[Some(4), Some(4)]] {
            assert_eq!(Arrivals::as_recorded(unknown), Arrivals::POISSON);
        }
    }

    #[test]
    fn a_low_rate_still_has_an_arrival() {
        assert_eq!(Arrivals::POISSON.schedule(3, 1, Duration::from_secs(10), 7).len(), 1);
    }
}
