//! What tenants may still ask for: requests and tokens of a minute, and runs at once. The time is an argument.
//!
//! Each budget fills up evenly, up to that of one minute. A request needs its whole share before it is admitted. Tokens
//! are charged when a run has ended, so that a budget may go below zero: its tenant waits until it is above.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use slipway_runtime_config::{Rate, Rates};

use crate::clock::Timestamp;

use super::tenant::Tenant;

/// Parts of a request or of a token: each limit fills a budget by as many in a microsecond as it allows in a minute.
const PARTS: i64 = 60_000_000;
/// Tenants that are remembered before those are forgotten who have used nothing lately.
const REMEMBERED: usize = 4_096;
/// A run's end is not known, so a client asks again soon.
const UNTIL_A_RUN_ENDS: Duration = Duration::from_secs(1);

/// What tenants have used of their rates.
#[derive(Debug)]
pub struct Meter(Mutex<State>);

#[derive(Debug)]
struct State {
    rates: Rates,
    tenants: HashMap<Tenant, Used>,
}

#[derive(Clone, Copy, Debug)]
struct Used {
    requests: Budget,
    tokens: Budget,
    runs: u32,
}

/// What is left of a budget.
#[derive(Clone, Copy, Debug)]
struct Budget {
    parts: i64,
    at: Timestamp,
}

/// A limit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Requests in a minute.
    Requests,
    /// Tokens in a minute.
    Tokens,
    /// Runs in flight.
    Runs,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Tokens, Self::Runs];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_minute",
            Self::Tokens => "tokens_per_minute",
            Self::Runs => "runs_at_once",
        }
    }
}

/// A tenant has used up a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Which one.
    pub limit: Limit,
    /// What it allows.
    pub allowed: u32,
    /// When another attempt may succeed.
    pub retry_after: Duration,
}

/// How a tenant stands with its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// With its requests.
    pub requests: Option<Left>,
    /// With its tokens.
    pub tokens: Option<Left>,
}

/// What is left of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// What it allows in a minute.
    pub allowed: u32,
    /// What is left of it now.
    pub remaining: u32,
    /// When all of it is there again.
    pub full_after: Duration,
}

/// A place among a tenant's runs; dropping it frees the place.
#[derive(Debug)]
pub struct TenantPlace {
    meter: Arc<Meter>,
    tenant: Tenant,
}

