//! What a step looks at: the arms it scores, what it glances at in a large space, why arms were not run. Pure.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::super::score::{Score, Scorer};
use super::super::surrogate::{Belief, Surrogate};
use super::super::{Cell, Skipped, WhyNot};
use super::{Slipway, View};

/// Arms that are scored at every step; beyond it a step scores a selection, and glances at all before it says that it
/// is done.
const MOST_ARMS: usize = 90;

/// Arms that are scored after a glance at all.
const MOST_AFTER_GLANCE: usize = 30;

/// Cells that are looked at together: enough for the loops over them to be most of the work, and few enough for a
/// cache.
const BLOCK: usize = 64;

/// A cell that may be run next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scored {
    pub cell: Cell,
    pub score: Score,
    /// What the next run is chosen by.
    pub value: f64,
}

/// What a step has looked at.
#[derive(Debug, Clone)]
pub(super) struct Survey {
    /// Scored cells, best first.
    pub scored: Vec<Scored>,
    /// Whether an arm is among those scored.
    is_scored: Vec<bool>,
    /// Per arm, what its scores are at most, once they were glanced at.
    at_most: Vec<Best>,
}

/// The greatest chance and gain over an arm's levels.
#[derive(Debug, Clone, Copy, Default)]
struct Best {
    feasible: f64,
    gain: f64,
}

impl Best {
    fn add(&mut self, score: &Score) {
        self.feasible = self.feasible.max(score.feasible);
        self.gain = self.gain.max(score.gain);
    }
}

impl Slipway {
    /// Scores the cells of a selection of arms.
    pub(super) fn survey(&self, surrogate: &Surrogate<'_>, view: &View<'_>, runs: usize) -> Survey {
        let selection = self.selection(view, runs);
        let mut is_scored = vec![false; self.space.arms.len()];
        selection.iter().for_each(|arm| is_scored[*arm] = true);
        let scored = self.ranked_by_value(view, self.scored(surrogate, view, &selection));
        Survey { scored, is_scored, at_most: Vec::new() }
    }

    /// Glances at the arms that were not scored and scores those that may be worth most. False when there are none.
    pub(super) fn look_around(&self, surrogate: &Surrogate<'_>, view: &View<'_>, survey: &mut Survey) -> bool {
        let rest: Vec<usize> = (0..self.space.arms.len()).filter(|arm| !survey.is_scored[*arm]).collect();
        if rest.is_empty() {
            return false;
        }
        let (outlook, scorer) = (surrogate.outlook(), self.scorer(view));
        let glanced = self.cells(view, &rest, |cells| outlook.at(cells), |belief| scorer.at_most(belief));
        survey.at_most = vec![Best::default(); self.space.arms.len()];
        glanced.iter().for_each(|s| survey.at_most[s.cell.arm].add(&s.score));
        let mut values = vec![f64::NEG_INFINITY; self.space.arms.len()];
        let most = most_expected(&glanced);
        glanced.iter().for_each(|s| values[s.cell.arm] = values[s.cell.arm].max(self.value(view, most, s)));
        let mut chosen = rest;
        chosen.sort_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
        chosen.truncate(MOST_AFTER_GLANCE);
        chosen.iter().for_each(|arm| survey.is_scored[*arm] = true);
        let mut scored = std::mem::take(&mut survey.scored);
        scored.extend(self.scored(surrogate, view, &chosen));
        survey.scored = self.ranked_by_value(view, scored);
        true
    }

    /// The arms a step scores: those run, neighbours of the best, those the prior likes, and some by lot.
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

    fn scored(&self, surrogate: &Surrogate<'_>, view: &View<'_>, arms: &[usize]) -> Vec<Scored> {
        let scorer = self.scorer(view);
        self.cells(view, arms, |cells| surrogate.at(cells), |belief| scorer.score(belief))
    }

    pub(super) fn scorer(&self, view: &View<'_>) -> Scorer {
        Scorer::new(&self.space, |metric| self.model.links[metric].floor, view.incumbent.map(|c| c.objective))
    }

