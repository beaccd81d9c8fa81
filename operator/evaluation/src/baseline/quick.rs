//! Model Analyzer's quick search and the concurrency sweep that follows it, from its documentation. Pure.
//!
//! Hill climbing over the arms' coordinates from the lowest: concurrency is not a coordinate but twice batch limit
//! times instances. Around the home at least three cells within radius 3 are measured; the gains towards them, weighted
//! by distance, give a step of one to three cells per coordinate. When it would step onto its home or a visited cell,
//! it visits all adjacent cells. It moves to the best of them while that is better. The three best arms and the first
//! are then swept over concurrency. Without a batch limit and instances the middle of the ladder stands for the
//! concurrency.

use std::collections::{BTreeMap, BTreeSet};

use slipway_analysis::search::{Cell, Role, Space, Value};

use super::brute::{ladder, sweep};
use super::memo::{Grade, Memo, Need};

const RADIUS: f64 = 3.0;
const LEAST_INITIALIZED: usize = 3;
/// Weighted gains from which a step is one, two or three cells long.
const STEPS: [f64; 3] = [0.09, 0.3, 1.0];
const SWEPT: usize = 3;

type Place = Vec<i64>;

pub(super) fn quick_and_sweep(memo: &Memo<'_>) -> Result<(), Need> {
    let grid = Grid::new(memo.space);
    let Some(mut home) = grid.arms.keys().next().cloned() else { return Ok(()) };
    let mut visited = BTreeSet::new();
    let mut tried: BTreeMap<usize, Grade> = BTreeMap::new();
    while visited.insert(home.clone()) {
        let next = fast_step(memo, &grid, &home, &mut tried)?;
        if next == home {
            break;
        }
        home = next;
    }
    while let Some(better) = slow_step(memo, &grid, &home, &mut tried)? {
        home = better;
    }
    let mut ranked: Vec<(usize, Grade)> = tried.into_iter().collect();
    ranked.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(std::cmp::Ordering::Equal));
    let mut swept: Vec<usize> = ranked.into_iter().map(|(arm, _)| arm).take(SWEPT).collect();
    if !swept.contains(&0) {
        swept.push(0);
    }
    swept.into_iter().try_for_each(|arm| sweep(memo, arm))
}

/// Measures around the home and returns where the gains point.
fn fast_step(memo: &Memo<'_>, grid: &Grid, home: &Place, tried: &mut BTreeMap<usize, Grade>) -> Result<Place, Need> {
    let base = grid.measure(memo, home, tried)?;
    let mut near: Vec<&Place> = grid.arms.keys().filter(|p| *p != home && distance(p, home) <= RADIUS).collect();
    // Cells nearest to the home first, those already measured before others.
    near.sort_by(|a, b| {
        let known = |p: &Place| !tried.contains_key(&grid.arms[p]);
        known(a).cmp(&known(b)).then(distance(a, home).total_cmp(&distance(b, home)))
    });
    let measured = near.iter().filter(|p| tried.contains_key(&grid.arms[**p])).count();
    near.truncate(measured.max(LEAST_INITIALIZED));
    let mut pull = vec![0.0; home.len()];
    for place in near {
        let gain = gain(grid.measure(memo, place, tried)?, base);
        let far = distance(place, home);
        for (slot, (to, from)) in pull.iter_mut().zip(place.iter().zip(home)) {
            *slot += gain * (to - from) as f64 / (far * far);
        }
    }
    let step =
        |pull: &f64| STEPS.iter().filter(|threshold| pull.abs() >= **threshold).count() as i64 * pull.signum() as i64;
    let aim: Place = home.iter().zip(&pull).map(|(at, pull)| at + step(pull)).collect();
    Ok(grid.nearest(&aim))
}

/// Visits all adjacent cells; the best of them if it is better than the home.
fn slow_step(
    memo: &Memo<'_>,
    grid: &Grid,
    home: &Place,
    tried: &mut BTreeMap<usize, Grade>,
) -> Result<Option<Place>, Need> {
    let mut best = (None, grid.measure(memo, home, tried)?);
    for place in grid.arms.keys().filter(|p| *p != home && p.iter().zip(home).all(|(a, b)| (a - b).abs() <= 1)) {
        let grade = grid.measure(memo, place, tried)?;
        if grade > best.1 {
            best = (Some(place.clone()), grade);
        }
    }
    Ok(best.0)
}

/// Relative gain, at most 1; plus or minus 1 between a feasible and an infeasible run.
fn gain(to: Grade, from: Grade) -> f64 {
    match (to.is_feasible(), from.is_feasible()) {
        (true, false) => 1.0,
        (false, true) => -1.0,
        _ => to.relative_to(from).clamp(-1.0, 1.0),
    }
}

fn distance(a: &Place, b: &Place) -> f64 {
    a.iter().zip(b).map(|(x, y)| ((x - y) * (x - y)) as f64).sum::<f64>().sqrt()
}

/// The distinct values of an axis, ascending.
pub(super) fn distinct(space: &Space, axis: usize) -> Vec<Value> {
    let mut values: Vec<Value> = space.arms.iter().map(|arm| arm.values[axis].clone()).collect();
    values.sort_by(|a, b| match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.total_cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Number(_), Value::Text(_)) => std::cmp::Ordering::Less,
        (Value::Text(_), Value::Number(_)) => std::cmp::Ordering::Greater,
    });
    values.dedup();
    values
}

struct Grid {
    arms: BTreeMap<Place, usize>,
}

impl Grid {
    fn new(space: &Space) -> Self {
        let axes: Vec<Vec<Value>> = (0..space.axes.len()).map(|axis| distinct(space, axis)).collect();
        // One name per arm is an identifier, not a coordinate to climb along.
        let climbs = |axis: &usize| axes[*axis].len() < space.arms.len() || axes.len() == 1;
        let index = |axis: usize, value: &Value| axes[axis].iter().position(|v| v == value).unwrap_or(0) as i64;
        let place = |arm: usize| -> Place {
            (0..axes.len()).filter(climbs).map(|axis| index(axis, &space.arms[arm].values[axis])).collect()
        };
        let mut arms = BTreeMap::new();
        for arm in 0..space.arms.len() {
            arms.entry(place(arm)).or_insert(arm);
        }
        Self { arms }
    }

    fn nearest(&self, aim: &Place) -> Place {
        let nearer = |a: &&Place, b: &&Place| distance(a, aim).total_cmp(&distance(b, aim));
        self.arms.keys().min_by(nearer).cloned().unwrap_or_default()
    }

    fn measure(&self, memo: &Memo<'_>, place: &Place, tried: &mut BTreeMap<usize, Grade>) -> Result<Grade, Need> {
        let arm = self.arms[place];
        let seen = memo.run(concurrency(memo, arm), "quick search")?;
        tried.insert(arm, seen.grade);
        Ok(seen.grade)
    }
}

/// The level nearest to twice batch limit times instances.
fn concurrency(memo: &Memo<'_>, arm: usize) -> Cell {
    let space = memo.space;
    let levels = ladder(memo, arm);
    let fallback = levels.get(levels.len() / 2).copied().unwrap_or(Cell { arm, level: 0 });
    let (Some(batch), Some(instances)) = (space.number(arm, Role::MaxBatchSize), space.number(arm, Role::Instances))
    else {
        return fallback;
    };
    let wanted = (2.0 * batch * instances).ln();
    let off = |cell: &Cell| (space.levels[cell.level].ln() - wanted).abs();
    levels.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(fallback)
}
