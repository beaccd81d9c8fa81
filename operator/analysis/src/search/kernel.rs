//! Similarity of arms and of levels: what one run tells about another. Pure.
//!
//! Arms: the product over axes of 1 - r + r s. Here s is the similarity of the two values on that axis, and r the
//! axis's relevance in 0..1, which is learned. An axis without relevance does not tell arms apart. An ordered axis has
//! a squared-exponential similarity in log2 (or in the value's rank where it is not positive), a named axis 1 or
//! [`OTHER_NAME`]. Levels: squared-exponential in log2 of the load, and a linear trend (Rasmussen and Williams,
//! "Gaussian Processes for Machine Learning", 4.2).

use std::collections::BTreeMap;

use super::{Cell, Role, Space, Value};

/// Similarity of two different names, such as two GPU products, before their figures are known.
const OTHER_NAME: f64 = 0.3;
/// Doublings over which arms stay similar.
const ARM_SCALE: f64 = 2.0;
/// Similarity of a load that leaves instances idle and one that does not. Requests that arrive one at a time meet cold
/// caches, low clocks and the queue's delay, so times may fall once every instance has a request.
const OTHER_REGIME: f64 = 0.3;
/// Doublings of load over which a curve stays similar.
const LEVEL_SCALE: f64 = 2.0;

/// Standard deviations of a latent quantity's components, in natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Amplitudes {
    /// A constant that all cells share: the unknown unit.
    pub offset: f64,
    /// What an arm adds at every level.
    pub arm: f64,
    /// A trend per ln of load that all arms share.
    pub slope: f64,
    /// An arm's own trend per ln of load.
    pub arm_slope: f64,
    /// A smooth curve over load that all arms share.
    pub level: f64,
    /// An arm's own smooth curve over load.
    pub arm_level: f64,
    /// What a given prior may be off for all arms that share a value of some axis; 0 where none is given.
    pub fault: f64,
}

/// Encoded coordinates of a space.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    arms: Vec<Vec<Coordinate>>,
    levels: Vec<Vec<f64>>,
    trend: Vec<f64>,
    /// Per arm, the least level at which every instance has a request.
    busy_from: Vec<usize>,
    /// Per axis, the distinct values.
    values: Vec<Values>,
}

/// The distinct values of an axis.
#[derive(Debug, Clone)]
pub(super) struct Values {
    /// Position of the axis in the space.
    pub axis: usize,
    /// Per arm, the position of its value.
    pub of: Vec<usize>,
    /// Per value, an arm that has it.
    pub examples: Vec<usize>,
}

impl Values {
    fn new(axis: usize, column: &[Coordinate]) -> Self {
        let (mut ids, mut examples) = (BTreeMap::new(), Vec::new());
        let mut id = |(arm, coordinate): (usize, &Coordinate)| {
            *ids.entry(coordinate.key()).or_insert_with(|| {
                examples.push(arm);
                examples.len() - 1
            })
        };
        let of = column.iter().enumerate().map(&mut id).collect();
        Self { axis, of, examples }
    }
}

/// Whether every instance of an arm has a request at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Regime {
    Busy,
    Idle,
}

impl Regime {
    /// Both, in the order of their use as positions.
    pub(super) const ALL: [Self; 2] = [Self::Busy, Self::Idle];

