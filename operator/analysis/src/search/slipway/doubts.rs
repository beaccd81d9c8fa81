//! What a search still asks when its surrogate expects nothing more. Pure.
//!
//! A smooth law that was fitted to a dozen runs is too sure in two places. Past a limit queues and errors grow out of
//! proportion, so a run far beyond says little of the level next to the choice. Where an arm was run only beyond its
//! limits on one side of it, that level is run rather than inferred. So is a level that promises a gain once its own
//! deviation is taken for as large as any. So is a better one above all that were run.
//!
//! An axis may have no prior, or only prior columns that the runs contradict. There the surrogate knows nothing but the
//! values that were run: each of its few values gets a run before the search ends. What has only missed gets one at a
//! load that it may bear. That nothing is feasible is never taken from prior columns alone.
//!
//! Figures that are sampled of a device follow no smooth law: like cells differ by a third. So a limit on one rules a
//! cell out only after a run of its value at its level.

use std::collections::BTreeSet;

use super::super::gp::MOST_NUGGET;
use super::super::ledger::Candidate;
use super::super::model::Contradicted;
use super::super::surrogate::Surrogate;
use super::super::{Cell, Proposal, Purpose};
use super::{Scored, Slipway, View};
use crate::slo::ERRORS_TO_BOUND;

/// A level beside the choice is run when it is feasible with this chance.
const LIKELY: f64 = 0.3;
/// A better level above all runs of the choice's arm is left when it is feasible with less than this chance.
const UNLIKELY: f64 = 0.001;
/// A sampled limit that is met with this chance rules nothing out.
const SURE: f64 = 0.95;
/// Values that an axis may have for each of them to be run once.
const FEW_VALUES: usize = 6;
/// Values of an axis that are run before a rule of thumb on it is believed.
const VALUES_OF_GUESS: usize = 2;

impl Slipway {
    /// The run that would show an error of the surrogate, if one is left.
    pub(super) fn doubt(&self, surrogate: &Surrogate<'_>, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let contradicted = view.incumbent.map_or(Contradicted::Yes, |_| surrogate.contradicts_prior());
        let untold = self.model.untold(contradicted);
        self.beside_the_best(surrogate, view, scored)
            .or_else(|| self.unseen_value(view, scored, untold))
            .or_else(|| self.only_missed(view, scored, untold))
            .or_else(|| self.unsampled(view, scored))
    }

