//! Drift in production.
//!
//! Windows are compared with the first 24 hours after the promotion. The workload is tested first: when what people
//! ask has changed, a change of latency says nothing about the engine. Behaviour is compared within strata that the
//! baseline has seen, by a sequential t over blocks of ten minutes with one restart a day ([`live`]). The test may be
//! read after every block for months. What has another identity is [`Incomparable`], never drift.

pub mod baseline;
pub mod live;
mod signal;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// What a measurement was made of: GPU product, driver, engine digest, workload and so on, by name.
pub type Identity = BTreeMap<String, String>;

/// Two measurements are of different things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incomparable {
    /// The first field that differs.
    pub field: String,
    /// Its value in the baseline; `None` when absent.
    pub baseline: Option<String>,
    /// Its value now; `None` when absent.
    pub current: Option<String>,
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
        write!(f, "{} was {} and is {}", self.field, show(&self.baseline), show(&self.current))
    }
}

/// Checks that two measurements are of the same thing.
///
/// # Errors
/// [`Incomparable`], the first field by name that differs.
pub fn compare_identities(baseline: &Identity, current: &Identity) -> Result<(), Incomparable> {
    let fields: std::collections::BTreeSet<&String> = baseline.keys().chain(current.keys()).collect();
    let differing = fields.into_iter().find(|field| baseline.get(*field) != current.get(*field));
    differing.map_or(Ok(()), |field| {
        let value = |identity: &Identity| identity.get(field).cloned();
        Err(Incomparable { field: field.clone(), baseline: value(baseline), current: value(current) })
    })
}
