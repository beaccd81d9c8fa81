//! What a search still asks when its surrogate expects nothing more. Pure.
//!
//! A smooth law that was fitted to a dozen runs is too sure in two places. Past a limit queues and errors grow out of
//! proportion, so a run far beyond says little of the level next to the choice. Where an arm was run only beyond its
//! limits on one side of it, that level is run rather than inferred. An axis may have no prior, or only prior columns
//! that the runs contradict. There the surrogate knows nothing but the values that were run: each of its few values
//! gets a run before the search ends. That nothing is feasible is never taken from prior columns alone.
//!
//! Values whose runs all missed a limit are walked down: there the smooth law was wrong already. Limits on sampled
//! figures follow no smooth law, so they alone rule a cell out only after some runs.

use std::collections::BTreeSet;

use super::super::model::Contradicted;
use super::super::surrogate::Surrogate;
use super::super::{MetricKind, Proposal, Purpose};
use super::{Scored, Slipway, View};
use crate::pareto::Direction;

/// A level beside the choice is run when it is feasible with this chance.
const LIKELY: f64 = 0.3;
/// A sampled limit that is met with this chance rules nothing out.
const SURE: f64 = 0.95;
/// Runs of a value at a level by which a limit on a sampled figure rules them out. Tuned on resnet50's utilization.
const FEW_RUNS: usize = 3;
/// Standard deviations above its expectation that an objective is at most.
const MOST_SPREADS: f64 = 2.0;
/// What throughput may lose in ln from a level to one above it, which is past saturation.
const OVERLOAD: f64 = 0.1;
/// Values that an axis may have for each of them to be run once.
const FEW_VALUES: usize = 6;

impl Slipway {
    /// The run that would show an error of the surrogate, if one is left.
    pub(super) fn doubt(&self, surrogate: &Surrogate<'_>, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let contradicted = view.incumbent.map_or(Contradicted::Yes, |_| surrogate.contradicts_prior());
        let untold = self.model.untold(contradicted);
        self.beside_the_best(view, scored)
            .or_else(|| self.unseen_value(view, scored, untold))
            .or_else(|| self.walk_down(view, scored))
            .or_else(|| self.unsampled(view, scored))
            .or_else(|| self.missed(view, scored))
    }

