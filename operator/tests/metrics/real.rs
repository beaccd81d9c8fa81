//! Every query of every panel, asked of Prometheus itself, on what the programs export.

#[path = "../budgets/server.rs"]
mod server;

use std::{
    fmt::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use pretty_assertions::assert_eq;

use self::server::Server;
use super::{
    dashboards::{Dashboard, dashboards},
    exported::{Series, of_the_gpus, of_the_operator, of_the_runtime},
};

/// Seconds of samples, and between two of them.
const SPAN: u64 = 2 * 3_600;
const STEP: u64 = 60;
/// A pod of each revision of the agent, with the revision.
const PODS: [(&str, &str); 2] = [
    ("support-0123456789-6d4cf56db6-abcde", "support-0123456789"),
    ("support-1123456789-6d4cf56db6-abcde", "support-1123456789"),
];

/// A series as Prometheus keeps it, with samples up to now. What counts goes up evenly.
fn samples(series: &Series, target: &[(&str, &str)], now: u64) -> String {
    // Labels of the series win, as the monitors say.
    let of_target = target.iter().filter(|(label, _)| !series.labels.contains_key(*label));
    let own = series.labels.iter().map(|(label, value)| (label.as_str(), value.as_str()));
    let labels = own.chain(of_target.copied()).filter(|(_, value)| !value.is_empty());
    let labels: Vec<_> = labels.map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let is_counter = ["_total", "_bucket", "_sum", "_count"].iter().any(|suffix| series.name.ends_with(suffix));
    let mut text = String::new();
    for step in 0..=SPAN / STEP {
        let value = if is_counter { series.value * step as f64 } else { series.value };
        let at = now - SPAN + step * STEP;
        writeln!(text, "{}{{{}}} {value} {at}", series.name, labels.join(",")).unwrap();
    }
    text
}

/// What Prometheus has scraped of the operator and of two pods.
fn scraped(now: u64) -> String {
    let operator = [("namespace", "slipway-system"), ("pod", "slipway-operator-0"), ("job", "slipway-operator")];
    let mut text: String = of_the_operator().iter().map(|series| samples(series, &operator, now)).collect();
    for (pod, revision) in PODS {
        for mut series in of_the_runtime().into_iter().chain(of_the_gpus()) {
            if let Some(label) = series.labels.get_mut("revision") {
                revision.clone_into(label);
            }
            text += &samples(&series, &[("namespace", "team"), ("pod", pod), ("job", "slipway-agents")], now);
        }
    }
    text + "# EOF\n"
}

#[tokio::test]
#[ignore = "needs Prometheus: make test-alerts"]
async fn every_query_of_every_panel_has_data_with_the_labels_of_its_legend() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let server = Server::start(&scraped(now));
    let prometheus = server.client().await;
    let queries: Vec<_> = dashboards().iter().flat_map(Dashboard::queries).collect();
    assert!(queries.len() > 50, "{}", queries.len());
    let mut problems = Vec::new();
    for query in queries {
        match prometheus.ask("team", &query.expr).await {
            Ok(series) if series.is_empty() => problems.push(format!("{}: no data for {}", query.at, query.expr)),
            Ok(series) => {
                let lacks = |label: &&String| series.iter().any(|of| !of.labels.contains_key(*label));
                let lacking: Vec<_> = query.legend.iter().filter(lacks).collect();
                if !lacking.is_empty() {
                    problems.push(format!("{}: a series of {} has no {lacking:?}", query.at, query.expr));
                }
            }
            Err(error) => problems.push(format!("{}: {error:?} for {}", query.at, query.expr)),
        }
    }
    assert_eq!(problems, Vec::<String>::new());
}
