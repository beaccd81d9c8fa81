//! The chart's dashboards: Grafana can load them, and every query names what is exported.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::agent_deployment::{Baseline, ServiceLevelObjectives};
use slipway_operator_core::{
    agent_deployment::monitoring::build::alerts::{Scope, rules},
    prometheus::Rule,
};

use super::{
    exported::{self, OF_THE_TARGET},
    file,
    queries::{Named, named},
};

const FOLDER: &str = "charts/slipway/files/dashboards";
/// Version of the format, of Grafana 11.
const SCHEMA: u64 = 39;
/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;
/// Variables that Grafana has itself, with values as a dashboard of an hour gives them.
const OF_GRAFANA: [(&str, &str); 2] = [("__rate_interval", "5m"), ("__range", "1h")];
/// Values of a dashboard's own variables, as the recorded series have them.
const CHOSEN: [(&str, &str); 2] = [("namespace", "team"), ("agent", "support")];

/// A dashboard with its file's name.
pub struct Dashboard {
    name: String,
    json: Value,
}

/// A query of a panel.
#[derive(Debug, Clone)]
pub struct Query {
    /// Dashboard and panel, for messages.
    pub at: String,
    /// The expression, its variables replaced.
    pub expr: String,
    /// Labels that its legend shows.
    pub legend: BTreeSet<String>,
    written: String,
}

/// All dashboards, by name.
pub fn dashboards() -> Vec<Dashboard> {
    let entries = std::fs::read_dir(file(FOLDER)).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| Dashboard {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        json: serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap(),
    };
    paths.iter().map(read).collect()
}

impl Dashboard {
    fn panels(&self) -> &[Value] {
        self.json["panels"].as_array().unwrap()
    }

    fn variables(&self) -> &[Value] {
        self.json["templating"]["list"].as_array().unwrap()
    }

    /// The queries of all panels.
    pub fn queries(&self) -> Vec<Query> {
        let of_panel = |panel: &Value| -> Vec<Query> {
            let targets = panel["targets"].as_array().cloned().unwrap_or_default();
            let query = |target: &Value| {
                let written = text(&target["expr"]);
                Query {
                    at: format!("{}, {}", self.name, text(&panel["title"])),
                    expr: with_values(&written),
                    legend: placeholders(&text(&target["legendFormat"])),
                    written,
                }
            };
            targets.iter().map(query).collect()
        };
        self.panels().iter().flat_map(of_panel).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn with_values(query: &str) -> String {
    let all = OF_GRAFANA.into_iter().chain(CHOSEN);
    all.fold(query.to_owned(), |query, (name, value)| {
        query.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value)
    })
}

/// Labels in `{{}}`.
fn placeholders(legend: &str) -> BTreeSet<String> {
    legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn grafana_knows_every_dashboard_by_one_identity() {
    let heads: Vec<_> = dashboards()
        .iter()
        .map(|of| {
            let json = &of.json;
            assert_eq!((number(&json["schemaVersion"]), &json["id"]), (SCHEMA, &Value::Null), "{}", of.name);
            (of.name.clone(), text(&json["uid"]), text(&json["title"]))
        })
        .collect();
    let expected = [
        ("agent", "Slipway / Agent"),
        ("campaigns", "Slipway / Campaigns"),
        ("fleet", "Slipway / Fleet"),
        ("operator", "Slipway / Operator"),
    ];
    let expected = expected.map(|(name, title)| (name.to_owned(), format!("slipway-{name}"), title.to_owned()));
    assert_eq!(heads, expected);
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    for dashboard in dashboards() {
        let name = &dashboard.name;
        let mut ids = BTreeSet::new();
        let mut cells = BTreeSet::new();
        for panel in dashboard.panels() {
            let title = text(&panel["title"]);
            assert!(ids.insert(number(&panel["id"])), "{name}, {title}: its id is another's");
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| number(&panel["gridPos"][key]));
            assert!(w > 0 && h > 0 && x + w <= COLUMNS, "{name}, {title}: it is outside of the grid");
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(cells.insert(cell), "{name}, {title}: it overlaps another panel at {cell:?}");
            }
        }
    }
}

#[test]
fn the_data_source_of_everything_is_a_variable() {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    for dashboard in dashboards() {
        let (queried, sources): (Vec<_>, Vec<_>) =
            dashboard.variables().iter().partition(|variable| variable["type"] == "query");
        let sources: Vec<_> =
            sources.iter().map(|of| (text(&of["name"]), text(&of["type"]), text(&of["query"]))).collect();
        assert_eq!(sources, [("datasource".to_owned(), "datasource".to_owned(), "prometheus".to_owned())]);
        let panels = dashboard.panels().iter().filter(|panel| panel["type"] != "row");
        let targets = panels.clone().flat_map(|panel| panel["targets"].as_array().unwrap());
        for part in queried.into_iter().chain(panels).chain(targets) {
            assert_eq!(part["datasource"], source, "{}: {part}", dashboard.name);
        }
    }
}

#[test]
fn every_panel_asks_something_and_says_in_what_unit_and_what_it_shows() {
    for dashboard in dashboards() {
        for panel in dashboard.panels().iter().filter(|panel| panel["type"] != "row") {
            let at = format!("{}, {}", dashboard.name, panel["title"]);
            let known = ["timeseries", "stat", "table", "heatmap", "bargauge"];
            assert!(known.contains(&panel["type"].as_str().unwrap()), "{at}: {}", panel["type"]);
            assert!(!text(&panel["description"]).is_empty(), "{at}: it has no description");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{at}: it has no unit");
            let targets = panel["targets"].as_array().unwrap();
            let references: BTreeSet<_> = targets.iter().map(|target| text(&target["refId"])).collect();
            assert!(!targets.is_empty() && references.len() == targets.len(), "{at}: its queries share a refId");
        }
    }
}

