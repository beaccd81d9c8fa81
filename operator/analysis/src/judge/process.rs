//! E-processes with restarts: products over blocks and the sequential t. Pure.
//!
//! `E_t = sum_j w_j E_t^(j)`: process `j` starts at the fixed time `j * 5 min`, counts as one before it, and `w_j = 1 /
//! ((j + 1)(j + 2))`, which sums to one. A weighted mean of e-processes is an e-process. The restarts make a harm that
//! begins late as visible as one that begins at once, at a cost of `ln 2` for the first. Values are stored as `f32`, so
//! that what is persisted is what goes on.

/// Seconds between two restarts.
pub const RESTART_SECONDS: u64 = 300;

/// Restarts of a sequential t that continue at the same time. Of more, the weakest is frozen at its value (stopping an
/// e-process leaves an e-process), which bounds the state.
pub const MAX_ACTIVE: usize = 6;

/// Returns `ln(exp(a) + exp(b))`.
#[must_use]
pub fn ln_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a >= b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY {
        return high;
    }
    high + (low - high).exp().ln_1p()
}

/// How many restarts have happened after so many seconds: one at once, one more every five minutes.
#[must_use]
pub fn restarts_due(elapsed_seconds: u64) -> u16 {
    u16::try_from(1 + elapsed_seconds / RESTART_SECONDS).unwrap_or(u16::MAX)
}

/// What a [`RestartProduct`] mixes over: constants, so that only the masses are state.
#[derive(Debug, PartialEq)]
pub struct Mixture {
    /// The weight of each alternative; they sum to one.
    pub weights: &'static [f64],
    /// The share of a process that is never restarted beside the restarted one: more of it is faster for harm from the
    /// start and slower for harm that begins late.
    pub unrestarted: f64,
}

impl Mixture {
    fn ln_weight(&self, restart: u16) -> f64 {
        let weight = (1.0 - self.unrestarted) * ln_restart_weight(restart).exp();
        (if restart == 0 { weight + self.unrestarted } else { weight }).ln()
    }

    fn ln_unstarted(&self, started: u16) -> f64 {
        if started == 0 { 0.0 } else { (1.0 - self.unrestarted).ln() + ln_unstarted(started) }
    }
}

/// `ln w_j`.
fn ln_restart_weight(j: u16) -> f64 {
    let j = f64::from(j);
    -((j + 1.0) * (j + 2.0)).ln()
}

/// `ln` of the weight of every restart that is still to come: `1 / (started + 1)`, by telescoping.
fn ln_unstarted(started: u16) -> f64 {
    -f64::from(started).ln_1p()
}

/// A mixture over several alternatives of products of e-values, with restarts.
#[derive(Clone, Debug, PartialEq)]
pub struct RestartProduct {
    pub(super) mixture: &'static Mixture,
    /// Per alternative, `ln sum_{j started} w_j E^(j)`.
    pub(super) masses: Vec<f32>,
    /// How many restarts have happened.
    pub(super) started: u16,
}

impl RestartProduct {
    /// Makes a process over the alternatives of a mixture.
    #[must_use]
    pub fn new(mixture: &'static Mixture) -> Self {
        Self { mixture, masses: vec![f32::NEG_INFINITY; mixture.weights.len()], started: 0 }
    }

    /// Starts every restart that is due; called before the block's evidence, so that starts never depend on it.
    pub fn restart(&mut self, due: u16) {
        while self.started < due {
            let weight = self.mixture.ln_weight(self.started);
            for mass in &mut self.masses {
                *mass = ln_add(f64::from(*mass), weight) as f32;
            }
            self.started += 1;
        }
    }

    /// Multiplies in the e-values of a block, one log e-value per alternative.
    pub fn update(&mut self, ln_e_values: impl IntoIterator<Item = f64>) {
        for (mass, ln_e) in self.masses.iter_mut().zip(ln_e_values) {
            *mass = (f64::from(*mass) + ln_e) as f32;
        }
    }

    /// The log of the e-process.
    #[must_use]
    pub fn ln_e(&self) -> f64 {
        let weighted = self.masses.iter().zip(self.mixture.weights);
        let started =
            weighted.fold(f64::NEG_INFINITY, |sum, (mass, weight)| ln_add(sum, f64::from(*mass) + weight.ln()));
        ln_add(started, self.mixture.ln_unstarted(self.started))
    }
}

/// Which way a test looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The canary is above the reference: evidence for a rollback.
    Above,
    /// The canary is below the reference: evidence for a promotion.
    Below,
}

