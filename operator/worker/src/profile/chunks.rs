//! How many requests the next chunk has. Pure.

use slipway_worker_contract::MeasureSettings;

/// A level so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoFar {
    /// Chunks that are done.
    pub chunks: u32,
    /// Requests kept of them.
    pub kept: u64,
    /// Time since the level began, in milliseconds.
    pub elapsed_millis: u64,
    /// Requests per second seen last (in the warm-up, before the first chunk).
    pub rate: f64,
}

/// Gives the number of requests to keep of the next chunk: twice that of the previous one, and enough for the
/// shortest allowed chunk. `None` once the level has enough requests or time.
pub fn next(settings: &MeasureSettings, so_far: &SoFar) -> Option<u64> {
    let left = u64::from(settings.max_requests).checked_sub(so_far.kept).filter(|left| *left > 0)?;
    let planned = u64::from(settings.first_chunk) << so_far.chunks.min(24);
    let shortest = (so_far.rate * settings.min_chunk_millis as f64 / 1e3).ceil() as u64;
    let size = planned.max(shortest).min(left);
    if so_far.chunks == 0 {
        // One chunk is always measured, or a slow level would have no row to be judged by.
        return Some(size);
    }
    let time_left = settings.max_level_millis.saturating_sub(so_far.elapsed_millis);
    let in_time = (so_far.rate * time_left as f64 / 1e3) as u64;
    // A rest smaller than the first chunk is not worth a start of perf_analyzer.
    Some(size.min(in_time)).filter(|size| *size >= u64::from(settings.first_chunk))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(settings: &MeasureSettings, rate: f64) -> Vec<u64> {
        let mut so_far = SoFar { chunks: 0, kept: 0, elapsed_millis: 0, rate };
        let mut sizes = Vec::new();
        while let Some(size) = next(settings, &so_far) {
            sizes.push(size);
            so_far.chunks += 1;
            so_far.kept += size;
            so_far.elapsed_millis += (size as f64 / rate * 1e3) as u64;
        }
        sizes
    }

    #[test]
    fn chunks_double_until_the_requests_are_enough() {
        // The last one fills the two minutes of a level.
        assert_eq!(sizes(&MeasureSettings::default(), 20.0), [60, 120, 240, 480, 960, 540]);
        let patient = MeasureSettings { max_level_millis: u64::MAX, ..MeasureSettings::default() };
        assert_eq!(sizes(&patient, 20.0), [60, 120, 240, 480, 960, 1920, 220]);
    }

    #[test]
    fn a_fast_server_gets_chunks_of_three_seconds() {
        assert_eq!(sizes(&MeasureSettings::default(), 500.0), [1500, 1500, 1000]);
    }

    #[test]
    fn a_level_too_slow_for_its_time_still_gets_its_first_chunk() {
        assert_eq!(sizes(&MeasureSettings::default(), 0.1), [60]);
    }

    proptest! {
        #[test]
        fn no_level_exceeds_its_requests_and_each_ends(rate in 0.01_f64..1e5, max in 1_u32..10_000, first in 1_u32..200) {
            let settings = MeasureSettings { max_requests: max, first_chunk: first, ..MeasureSettings::default() };
            let sizes = sizes(&settings, rate);
            prop_assert!(sizes.iter().sum::<u64>() <= u64::from(max));
            prop_assert!(!sizes.is_empty() && sizes.iter().all(|size| *size > 0));
        }
    }
}
