//! The product's search as campaigns make it: engine after engine. Pure.
//!
//! One search over all cells only names the next engine. A Job then measures this engine until nothing of it is left to
//! measure, and knows the rows of the others. It walks a small engine up its levels, and searches a larger one. Axes of
//! instances and batch limits are configurations of an engine; every other axis tells engines apart.
//!
//! What a campaign has and this lacks: a budget, rounds of close points, and a throughput that ends a level of an
//! engine that is searched. Its confirm run always starts a pod. Times of starts and runs are known here, and there
//! from rows alone. An engine whose Job measures nothing is closed there; here it may be asked for again after the next
//! one.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_analysis::{
    search::{
        Arm, Axis, Cell, Columns, Constraint, Measurement, Metric, MetricKind, Outcome, Progress, Proposal, Purpose,
        Role, SearchStrategy, Settings, Slipway, Space, Step, Value,
    },
    slo::Bound,
};

/// Cells of an engine up to which it is walked: as `MOST_WALKED` of the worker's contract.
const MOST_WALKED: usize = 24;
/// Confirm runs that are taken as passed to hear of the rest: as `MOST_CONFIRMS` of the worker's search.
const MOST_CONFIRMS: usize = 4;

/// Which engines a campaign builds, as `spec.profiling.engines` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineBuilds {
    /// Every engine, in the order of the spec.
    All,
    /// The first one, and then those that the search asks for.
    WhenAsked,
}

/// The search of a campaign.
#[derive(Debug, Clone)]
pub struct EngineByEngine {
    space: Space,
    builds: EngineBuilds,
    settings: Settings,
    /// The engine of each arm.
    engines: Vec<usize>,
    /// The engine that the campaign begins with.
    first: usize,
}

