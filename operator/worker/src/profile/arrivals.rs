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
    /// As they once did.
    Recorded(Record),
}

/// Most arrivals of a schedule: one pod never has more, and memory is bounded.
const MOST_ARRIVALS: f64 = 1_000_000.0;

/// How much longer or shorter than the rate asks a part of a record may be: one in so many.
const UNLIKE: u128 = 10;

/// What arrived once, over and over: one after the other, the first after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// In the order of their arrivals, at least two.
    runs: Vec<Recorded>,
    /// When the first comes again after itself, in microseconds; not 0.
    period: u64,
    /// Pods among which the runs are shared.
    replicas: u32,
}

/// A run that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its place among all runs.
    pub run: usize,
    /// When it came, in microseconds after the first.
    pub micros: u64,
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
        let number = per_kilosecond as f64 * length.as_secs_f64() / 1e3;
        let number = number.round().clamp(1.0, MOST_ARRIVALS) as usize;
        match self {
            Self::Random { burst } => {
                let moments = random(number, (*burst).max(1) as usize, length, &mut rng);
                moments.into_iter().zip(shuffled(runs, seed).into_iter().cycle()).map(Arrival::from).collect()
            }
            Self::Recorded(record) => record.part(number, length, &mut rng),
        }
    }

    /// As they once did, by when each came. At random if one of these is not known, or they all came at once.
    pub fn as_recorded(arrived_micros: &[Option<u64>]) -> Self {
        let known: Option<Vec<u64>> = arrived_micros.iter().copied().collect();
        let mut times: Vec<(u64, usize)> = known.unwrap_or_default().into_iter().zip(0..).collect();
        times.sort_unstable();
        let (Some((first, _)), Some((last, _))) = (times.first().copied(), times.last()) else { return Self::POISSON };
        let span = last - first;
        if span == 0 {
            return Self::POISSON;
        }
        // Nobody came after the last one: what follows it comes as soon as another on average.
        let gaps = (times.len() as u64).saturating_sub(1).max(1);
        let period = span.saturating_add(span / gaps);
        let runs = times.into_iter().map(|(time, run)| Recorded { run, micros: time - first }).collect();
        Self::Recorded(Record { runs, period, replicas: 1 })
    }

    /// The arrivals at one of several pods among which recorded ones are shared.
    pub fn among(self, replicas: u32) -> Self {
        match self {
            Self::Recorded(record) => Self::Recorded(Record { replicas: replicas.max(1), ..record }),
            Self::Random { burst } => Self::Random { burst },
        }
    }
}

impl Record {
    /// Every so manieth run from one that is drawn on: what one pod had of them. Their gaps are as they were, but for
    /// the rate. The part is one that takes about as long as the rate asks, so that it need hardly be stretched.
    fn part(&self, number: usize, length: Duration, rng: &mut Pcg64Mcg) -> Vec<Arrival> {
        let taken = number as u128 * u128::from(self.replicas);
        let takes = |first: usize| self.micros(first as u128 + taken) - self.micros(first as u128);
        let usual = (taken * u128::from(self.period) / self.runs.len() as u128).max(1);
        let unlike = |first: &usize| takes(*first).abs_diff(usual);
        let alike: Vec<usize> = (0..self.runs.len()).filter(|first| unlike(first) <= usual / UNLIKE).collect();
        let first = match alike.len() {
            0 => (0..self.runs.len()).min_by_key(unlike).unwrap_or(0),
            many => alike[rng.random_range(0..many)],
        };
        let (began, took) = (self.micros(first as u128), takes(first).max(1));
        let arrival = |index: u128| {
            let place = first as u128 + index * u128::from(self.replicas);
            let passed = (self.micros(place) - began) as f64 / took as f64;
            Arrival { at: length.mul_f64(passed).min(length), run: self.at(place).1.run }
        };
        (0..number as u128).map(arrival).collect()
    }

    /// When a run of an endless record comes.
    fn micros(&self, place: u128) -> u128 {
        let (round, recorded) = self.at(place);
        round * u128::from(self.period) + u128::from(recorded.micros)
    }

    /// How often the record was gone through before a place, and what is there.
    fn at(&self, place: u128) -> (u128, Recorded) {
        let all = self.runs.len() as u128;
        (place / all, self.runs[(place % all) as usize])
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
    fn a_pod_of_several_has_its_share_of_a_burst_and_no_more() {
        // Ten at once every minute, of an hour.
        let recorded: Vec<_> = (0..600_u64).map(|run| Some(run / 10 * 60_000_000)).collect();
        let schedule = Arrivals::as_recorded(&recorded).among(5).schedule(600, 33, Duration::from_secs(600), 3);
        // Two a minute are a fifth of ten.
        assert_eq!(schedule.len(), 20);
        let moments: BTreeSet<_> = schedule.iter().map(|arrival| arrival.at).collect();
        assert!((10..=11).contains(&moments.len()), "two come at once: {moments:?}");
        let next = |pair: &[Arrival]| (pair[1].run + 600 - pair[0].run) % 600;
        assert!(schedule.windows(2).all(|pair| next(pair) == 5), "each fifth run comes");
    }

    #[test]
    fn quiet_and_busy_parts_of_a_record_stand_for_it_only_where_they_are_like_it() {
        // A hundred within a second, and then one every ten seconds.
        let burst = (0..100_u64).map(|run| run * 10_000);
        let quiet = (1..=100_u64).map(|run| run * 10_000_000);
        let recorded: Vec<_> = burst.chain(quiet).map(Some).collect();
        let arrivals = Arrivals::as_recorded(&recorded);
        for seed in 0..20 {
            let schedule = arrivals.schedule(200, 200, Duration::from_secs(500), seed);
            let busy = schedule.iter().filter(|arrival| arrival.run < 100).count();
            assert!((40..=60).contains(&busy), "a half of it is a part of the burst: {busy}");
            let gap = |pair: &[Arrival]| (pair[1].at - pair[0].at).as_secs_f64();
            let slow = |pair: &&[Arrival]| pair[0].run >= 100 && pair[1].run > pair[0].run;
            assert!(schedule.windows(2).filter(slow).map(gap).all(|gap| (8.9..11.2).contains(&gap)), "{schedule:?}");
        }
    }

    #[test]
    fn a_hostile_record_makes_no_more_arrivals_than_memory_holds() {
        let ends = [0, u64::MAX].repeat(50).into_iter().map(Some).collect::<Vec<_>>();
        let arrivals = Arrivals::as_recorded(&ends).among(u32::MAX);
        let schedule = arrivals.schedule(100, u64::MAX, LENGTH, 3);
        assert_eq!(schedule.len(), 1_000_000);
        assert!(schedule.iter().all(|arrival| arrival.at <= LENGTH && arrival.run < 100));
    }

    #[test]
    fn the_rate_of_the_record_gives_the_gaps_of_the_record() {
        let seconds = |seconds: u64| Duration::from_secs(seconds);
        let arrivals = Arrivals::as_recorded(&[9, 0, 3].map(|second| Some(second * 1_000_000)));
        let runs = [(1, 0), (2, 3_000_000), (0, 9_000_000)].map(|(run, micros)| Recorded { run, micros });
        let expected = Record { runs: runs.into(), period: 13_500_000, replicas: 1 };
        assert_eq!(arrivals, Arrivals::Recorded(expected));
        // Three in 13.5 s.
        let of = |seed| arrivals.schedule(3, 222, Duration::from_micros(13_500_000), seed);
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
