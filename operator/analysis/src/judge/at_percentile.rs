//! Whether the canary is no slower than stable at one percentile, at any time. Pure.
//!
//! A time-uniform confidence sequence of a quantile, in its betting form. A ratio of the arms' quantiles is left in it
//! as long as the e-process against it stays below `1 / alpha`. (Howard and Ramdas, Bernoulli 28(3) 2022, arXiv
//! 1906.09712, section 3; Waudby-Smith and Ramdas, arXiv 2010.09686.) A promotion asks for one ratio, `1 + margin`.
//! The bet is on units above stable's percentile, for the canary above it by the margin: how many of them are its own.
//! Given their number in a window and a stratum, that is hypergeometric where the arms' shares are equal ([`Table`]).
//! So a drift that both arms have cancels, and so do weights that change from step to step. Pooled quantiles of each
//! arm would not: a step's weight would be mistaken for its latency.
//!
//! *Pods are clusters.* Units of a pod share its node, so a pod has an effect of its own on the odds. The variance of
//! the effects follows from how far the pods of an arm have differed from one another since the rollout opened.
//! (DerSimonian and Laird, Controlled Clinical Trials 7, 1986.) The log e-value is divided by the design effect that
//! follows (Rao and Scott, Biometrics 48, 1992). It is never below one, so that where units are independent the
//! e-process keeps its guarantee exactly (Ville). Where they are not, it is that approximation. Two pods of which
//! nobody can tell whether they differ by themselves or by their revision are what the margin is for.

use std::collections::BTreeSet;

use super::{
    hypergeometric::Table,
    observation::{Arm, Arms, OfPod},
    process::ln_add,
    strata::Strata,
};

/// The odds of the canary's exceedance at which it is bet, and the weight of each. At a margin of 9 % an equal canary
/// has odds between 0.9 (heavy tails) and 0.6 (light ones).
const BETS: [(f64, f64); 5] = [(0.85, 0.3), (0.7, 0.35), (0.5, 0.2), (0.3, 0.1), (0.1, 0.05)];

const MAX_BETS: usize = BETS.len();

/// What the mixture over bets costs an equal canary: the logarithm of one over the weight of the best bet, and what it
/// misses between two of them.
const LN_COST: f64 = 1.2;

/// How many pods of an arm are told apart, those that were seen first: enough to see whether pods differ.
const MAX_OF_ARM: usize = 3;

/// The same for both arms.
pub(super) const MAX_CLUSTERS: usize = 2 * MAX_OF_ARM;

/// The comparison at one percentile.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AtPercentile {
    /// The canary's units above the percentile, beyond its share of them, since the rollout opened.
    pub excess: f32,
    /// The variance of that, which is the information about the odds.
    pub information: f32,
    /// The log e-value of each bet.
    pub ln_bets: [f32; MAX_BETS],
    /// The most pods that reported in a window: canary, stable.
    pub most_pods: [u8; 2],
    /// The first pods of each arm, in the order of their ids.
    pub pods: Vec<Cluster>,
}

/// A pod, compared with the other pods of its arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cluster {
    /// Half of the hash of its name.
    pub id: u16,
    pub arm: Arm,
    /// Its units above the percentile, beyond its share of its arm's.
    pub excess: f32,
    /// The variance of that, where units are independent.
    pub variance: f32,
}

/// How the units of a comparison depend on each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Clustering {
    /// The variance of the pods' effects on the log odds.
    pub variance: f64,
    /// One over the number of pods of an arm, summed over both.
    pub concentration: f64,
}

impl Clustering {
    /// How many units are worth one, at so much information.
    fn design_effect(self, information: f64) -> f64 {
        1.0 + self.variance * self.concentration * information
    }
}

/// How much an equal canary lies below the margin at the percentile, per unit of traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Contrast {
    /// Its log odds of being above, against stable's.
    pub ln_odds: f64,
    /// Information per unit of each arm where both have as many.
    pub per_unit: f64,
}

impl Contrast {
    /// The contrast from sums over stable compared with itself at the margin: excess, variance, and units.
    pub fn new(excess: f64, variance: f64, units: f64) -> Option<Self> {
        let is_known = variance >= 1.0 && excess < 0.0 && units >= 1.0;
        is_known.then(|| Self { ln_odds: excess / variance, per_unit: variance / units })
    }

    /// The information from which an equal canary is expected to reach a log e-value. `None` where no amount does,
    /// because the pods of the arms differ too much.
    pub fn needed_information(self, ln_e: f64, clustering: Clustering) -> Option<f64> {
        let growth = self.ln_odds * self.ln_odds / 2.0;
        let lost = clustering.variance * clustering.concentration * ln_e;
        (growth > lost).then(|| (ln_e + LN_COST) / (growth - lost))
    }