    /// Similarity of what is measured in two regimes.
    pub(super) fn similarity(self, other: Self) -> f64 {
        if self == other { 1.0 } else { OTHER_REGIME }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Coordinate {
    Ordered(f64),
    Named(usize),
}

impl Coordinate {
    /// What equal coordinates have in common, in an order.
    fn key(self) -> (u8, u64) {
        match self {
            Self::Ordered(value) => (0, value.to_bits()),
            Self::Named(name) => (1, name as u64),
        }
    }
}

impl Kernel {
    pub(super) fn new(space: &Space) -> Self {
        let columns: Vec<Vec<Coordinate>> = (0..space.axes.len()).map(|axis| encode(space, axis)).collect();
        // An axis that says nothing would only dilute the mean.
        let mut telling: Vec<usize> = (0..columns.len()).filter(|axis| tells(&columns[*axis])).collect();
        if telling.is_empty() {
            telling = (0..columns.len()).collect();
        }
        let values = telling.iter().map(|axis| Values::new(*axis, &columns[*axis])).collect();
        let arms = (0..space.arms.len()).map(|arm| telling.iter().map(|axis| columns[*axis][arm]).collect()).collect();
        let logs: Vec<f64> = space.levels.iter().map(|level| level.max(1e-9).ln()).collect();
        let middle = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        let scale = LEVEL_SCALE * std::f64::consts::LN_2;
        let levels = logs.iter().map(|a| logs.iter().map(|b| bell((a - b) / scale)).collect()).collect();
        let busy_from = (0..space.arms.len()).map(|arm| {
            let instances = space.number(arm, Role::Instances).unwrap_or(1.0);
            space.levels.iter().take_while(|level| **level < instances).count()
        });
        let trend = logs.iter().map(|log| log - middle).collect();
        Self { arms, levels, trend, busy_from: busy_from.collect(), values }
    }

    /// The regime of a cell.
    pub(super) fn regime(&self, cell: Cell) -> Regime {
        if cell.level < self.busy_from[cell.arm] { Regime::Idle } else { Regime::Busy }
    }

    /// Number of load levels.
    pub(super) fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The distinct values of every axis that tells arms apart.
    pub(super) fn values(&self) -> &[Values] {
        &self.values
    }

    /// Number of axes that tell arms apart.
    pub(super) fn axes(&self) -> usize {
        self.arms.first().map_or(0, Vec::len)
    }

    /// Similarity of two arms, 1 with itself, given each axis's relevance.
    pub(super) fn arms(&self, relevance: &[f64], a: usize, b: usize) -> f64 {
        let axes = self.arms[a].iter().zip(&self.arms[b]).zip(relevance);
        axes.map(|((p, q), relevance)| 1.0 - relevance + relevance * similarity(*p, *q)).product()
    }

    /// Number of axes on which two arms differ.
    pub(super) fn differences(&self, a: usize, b: usize) -> usize {
        self.arms[a].iter().zip(&self.arms[b]).filter(|(p, q)| p != q).count()
    }

    /// Whether an axis has names.
    pub(super) fn is_named(&self, axis: usize) -> bool {
        self.arms.iter().any(|arm| matches!(arm[axis], Coordinate::Named(_)))
    }

    /// Whether two arms have the same value on an axis.
    pub(super) fn is_same(&self, axis: usize, a: usize, b: usize) -> bool {
        self.values[axis].of[a] == self.values[axis].of[b]
    }

    /// Similarity of two arms on one axis.
    pub(super) fn on_axis(&self, axis: usize, a: usize, b: usize) -> f64 {
        similarity(self.arms[a][axis], self.arms[b][axis])
    }

    /// Covariance of two cells without the offset, from the similarity of their arms.
    pub(super) fn covariance(&self, amplitudes: &Amplitudes, arms: f64, a: Cell, b: Cell) -> Parts {
        let regime = self.regime(a).similarity(self.regime(b));
        self.covariance_of_levels(amplitudes, Likeness { arms, regime }, a.level, b.level)
    }

    /// The same from the similarities of arms and regimes.
    pub(super) fn covariance_of_levels(&self, amplitudes: &Amplitudes, like: Likeness, a: usize, b: usize) -> Parts {
        let level = self.levels[a][b];
        let trend = self.trend[a] * self.trend[b];
        let square = |x: f64| x * x;
        let Likeness { arms, regime } = like;
        Parts {
            arm: regime
                * arms
                * (square(amplitudes.arm)
                    + square(amplitudes.arm_level) * level
                    + square(amplitudes.arm_slope) * trend),
            level: regime * (square(amplitudes.level) * level + square(amplitudes.slope) * trend),
        }
    }
}

/// How alike two cells are, their levels apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Likeness {
    /// Similarity of the arms.
    pub arms: f64,
    /// Similarity of the regimes.
    pub regime: f64,
}

/// A covariance by where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parts {
    /// From what arms have of their own.
    pub arm: f64,
    /// From the curve over load that all arms share.
    pub level: f64,
}

fn similarity(p: Coordinate, q: Coordinate) -> f64 {
    match (p, q) {
        (Coordinate::Ordered(p), Coordinate::Ordered(q)) => bell((p - q) / ARM_SCALE),
        (Coordinate::Named(p), Coordinate::Named(q)) if p == q => 1.0,
        _ => OTHER_NAME,
    }
}

fn bell(distance: f64) -> f64 {
    (-0.5 * distance * distance).exp()
}

/// Numbers are ordered and names are names, also within one axis: a missing number is a name of its own.
fn encode(space: &Space, axis: usize) -> Vec<Coordinate> {
    let values = || space.arms.iter().map(|arm| &arm.values[axis]);
    let numbers = || {
        values().filter_map(|value| match value {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        })
    };
    let positive = numbers().all(|number| number > 0.0);
    let mut sorted: Vec<f64> = numbers().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let mut names = BTreeMap::new();
    values()
        .map(|value| match value {
            Value::Number(number) if positive => Coordinate::Ordered(number.log2()),
            Value::Number(number) => Coordinate::Ordered(sorted.partition_point(|s| s < number) as f64),
            Value::Text(text) => {
                let next = names.len();
                Coordinate::Named(*names.entry(text.as_str()).or_insert(next))
            }
        })
        .collect()
}

/// Whether an axis tells arms apart without merely naming each: an identifier says nothing about similarity.
fn tells(column: &[Coordinate]) -> bool {
    let named: BTreeMap<usize, ()> = column
        .iter()
        .filter_map(|c| match c {
            Coordinate::Named(name) => Some((*name, ())),
            Coordinate::Ordered(_) => None,
        })
        .collect();
    column.iter().any(|c| *c != column[0]) && named.len() < column.len()
}
