//! Points that are given, once each. Pure.

use slipway_worker_contract::{Arm, Cell, NotMeasured, ProfileEnd, Row};

use super::{Ended, Next, Search, ToBeat};

/// Measures given points in their order. Those that it does not come to keep their first measurement.
#[derive(Clone, Debug)]
pub struct Given {
    points: Vec<Cell>,
}

impl Given {
    /// Prepares the points.
    pub fn new(points: &[Cell]) -> Self {
        Self { points: points.to_vec() }
    }

    /// The configurations of the points, each once; the positions that the search gives are those of this list.
    pub fn arms(&self) -> Vec<Arm> {
        let mut arms: Vec<Arm> = Vec::new();
        for Cell { arm, .. } in &self.points {
            if !arms.iter().any(|known| known.id == arm.id) {
                arms.push(arm.clone());
            }
        }
        arms
    }
}

impl Search for Given {
    fn next(&self, rows: &[Row]) -> Next {
        let is_open = |cell: &&Cell| !rows.iter().any(|row| row.arm == cell.arm.id && row.level == cell.level);
        let Some(Cell { arm, level }) = self.points.iter().find(is_open) else {
            return Next::Done(Ended::complete("every point was measured once more"));
        };
        let position = self.arms().iter().position(|known| known.id == arm.id).unwrap_or_default();
        Next::Measure { arm: position, level: *level }
    }

    fn not_measured(&self, _rows: &[Row], _end: ProfileEnd) -> Vec<NotMeasured> {
        Vec::new()
    }

    fn to_beat(&self, _rows: &[Row]) -> Option<ToBeat> {
        None
    }
}
