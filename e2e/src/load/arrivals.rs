//! When requests arrive: a Poisson process. Pure.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Times of arrivals since the start, in order and without end; the same for the same seed.
#[derive(Debug)]
pub struct Arrivals {
    random: Pcg64Mcg,
    per_second: f64,
    seconds: f64,
}

impl Arrivals {
    /// Arrivals at a rate, which is more than 0.
    pub fn new(per_second: f64, seed: u64) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), per_second, seconds: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // Gaps of a Poisson process are exponential; 1 - u is never 0.
        self.seconds += -(1.0 - self.random.random::<f64>()).ln() / self.per_second;
        Some(Duration::from_secs_f64(self.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_the_rate_and_in_order() {
        let times: Vec<_> = Arrivals::new(50.0, 7).take(10_000).collect();
        assert!(times.is_sorted());
        let seconds = times[9_999].as_secs_f64();
        // 10,000 gaps: the relative deviation is 1 %.
        assert!((194.0..206.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn gaps_are_exponential() {
        let times: Vec<_> = Arrivals::new(1.0, 3).take(10_000).collect();
        let long = times.windows(2).filter(|pair| (pair[1] - pair[0]).as_secs_f64() > 2.0).count();
        // exp(-2) of them: 1,353 with a deviation of 34.
        assert!((1_200..1_500).contains(&long), "{long}");
    }

    #[test]
    fn a_seed_gives_the_same_arrivals() {
        let first = |seed| Arrivals::new(10.0, seed).take(5).collect::<Vec<_>>();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
