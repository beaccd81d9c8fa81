//! The thresholds at which arms are compared: stable's quantiles in each stratum, learned from earlier windows. Pure.
//!
//! A threshold that depends on the block it is used in would break the exchangeability of the block's labels. So each
//! window is split at thresholds that only earlier windows of stable moved. They follow stable by stochastic
//! approximation (Robbins and Monro, 1951) on the bucket grid: one number per level, whatever the traffic.

use slipway_vocabulary::evidence::{Histogram, Quantile};

/// The levels, in parts per ten thousand.
pub const LEVELS: [u16; 6] = [2_500, 5_000, 7_500, 9_000, 9_500, 9_900];

/// How many strata of a metric are followed; of more, the least seen is dropped, and learned again when it returns.
pub const MAX_STRATA: usize = 10;

/// Steps per bucket of a stored threshold.
const FINE: f64 = 16.0;

/// Relative change of the share above a threshold per bucket, a typical value for latencies: it scales the first steps.
const HAZARD_PER_BIN: f64 = 0.05;

/// Units of stable after which the steps stop shrinking, so that thresholds follow a drift.
const MEMORY_UNITS: u16 = 3_000;

/// The thresholds of one stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stratum {
    /// A hash of the stratum's name.
    pub id: u32,
    /// Units of stable seen, at most [`MEMORY_UNITS`].
    pub units: u16,
    /// Thresholds in sixteenths of a bucket, ascending.
    pub fine: [u16; LEVELS.len()],
}

impl Stratum {
    /// The bucket from which a value counts as above the level.
    pub fn edge(&self, level: usize) -> u16 {
        (f64::from(self.fine[level]) / FINE).round() as u16
    }

    /// The same with each threshold a bucket lower.
    pub fn one_bucket_lower(&self) -> Self {
        Self { fine: self.fine.map(|fine| fine.saturating_sub(FINE as u16)), ..self.clone() }
    }

    pub fn learn_first(id: u32, stable: &Histogram) -> Self {
        let fine = LEVELS.map(|level| to_fine(edge_above(stable, level)));
        Self { id, units: memory(stable.count()), fine }
    }

    /// Moves the thresholds towards the quantiles of a window of stable, never past them.
    fn learn(&mut self, stable: &Histogram) {
        let n = stable.count();
        self.units = memory(u64::from(self.units) + n);
        let weight = f64::from(self.units).max(20.0);
        let mut floor = 0;
        for (level, fine) in LEVELS.iter().zip(&mut self.fine) {
            let tail = 1.0 - f64::from(*level) / 10_000.0;
            let edge = (f64::from(*fine) / FINE).round() as u16;
            let surplus = stable.count_from(edge) as f64 - tail * n as f64;
            let step = surplus / (tail * HAZARD_PER_BIN * weight);
            let room = (f64::from(edge_above(stable, *level)) - f64::from(*fine) / FINE).abs();
            let moved = f64::from(*fine) / FINE + step.clamp(-room.min(8.0), room.min(8.0));
            *fine = ((moved * FINE).round().max(0.0) as u16).max(floor);
            floor = *fine;
        }
    }
}

/// The bucket above the one that holds the level's order statistic.
fn edge_above(histogram: &Histogram, level: u16) -> u16 {
    let rank = Quantile::from_parts(level).map_or(1, |quantile| quantile.rank(histogram.count()));
    let mut seen = 0;
    let found = histogram.pairs().find(|(_, count)| {
        seen += count;
        seen >= rank
    });
    found.map_or(0, |(index, _)| index + 1)
}

fn to_fine(edge: u16) -> u16 {
    (f64::from(edge) * FINE) as u16
}

fn memory(units: u64) -> u16 {
    u16::try_from(units).map_or(MEMORY_UNITS, |units| units.min(MEMORY_UNITS))
}

/// The strata of one metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Strata {
    pub known: Vec<Stratum>,
}

impl Strata {
    /// The thresholds of a stratum, when stable has been seen in it.
    pub fn get(&self, name: &str) -> Option<&Stratum> {
        let id = hash(name);
        self.known.iter().find(|stratum| stratum.id == id)
    }

    /// The highest threshold of all strata at the highest level: beyond it a unit is slow wherever it belongs.
    pub fn highest_edge(&self) -> Option<u16> {
        self.known.iter().map(|stratum| stratum.edge(LEVELS.len() - 1)).max()
    }

