//! The judge of a rollout: anytime-valid, one set of objectives, no thresholds to guess.
//!
//! Every window of ten seconds each pod reports exact counts. Two lanes compare the canary with its reference. *Lane F*
//! is the conditional hypergeometric law of each window ([`hypergeometric`]): fast, at a wide margin. *Lane S* is a
//! sequential t over blocks of a minute ([`process`]): slow, at a narrow margin, and robust to noise that a pod's units
//! share. Errors, units that hang, and objectives ([`config::CountedObjective`]) have processes of their own. Each is
//! an e-process: under "no harm" its expectation never exceeds one, so the judge may decide after every window. It
//! rolls back when the weighted mean of all reaches `1 / alpha` (Ville's inequality; Ramdas et al., arXiv 2210.01948).
//! Promotion needs evidence too: that the canary is *not* slower by the margin, at the percentile of an objective too.
//!
//! It cannot tell a slower revision from a canary pod that sits on a slower GPU for the whole rollout. The margin of at
//! least 9 % is there for that.

pub mod absolute;
mod at_percentile;
mod bands;
pub mod config;
mod decide;
mod expected;
pub mod guard;
pub mod hang;
pub mod hypergeometric;
mod load;
mod non_inferior;
pub mod observation;
mod pods;
pub mod power;
pub mod process;
pub mod quantile;
mod role;
pub mod rollout;
pub mod self_check;
mod sessions;
pub(crate) mod split;
pub mod state;
pub(crate) mod strata;
mod tasks;
pub mod verdict;

pub use config::{Change, Config, ConfigError, CostGuard, CountedObjective, OnInconclusive, Prediction, Step};
pub use expected::{Expectation, Reference};
pub use guard::{Evidence, Harm};
pub use observation::{Arm, Key, Observation, Window};
pub use rollout::Judge;
pub use state::StateError;
pub use verdict::{Blame, Judgement, Reason, Suspect, Verdict};

#[cfg(test)]
mod tests;