#[test]
fn every_variable_of_a_query_is_declared_and_each_declared_one_is_used() {
    for dashboard in dashboards() {
        let declared: BTreeSet<_> = dashboard.variables().iter().map(|variable| text(&variable["name"])).collect();
        let own = |name: &&str| !OF_GRAFANA.iter().any(|(known, _)| known == name);
        let texts = dashboard.queries().into_iter().map(|query| query.written);
        let texts: Vec<String> = texts.chain(dashboard.variables().iter().map(|of| text(&of["definition"]))).collect();
        let names = texts.iter().flat_map(|text| text.split('$').skip(1)).map(|rest| {
            let rest = rest.trim_start_matches('{');
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap()
        });
        let used: BTreeSet<_> = names.filter(own).map(str::to_owned).chain(["datasource".to_owned()]).collect();
        assert_eq!(declared, used, "{}", dashboard.name);
    }
}

/// What a query names that nobody exports.
fn unknown(at: &str, named: &Named) -> Vec<String> {
    let exported = exported::all();
    let mut found = Vec::new();
    for selector in &named.selectors {
        let metric = &selector.metric;
        let Some(labels) = exported.get(metric) else {
            found.push(format!("{at}: nobody exports {metric}"));
            continue;
        };
        for (label, value) in &selector.matchers {
            let Some(values) = labels.get(label) else {
                found.push(format!("{at}: {metric} has no label {label}"));
                continue;
            };
            let is_free = OF_THE_TARGET.contains(&label.as_str()) || CHOSEN.iter().any(|(_, chosen)| chosen == value);
            let strange = value.split('|').filter(|part| !is_free && !values.contains(*part));
            found.extend(strange.map(|part| format!("{at}: {label} of {metric} is never {part}")));
        }
    }
    let is_label = |label: &&String| {
        named.selectors.iter().any(|of| exported.get(&of.metric).is_some_and(|labels| labels.contains_key(*label)))
    };
    found.extend(
        named.labels.iter().filter(|label| !is_label(label)).map(|label| format!("{at}: no metric has {label}")),
    );
    found
}

#[test]
fn every_query_is_one_and_names_only_what_is_exported() {
    let queries: Vec<_> = dashboards().iter().flat_map(Dashboard::queries).collect();
    let problems = queries.iter().flat_map(|query| match named(&query.expr) {
        Ok(named) => unknown(&query.at, &named),
        Err(error) => vec![format!("{}: {error}", query.at)],
    });
    assert_eq!(problems.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn variables_take_their_values_from_labels_that_are_exported() {
    let exported = exported::all();
    for dashboard in dashboards() {
        for variable in dashboard.variables().iter().filter(|variable| variable["type"] == "query") {
            let definition = text(&variable["definition"]);
            assert_eq!(variable["query"]["query"], variable["definition"], "{}", dashboard.name);
            let inner = definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
            let (query, label) = inner.rsplit_once(", ").unwrap();
            let named = named(&with_values(query)).unwrap();
            assert_eq!(unknown(&definition, &named), Vec::<String>::new());
            assert!(exported[&named.selectors[0].metric].contains_key(label), "{definition}");
        }
    }
}

#[test]
fn every_metric_is_on_a_dashboard() {
    let queries: Vec<_> = dashboards().iter().flat_map(Dashboard::queries).collect();
    let shown: BTreeSet<String> =
        queries.iter().flat_map(|query| named(&query.expr).unwrap().selectors).map(|of| of.metric).collect();
    let names: BTreeSet<String> = exported::all().into_keys().collect();
    // A histogram is shown by any of its parts.
    let base = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|part| name.strip_suffix(part));
        parts.into_iter().find(|base| names.contains(&format!("{base}_bucket"))).unwrap_or(name).to_owned()
    };
    let shown: BTreeSet<_> = shown.iter().map(|name| base(name)).collect();
    let all: BTreeSet<_> = names.iter().map(|name| base(name)).collect();
    assert_eq!(all.difference(&shown).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// The outcomes of runs that a query leaves out.
fn left_out(query: &str) -> Vec<String> {
    query.split("outcome!~\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn runs_that_clients_ended_are_no_failures_just_as_for_the_alerts() {
    let slo: ServiceLevelObjectives = serde_json::from_value(json!({"errorRate": {"max": "1%"}})).unwrap();
    let scope = Scope { namespace: "team", name: "support", replicas: 1, runbooks: None, baseline: Baseline::Stable };
    let alerting = rules(&scope, &slo).unwrap().groups.into_iter().flat_map(|group| group.rules);
    let expressions = alerting.map(|rule| match rule {
        Rule::Recording(rule) => rule.expr,
        Rule::Alerting(rule) => rule.expr,
    });
    let expected: BTreeSet<String> = expressions.flat_map(|expr| left_out(&expr)).collect();
    let dashboards = dashboards();
    let queries = dashboards.iter().flat_map(Dashboard::queries);
    let queries = queries.filter(|query| query.expr.contains("slipway_runs_total"));
    let found: BTreeSet<String> = queries.flat_map(|query| left_out(&query.expr)).collect();
    assert_eq!(found, expected);
}
