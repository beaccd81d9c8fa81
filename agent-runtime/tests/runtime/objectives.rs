//! Objectives that are edited while the agent serves.

use std::{fs, path::PathBuf};

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_agent_runtime::{app::App, failure::with_causes, objectives::Look};
use slipway_runtime_config::{LatencyMetric, LatencyObjective, Percentile, RuntimeConfig};
use tempfile::TempDir;

use crate::fixture::{Reply, Sidecar, calculator, get, post, sidecar_with};

/// The ConfigMap of a revision, as it is mounted.
struct Mounted {
    folder: TempDir,
    config: RuntimeConfig,
}

impl Mounted {
    fn new(objectives: Vec<LatencyObjective>) -> Self {
        let mut config = RuntimeConfig::new("support", "support-1", "http://127.0.0.1:8001");
        config.tools = vec![calculator()];
        config.objectives = objectives;
        let mounted = Self { folder: TempDir::new().expect("a folder can be made"), config };
        mounted.write(&mounted.config.to_json());
        mounted
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("config.json")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).expect("the file can be written");
    }

    fn edit(&mut self, change: impl FnOnce(&mut RuntimeConfig)) {
        change(&mut self.config);
        self.write(&self.config.to_json());
    }

    /// A sidecar that began with the file as it is; every run of it takes 20 virtual milliseconds.
    fn sidecar(&self) -> Sidecar {
        let replies = [Reply::Says("Answer: 1\n\n"), Reply::Says("Answer: 2\n\n")];
        let config = self.config.clone();
        sidecar_with(replies, |given| *given = config)
    }
}

fn objective(name: &str, max_microseconds: u64) -> LatencyObjective {
    let percentile = if name == "answer" { Percentile::P95 } else { Percentile::P50 };
    LatencyObjective { name: name.into(), metric: LatencyMetric::AgentRunLatency, percentile, max_microseconds }
}

async fn run(app: &App) {
    post(&app.api(), "/v1/runs", json!({ "input": "What is 1+1?" })).await;
}

/// What is exported of objectives, without comments.
async fn exported(app: &App) -> Vec<String> {
    let text = get(&app.admin(), "/metrics").await.body;
    let mut lines: Vec<_> = text.lines().filter(|line| line.starts_with("slipway_slo_")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn edited_objectives_judge_the_next_run() {
    let mut mounted = Mounted::new(vec![objective("answer", 1_000_000), objective("old", 1_000_000)]);
    let sidecar = mounted.sidecar();
    let mut watch = sidecar.app.objectives_watch(mounted.path());
    run(&sidecar.app).await;
    mounted.edit(|config| config.objectives = vec![objective("answer", 1), objective("new", 2_000_000)]);
    assert_eq!(watch.look().await.expect("the file can be used"), Look::TakenOver);
    run(&sidecar.app).await;
    let expected = [
        r#"slipway_slo_events_total{objective="answer",good="false"} 1"#,
        r#"slipway_slo_events_total{objective="answer",good="true"} 1"#,
        r#"slipway_slo_events_total{objective="new",good="false"} 0"#,
        r#"slipway_slo_events_total{objective="new",good="true"} 1"#,
        r#"slipway_slo_target_ratio{objective="answer",metric="AgentRunLatency",percentile="p95"} 0.95"#,
        r#"slipway_slo_target_ratio{objective="new",metric="AgentRunLatency",percentile="p50"} 0.5"#,
        r#"slipway_slo_threshold_seconds{objective="answer",metric="AgentRunLatency",percentile="p95"} 0.000001"#,
        r#"slipway_slo_threshold_seconds{objective="new",metric="AgentRunLatency",percentile="p50"} 2.0"#,
    ];
    assert_eq!(exported(&sidecar.app).await, expected);
}

#[tokio::test]
async fn a_file_that_did_not_change_changes_nothing() {
    let mounted = Mounted::new(vec![objective("answer", 1_000_000)]);
    let sidecar = mounted.sidecar();
    let mut watch = sidecar.app.objectives_watch(mounted.path());
    for _ in 0..2 {
        assert_eq!(watch.look().await.expect("the file can be used"), Look::Unchanged);
    }
}

#[tokio::test]
async fn nothing_but_objectives_is_taken_over() {
    let mut mounted = Mounted::new(vec![objective("answer", 1_000_000)]);
    let sidecar = mounted.sidecar();
    let mut watch = sidecar.app.objectives_watch(mounted.path());
    mounted.edit(|config| config.max_in_flight += 1);
    assert_eq!(watch.look().await.expect("the file can be used"), Look::TakenOverInPart);
}

#[tokio::test]
async fn objectives_stay_while_the_file_cannot_be_used_which_is_told_once() {
    let mut mounted = Mounted::new(vec![objective("answer", 1_000_000)]);
    let sidecar = mounted.sidecar();
    let before = exported(&sidecar.app).await;
    let mut watch = sidecar.app.objectives_watch(mounted.path());
    mounted.edit(|config| config.objectives.push(objective("answer", 5)));
    let error = watch.look().await.expect_err("two objectives have one name");
    let folder = mounted.folder.path().display().to_string();
    insta::assert_snapshot!(with_causes(&error).replace(&folder, "FOLDER"));
    assert_eq!(watch.look().await.expect("it was told"), Look::Unchanged);
    assert_eq!(exported(&sidecar.app).await, before);
    fs::remove_file(mounted.path()).expect("the file is there");
    let error = with_causes(&watch.look().await.expect_err("there is no file"));
    assert!(error.contains("failed to read the configuration") && error.contains("config.json"), "{error}");
}