    /// Units per arm, both arms alike, that carry so much information.
    pub fn units(self, information: f64) -> f64 {
        information / self.per_unit
    }
}

impl AtPercentile {
    /// Takes in the table of one stratum: units above the percentile, and above it by the margin for the canary.
    pub fn add(&mut self, table: Table) {
        self.excess = (f64::from(self.excess) + table.excess()) as f32;
        self.information = (f64::from(self.information) + table.variance()) as f32;
    }

    /// Bets on the table of one stratum.
    pub fn bet(&mut self, table: Table) {
        for (ln_bet, (psi, _)) in self.ln_bets.iter_mut().zip(BETS) {
            *ln_bet = (f64::from(*ln_bet) + table.ln_e_value(psi)) as f32;
        }
    }

    /// Compares the pods of each arm with one another, in the strata that are compared.
    pub fn compare_pods(&mut self, arms: &Arms, strata: &Strata, (level, margin): (usize, u16)) {
        for (arm, margin) in [(Arm::Canary, margin), (Arm::Stable, 0)] {
            let (sum, other) = match arm {
                Arm::Canary => (&arms.canary, &arms.stable),
                Arm::Stable => (&arms.stable, &arms.canary),
            };
            let pods: BTreeSet<u32> = sum.pods.iter().map(|of| of.pod).collect();
            let most = &mut self.most_pods[usize::from(arm == Arm::Stable)];
            *most = (*most).max(u8::try_from(pods.len()).unwrap_or(u8::MAX));
            for OfPod { pod, stratum, values } in &sum.pods {
                let (Some(known), Some(all)) = (strata.get(stratum), sum.strata.get(stratum)) else { continue };
                if let Some(cluster) = self.cluster((*pod >> 16) as u16, arm)
                    && other.strata.contains_key(stratum)
                {
                    let edge = known.edge(level).saturating_add(margin);
                    let units = values.count();
                    cluster.add(Table {
                        canary: units,
                        stable: all.count().saturating_sub(units),
                        events: all.count_from(edge),
                        canary_events: values.count_from(edge),
                    });
                }
            }
        }
    }

    /// The pod's memory, where its arm has room for it.
    fn cluster(&mut self, id: u16, arm: Arm) -> Option<&mut Cluster> {
        let known = self.pods.binary_search_by_key(&(arm, id), |pod| (pod.arm, pod.id));
        let position = match known {
            Ok(position) => position,
            Err(_) if self.pods.iter().filter(|pod| pod.arm == arm).count() == MAX_OF_ARM => return None,
            Err(position) => {
                self.pods.insert(position, Cluster { id, arm, excess: 0.0, variance: 0.0 });
                position
            }
        };
        self.pods.get_mut(position)
    }

    /// How the pods differ from one another, as far as they have shown.
    pub fn clustering(&self) -> Clustering {
        let (mut beyond, mut scale) = (0.0, 0.0);
        for (arm, most) in [Arm::Canary, Arm::Stable].into_iter().zip(self.most_pods).filter(|(_, most)| *most > 1) {
            // A pod is compared with the others, whose mean has an effect too.
            let both = f64::from(most) / f64::from(most - 1);
            for pod in self.pods.iter().filter(|pod| pod.arm == arm) {
                let (excess, variance) = (f64::from(pod.excess), f64::from(pod.variance));
                beyond += excess * excess - variance;
                scale += variance * variance * both;
            }
        }
        let variance = if scale > 0.0 { (beyond / scale).max(0.0) } else { 0.0 };
        let concentration = self.most_pods.into_iter().filter(|most| *most > 0).map(|most| 1.0 / f64::from(most)).sum();
        Clustering { variance, concentration }
    }

    /// The log e-value of a canary that is above the margin no more often than stable is above its percentile.
    pub fn ln_below(&self) -> f64 {
        let bets = self.ln_bets.iter().zip(BETS);
        let ln_e = bets.fold(f64::NEG_INFINITY, |sum, (ln, (_, weight))| ln_add(sum, f64::from(*ln) + weight.ln()));
        if ln_e > 0.0 { ln_e / self.clustering().design_effect(self.information.into()) } else { ln_e }
    }
}

impl Cluster {
    fn add(&mut self, table: Table) {
        self.excess = (f64::from(self.excess) + table.excess()) as f32;
        self.variance = (f64::from(self.variance) + table.variance()) as f32;
    }
}

#[cfg(test)]
mod tests;
