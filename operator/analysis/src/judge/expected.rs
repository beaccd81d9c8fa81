//! How long a verdict will take, as far as stable's own traffic tells. Pure.

use super::{
    config::Step,
    guard::{CHAIN_SHARES, Guard},
    process::{Direction, ln_sequential_t},
    rollout::{BLOCK_SECONDS, Judge, MIN_UNITS, PROMOTION_E_VALUE},
};

/// A verdict that takes longer than this is called unreachable.
pub const HORIZON_SECONDS: u64 = 7 * 24 * 3600;

/// What stable's traffic says about the time to a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Stable has not shown enough yet.
    Unknown,
    /// Seconds from the opening to the promotion of a canary that equals stable.
    Seconds(u64),
    /// The evidence would not suffice within the schedule's longest soaks, or within a week.
    Unreachable {
        /// The seconds it would take, when less than a week.
        seconds: Option<u64>,
        /// The schedule's longest soaks together.
        schedule_seconds: u64,
    },
}

/// What a canary is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// All the rest of the traffic.
    Rest,
    /// A baseline that has as much of the traffic as the canary.
    Baseline,
}

impl Reference {
    /// The information about a difference that a unit of traffic carries at a share. Units `n` on one side and `m` on
    /// the other carry that of `n m / (n + m)`.
    fn information(self, share: f64) -> f64 {
        match self {
            Self::Rest => share * (1.0 - share),
            Self::Baseline => share / 2.0,
        }
    }
}

impl Judge {
    /// Returns the expected time of a promotion if the canary equals stable. It covers soaks, [`MIN_UNITS`] units per
    /// step, and the median growth of every guard's non-inferiority, at the rate and the shape that stable has shown.
    #[must_use]
    pub fn expected_time_to_verdict(&self, reference: Reference) -> Expectation {
        self.expected_under(&self.config.steps, reference)
    }

    /// The same under another schedule.
    pub(super) fn expected_under(&self, steps: &[Step], reference: Reference) -> Expectation {
        let soaks = |of: fn(&Step) -> u64| steps.iter().map(of).fold(0, u64::saturating_add);
        let schedule_seconds = soaks(|step| step.max_soak_seconds);
        if self.config.is_first_revision {
            return Expectation::Seconds(soaks(|step| step.min_soak_seconds));
        }
        let mut slowest = None;
        for guard in self.promotion_guards() {
            let Some(flow) = Flow::of(guard) else { return Expectation::Unknown };
            match expected_for(steps, &flow, reference) {
                None => return Expectation::Unreachable { seconds: None, schedule_seconds },
                seconds => slowest = slowest.max(seconds),
            }
        }
        match slowest {
            None => Expectation::Unknown,
            Some(seconds) if seconds > schedule_seconds => {
                Expectation::Unreachable { seconds: Some(seconds), schedule_seconds }
            }
            Some(seconds) => Expectation::Seconds(seconds),
        }
    }
}

/// Walks the schedule block by block.
fn expected_for(steps: &[Step], flow: &Flow, reference: Reference) -> Option<u64> {
    let last = steps.iter().rposition(|step| step.weight_percent < 100.0)?;
    let (mut seconds, mut blocks) = (0, 0_u16);
    let (mut sum, mut squares, mut information) = (0.0, 0.0, 0.0);
    for (position, step) in steps.iter().enumerate().take(last + 1) {
        let weight = step.weight_percent / 100.0;
        let blocks_needed = (MIN_UNITS as f64 / (flow.units_per_block * weight)).ceil() as u64;
        let soak = step.min_soak_seconds.max(blocks_needed.saturating_mul(BLOCK_SECONDS));
        let root = (flow.units_per_block * reference.information(weight)).sqrt();
        let mut at_step = 0;
        loop {
            let whole = ln_sequential_t(blocks, sum, squares, Direction::Below) + CHAIN_SHARES[0].ln();
            let is_shown = whole >= PROMOTION_E_VALUE.ln() && information >= flow.needed_at_percentile;
            if at_step >= soak && (position < last || is_shown) {
                break;
            }
            (seconds, at_step) = (seconds + BLOCK_SECONDS, at_step + BLOCK_SECONDS);
            let z = flow.effect * root;
            (sum, squares) = (sum + z, squares + z * z + 1.0);
            information += 2.0 * root * root * flow.information_at_percentile;
            blocks = blocks.checked_add(1)?;
            if seconds > HORIZON_SECONDS {
                return None;
            }
        }
    }
    Some(seconds)
}

/// Units per block, and the standardised distance of an equal canary from the margin per square root of a unit.
struct Flow {
    units_per_block: f64,
    effect: f64,
    /// Information at the objective's percentile of a unit of each arm, and what is needed of it; infinite where no
    /// amount would do.
    information_at_percentile: f64,
    needed_at_percentile: f64,
}

impl Flow {
    fn of(guard: &Guard) -> Option<Self> {
        let pace = guard.pace;
        let stable_units = f64::from(guard.stable.count.saturating_sub(guard.stable.errors));
        if pace.variance < 1.0 || pace.windows < 3 || stable_units < 1.0 {
            return None;
        }
        let windows_per_block = BLOCK_SECONDS as f64 / slipway_vocabulary::evidence::WINDOW_SECONDS as f64;
        let units_per_block = f64::from(pace.units) / f64::from(pace.windows) * windows_per_block;
        // Stable was compared with itself: n units on either side carry the information of n / 2.
        let effect = |excess: f32, variance: f32| {
            f64::from(excess) / f64::from(variance.max(f32::MIN_POSITIVE)).sqrt() / (stable_units / 2.0).sqrt()
        };
        let effect = effect(pace.excess, pace.variance);
        let (information_at_percentile, needed_at_percentile) = if guard.absolutes.is_empty() {
            (0.0, 0.0)
        } else {
            let contrast = guard.contrast()?;
            let needed = contrast.needed_information(PROMOTION_E_VALUE.ln(), guard.non_inferior.at.clustering());
            (contrast.per_unit, needed.unwrap_or(f64::INFINITY))
        };
        (units_per_block > 0.0).then_some(Self {
            units_per_block,
            effect,
            information_at_percentile,
            needed_at_percentile,
        })
    }
}