    /// The cells of some arms that are worth a run, with their scores.
    fn cells(
        &self,
        view: &View<'_>,
        arms: &[usize],
        believe: impl Fn(&[Cell]) -> Vec<Belief>,
        score: impl Fn(&Belief) -> Score,
    ) -> Vec<Scored> {
        // In a large space hardly any arm was run, and no other has anything in the ledger.
        let was_run = |cell: &Cell| view.ledger.arm_tried(cell.arm);
        let is_open = |cell: &Cell| {
            self.space.has(*cell) && !(was_run(cell) && view.ledger.tried(*cell)) && !view.pending.contains(cell)
        };
        let levels = self.space.levels.len();
        let all = arms.iter().flat_map(|arm| (0..levels).map(|level| Cell { arm: *arm, level }));
        let open: Vec<Cell> = all.filter(is_open).collect();
        let scored = |(cell, belief): (&Cell, Belief)| {
            let mut score = score(&belief);
            let monotone = if was_run(cell) { view.ledger.monotone(&self.model.kernel, *cell) } else { 1.0 };
            score.feasible *= monotone;
            score.gain *= monotone;
            Scored { cell: *cell, score, value: 0.0 }
        };
        open.chunks(BLOCK).flat_map(|block| block.iter().zip(believe(block)).map(scored).collect::<Vec<_>>()).collect()
    }

    /// Values cells, best first.
    fn ranked_by_value(&self, view: &View<'_>, mut scored: Vec<Scored>) -> Vec<Scored> {
        let most = most_expected(&scored);
        scored.iter_mut().for_each(|s| s.value = self.value(view, most, s));
        scored.sort_by(|a, b| b.value.total_cmp(&a.value).then(a.cell.cmp(&b.cell)));
        scored
    }

    /// What a cell may gain for what it costs. `most` is the greatest expected ln objective of all.
    fn value(&self, view: &View<'_>, most: f64, s: &Scored) -> f64 {
        let worth = match view.incumbent {
            Some(_) => s.score.gain,
            None => s.score.feasible * (0.5 * (s.score.objective - most)).exp(),
        };
        let nothing_known = view.ledger.candidates().is_empty();
        let central = if nothing_known { self.centrality(s.cell) } else { 1.0 };
        let jitter = self.jitter[s.cell.arm].exp();
        let cost = view.costs.expected(s.cell, s.score.feasible).max(1e-9);
        worth * central * jitter / cost.powf(self.settings.cost_exponent)
    }

    /// Prefers the middle of the load ladder while nothing is known of the scale.
    fn centrality(&self, cell: Cell) -> f64 {
        let levels: Vec<usize> =
            (0..self.space.levels.len()).filter(|l| self.space.arms[cell.arm].levels[*l]).collect();
        let middle = levels.get(levels.len() / 2).copied().unwrap_or(0);
        (-(cell.level.abs_diff(middle) as f64)).exp()
    }

    /// Why the cells of each arm that were not run were left out.
    pub(super) fn skipped(&self, view: &View<'_>, survey: &Survey) -> Vec<Skipped> {
        let mut best = vec![Best::default(); self.space.arms.len()];
        survey.scored.iter().for_each(|s| best[s.cell.arm].add(&s.score));
        let is_open = |arm: usize, level: usize| !view.ledger.tried(Cell { arm, level });
        let has_open = |arm: &usize| {
            let levels = self.space.arms[*arm].levels.iter().enumerate();
            !view.ledger.arm_tried(*arm) || levels.filter(|(_, exists)| **exists).any(|(level, _)| is_open(*arm, level))
        };
        let left = (0..self.space.arms.len()).filter(has_open);
        let why = |arm: usize| {
            let is_scored = survey.is_scored[arm];
            let Best { feasible, gain } = if is_scored { best[arm] } else { survey.bound(arm) };
            let why = if feasible < self.settings.infeasible_below {
                WhyNot::Infeasible { feasible }
            } else if view.incumbent.is_some() && gain < self.settings.stop_gain {
                WhyNot::Dominated { gain, feasible }
            } else if is_scored {
                WhyNot::Budget { gain, feasible }
            } else {
                WhyNot::NotVisited
            };
            Skipped { arm, why }
        };
        left.map(why).collect()
    }
}

impl Survey {
    /// The greatest expected gain of a cell that was scored or glanced at.
    pub(super) fn gain_left(&self) -> f64 {
        let glanced = self.at_most.iter().zip(&self.is_scored).filter(|(_, is_scored)| !**is_scored);
        let gains = self.scored.iter().map(|s| s.score.gain).chain(glanced.map(|(best, _)| best.gain));
        gains.fold(0.0, f64::max)
    }

    /// What an arm that was not scored may be at most; anything where it was not even glanced at.
    fn bound(&self, arm: usize) -> Best {
        self.at_most.get(arm).copied().unwrap_or(Best { feasible: 1.0, gain: f64::INFINITY })
    }
}

fn most_expected(scored: &[Scored]) -> f64 {
    scored.iter().map(|s| s.score.objective).fold(f64::NEG_INFINITY, f64::max)
}