/// The sums at which a restart began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Start {
    pub(super) ordinal: u16,
    pub(super) blocks: u16,
    pub(super) sum: f32,
    pub(super) squares: f32,
}

/// The sequential t of standardised block differences, with restarts, looking both ways.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequentialT {
    pub(super) blocks: u16,
    pub(super) sum: f32,
    pub(super) squares: f32,
    pub(super) started: u16,
    pub(super) starts: Vec<Start>,
    /// `w_j E^(j)` of frozen restarts, above and below.
    pub(super) frozen: [f32; 2],
}

impl SequentialT {
    /// Makes an empty process.
    #[must_use]
    pub fn new() -> Self {
        Self { frozen: [f32::NEG_INFINITY; 2], ..Self::default() }
    }

    /// Starts every restart that is due; called before the block's evidence.
    pub fn restart(&mut self, due: u16) {
        while self.started < due {
            if self.starts.len() == MAX_ACTIVE {
                self.freeze_weakest();
            }
            let Self { blocks, sum, squares, started, .. } = *self;
            self.starts.push(Start { ordinal: started, blocks, sum, squares });
            self.started += 1;
        }
    }

    /// Adds the standardised difference of a block.
    pub fn update(&mut self, z: f64) {
        self.blocks = self.blocks.saturating_add(1);
        self.sum = (f64::from(self.sum) + z) as f32;
        self.squares = (f64::from(self.squares) + z * z) as f32;
    }

    /// The log of the e-process in one direction.
    #[must_use]
    pub fn ln_e(&self, direction: Direction) -> f64 {
        let frozen = f64::from(self.frozen[direction as usize]);
        let active = self.starts.iter().map(|start| self.ln_contribution(start, direction));
        ln_add(active.fold(frozen, ln_add), ln_unstarted(self.started))
    }

    fn ln_contribution(&self, start: &Start, direction: Direction) -> f64 {
        let blocks = self.blocks - start.blocks;
        let sum = f64::from(self.sum) - f64::from(start.sum);
        let squares = f64::from(self.squares) - f64::from(start.squares);
        ln_restart_weight(start.ordinal) + ln_sequential_t(blocks, sum, squares, direction)
    }

    /// Stops the restart that contributes least to a rollback. The first is kept: a promotion rests on all evidence.
    fn freeze_weakest(&mut self) {
        let above = |start: &Start| self.ln_contribution(start, Direction::Above);
        let weakest = (1..self.starts.len()).min_by(|a, b| above(&self.starts[*a]).total_cmp(&above(&self.starts[*b])));
        if let Some(weakest) = weakest {
            for direction in [Direction::Above, Direction::Below] {
                let contribution = self.ln_contribution(&self.starts[weakest], direction);
                let frozen = &mut self.frozen[direction as usize];
                *frozen = ln_add(f64::from(*frozen), contribution) as f32;
            }
            self.starts.remove(weakest);
        }
    }
}

/// Prior precision of the standardised effect, in blocks: a harm worth acting on is about two standard deviations of a
/// block. (At 1 it takes a +50 % canary a block and a half longer, and a +20 % one gains nothing.)
const PRIOR_BLOCKS: f64 = 0.25;

/// Returns the log of the sequential t of `n` block differences with the given sum and sum of squares, one-sided.
///
/// `ln E = 1/2 ln(g/(g+n)) + n/2 [ln(1 + t^2/v) - ln(1 + g/(g+n) t^2/v)]` with `t^2 = n mean^2 / s^2`, `v = n - 1` and
/// `g = 1/4` (Lindon et al., arXiv 2210.08589). Self-normalised: noise shared by the units of a block, such as a slow
/// pod's, enters the variance. A mean on the wrong side counts as `t = 0`. Fewer than two blocks say nothing (0).
#[must_use]
pub fn ln_sequential_t(n: u16, sum: f64, squares: f64, direction: Direction) -> f64 {
    if n < 2 {
        return 0.0;
    }
    let n = f64::from(n);
    let shrinkage = PRIOR_BLOCKS / (PRIOR_BLOCKS + n);
    let mean = match direction {
        Direction::Above => (sum / n).max(0.0),
        Direction::Below => (-sum / n).max(0.0),
    };
    let residual = (squares - sum * sum / n).max(f64::from(f32::EPSILON) * squares);
    let ratio = if residual > 0.0 { n * mean * mean / residual } else { 0.0 };
    0.5 * shrinkage.ln() + n / 2.0 * (ratio.ln_1p() - (shrinkage * ratio).ln_1p())
}

#[cfg(test)]
mod tests;