    /// Learns from stable's part of a window, after the window has been judged.
    pub fn learn(&mut self, name: &str, stable: &Histogram) {
        if stable.is_empty() {
            return;
        }
        let id = hash(name);
        if let Some(position) = self.known.iter().position(|stratum| stratum.id == id) {
            self.known[position].learn(stable);
            // The one that was not seen for the longest stands first.
            self.known[position..].rotate_left(1);
            return;
        }
        if self.known.len() == MAX_STRATA && !self.make_room(stable.count()) {
            return;
        }
        self.known.push(Stratum::learn_first(id, stable));
    }

    /// Takes the units of a newcomer off the least seen stratum, and drops that once it has none left. Of several it is
    /// the one that was not seen for the longest: counters end at [`MEMORY_UNITS`], and those of busy strata are all
    /// alike.
    fn make_room(&mut self, units: u64) -> bool {
        let Some(least) = (0..self.known.len()).min_by_key(|position| self.known[*position].units) else { return true };
        let left = u64::from(self.known[least].units).saturating_sub(units);
        self.known[least].units = memory(left);
        if left == 0 {
            self.known.remove(least);
        }
        left == 0
    }
}

/// FNV-1a, 32 bits: stable across builds, unlike the standard hasher.
pub(crate) fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use rand_pcg::Pcg64Mcg;
    use slipway_vocabulary::evidence::bucket;

    use super::{Histogram, LEVELS, MAX_STRATA, Strata};

    fn window(rng: &mut Pcg64Mcg, n: usize, scale: f64) -> Histogram {
        (0..n).map(|_| (scale * 1e5 / rng.random_range(0.001..1.0_f64).sqrt()) as u64).collect()
    }

    #[test]
    fn thresholds_settle_at_stables_quantiles_and_follow_a_drift() {
        let mut rng = Pcg64Mcg::new(7);
        let mut strata = Strata::default();
        for scale in [1.0, 1.5] {
            for _ in 0..200 {
                strata.learn("", &window(&mut rng, 150, scale));
            }
            let large = window(&mut rng, 200_000, scale);
            for (level, parts) in LEVELS.iter().enumerate() {
                let above = large.count_from(strata.get("").unwrap().edge(level)) as f64 / 200_000.0;
                let tail = 1.0 - f64::from(*parts) / 10_000.0;
                assert!(above > tail / 1.5 && above < tail * 1.5, "level {parts}: {above} above, wanted {tail}");
            }
        }
    }

    #[test]
    fn a_constant_latency_is_split_just_above_itself() {
        let mut strata = Strata::default();
        let constant = || [100_000; 50].into_iter().collect::<Histogram>();
        for _ in 0..100 {
            strata.learn("", &constant());
        }
        let index = bucket::index(100_000);
        for level in 0..LEVELS.len() {
            let edge = strata.get("").unwrap().edge(level);
            assert!(edge == index || edge == index + 1, "{edge} is not next to {index}");
        }
    }

    #[test]
    fn the_number_of_strata_is_bounded_and_the_busy_ones_stay() {
        let mut strata = Strata::default();
        strata.learn("busy", &[5; 100].into_iter().collect());
        for i in 0..100 {
            strata.learn(&format!("rare-{i}"), &[5; 1].into_iter().collect());
        }
        assert_eq!(strata.known.len(), MAX_STRATA);
        assert!(strata.get("busy").is_some());
    }

    #[test]
    fn busy_strata_stay_while_rare_ones_come_and_one_that_is_gone_gives_way() {
        let mut strata = Strata::default();
        let many = || [5; 5_000].into_iter().collect::<Histogram>();
        let busy: Vec<String> = (0..MAX_STRATA).map(|i| format!("busy-{i}")).collect();
        busy.iter().for_each(|name| strata.learn(name, &many()));
        for i in 0..50 {
            strata.learn(&format!("rare-{i}"), &[5; 1].into_iter().collect());
            busy.iter().for_each(|name| strata.learn(name, &[5; 10].into_iter().collect()));
        }
        assert!(busy.iter().all(|name| strata.get(name).is_some()));
        for _ in 0..2 {
            busy[1..].iter().for_each(|name| strata.learn(name, &many()));
            strata.learn("new", &[5; 2_000].into_iter().collect());
        }
        assert!(strata.get("new").is_some() && strata.known.len() == MAX_STRATA);
    }
}
