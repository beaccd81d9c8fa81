//! The queries of the chart's dashboards, asked as Grafana asks them: over a time, with the variables chosen.

use std::{fs, path::PathBuf};

use reqwest::Url;
use serde::Serialize;
use serde_json::Value;
use slipway_e2e::{agents::path, namespace::Namespace};

/// Seconds between two points of a panel.
const STEP: u64 = 10;
/// The window of rates, which Grafana makes of the scrape interval.
const RATE_INTERVAL: &str = "1m";

/// A query of a panel with what Prometheus answered.
#[derive(Debug, Clone, Serialize)]
pub struct Drawn {
    /// The dashboard's title.
    pub dashboard: String,
    /// The panel's title.
    pub panel: String,
    /// How it is drawn: `timeseries`, `stat`, `table` and so on.
    pub kind: String,
    /// The unit of its values.
    pub unit: Value,
    /// Which of the panel's queries.
    pub number: usize,
    /// How its series are named.
    pub legend: String,
    /// The series, as `query_range` gives them.
    pub series: Vec<Value>,
}

impl Drawn {
    /// Whether it shows 0 and nothing else. What it cannot compute (`NaN`) shows nothing either.
    pub fn is_quiet(&self) -> bool {
        self.series.iter().all(is_zero)
    }
}

fn is_zero(series: &Value) -> bool {
    let values = series["values"].as_array().into_iter().flatten();
    values.filter_map(|value| value[1].as_str()?.parse::<f64>().ok()).all(|value| value == 0.0 || value.is_nan())
}

/// From and until when a dashboard shows, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// From.
    pub start: u64,
    /// Until.
    pub end: u64,
}

fn dashboards() -> Vec<Value> {
    let entries = fs::read_dir(path("../charts/slipway/files/dashboards")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap()).collect()
}

/// The expression with the values that a person chose: every namespace, and of agents one.
fn chosen(expression: &str, dashboard: &Value, namespace: &str, agent: &str) -> String {
    let is_of_one_agent = dashboard["uid"] == "slipway-agent";
    let namespaces = if is_of_one_agent { namespace } else { ".*" };
    let values = [("__rate_interval", RATE_INTERVAL), ("namespace", namespaces), ("agent", agent)];
    values.into_iter().fold(expression.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value)
    })
}

/// What every query of every panel shows. A dashboard of one agent is asked about each of them in turn, until one
/// shows more than 0: a person chooses the agent as well.
pub async fn drawn(monitoring: &Namespace, (namespace, agents): (&str, &[&str]), span: Span) -> Vec<Drawn> {
    let mut all = Vec::new();
    for dashboard in dashboards() {
        for panel in dashboard["panels"].as_array().unwrap() {
            for (number, target) in panel["targets"].as_array().into_iter().flatten().enumerate() {
                let mut series: Vec<Value> = Vec::new();
                for agent in agents {
                    let expression = chosen(target["expr"].as_str().unwrap(), &dashboard, namespace, agent);
                    let of_agent = over(monitoring, &expression, span).await;
                    if series.is_empty() || !of_agent.iter().all(is_zero) {
                        series = of_agent;
                    }
                    if !series.iter().all(is_zero) {
                        break;
                    }
                }
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                all.push(Drawn {
                    dashboard: text(&dashboard["title"]),
                    panel: text(&panel["title"]),
                    kind: text(&panel["type"]),
                    unit: panel["fieldConfig"]["defaults"]["unit"].clone(),
                    number,
                    legend: text(&target["legendFormat"]),
                    series,
                });
            }
        }
    }
    all
}

async fn over(monitoring: &Namespace, expression: &str, Span { start, end }: Span) -> Vec<Value> {
    let (start, end, step) = (start.to_string(), end.to_string(), STEP.to_string());
    let parameters = [("query", expression), ("start", &start), ("end", &end), ("step", &step)];
    let url = Url::parse_with_params("http://prometheus/api/v1/query_range", parameters).unwrap();
    let path = format!("{}?{}", url.path(), url.query().unwrap());
    let answer = monitoring.request("GET", "prometheus", &path, None).await.unwrap();
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}
