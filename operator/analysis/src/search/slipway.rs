//! The product's search: prior, structured surrogate, cost-aware constrained improvement, confirm run. Pure.
//!
//! Each step fits the surrogate to the runs so far and proposes the run with the greatest
//! expected improvement / (expected GPU-seconds)^cost_exponent, where a start is free on the warm engine and a run that
//! is likely infeasible costs only what the early verdict lets it run. It stops when no run promises `stop_gain` more in
//! ln objective; the choice then has to pass a run of its own.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::cost::{Costs, Purse, Reserve};
use super::ledger::{Candidate, Ledger};
use super::model::Model;
use super::score::{Score, score};
use super::surrogate::Surrogate;
use super::{Cell, Conclusion, Measurement, Outcome, Progress, Proposal, Purpose, SearchStrategy, Space, Step};

pub use super::cost::Budget;
pub use super::skipped::{Skipped, WhyNot};

/// Spread of the seeded jitter on ln prior objective that breaks ties between arms nothing is known about.
const JITTER: f64 = 0.02;
/// How much a run of an earlier campaign may be off, as a standard error of ln value.
const HISTORY_SD: f64 = 0.1;
/// Cells whose confirm runs may fail before the search says that it does not know.
const MOST_FAILED_CONFIRMS: usize = 3;
/// Arms that are scored at every step; beyond it a step looks at a selection, and at all before it says that it is done.
const MOST_ARMS: usize = 90;
/// Runs of one cell before it is given up as too near to a limit.
const MOST_RUNS: usize = 4;

/// Policy of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Breaks ties; nothing else is random.
    pub seed: u64,
    /// Stop when no run promises this expected gain in ln objective.
    pub stop_gain: f64,
    /// Say infeasible when no untried cell is feasible with this chance.
    pub infeasible_below: f64,
    /// Weight of cost in the choice: 0 ignores it, 1 maximises gain per GPU-second.
    pub cost_exponent: f64,
    /// Chance of being feasible that a cell's own runs must show before it is confirmed.
    pub candidate_confidence: f64,
    /// The same for the final answer, its confirm run included.
    pub final_confidence: f64,
    /// Runs proposed at once.
    pub parallel: usize,
    /// The most it may spend.
    pub budget: Budget,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            stop_gain: 0.01,
            infeasible_below: 0.01,
            cost_exponent: 0.7,
            candidate_confidence: 0.9,
            final_confidence: 0.995,
            parallel: 1,
            budget: Budget::default(),
        }
    }
}

/// The product's strategy.
#[derive(Debug, Clone)]
pub struct Slipway {
    space: Space,
    model: Model,
    settings: Settings,
    history: Vec<Measurement>,
    jitter: Vec<f64>,
    /// Arms by expected objective per cost, best first.
    ranked: Vec<usize>,
}

/// What one step looks at.
struct View<'a> {
    ledger: &'a Ledger<'a>,
    costs: &'a Costs<'a>,
    purse: &'a Purse,
    pending: &'a [Cell],
    incumbent: Option<Candidate>,
}

#[derive(Clone, Copy)]
struct Scored {
    cell: Cell,
    score: Score,
    value: f64,
}

impl Slipway {
    /// Prepares a search of a space.
    #[must_use]
    pub fn new(space: Space, settings: Settings) -> Self {
        let model = Model::new(&space);
        let mut rng = Pcg64Mcg::seed_from_u64(settings.seed);
        let jitter = space.arms.iter().map(|_| JITTER * (rng.random::<f64>() - 0.5)).collect();
        let ranked = ranked(&space, &model);
        Self { space, model, settings, history: Vec::new(), jitter, ranked }
    }

    /// Starts from runs of an earlier campaign on the same space. They shape what is expected, with a standard error of
    /// 10 % for what changed since; none of them can be the answer without a run of this campaign.
    #[must_use]
    pub fn with_history(mut self, history: Vec<Measurement>) -> Self {
        let age = |mut m: Measurement| {
            match &mut m.outcome {
                Outcome::Measured { log_sd, .. } | Outcome::Aborted { log_sd, .. } => {
                    *log_sd = log_sd.hypot(HISTORY_SD)
                }
                Outcome::Failed => {}
            }
            m
        };
        self.history = history.into_iter().map(age).collect();
        self
    }