impl EngineByEngine {
    /// Prepares a search. The seed draws the engine that the spec names first, and breaks ties.
    #[must_use]
    pub fn new(space: Space, builds: EngineBuilds, settings: Settings) -> Self {
        let is_told: Vec<bool> = space.axes.iter().map(|axis| !is_configured(axis)).collect();
        let named = |arm: &Arm| -> Vec<Value> {
            arm.values.iter().zip(&is_told).filter(|(_, told)| **told).map(|(value, _)| value.clone()).collect()
        };
        let mut names: Vec<Vec<Value>> = Vec::new();
        let mut engines = Vec::with_capacity(space.arms.len());
        for name in space.arms.iter().map(named) {
            let known = names.iter().position(|known| *known == name);
            engines.push(known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }));
        }
        let first = Pcg64Mcg::seed_from_u64(settings.seed).random_range(0..names.len().max(1));
        Self { space, builds, settings, engines, first }
    }

    /// The next cell of the campaign, before its choice is confirmed.
    fn explore(&self, runs: &[Measurement]) -> Option<Proposal> {
        let current = runs.last().map_or(self.first, |run| self.engines[run.cell.arm]);
        let mut asked: BTreeSet<usize> = runs.iter().map(|run| self.engines[run.cell.arm]).collect();
        let mut engine = Some(current);
        while let Some(of) = engine {
            if let Some(proposal) = self.of_engine(of, runs) {
                return Some(proposal);
            }
            asked.insert(of);
            engine = self.next_engine(&asked, runs);
        }
        None
    }

    /// The engine that comes next, of those that did not come yet.
    fn next_engine(&self, before: &BTreeSet<usize>, runs: &[Measurement]) -> Option<usize> {
        match self.builds {
            EngineBuilds::All => self.engines.iter().copied().find(|engine| !before.contains(engine)),
            EngineBuilds::WhenAsked => self.asked_next(before, runs),
        }
    }

    /// The engine that the search over all cells asks for, of those that were not asked for.
    fn asked_next(&self, asked: &BTreeSet<usize>, runs: &[Measurement]) -> Option<usize> {
        let space = self.with_open(|arm| !asked.contains(&self.engines[arm]), runs);
        let next = explored(space, self.settings, runs.to_vec())?;
        Some(self.engines[next.cell.arm])
    }

    /// The space in which cells without a run exist for some arms only.
    fn with_open(&self, is_open: impl Fn(usize) -> bool, runs: &[Measurement]) -> Space {
        let mut space = self.space.clone();
        for (index, arm) in space.arms.iter_mut().enumerate().filter(|(index, _)| !is_open(*index)) {
            let seen = |level| runs.iter().any(|run| run.cell == Cell { arm: index, level });
            arm.levels = (0..arm.levels.len()).map(seen).collect();
        }
        space
    }

    /// What the Job of an engine measures next; `None` where nothing of it is left to measure.
    fn of_engine(&self, engine: usize, runs: &[Measurement]) -> Option<Proposal> {
        let own: Vec<usize> = (0..self.space.arms.len()).filter(|arm| self.engines[*arm] == engine).collect();
        if own.len() * self.space.levels.len() <= MOST_WALKED {
            return self.walked(&own, runs);
        }
        let was_run = |arm: &usize| runs.iter().any(|run| run.cell.arm == *arm);
        let others = (0..self.space.arms.len()).filter(|arm| self.engines[*arm] != engine).filter(was_run);
        let arms: Vec<usize> = own.iter().copied().chain(others).collect();
        let open = self.with_open(|arm| self.engines[arm] == engine, runs);
        let local = |run: &Measurement| {
            let arm = arms.iter().position(|arm| *arm == run.cell.arm)?;
            Some(Measurement { cell: Cell { arm, ..run.cell }, ..run.clone() })
        };
        let is_own = |run: &&Measurement| self.engines[run.cell.arm] == engine;
        let (ours, theirs): (Vec<_>, Vec<_>) = runs.iter().partition(is_own);
        let runs = theirs.into_iter().chain(ours).filter_map(local).collect();
        let next = explored(self.of_job(&open, &arms, engine), self.settings, runs)?;
        Some(Proposal { cell: Cell { arm: arms[next.cell.arm], ..next.cell }, ..next })
    }

    /// The space as a Job has it: engines have names and no axes.
    fn of_job(&self, open: &Space, arms: &[usize], engine: usize) -> Space {
        let kept: Vec<usize> = (0..open.axes.len()).filter(|axis| is_configured(&open.axes[*axis])).collect();
        let name = |arm: usize| match self.engines[arm] == engine {
            true => String::new(),
            false => format!("engine {}", self.engines[arm]),
        };
        let of_arm = |arm: &usize| {
            let all = &open.arms[*arm];
            let values = std::iter::once(Value::Text(name(*arm))).chain(kept.iter().map(|at| all.values[*at].clone()));
            Arm { values: values.collect(), engine: self.engines[*arm], ..all.clone() }
        };
        let of_metric = |metric: &Metric| {
            let prior = arms.iter().filter_map(|arm| metric.prior.get(*arm).cloned()).collect();
            Metric { prior, ..metric.clone() }
        };
        let engine_axis = Axis { name: "engine".to_owned(), role: None };
        let axes = std::iter::once(engine_axis).chain(kept.iter().map(|axis| open.axes[*axis].clone()));
        Space {
            axes: axes.collect(),
            arms: arms.iter().map(of_arm).collect(),
            metrics: open.metrics.iter().map(of_metric).collect(),
            columns: Columns { silent: (1..=kept.len()).collect(), ..open.columns.clone() },
            model: None,
            ..open.clone()
        }
    }

    /// The lowest level that is left of any arm. An arm is left at the first level that misses a limit, unless it
    /// misses only minimums, or a maximum of utilization: more in flight may meet those.
    fn walked(&self, arms: &[usize], runs: &[Measurement]) -> Option<Proposal> {
        let next = |arm: &usize| {
            let mut own = runs.iter().filter(|run| run.cell.arm == *arm);
            if own.any(|run| self.ends_a_walk(&run.outcome)) {
                return None;
            }
            let is_open = |cell: &Cell| self.space.has(*cell) && !runs.iter().any(|run| run.cell == *cell);
            (0..self.space.levels.len()).map(|level| Cell { arm: *arm, level }).find(is_open)
        };
        let cell = arms.iter().filter_map(next).min_by_key(|cell| (cell.level, cell.arm))?;
        Some(Proposal { cell, purpose: Purpose::Explore, reason: "the next level of its engine".to_owned() })
    }

    fn ends_a_walk(&self, outcome: &Outcome) -> bool {
        let misses = |value: &dyn Fn(usize) -> Option<f64>| {
            let is_utilization = |c: &Constraint| self.space.metrics[c.metric].kind == MetricKind::Utilization;
            let closes_higher_levels = |c: &&Constraint| matches!(c.bound, Bound::AtMost(_)) && !is_utilization(c);
            let mut closing = self.space.constraints.iter().filter(closes_higher_levels);
            // What nothing is known of may be what ended the run.
            closing.any(|c| value(c.metric).is_none_or(|value| !self.space.limit(c).is_met(value)))
        };
        match outcome {
            Outcome::Failed => true,
            Outcome::Aborted { values, .. } => misses(&|metric| values[metric]),
            Outcome::Measured { values, .. } => misses(&|metric| Some(values[metric])),
        }
    }
}

impl SearchStrategy for EngineByEngine {
    fn next(&self, progress: Progress<'_>) -> Step {
        let runs = progress.measurements;
        let is_confirming = runs.iter().any(|run| run.purpose == Purpose::Confirm);
        match (!is_confirming).then(|| self.explore(runs)).flatten() {
            Some(proposal) => Step::Measure { proposals: vec![proposal] },
            // Nothing is open: what is left is the choice and its confirm run.
            None => Slipway::new(self.with_open(|_| false, runs), self.settings).next(progress),
        }
    }
}

/// Whether a running engine can be configured along an axis.
fn is_configured(axis: &Axis) -> bool {
    match axis.role {
        Some(Role::Instances | Role::MaxBatchSize) => true,
        Some(Role::GpuType | Role::TensorParallel | Role::Precision | Role::Concurrency) | None => false,
    }
}

/// What a search measures next to learn. A Job of its own confirms the choice: here it is taken as passed, to hear of
/// the rest.
fn explored(space: Space, settings: Settings, mut runs: Vec<Measurement>) -> Option<Proposal> {
    let strategy = Slipway::new(space, settings);
    for _ in 0..=MOST_CONFIRMS {
        let Step::Measure { proposals } = strategy.next(Progress { measurements: &runs, pending: &[] }) else {
            return None;
        };
        let proposal = proposals.into_iter().next()?;
        if proposal.purpose == Purpose::Explore {
            return Some(proposal);
        }
        let passed = runs.iter().rev().find(|run| run.cell == proposal.cell).cloned();
        runs.extend(passed.map(|run| Measurement { purpose: Purpose::Confirm, ..run }));
    }
    None
}