    /// The best cell of a value and a level that have hardly a run together, where only a limit on a sampled figure
    /// speaks against it. What is sampled follows other laws than times: like values need not be alike in it.
    fn unsampled(&self, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let best = view.incumbent?;
        let mut next: Option<(&Scored, usize)> = None;
        for values in self.model.kernel.values().iter().filter(|values| values.examples.len() <= FEW_VALUES) {
            let is_open = |s: &&Scored| {
                let is_alike = |arm: usize| values.of[arm] == values.of[s.cell.arm];
                s.score.sampled < SURE
                    && s.score.objective > best.objective + self.settings.stop_gain
                    && view.ledger.runs_at(is_alike, s.cell.level) < FEW_RUNS
            };
            let open = scored.iter().filter(is_open).find(|s| self.fits(view, s.cell)).map(|s| (s, values.axis));
            next = match (next, open) {
                (Some(known), Some(open)) if open.0.value <= known.0.value => Some(known),
                (known, open) => open.or(known),
            };
        }
        let (next, axis) = next?;
        let reason =
            format!("a sampled limit alone rules out this {} at this level, by few runs", self.space.axes[axis].name);
        Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason })
    }

    /// The next level down of a value that no run shows to meet the limits: a smooth law is too sure of levels below a
    /// miss. A level is excluded when even the most that is to be expected of it is no better than the best. Without
    /// limits on sampled figures it is also excluded when it is hardly ever both feasible and better.
    fn walk_down(&self, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let best = view.incumbent?;
        let has_sampled_limit = self.space.constraints.iter().any(|c| self.space.metrics[c.metric].kind.is_sampled());
        let is_likely = |s: &Scored| {
            has_sampled_limit || s.score.beats(best.objective, self.settings.stop_gain) >= self.settings.missed_below
        };
        for values in self.model.kernel.values() {
            if values.examples.len() > FEW_VALUES {
                continue;
            }
            for value in 0..values.examples.len() {
                let has = |arm: usize| values.of[arm] == value;
                let Some(lowest) = view.ledger.lowest_of_only_misses(has) else { continue };
                let may_be_better = |s: &&Scored| {
                    has(s.cell.arm)
                        && s.cell.level < lowest
                        && is_likely(s)
                        && self.most(view, s) > best.objective + self.settings.stop_gain
                };
                let promising = scored.iter().filter(may_be_better).filter(|s| self.fits(view, s.cell));
                let Some(next) = promising.max_by(|a, b| by_level_and_worth(a, b)) else { continue };
                let axis = &self.space.axes[values.axis].name;
                let reason = format!("no run with this {axis} meets the limits yet, and a lower level may");
                return Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason });
            }
        }
        None
    }

    /// The most that is to be expected of a cell's ln objective. Throughput hardly falls with load, so that it is no
    /// more than what the arm's own full runs above showed.
    fn most(&self, view: &View<'_>, s: &Scored) -> f64 {
        let most = s.score.objective + MOST_SPREADS * s.score.spread;
        let metric = self.space.objective;
        match (self.space.metrics[metric].kind, self.space.direction) {
            (MetricKind::Throughput, Direction::Maximize) => {
                let above = view.ledger.most_above(s.cell, metric, MOST_SPREADS);
                above.map_or(most, |above| most.min(above + OVERLOAD))
            }
            _ => most,
        }
    }

    /// The best cell of those that only limits on sampled figures seem to rule out, while one of them may be better.
    /// What is sampled differs between like cells, so that many small chances add up.
    fn missed(&self, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let best = view.incumbent?;
        let is_open = |s: &&Scored| s.score.sampled < SURE;
        let beats = |s: &Scored| s.score.beats(best.objective, self.settings.stop_gain);
        let chance: f64 = scored.iter().filter(is_open).map(beats).sum();
        if chance < self.settings.missed_below {
            return None;
        }
        let open = scored.iter().filter(is_open).filter(|s| self.fits(view, s.cell));
        let next = open.max_by(|a, b| beats(a).total_cmp(&beats(b)))?;
        let percent = 100.0 * chance.min(1.0);
        let reason = format!("one of the cells that a sampled limit seems to rule out is better with {percent:.0} %");
        Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason })
    }

    fn beside_the_best(&self, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let best = view.incumbent?;
        let levels = &self.space.arms[best.cell.arm].levels;
        let below = levels[..best.cell.level].iter().rposition(|exists| *exists);
        let above = levels[best.cell.level + 1..].iter().position(|exists| *exists).map(|k| best.cell.level + 1 + k);
        let beside = |s: &&Scored| s.cell.arm == best.cell.arm && [below, above].contains(&Some(s.cell.level));
        let is_unknown =
            |s: &&Scored| s.score.feasible >= LIKELY && view.ledger.only_misses_beyond(best.cell, s.cell.level);
        let next = scored.iter().filter(beside).filter(is_unknown).find(|s| self.fits(view, s.cell))?;
        let percent = 100.0 * next.score.feasible;
        let reason = format!("next to the best, feasible with {percent:.0} %");
        Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason })
    }

    /// The best cell with a value that no run has, on one of some axes.
    fn unseen_value(&self, view: &View<'_>, scored: &[Scored], axes: &[usize]) -> Option<Proposal> {
        let tried = (0..self.space.arms.len()).filter(|arm| view.ledger.arm_tried(*arm));
        let run: Vec<usize> = tried.chain(view.pending.iter().map(|cell| cell.arm)).collect();
        for axis in axes {
            let values = &self.model.kernel.values()[*axis];
            if values.examples.len() > FEW_VALUES {
                continue;
            }
            let seen: BTreeSet<usize> = run.iter().map(|arm| values.of[*arm]).collect();
            let unseen = |s: &&Scored| !seen.contains(&values.of[s.cell.arm]);
            if let Some(next) = scored.iter().filter(unseen).find(|s| self.fits(view, s.cell)) {
                let reason = format!("no run has this {} yet", self.space.axes[values.axis].name);
                return Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason });
            }
        }
        None
    }
}

/// The highest level first, and there the most worth.
fn by_level_and_worth(a: &Scored, b: &Scored) -> std::cmp::Ordering {
    a.cell.level.cmp(&b.cell.level).then(a.value.total_cmp(&b.value))
}