    fn beside_the_best(&self, surrogate: &Surrogate<'_>, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let best = view.incumbent?;
        let levels = &self.space.arms[best.cell.arm].levels;
        let below = levels[..best.cell.level].iter().rposition(|exists| *exists);
        let above = levels[best.cell.level + 1..].iter().position(|exists| *exists).map(|k| best.cell.level + 1 + k);
        let beside = |s: &&Scored| s.cell.arm == best.cell.arm && [below, above].contains(&Some(s.cell.level));
        let is_unknown = |s: &&Scored| {
            s.score.feasible >= LIKELY && view.ledger.only_misses_beyond(best.cell, s.cell.level)
                || self.may_surprise(surrogate, view, s.cell)
                || self.is_next_rung(view, best, s)
        };
        let next = scored.iter().filter(beside).filter(is_unknown).find(|s| self.fits(view, s.cell))?;
        let percent = 100.0 * next.score.feasible;
        let reason = format!("next to the best, feasible with {percent:.0} %");
        Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason })
    }

    /// Whether a cell promises a gain when its own deviation is taken for at least [`MOST_NUGGET`] in every metric,
    /// whatever the runs say.
    fn may_surprise(&self, surrogate: &Surrogate<'_>, view: &View<'_>, cell: Cell) -> bool {
        let doubted = surrogate.at(&[cell]).pop().map(|mut belief| {
            let metrics = belief.metrics.iter_mut();
            metrics.for_each(|metric| metric.own.variance = metric.own.variance.max(MOST_NUGGET * MOST_NUGGET));
            belief
        });
        let monotone = view.ledger.monotone(&self.model.kernel, cell);
        doubted.is_some_and(|belief| self.scorer(view).score(&belief).gain * monotone >= self.settings.stop_gain)
    }

    /// Whether a cell is above all runs of the best's arm, expected to be better, and not ruled out.
    fn is_next_rung(&self, view: &View<'_>, best: Candidate, s: &Scored) -> bool {
        let is_beyond = |run: Cell| run.arm == best.cell.arm && run.level > best.cell.level;
        s.cell.level > best.cell.level
            && !view.ledger.run_cells().any(is_beyond)
            && s.score.objective > best.objective + self.settings.stop_gain
            && s.score.feasible >= UNLIKELY
    }

    /// The best cell with a value that no run has, on one of some axes. Of an axis with a rule of thumb two values are
    /// enough: they show whether it holds here.
    fn unseen_value(&self, view: &View<'_>, scored: &[Scored], untold: &[usize]) -> Option<Proposal> {
        let tried = (0..self.space.arms.len()).filter(|arm| view.ledger.arm_tried(*arm));
        let run: Vec<usize> = tried.chain(view.pending.iter().map(|cell| cell.arm)).collect();
        let untold = untold.iter().map(|axis| (axis, FEW_VALUES));
        for (axis, enough) in untold.chain(self.model.guessed.iter().map(|axis| (axis, VALUES_OF_GUESS))) {
            let values = &self.model.kernel.values()[*axis];
            let seen: BTreeSet<usize> = run.iter().map(|arm| values.of[*arm]).collect();
            if values.examples.len() > FEW_VALUES || seen.len() >= enough {
                continue;
            }
            let unseen = |s: &&Scored| !seen.contains(&values.of[s.cell.arm]);
            if let Some(next) = scored.iter().filter(unseen).find(|s| self.fits(view, s.cell)) {
                let reason = format!("no run has this {} yet", self.space.axes[values.axis].name);
                return Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason });
            }
        }
        None
    }

    /// The best cell of those that every run like them speaks against only by missing a limit. Such runs tell little of
    /// the load that is borne. So an arm of the warm engine, where a run is cheap, is not left before it met the
    /// limits. Nor is a value on one of some axes. Both are left where no cell of theirs that may meet the limits is
    /// better than the best by its upper bound of 95 %.
    fn only_missed(&self, view: &View<'_>, scored: &[Scored], axes: &[usize]) -> Option<Proposal> {
        let best = view.incumbent?;
        let may_win = |s: &&Scored| {
            let most = s.score.objective + ERRORS_TO_BOUND * s.score.spread;
            s.score.feasible >= LIKELY && most > best.objective + self.settings.stop_gain && self.fits(view, s.cell)
        };
        let hopeful: Vec<&Scored> = scored.iter().filter(may_win).collect();
        let known = view.ledger.cells_that_met().chain(view.pending.iter().copied());
        let known: Vec<usize> = known.map(|cell| cell.arm).collect();
        let engine = |arm: usize| self.space.arms[arm].engine;
        let warm = view.ledger.warm().map(engine);
        let has_only_missed = |arm: usize| view.ledger.arm_tried(arm) && !known.contains(&arm);
        let of_warm = hopeful.iter().find(|s| warm == Some(engine(s.cell.arm)) && has_only_missed(s.cell.arm));
        let of_warm = of_warm.map(|s| (*s, "configuration"));
        let of_axis = |axis: &usize| {
            let values = &self.model.kernel.values()[*axis];
            let is_known = |arm: usize| known.iter().any(|run| values.of[*run] == values.of[arm]);
            let is_short = values.examples.len() <= FEW_VALUES;
            let next = hopeful.iter().filter(|_| is_short).find(|s| !is_known(s.cell.arm))?;
            Some((*next, self.space.axes[values.axis].name.as_str()))
        };
        let (next, what) = of_warm.or_else(|| axes.iter().find_map(of_axis))?;
        let percent = 100.0 * next.score.feasible;
        let reason = format!("every run with this {what} missed a limit, and this one meets them with {percent:.0} %");
        Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason })
    }

    /// The best cell of those that only a limit on a sampled figure speaks against, and that share no value of some
    /// axis with a run at their level. Such a cell is expected to be better than the best.
    fn unsampled(&self, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let is_doubtful = |s: &&Scored| {
            let speaks_against = s.score.sampled < SURE && s.score.feasible >= LIKELY * s.score.sampled;
            speaks_against
                && view.incumbent.is_none_or(|best| s.score.objective > best.objective + self.settings.stop_gain)
        };
        let doubtful: Vec<&Scored> = scored.iter().filter(is_doubtful).filter(|s| self.fits(view, s.cell)).collect();
        let short = self.model.kernel.values().iter().filter(|values| values.examples.len() <= FEW_VALUES);
        let unknown = short.filter_map(|values| {
            let is_alike = |cell: Cell, run: Cell| run.level == cell.level && values.of[run.arm] == values.of[cell.arm];
            let is_unknown = |cell: Cell| {
                let mut runs = view.ledger.run_cells().chain(view.pending.iter().copied());
                !runs.any(|run| is_alike(cell, run))
            };
            doubtful.iter().find(|s| is_unknown(s.cell)).map(|s| (*s, values.axis))
        });
        let (next, axis) = unknown.max_by(|a, b| a.0.value.total_cmp(&b.0.value))?;
        let reason = format!("no run with this {} at this level shows what is sampled", self.space.axes[axis].name);
        Some(Proposal { cell: next.cell, purpose: Purpose::Explore, reason })
    }
}
