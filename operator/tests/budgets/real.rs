//! Prometheus itself, on samples that were written for it.

use std::{
    fmt::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use slipway_crds::v1alpha1::agent_deployment::Baseline;
use slipway_operator::promql::Series;
use slipway_operator_core::agent_deployment::monitoring::build::alerts::{Scope, budget_queries};

use super::server::Server;

/// Seconds of samples.
const SPAN: u64 = 3 * 3_600;

/// Samples a minute apart of a counter that goes up evenly to `total`, up to now.
fn rising(series: &str, total: f64, now: u64) -> String {
    let mut text = String::new();
    for step in 0..=SPAN / 60 {
        let value = total * step as f64 * 60.0 / SPAN as f64;
        writeln!(text, "{series} {value} {}", now - SPAN + step * 60).unwrap();
    }
    text
}

/// Counters of an agent `support` and of another one whose name goes on after it.
fn samples(now: u64) -> String {
    let of = |name: &str, pod: &str, labels: &str| format!(r#"{name}{{namespace="team",pod="{pod}",{labels}}}"#);
    let (own, other) = ("support-0123456789-6d4cf56db6-abcde", "support-eu-0123456789-6d4cf56db6-abcde");
    let slo = "slipway_slo_events_total";
    let runs = "slipway_runs_total";
    [
        format!("# TYPE {} counter\n", "slipway_slo_events"),
        rising(&of(slo, own, r#"objective="reply",good="true""#), 950.0, now),
        rising(&of(slo, own, r#"objective="reply",good="false""#), 50.0, now),
        rising(&of(slo, other, r#"objective="reply",good="false""#), 7_000.0, now),
        format!("# TYPE {} counter\n", "slipway_runs"),
        rising(&of(runs, own, r#"outcome="answered""#), 990.0, now),
        rising(&of(runs, own, r#"outcome="model_error""#), 10.0, now),
        rising(&of(runs, own, r#"outcome="cancelled""#), 300.0, now),
        "# EOF\n".to_owned(),
    ]
    .concat()
}

fn runs(series: &[Series], objective: &str, good: &str) -> f64 {
    let is_it = |series: &&Series| series.labels["objective"] == objective && series.labels["good"] == good;
    series.iter().find(is_it).unwrap_or_else(|| panic!("{series:?}")).value
}

#[tokio::test]
#[ignore = "needs Prometheus: make test-alerts"]
async fn prometheus_counts_the_runs_of_the_agents_own_pods() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let server = Server::start(&samples(now));
    let prometheus = server.client().await;
    let (runbooks, baseline) = (None, Baseline::Stable);
    let queries = budget_queries(&Scope { namespace: "team", name: "support", replicas: 1, runbooks, baseline });
    let answer = prometheus.ask("team", &queries.runs).await.unwrap();
    let found = [("reply", "true"), ("reply", "false"), ("slo.errorRate", "true"), ("slo.errorRate", "false")]
        .map(|(objective, good)| runs(&answer, objective, good));
    // `increase` extrapolates to the ends of its window by half a step.
    for (found, expected) in found.into_iter().zip([950.0, 50.0, 990.0, 10.0]) {
        assert!((found / expected - 1.0).abs() < 0.01, "{found} for {expected}");
    }
    let seconds = prometheus.ask("team", &queries.seconds).await.unwrap()[0].value;
    assert!((SPAN as f64 - 3_600.0..=SPAN as f64 + 60.0).contains(&seconds), "{seconds}");
}
