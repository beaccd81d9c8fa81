//! How far a closed loop's throughput may be off, from the run itself. Pure.
//!
//! Requests in flight together are slow together, so a run is worth fewer than its requests. Its rounds are cut into
//! consecutive batches, and the spread of the batches' lengths tells the standard error of their mean. Some 10 to 30
//! batches are enough (Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research 30,
//! 1982).

/// Rounds of all that is in flight in a batch at least: neighbouring batches are then nearly independent.
const LEAST_ROUNDS: usize = 2;
/// Batches of a run at most.
const MOST_BATCHES: usize = 20;
/// Fewer batches say nothing of their spread.
const LEAST_BATCHES: usize = 5;

/// The standard error of a closed loop's throughput in ln, from the times at which its requests were sent. `sent` has
/// the times of each uninterrupted part, ascending, in any unit; in a closed loop one is sent whenever one ends. `None`
/// where there are too few rounds to tell.
#[must_use]
pub fn throughput_error_by_batches<'a>(sent: impl Iterator<Item = &'a [u64]> + Clone, in_flight: usize) -> Option<f64> {
    let all: usize = sent.clone().map(<[u64]>::len).sum();
    let size = (LEAST_ROUNDS * in_flight.max(1)).max(all.div_ceil(MOST_BATCHES));
    let lengths_of = |times: &'a [u64]| {
        let starts: Vec<u64> = times.iter().step_by(size).copied().collect();
        starts.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect::<Vec<f64>>()
    };
    let lengths: Vec<f64> = sent.flat_map(lengths_of).collect();
    let n = lengths.len() as f64;
    let mean = lengths.iter().sum::<f64>() / n;
    if lengths.len() < LEAST_BATCHES || mean <= 0.0 {
        return None;
    }
    let variance = lengths.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some((variance / n).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Times of a loop of `in_flight` requests whose rounds share a speed.
    fn sent(rounds: usize, in_flight: usize, spread: f64, seed: u64) -> Vec<u64> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut now = 0.0;
        let mut times = Vec::new();
        for _ in 0..rounds {
            let round = 100_000.0 * (1.0 + spread * 12.0_f64.sqrt() * (rng.random::<f64>() - 0.5));
            times.extend((0..in_flight).map(|k| (now + round * k as f64 / in_flight as f64) as u64));
            now += round;
        }
        times
    }

    fn error(times: &[u64], in_flight: usize) -> Option<f64> {
        throughput_error_by_batches([times].into_iter(), in_flight)
    }

    #[test]
    fn rounds_that_share_a_speed_count_once_however_many_requests_they_have() {
        for in_flight in [1, 8, 32] {
            let errors: Vec<f64> =
                (0..200).map(|seed| error(&sent(400, in_flight, 0.4, seed), in_flight).unwrap()).collect();
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            assert!((mean - 0.4 / 20.0).abs() < 0.002, "{in_flight} in flight: {mean}");
        }
    }

    #[test]
    fn an_even_run_is_known_exactly_and_a_short_one_not_at_all() {
        assert!(error(&sent(100, 4, 0.0, 1), 4).unwrap() < 1e-6);
        assert_eq!(error(&sent(10, 4, 0.0, 1), 4), None, "five batches have six ends");
        assert_eq!(error(&[], 1), None);
        assert_eq!(error(&[7; 100], 1), None, "no time passed");
    }

    #[test]
    fn the_pause_between_two_parts_is_no_batch() {
        let first = sent(100, 4, 0.0, 1);
        let second: Vec<u64> = first.iter().map(|time| time + 1_000_000_000).collect();
        assert!(throughput_error_by_batches([&first[..], &second[..]].into_iter(), 4).unwrap() < 1e-6);
    }
}