    /// The space it searches.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    fn surrogate(&self, measurements: &[Measurement], pending: &[Cell]) -> Surrogate<'_> {
        let all: Vec<Measurement> = self.history.iter().chain(measurements).cloned().collect();
        Surrogate::fit(&self.model, &all, pending)
    }

    /// The best cell whose own runs show it feasible.
    fn incumbent(&self, ledger: &Ledger<'_>) -> Option<Candidate> {
        let s = &self.settings;
        let holds = |c: &&Candidate| {
            c.feasible >= if c.runs >= MOST_RUNS { s.final_confidence } else { s.candidate_confidence }
        };
        // Ties go to the cheaper arm, then to the lower load.
        let rank = |c: &Candidate| (c.objective, -self.space.arms[c.cell.arm].gpus);
        ledger
            .candidates()
            .iter()
            .filter(holds)
            .copied()
            .reduce(|best, c| if rank(&c) > rank(&best) { c } else { best })
    }

    /// The arms a step looks at: those run, neighbours of the best, those the prior likes, and some by lot.
    fn selection(&self, view: &View<'_>, runs: usize) -> Vec<usize> {
        let arms = self.space.arms.len();
        if arms <= MOST_ARMS {
            return (0..arms).collect();
        }
        let mut chosen: BTreeSet<usize> = (0..arms).filter(|arm| view.ledger.arm_tried(*arm)).collect();
        let best = view.incumbent.map(|c| c.cell.arm).or(view.ledger.warm());
        let near = |arm: &usize| best.is_some_and(|best| self.model.kernel.differences(*arm, best) <= 1);
        chosen.extend((0..arms).filter(near).take(MOST_ARMS / 3));
        chosen.extend(self.ranked.iter().take(MOST_ARMS / 3));
        let mut rng = Pcg64Mcg::seed_from_u64(self.settings.seed.wrapping_add(1 + runs as u64));
        while chosen.len() < MOST_ARMS {
            chosen.insert(rng.random_range(0..arms));
        }
        chosen.into_iter().collect()
    }

    /// Scores every cell of some arms that is worth a run, best first.
    fn scored(&self, surrogate: &Surrogate<'_>, view: &View<'_>, arms: &[usize]) -> Vec<Scored> {
        let nothing_known = self.history.is_empty() && view.ledger.candidates().is_empty();
        let incumbent = view.incumbent.map(|c| c.objective);
        let open = |cell: &Cell| !view.ledger.tried(*cell) && !view.pending.contains(cell);
        let levels = 0..self.space.levels.len();
        let cells = arms.iter().flat_map(|arm| levels.clone().map(|level| Cell { arm: *arm, level }));
        let mut scored: Vec<Scored> = cells
            .filter(|cell| self.space.has(*cell))
            .filter(open)
            .map(|cell| {
                let mut score = score(&self.space, &surrogate.at(cell), incumbent);
                let monotone = view.ledger.monotone(&self.model.kernel, cell);
                score.feasible *= monotone;
                score.gain *= monotone;
                Scored { cell, score, value: 0.0 }
            })
            .collect();
        let most = scored.iter().map(|s| s.score.objective).fold(f64::NEG_INFINITY, f64::max);
        for s in &mut scored {
            let worth = match incumbent {
                Some(_) => s.score.gain,
                None => s.score.feasible * (0.5 * (s.score.objective - most)).exp(),
            };
            let central = if nothing_known { self.centrality(s.cell) } else { 1.0 };
            let jitter = self.jitter[s.cell.arm].exp();
            let cost = view.costs.expected(s.cell, s.score.feasible).max(1e-9);
            s.value = worth * central * jitter / cost.powf(self.settings.cost_exponent);
        }
        scored.sort_by(|a, b| b.value.total_cmp(&a.value).then(a.cell.cmp(&b.cell)));
        scored
    }

    /// Prefers the middle of the load ladder while nothing is known of the scale.
    fn centrality(&self, cell: Cell) -> f64 {
        let levels: Vec<usize> =
            (0..self.space.levels.len()).filter(|l| self.space.arms[cell.arm].levels[*l]).collect();
        let middle = levels.get(levels.len() / 2).copied().unwrap_or(0);
        (-(cell.level.abs_diff(middle) as f64)).exp()
    }

    fn fits(&self, view: &View<'_>, cell: Cell) -> bool {
        let reserve = view.incumbent.map_or(Reserve { gpu_seconds: view.costs.cold(cell), runs: 1 }, |incumbent| {
            Reserve { gpu_seconds: view.costs.cold(incumbent.cell).max(view.costs.cold(cell)), runs: 1 }
        });
        view.purse.allows(self.space.arms[cell.arm].engine, view.costs.most(cell), reserve)
    }

    fn explore(&self, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let promising = |s: &&Scored| match view.incumbent {
            Some(_) => s.score.gain >= self.settings.stop_gain,
            None => s.score.feasible >= self.settings.infeasible_below,
        };
        let best = scored.iter().filter(promising).find(|s| self.fits(view, s.cell))?;
        let percent = 100.0 * best.score.feasible;
        let reason = match view.incumbent {
            Some(_) => format!("expected gain {:.1} %, feasible with {percent:.0} %", 100.0 * best.score.gain),
            None => format!("nothing feasible yet, feasible with {percent:.0} %"),
        };
        Some(Proposal { cell: best.cell, purpose: Purpose::Explore, reason })
    }

    /// The end of the search, or the run that it still takes.
    fn finish(&self, view: &View<'_>, scored: &[Scored], measurements: &[Measurement]) -> Step {
        let out_of_budget = scored.iter().any(|s| match view.incumbent {
            Some(_) => s.score.gain >= self.settings.stop_gain,
            None => s.score.feasible >= self.settings.infeasible_below,
        });
        let conclusion = match view.incumbent {
            Some(best) if best.confirmed && best.feasible >= self.settings.final_confidence => {
                let reason = match out_of_budget {
                    true => "the best confirmed configuration when the budget ended".to_owned(),
                    false => format!("no further run promises a gain of {:.1} %", 100.0 * self.settings.stop_gain),
                };
                Conclusion::Chosen { cell: best.cell, reason }
            }
            Some(best) => {
                let reserve = Reserve::default();
                let engine = self.space.arms[best.cell.arm].engine;
                if !view.pending.is_empty() {
                    return Step::Wait;
                }
                if view.purse.allows(engine, view.costs.most(best.cell), reserve) {
                    let reason = format!("confirm the choice, feasible with {:.1} %", 100.0 * best.feasible);
                    let proposal = Proposal { cell: best.cell, purpose: Purpose::Confirm, reason };
                    return Step::Measure { proposals: vec![proposal] };
                }
                Conclusion::Unknown { best: Some(best.cell), reason: "the budget ended before the confirm run".into() }
            }
            None if !view.pending.is_empty() => return Step::Wait,
            None if out_of_budget => {
                Conclusion::Unknown { best: None, reason: "the budget ended before anything feasible was found".into() }
            }
            None => Conclusion::Infeasible {
                nearest: view.ledger.nearest(),
                reason: format!(
                    "after {} runs no other configuration is feasible with more than {:.0} %",
                    measurements.len(),
                    100.0 * self.settings.infeasible_below
                ),
            },
        };
        let best = view.incumbent.is_some();
        Step::Done { conclusion, skipped: self.skipped(view.ledger, scored, best) }
    }

    fn skipped(&self, ledger: &Ledger<'_>, scored: &[Scored], incumbent: bool) -> Vec<Skipped> {
        let untried = (0..self.space.arms.len()).filter(|arm| !ledger.arm_tried(*arm));
        let why = |arm: usize| {
            let own = || scored.iter().filter(|s| s.cell.arm == arm).map(|s| s.score);
            let feasible = own().map(|s| s.feasible).fold(0.0, f64::max);
            let gain = own().map(|s| s.gain).fold(0.0, f64::max);
            let why = if feasible < self.settings.infeasible_below {
                WhyNot::Infeasible { feasible }
            } else if incumbent && gain < self.settings.stop_gain {
                WhyNot::Dominated { gain, feasible }
            } else {
                WhyNot::Budget { gain, feasible }
            };
            Skipped { arm, why }
        };
        untried.map(why).collect()
    }
}

