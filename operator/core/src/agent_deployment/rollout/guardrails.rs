//! User-defined guardrails: what Prometheus says of a canary, compared with a limit. Pure.

mod refusal;
mod scope;
mod tokens;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::v1alpha1::agent_deployment::{Guardrail, GuardrailStatus, RolloutStatus};

pub use self::{
    refusal::ScopeError,
    scope::{Scope, scoped},
};

/// Looks in a row at which a guardrail must be exceeded. One may be a scrape that came late, or a burst.
const LOOKS: i32 = 3;
/// Time between two looks, at least.
const EVERY: SignedDuration = SignedDuration::from_secs(50);
/// Age of the judge's figures at which they are written again. A look at the same time costs no write of its own.
const WRITTEN_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// Time between two looks, at most.
const AT_LEAST_EVERY: SignedDuration = SignedDuration::from_secs(120);
/// Characters of a problem that are kept.
const MAX_PROBLEM: usize = 256;

/// What Prometheus said of one guardrail.
#[derive(Debug, Clone, PartialEq)]
pub enum GuardrailView {
    /// It answered; a value is absent where there is no series.
    Values {
        /// The canary's.
        canary: Option<f64>,
        /// That of stable, or of the baseline that stands for it; asked for only where the limit is a multiple of it.
        stable: Option<f64>,
    },
    /// It did not answer, or not with a value.
    Failed {
        /// What went wrong.
        problem: String,
    },
}

/// What follows for a canary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guarded {
    /// Nothing.
    Clear,
    /// It is given no more traffic as yet.
    Held(String),
    /// It is rolled back.
    Harmed(String),
}

/// The expression for the pods of a revision, which reads metrics of their namespace alone.
///
/// # Errors
/// When the query cannot be held to the namespace.
pub fn expression(
    guardrail: &Guardrail,
    agent_deployment: &str,
    revision: &str,
    scope: Scope<'_>,
) -> Result<String, ScopeError> {
    // `NAME-REVISION-` and what the ReplicaSet appends, which is cut short behind a long name.
    let pods = format!("{agent_deployment}-{revision}-[a-z0-9]+(-[a-z0-9]{{5}})?");
    scoped(&guardrail.query.replace("$pods", &pods).replace("$namespace", scope.namespace), scope)
}

/// Whether it is time to look.
pub fn is_due(declared: &[Guardrail], rollout: &RolloutStatus, now: Timestamp) -> bool {
    let is_old = |since: &Time, age: SignedDuration| now.duration_since(since.0) >= age;
    let is_written_anew = rollout.judged_at.as_ref().is_none_or(|at| is_old(at, WRITTEN_EVERY));
    let is_due = |guardrail: &Guardrail| {
        let known = rollout.guardrails.iter().find(|known| known.name == guardrail.name);
        known.is_none_or(|known| is_old(&known.at, AT_LEAST_EVERY) || (is_written_anew && is_old(&known.at, EVERY)))
    };
    declared.iter().any(is_due)
}

/// Takes what was seen into the rollout, and says what follows.
pub fn judge(
    declared: &[Guardrail],
    views: &BTreeMap<String, GuardrailView>,
    now: Timestamp,
    rollout: &mut RolloutStatus,
) -> Guarded {
    let before = std::mem::take(&mut rollout.guardrails);
    let mut held = None;
    for guardrail in declared {
        let known = before.iter().find(|known| known.name == guardrail.name);
        let found = match views.get(&guardrail.name) {
            Some(view) => looked(guardrail, view, known.map_or(0, |known| known.exceeded), now),
            None => match known {
                Some(known) => known.clone(),
                None => {
                    held.get_or_insert_with(|| format!("guardrail {} has not been evaluated yet", guardrail.name));
                    continue;
                }
            },
        };
        if found.exceeded >= LOOKS {
            let harm = format!("guardrail {}, {LOOKS} times in a row", words(&found));
            rollout.guardrails.push(found);
            return Guarded::Harmed(harm);
        }
        if found.problem.is_some() || found.exceeded > 0 {
            held.get_or_insert_with(|| format!("guardrail {}", words(&found)));
        }
        rollout.guardrails.push(found);
    }
    held.map_or(Guarded::Clear, Guarded::Held)
}

fn looked(guardrail: &Guardrail, view: &GuardrailView, exceeded: i32, now: Timestamp) -> GuardrailStatus {
    let unknown = |problem: &str| GuardrailStatus {
        name: guardrail.name.clone(),
        value: None,
        value_millionths: None,
        limit: None,
        limit_millionths: None,
        problem: Some(problem.chars().take(MAX_PROBLEM).collect()),
        exceeded: 0,
        at: Time(now),
    };
    let (canary, stable) = match view {
        GuardrailView::Failed { problem } => return unknown(problem),
        GuardrailView::Values { canary: None, .. } => return unknown("its query has no value for the canary's pods"),
        GuardrailView::Values { canary: Some(canary), stable } => (*canary, *stable),
    };
    let limit = match (&guardrail.max, &guardrail.max_ratio_to_stable, stable) {
        (Some(max), _, _) => max.value(),
        (None, Some(ratio), Some(stable)) => ratio.value() * stable,
        (None, Some(_) | None, _) => return unknown("its query has no value for stable's pods"),
    };
    GuardrailStatus {
        name: guardrail.name.clone(),
        value: Some(number(canary)),
        value_millionths: millionths(canary),
        limit: Some(number(limit)),
        limit_millionths: millionths(limit),
        problem: None,
        exceeded: if canary > limit { exceeded + 1 } else { 0 },
        at: Time(now),
    }
}

/// `heat is 91, at most 85 is allowed`.
fn words(found: &GuardrailStatus) -> String {
    let GuardrailStatus { name, value, limit, problem, .. } = found;
    match (value, limit, problem) {
        (Some(value), Some(limit), _) => format!("{name} is {value}, at most {limit} is allowed"),
        (_, _, problem) => format!("{name}: {}", problem.as_deref().unwrap_or("it has no value")),
    }
}

/// A number in millionths, for programs; absent if it is not a number, or beyond the API's range.
fn millionths(value: f64) -> Option<i64> {
    let millionths = (value * 1e6).round();
    (millionths.abs() < i64::MAX as f64).then_some(millionths as i64)
}

/// A number with four significant digits, as people write it.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{}", value.abs());
    }
    let magnitude = value.abs().log10().floor() as i32;
    let places = usize::try_from(3 - magnitude).unwrap_or(0).min(9);
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests;
