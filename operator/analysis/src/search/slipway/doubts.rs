//! What a search still asks when its surrogate expects nothing more. Pure.
//!
//! A smooth law that was fitted to a dozen runs is too sure in two places. Past a limit queues and errors grow out of
//! proportion, so a run far beyond says little of the level next to the choice. Where an arm was run only beyond its
//! limits on one side of it, that level is run rather than inferred. An axis may have no prior, or only prior columns
//! that the runs contradict. There the surrogate knows nothing but the values that were run: each of its few values
//! gets a run before the search ends. That nothing is feasible is never taken from prior columns alone.
//!
//! Figures that are sampled of a device follow no smooth law: like cells differ by a third. So a limit on one rules a
//! cell out only after a run of its value at its level.

use std::collections::BTreeSet;

use super::super::model::Contradicted;
use super::super::surrogate::Surrogate;
use super::super::{Cell, Proposal, Purpose};
use super::{Scored, Slipway, View};

/// A level beside the choice is run when it is feasible with this chance.
const LIKELY: f64 = 0.3;
/// A sampled limit that is met with this chance rules nothing out.
const SURE: f64 = 0.95;
/// Values that an axis may have for each of them to be run once.
const FEW_VALUES: usize = 6;

impl Slipway {
    /// The run that would show an error of the surrogate, if one is left.
    pub(super) fn doubt(&self, surrogate: &Surrogate<'_>, view: &View<'_>, scored: &[Scored]) -> Option<Proposal> {
        let contradicted = view.incumbent.map_or(Contradicted::Yes, |_| surrogate.contradicts_prior());
        let untold = self.model.untold(contradicted);
        self.beside_the_best(view, scored)
            .or_else(|| self.unseen_value(view, scored, untold))
            .or_else(|| self.unsampled(view, scored))
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
