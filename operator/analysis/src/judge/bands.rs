//! Which units of stable a canary's are held against where the loads of their pods are unlike. Pure.
//!
//! At a small weight a pod of the canary has fewer units in flight than one of stable. For hours no unit of either may
//! be admitted under the other's load. A unit is not slower for having fewer beside it. So the canary's may
//! be held against stable's of a higher band: that finds less harm than there is, never more.

use std::{borrow::Cow, collections::BTreeMap};

use slipway_vocabulary::evidence::Histogram;

use super::{
    observation::{Arms, in_flight_band, without_in_flight_band},
    strata::Strata,
};

/// The canary's values and those of stable that they are held against.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held<'a> {
    /// The stratum of stable's values.
    pub stratum: &'a str,
    pub canary: Cow<'a, Histogram>,
    pub stable: &'a Histogram,
}

/// The strata that are present in both arms.
pub(super) fn alike(arms: &Arms) -> Vec<Held<'_>> {
    let both = |(stratum, canary)| {
        let stable = arms.stable.strata.get(stratum)?;
        Some(Held { stratum, canary: Cow::Borrowed(canary), stable })
    };
    arms.canary.strata.iter().map(|(stratum, canary)| (stratum.as_str(), canary)).filter_map(both).collect()
}

/// Holds each of the canary's strata against the nearest of stable's, of its own band or a busier one, that has at
/// least as many units in this window. Where none has, it is the fullest. Only counts choose, never latencies.
pub(super) fn or_busier(arms: &Arms) -> Vec<Held<'_>> {
    let mut held = BTreeMap::<&str, Held<'_>>::new();
    for (stratum, canary) in &arms.canary.strata {
        let (rest, band) = (without_in_flight_band(stratum), in_flight_band(stratum));
        let is_busier = |other: &str| {
            other == stratum
                || (band.is_some() && in_flight_band(other) > band && without_in_flight_band(other) == rest)
        };
        let mut busier: Vec<_> = arms.stable.strata.iter().filter(|(other, _)| is_busier(other)).collect();
        busier.sort_by_key(|(other, _)| in_flight_band(other));
        let nearest = busier.iter().find(|(_, stable)| stable.count() >= canary.count());
        let fullest = || busier.iter().max_by_key(|(_, stable)| stable.count());
        let Some((name, stable)) = nearest.or_else(fullest) else { continue };
        let of = || Held { stratum: name, canary: Cow::Owned(Histogram::new()), stable };
        held.entry(name).or_insert_with(of).canary.to_mut().merge(canary);
    }
    held.into_values().collect()
}

/// Units of stable from which a stratum's thresholds tell how its latency grows with the load.
const SETTLED_UNITS: u16 = 200;

/// What thresholds that have settled may still be off by, buckets.
const UNSETTLED_BINS: u16 = 2;

/// The levels whose thresholds are compared: those below settle soonest.
const SETTLED_LEVELS: std::ops::Range<usize> = 0..3;

/// How many buckets latency may grow by within a band of one octave, as far as stable's neighboring bands in a window
/// tell; `None` where they do not.
pub(super) fn bins_of_an_octave(arms: &Arms, strata: &Strata) -> Option<u16> {
    let bands: Vec<(String, u32, &str)> = arms
        .stable
        .strata
        .keys()
        .filter_map(|name| Some((without_in_flight_band(name), in_flight_band(name)?, name.as_str())))
        .collect();
    let settled = |name: &str| strata.get(name).filter(|stratum| stratum.units >= SETTLED_UNITS);
    let growth = |low: &(String, u32, &str), high: &(String, u32, &str)| {
        let neighbors = low.0 == high.0 && low.1 + 1 == high.1;
        let (low, high) = (settled(low.2)?, settled(high.2)?);
        let most = SETTLED_LEVELS.map(|level| high.edge(level).saturating_sub(low.edge(level))).max();
        most.filter(|_| neighbors)
    };
    let all = bands.iter().flat_map(|low| bands.iter().filter_map(move |high| growth(low, high)));
    all.max().map(|bins| bins + UNSETTLED_BINS)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_vocabulary::evidence::Histogram;

    use super::{alike, bins_of_an_octave, or_busier};
    use crate::judge::{observation::Arms, strata::Strata};

    fn arms(canary: &[(&str, u64)], stable: &[(&str, u64)]) -> Arms {
        let mut arms = Arms::default();
        for (sum, strata) in [(&mut arms.canary, canary), (&mut arms.stable, stable)] {
            for (name, units) in strata {
                sum.strata.insert((*name).to_owned(), Histogram::from_pairs([(400, *units)]).unwrap());
            }
        }
        arms
    }

    #[test]
    fn a_unit_is_held_against_the_nearest_busier_band_that_is_full_enough() {
        let arms = arms(
            &[("miss/p8/f1", 3), ("miss/p8/f3", 2), ("miss/p9/f2", 5), ("miss/p8/f5", 7)],
            &[("miss/p8/f0", 90), ("miss/p8/f3", 20), ("miss/p8/f4", 6)],
        );
        let counts = |held: Vec<super::Held<'_>>| -> Vec<(String, u64, u64)> {
            held.iter().map(|of| (of.stratum.to_owned(), of.canary.count(), of.stable.count())).collect()
        };
        assert_eq!(counts(or_busier(&arms)), [("miss/p8/f3".to_owned(), 5, 20)]);
        assert_eq!(counts(alike(&arms)), [("miss/p8/f3".to_owned(), 2, 20)]);
    }

    #[test]
    fn how_latency_grows_with_the_load_is_read_from_neighboring_bands_that_have_settled() {
        let mut strata = Strata::default();
        for (name, bucket, units) in [("p8/f2", 300, 500), ("p8/f3", 305, 500), ("p8/f4", 360, 50), ("p9/f3", 420, 500)]
        {
            strata.learn(name, &Histogram::from_pairs([(bucket, units)]).unwrap());
        }
        let stable = [("p8/f2", 1), ("p8/f3", 1), ("p8/f4", 1), ("p9/f3", 1)];
        assert_eq!(bins_of_an_octave(&arms(&[], &stable), &strata), Some(7));
        assert_eq!(bins_of_an_octave(&arms(&[], &stable[1..]), &strata), None);
    }
}
