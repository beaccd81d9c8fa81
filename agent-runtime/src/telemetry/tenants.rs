//! Metrics of tenants, and of those who are not let in. Tenants beyond a number share a label: labels must be bounded.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Tenants with a label of their own: those that came first.
const NAMED: usize = 100;
/// The label of all others.
const OTHERS: &str = "_others";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TenantLabel {
    tenant: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    tenant: String,
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Counts by tenant.
#[derive(Debug)]
pub(super) struct TenantMetrics {
    runs: Family<TenantLabel, Counter>,
    tokens: Family<TenantLabel, Counter>,
    limited: Family<LimitLabels, Counter>,
    denied: Family<ReasonLabel, Counter>,
    named: Mutex<BTreeSet<String>>,
}

impl TenantMetrics {
    /// Registers every metric. Reasons start at zero, so that rates exist from the first scrape.
    pub(super) fn new(registry: &mut Registry, reasons: &[&'static str]) -> Self {
        let metrics = Self {
            runs: Family::default(),
            tokens: Family::default(),
            limited: Family::default(),
            denied: Family::default(),
            named: Mutex::default(),
        };
        let r = registry;
        r.register("slipway_tenant_runs", "Runs that were admitted, by tenant", metrics.runs.clone());
        r.register("slipway_tenant_tokens", "Tokens that runs read and wrote, by tenant", metrics.tokens.clone());
        r.register("slipway_tenant_limited", "Requests refused because of a tenant's rate", metrics.limited.clone());
        r.register("slipway_requests_denied", "Requests without a token that is accepted", metrics.denied.clone());
        for reason in reasons {
            drop(metrics.denied.get_or_create(&ReasonLabel { reason }));
        }
        metrics
    }

    pub(super) fn run_admitted(&self, tenant: &str) {
        self.runs.get_or_create(&TenantLabel { tenant: self.label(tenant) }).inc();
    }

    pub(super) fn charged(&self, tenant: &str, tokens: u64) {
        self.tokens.get_or_create(&TenantLabel { tenant: self.label(tenant) }).inc_by(tokens);
    }

    pub(super) fn limited(&self, tenant: &str, limit: &'static str) {
        self.limited.get_or_create(&LimitLabels { tenant: self.label(tenant), limit }).inc();
    }

    pub(super) fn denied(&self, reason: &'static str) {
        self.denied.get_or_create(&ReasonLabel { reason }).inc();
    }

    fn label(&self, tenant: &str) -> String {
        // No code panics while it holds the lock.
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if !named.contains(tenant) {
            if named.len() >= NAMED {
                return OTHERS.to_owned();
            }
            named.insert(tenant.to_owned());
        }
        tenant.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_thousand_tenants_have_a_hundred_labels_and_one() {
        let mut registry = Registry::default();
        let metrics = TenantMetrics::new(&mut registry, &[]);
        for number in 0..1_000 {
            metrics.run_admitted(&format!("tenant-{number}"));
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let mut series: Vec<_> = text.lines().filter(|line| line.starts_with("slipway_tenant_runs_total")).collect();
        series.sort_unstable();
        assert_eq!((series.len(), series[0]), (101, r#"slipway_tenant_runs_total{tenant="_others"} 900"#));
    }
}
