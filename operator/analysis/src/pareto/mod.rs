//! Pareto fronts in two or three objectives and the hypervolume they dominate. Pure.
//!
//! A point dominates another when it is no worse in every objective and better in at least one. The hypervolume of a
//! set against a reference point measures the region that dominates the reference and that some point of the set
//! dominates. Source: Zitzler and Thiele, "Multiobjective optimization using evolutionary algorithms", PPSN V, 1998.

mod volume;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Whether more or less of an objective is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// Larger values are better.
    #[serde(rename = "max")]
    Maximize,
    /// Smaller values are better.
    #[serde(rename = "min")]
    Minimize,
}

impl Direction {
    /// Maps a value so that less is better, whatever the direction: the value itself or its negation.
    #[must_use]
    pub fn as_cost(self, value: f64) -> f64 {
        match self {
            Self::Maximize => -value,
            Self::Minimize => value,
        }
    }
}

/// Why points cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParetoError {
    /// A front is defined here for two or three objectives.
    #[error("{found} objectives were given; give 2 or 3")]
    Objectives {
        /// How many were given.
        found: usize,
    },
    /// A point has another number of coordinates than there are objectives.
    #[error("point {point} has {found} values for {expected} objectives; give one value per objective")]
    Coordinates {
        /// Position of the point in the input.
        point: usize,
        /// Number of its coordinates.
        found: usize,
        /// Number of objectives.
        expected: usize,
    },
    /// A coordinate is not a finite number.
    #[error("point {point} has a value that is not finite in objective {objective}; leave failed runs out")]
    NotFinite {
        /// Position of the point in the input.
        point: usize,
        /// Position of the objective.
        objective: usize,
    },
}

/// Points of a set that no other point of it dominates, with what is needed to measure the region they dominate.
#[derive(Debug, Clone, PartialEq)]
pub struct Front {
    members: Vec<usize>,
    costs: Vec<[f64; 3]>,
    directions: Vec<Direction>,
}

impl Front {
    /// Finds the non-dominated points. Equal points are all kept, for neither dominates the other.
    ///
    /// Cost: O(n log n) in two objectives, O(n log n + n f) in three with f points on the front.
    ///
    /// # Errors
    /// [`ParetoError`] when there are not two or three objectives, or a point does not fit them.
    pub fn of(points: &[Vec<f64>], directions: &[Direction]) -> Result<Self, ParetoError> {
        let costs = costs(points, directions)?;
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by(|&a, &b| lexicographic(&costs[a], &costs[b]).then(a.cmp(&b)));
        let mut members: Vec<usize> = Vec::new();
        for &candidate in &order {
            // In lexicographic order nothing later can dominate an earlier point, so members are never removed.
            let dominated = match directions.len() {
                2 => members.last().is_some_and(|&m| dominates(&costs[m], &costs[candidate])),
                _ => members.iter().any(|&m| dominates(&costs[m], &costs[candidate])),
            };
            if !dominated {
                members.push(candidate);
            }
        }
        members.sort_unstable();
        let costs = members.iter().map(|&m| costs[m]).collect();
        Ok(Self { members, costs, directions: directions.to_vec() })
    }

    /// Positions of the members in the input, ascending.
    #[must_use]
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Measures the region between the front and `reference`, in the product of the objectives' units.
    ///
    /// Points that are not better than the reference in every objective add nothing.
    ///
    /// # Errors
    /// [`ParetoError`] when the reference does not fit the objectives.
    pub fn hypervolume(&self, reference: &[f64]) -> Result<f64, ParetoError> {
        let reference = costs(&[reference.to_vec()], &self.directions)?[0];
        let inside: Vec<[f64; 3]> = self
            .costs
            .iter()
            .copied()
            .filter(|cost| (0..self.directions.len()).all(|k| cost[k] < reference[k]))
            .collect();
        Ok(match self.directions.len() {
            2 => volume::area(&inside, reference),
            _ => volume::volume(&inside, reference),
        })
    }
}

fn costs(points: &[Vec<f64>], directions: &[Direction]) -> Result<Vec<[f64; 3]>, ParetoError> {
    let expected = directions.len();
    if !(2..=3).contains(&expected) {
        return Err(ParetoError::Objectives { found: expected });
    }
    let mut costs = Vec::with_capacity(points.len());
    for (point, values) in points.iter().enumerate() {
        if values.len() != expected {
            return Err(ParetoError::Coordinates { point, found: values.len(), expected });
        }
        if let Some(objective) = values.iter().position(|v| !v.is_finite()) {
            return Err(ParetoError::NotFinite { point, objective });
        }
        let mut cost = [0.0; 3];
        for (slot, (value, direction)) in cost.iter_mut().zip(values.iter().zip(directions)) {
            // Adding zero turns -0.0 into 0.0, which would otherwise sort before its equal.
            *slot = direction.as_cost(*value) + 0.0;
        }
        costs.push(cost);
    }
    Ok(costs)
}

fn lexicographic(a: &[f64; 3], b: &[f64; 3]) -> std::cmp::Ordering {
    a.iter().zip(b).fold(std::cmp::Ordering::Equal, |order, (x, y)| order.then(x.total_cmp(y)))
}

fn dominates(a: &[f64; 3], b: &[f64; 3]) -> bool {
    a != b && a.iter().zip(b).all(|(x, y)| x <= y)
}

#[cfg(test)]
mod tests;
