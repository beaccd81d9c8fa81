//! The product's search: prior, structured surrogate, cost-aware constrained improvement, confirm run. Pure.
//!
//! Each step fits the surrogate to the runs so far and proposes the run with the greatest expected improvement /
//! (expected GPU-seconds)^cost_exponent. A start on the warm engine is free. A run that is likely infeasible costs only
//! the time until its early verdict. It stops when no run promises `stop_gain` more in ln objective; the choice then
//! has to pass a run of its own.

mod doubts;
mod survey;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::cost::{Costs, Purse, Reserve};
use super::ledger::{Candidate, Ledger};
use super::model::Model;
use super::surrogate::Surrogate;
use super::{Cell, Conclusion, Measurement, Progress, Proposal, Purpose, SearchStrategy, Space, Step};

use self::survey::{Scored, Survey};

pub use super::cost::Budget;
pub use super::skipped::{Skipped, WhyNot};

/// Spread of the seeded jitter on ln prior objective that breaks ties between arms nothing is known about.
const JITTER: f64 = 0.02;
/// Cells whose confirm runs may fail before the search says that it does not know.
const MOST_FAILED_CONFIRMS: usize = 3;
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

impl Slipway {
    /// Prepares a search of a space.
    #[must_use]
    pub fn new(space: Space, settings: Settings) -> Self {
        let model = Model::new(&space);
        let mut rng = Pcg64Mcg::seed_from_u64(settings.seed);
        let jitter = space.arms.iter().map(|_| JITTER * (rng.random::<f64>() - 0.5)).collect();
        let ranked = ranked(&space, &model);
        Self { space, model, settings, jitter, ranked }
    }

    /// The space it searches.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    fn surrogate(&self, measurements: &[Measurement], pending: &[Cell]) -> Surrogate<'_> {
        Surrogate::fit(&self.model, measurements, pending)
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
    fn finish(&self, view: &View<'_>, survey: &Survey, measurements: &[Measurement]) -> Step {
        let out_of_budget = survey.scored.iter().any(|s| match view.incumbent {
            Some(_) => s.score.gain >= self.settings.stop_gain,
            None => s.score.feasible >= self.settings.infeasible_below,
        });
        let conclusion = match view.incumbent {
            Some(best) if best.confirmed && best.feasible >= self.settings.final_confidence => {
                let reason = match out_of_budget {
                    true => "the best confirmed configuration when the budget ended".to_owned(),
                    false => format!("no further run promises a gain of {:.1} %", 100.0 * self.settings.stop_gain),
                };
                Conclusion::Chosen { cell: best.cell, reason, gain_left: Some(survey.gain_left()) }
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
        Step::Done { conclusion, skipped: self.skipped(view, survey) }
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
            let mut survey = self.survey(&surrogate, &view, progress.measurements.len());
            let mut next = self.explore(&view, &survey.scored);
            if next.is_none() && self.look_around(&surrogate, &view, &mut survey) {
                next = self.explore(&view, &survey.scored);
            }
            let next = next.or_else(|| self.doubt(&surrogate, &view, &survey.scored));
            if ledger.failed_confirms() >= MOST_FAILED_CONFIRMS {
                let reason = format!("{MOST_FAILED_CONFIRMS} configurations failed their confirm runs");
                let conclusion = Conclusion::Unknown { best: incumbent.map(|c| c.cell), reason };
                return Step::Done { conclusion, skipped: self.skipped(&view, &survey) };
            }
            match next {
                Some(proposal) if proposals.len() + progress.pending.len() < self.settings.parallel.max(1) => {
                    purse.commit(&self.space, proposal.cell, costs.cold(proposal.cell));
                    pending.push(proposal.cell);
                    proposals.push(proposal);
                }
                Some(_) if proposals.is_empty() => return Step::Wait,
                None if proposals.is_empty() => return self.finish(&view, &survey, progress.measurements),
                Some(_) | None => return Step::Measure { proposals },
            }
        }
    }
}