impl Meter {
    /// Nobody has used anything yet.
    pub fn new(rates: Rates) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { rates, tenants: HashMap::new() })))
    }

    /// Holds tenants to these rates from now on. What they have used stays used.
    pub fn set_rates(&self, rates: Rates) {
        self.state().rates = rates;
    }

    /// Takes a request from a tenant's budget.
    ///
    /// # Errors
    /// When there is none left.
    pub fn take_request(&self, tenant: &Tenant, now: Timestamp) -> Result<(), Exceeded> {
        let mut state = self.state();
        let (rate, used) = state.of(tenant, now);
        let Some(allowed) = rate.requests_per_minute else { return Ok(()) };
        if used.requests.parts < PARTS {
            let retry_after = used.requests.until(PARTS, allowed);
            return Err(Exceeded { limit: Limit::Requests, allowed, retry_after });
        }
        used.requests.parts -= PARTS;
        Ok(())
    }

    /// Takes a place for a run.
    ///
    /// # Errors
    /// When the tenant's tokens are used up, or its places taken.
    pub fn take_place(self: &Arc<Self>, tenant: &Tenant, now: Timestamp) -> Result<TenantPlace, Exceeded> {
        let mut state = self.state();
        let (rate, used) = state.of(tenant, now);
        if let Some(allowed) = rate.tokens_per_minute.filter(|_| used.tokens.parts < PARTS) {
            let retry_after = used.tokens.until(PARTS, allowed);
            return Err(Exceeded { limit: Limit::Tokens, allowed, retry_after });
        }
        if let Some(allowed) = rate.runs_at_once.filter(|allowed| used.runs >= *allowed) {
            return Err(Exceeded { limit: Limit::Runs, allowed, retry_after: UNTIL_A_RUN_ENDS });
        }
        used.runs += 1;
        Ok(TenantPlace { meter: Arc::clone(self), tenant: tenant.clone() })
    }

    /// Takes the tokens of a run that has ended from its tenant's budget.
    pub fn charge(&self, tenant: &Tenant, tokens: u64, now: Timestamp) {
        let parts = i64::try_from(tokens).unwrap_or(i64::MAX).saturating_mul(PARTS);
        let mut state = self.state();
        let (rate, used) = state.of(tenant, now);
        if rate.tokens_per_minute.is_some() {
            used.tokens.parts = used.tokens.parts.saturating_sub(parts);
        }
    }

    /// How a tenant stands with its limits.
    pub fn standing(&self, tenant: &Tenant, now: Timestamp) -> Standing {
        let mut state = self.state();
        let (rate, used) = state.of(tenant, now);
        Standing {
            requests: rate.requests_per_minute.map(|allowed| used.requests.left(allowed)),
            tokens: rate.tokens_per_minute.map(|allowed| used.tokens.left(allowed)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TenantPlace {
    fn drop(&mut self) {
        if let Some(used) = self.meter.state().tenants.get_mut(&self.tenant) {
            used.runs -= 1;
        }
    }
}

impl State {
    /// The rate of a tenant, and what it has used up to now.
    fn of(&mut self, tenant: &Tenant, now: Timestamp) -> (Rate, &mut Used) {
        if !self.tenants.contains_key(tenant) && self.tenants.len() >= REMEMBERED {
            let Self { rates, tenants } = self;
            tenants.retain(|tenant, used| {
                let rate = rates.of(tenant.as_str());
                used.fill(rate, now);
                used.runs > 0 || !used.is_full(rate)
            });
        }
        let rate = self.rates.of(tenant.as_str());
        let used = self.tenants.entry(tenant.clone()).or_insert_with(|| Used::nothing(rate, now));
        used.fill(rate, now);
        (rate, used)
    }
}

impl Used {
    fn nothing(rate: Rate, now: Timestamp) -> Self {
        let full = |allowed| Budget { parts: most(allowed), at: now };
        Self { requests: full(rate.requests_per_minute), tokens: full(rate.tokens_per_minute), runs: 0 }
    }

    fn fill(&mut self, rate: Rate, now: Timestamp) {
        self.requests.fill(rate.requests_per_minute, now);
        self.tokens.fill(rate.tokens_per_minute, now);
    }

    fn is_full(&self, rate: Rate) -> bool {
        self.requests.parts >= most(rate.requests_per_minute) && self.tokens.parts >= most(rate.tokens_per_minute)
    }
}

impl Budget {
    fn fill(&mut self, allowed: Option<u32>, now: Timestamp) {
        let elapsed = i64::try_from(now.micros_since(self.at)).unwrap_or(i64::MAX);
        let filled = elapsed.saturating_mul(i64::from(allowed.unwrap_or(0)));
        self.parts = match allowed {
            Some(_) => self.parts.saturating_add(filled).min(most(allowed)),
            // A limit that comes later begins full.
            None => i64::MAX,
        };
        self.at = self.at.max(now);
    }

    /// How long it takes until there are so many parts.
    fn until(&self, parts: i64, allowed: u32) -> Duration {
        let missing = u64::try_from(parts.saturating_sub(self.parts)).unwrap_or(0);
        Duration::from_micros(missing.div_ceil(u64::from(allowed.max(1))))
    }

    fn left(&self, allowed: u32) -> Left {
        let remaining = u32::try_from(self.parts.max(0) / PARTS).unwrap_or(u32::MAX);
        Left { allowed, remaining, full_after: self.until(most(Some(allowed)), allowed) }
    }
}

/// The parts of a full budget.
fn most(allowed: Option<u32>) -> i64 {
    allowed.map_or(i64::MAX, |allowed| i64::from(allowed) * PARTS)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use slipway_runtime_config::TenantRate;

    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_770_000_000_000_000);

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    fn each(rate: Rate) -> Arc<Meter> {
        Meter::new(Rates { default: rate, tenants: Vec::new() })
    }

    fn after(seconds: u64) -> Timestamp {
        START.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn requests_of_a_minute_may_come_at_once_and_then_as_they_fill_up() {
        let meter = each(Rate { requests_per_minute: Some(3), ..Rate::default() });
        let acme = tenant("acme");
        assert_eq!([(); 3].map(|()| meter.take_request(&acme, START)), [Ok(()); 3]);
        let exceeded =
            |seconds| Err(Exceeded { limit: Limit::Requests, allowed: 3, retry_after: Duration::from_secs(seconds) });
        assert_eq!(meter.take_request(&acme, START), exceeded(20));
        assert_eq!(meter.take_request(&acme, after(19)), exceeded(1));
        assert_eq!(meter.take_request(&acme, after(20)), Ok(()));
        assert_eq!(meter.take_request(&tenant("other"), after(20)), Ok(()), "each has its own");
        let full = Left { allowed: 3, remaining: 3, full_after: Duration::ZERO };
        assert_eq!(meter.standing(&acme, after(500)), Standing { requests: Some(full), tokens: None });
    }

    #[test]
    fn tokens_that_were_used_beyond_the_budget_are_waited_for() {
        let meter = each(Rate { tokens_per_minute: Some(60), ..Rate::default() });
        let acme = tenant("acme");
        drop(meter.take_place(&acme, START).unwrap());
        meter.charge(&acme, 90, START);
        let retry_after = Duration::from_secs(31);
        let expected = Exceeded { limit: Limit::Tokens, allowed: 60, retry_after };
        assert_eq!(meter.take_place(&acme, START).map(drop), Err(expected));
        let left = Left { allowed: 60, remaining: 0, full_after: Duration::from_secs(90) };
        assert_eq!(meter.standing(&acme, START), Standing { requests: None, tokens: Some(left) });
        assert!(meter.take_place(&acme, after(31)).is_ok());
    }

    #[test]
    fn places_are_freed_and_a_tenant_may_have_more_than_others() {
        let own = TenantRate { name: "acme".into(), rate: Rate { runs_at_once: Some(2), ..Rate::default() } };
        let default = Rate { runs_at_once: Some(1), ..Rate::default() };
        let meter = Meter::new(Rates { default, tenants: vec![own] });
        let (acme, other) = (tenant("acme"), tenant("other"));
        let first = meter.take_place(&acme, START).unwrap();
        let _second = meter.take_place(&acme, START).unwrap();
        let _others = meter.take_place(&other, START).unwrap();
        let full = |allowed| Err(Exceeded { limit: Limit::Runs, allowed, retry_after: Duration::from_secs(1) });
        assert_eq!([&acme, &other].map(|tenant| meter.take_place(tenant, START).map(drop)), [full(2), full(1)]);
        drop(first);
        assert!(meter.take_place(&acme, START).is_ok());
    }

    #[test]
    fn edited_rates_hold_at_once_and_what_was_used_stays_used() {
        let meter = each(Rate { requests_per_minute: Some(10), ..Rate::default() });
        let acme = tenant("acme");
        (0..10).for_each(|_| meter.take_request(&acme, START).unwrap());
        meter.set_rates(Rates { default: Rate { requests_per_minute: Some(60), ..Rate::default() }, tenants: vec![] });
        assert!(meter.take_request(&acme, START).is_err());
        assert!(meter.take_request(&acme, after(1)).is_ok());
        meter.set_rates(Rates::default());
        assert_eq!([(); 5].map(|()| meter.take_request(&acme, after(1))), [Ok(()); 5]);
        assert_eq!(meter.standing(&acme, after(1)), Standing::default());
    }

    #[test]
    fn tenants_that_use_nothing_are_forgotten() {
        let meter = each(Rate { requests_per_minute: Some(1), ..Rate::default() });
        let kept = meter.take_place(&tenant("runs"), START).unwrap();
        for number in 0..REMEMBERED {
            meter.take_request(&tenant(&format!("tenant-{number}")), START).unwrap();
        }
        meter.take_request(&tenant("new"), after(60)).unwrap();
        assert_eq!(meter.state().tenants.len(), 2, "who runs, and who is new");
        drop(kept);
    }

    proptest! {
        /// Whatever the pauses, no more is admitted than the limit and what has filled up since.
        #[test]
        fn no_pattern_of_requests_gets_more_than_the_rate(
            allowed in 1..100_u32,
            pauses in prop::collection::vec(0..5_000_000_u64, 1..200),
        ) {
            let meter = each(Rate { requests_per_minute: Some(allowed), ..Rate::default() });
            let acme = tenant("acme");
            let mut now = START;
            let mut admitted = 0_u64;
            for pause in pauses {
                now = now.plus(Duration::from_micros(pause));
                match meter.take_request(&acme, now) {
                    Ok(()) => admitted += 1,
                    Err(exceeded) => {
                        now = now.plus(exceeded.retry_after);
                        prop_assert_eq!(meter.take_request(&acme, now), Ok(()));
                        admitted += 1;
                    }
                }
            }
            let most = u64::from(allowed) + u64::from(allowed) * now.micros_since(START) / 60_000_000;
            prop_assert!(admitted <= most, "{admitted} of {most}");
        }
    }
}