fn ranked(space: &Space, model: &Model) -> Vec<usize> {
    let objective = &model.links[space.objective];
    let sign = space.direction.as_cost(-1.0);
    let expected = |arm: usize| {
        let levels = (0..space.levels.len()).filter(|level| space.arms[arm].levels[*level]);
        levels.map(|level| sign * objective.known(Cell { arm, level })).fold(f64::NEG_INFINITY, f64::max)
    };
    let mut ranked: Vec<(usize, f64)> = (0..space.arms.len()).map(|arm| (arm, expected(arm))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.into_iter().map(|(arm, _)| arm).collect()
}

impl SearchStrategy for Slipway {
    fn next(&self, progress: Progress<'_>) -> Step {
        let ledger = Ledger::new(&self.space, progress.measurements);
        let costs = Costs::new(&self.space, progress.measurements, ledger.warm());
        let mut purse = Purse::new(self.settings.budget, &self.space, progress.measurements);
        for cell in progress.pending {
            purse.commit(&self.space, *cell, costs.cold(*cell));
        }
        let incumbent = self.incumbent(&ledger);
        let mut pending = progress.pending.to_vec();
        let mut proposals = Vec::new();
        loop {
            let surrogate = self.surrogate(progress.measurements, &pending);
            let view = View { ledger: &ledger, costs: &costs, purse: &purse, pending: &pending, incumbent };
            let selection = self.selection(&view, progress.measurements.len());
            let mut scored = self.scored(&surrogate, &view, &selection);
            let mut next = self.explore(&view, &scored);
            if next.is_none() && selection.len() < self.space.arms.len() {
                let all: Vec<usize> = (0..self.space.arms.len()).collect();
                scored = self.scored(&surrogate, &view, &all);
                next = self.explore(&view, &scored);
            }
            if ledger.failed_confirms() >= MOST_FAILED_CONFIRMS {
                let reason = format!("{MOST_FAILED_CONFIRMS} configurations failed their confirm runs");
                let conclusion = Conclusion::Unknown { best: incumbent.map(|c| c.cell), reason };
                return Step::Done { conclusion, skipped: self.skipped(&ledger, &scored, incumbent.is_some()) };
            }
            match next {
                Some(proposal) if proposals.len() + progress.pending.len() < self.settings.parallel.max(1) => {
                    purse.commit(&self.space, proposal.cell, costs.cold(proposal.cell));
                    pending.push(proposal.cell);
                    proposals.push(proposal);
                }
                Some(_) if proposals.is_empty() => return Step::Wait,
                None if proposals.is_empty() => return self.finish(&view, &scored, progress.measurements),
                Some(_) | None => return Step::Measure { proposals },
            }
        }
    }
}
