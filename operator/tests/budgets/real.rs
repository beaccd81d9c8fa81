//! Prometheus itself, on samples that were written for it.

use std::{
    fmt::Write,
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use slipway_crds::v1alpha1::agent_deployment::Baseline;
use slipway_operator::promql::{Prometheus, Series};
use slipway_operator_core::agent_deployment::monitoring::build::alerts::{Scope, budget_queries};
use tempfile::TempDir;

use super::configured;

/// How long Prometheus may take to come up.
const LIMIT: Duration = Duration::from_secs(60);
/// Seconds of samples.
const SPAN: u64 = 3 * 3_600;

/// A Prometheus that ends with the test.
struct Server {
    process: Child,
    folder: TempDir,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

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

fn import(folder: &Path, now: u64) {
    fs::write(folder.join("samples.txt"), samples(now)).unwrap();
    let arguments = ["tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"];
    let output = Command::new("promtool").args(arguments).current_dir(folder).output();
    let output = output.expect("`make test-alerts` installs promtool");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn start() -> Server {
    let folder = TempDir::new().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    import(folder.path(), now);
    fs::write(folder.path().join("prometheus.yaml"), "{}").unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let process = Command::new("prometheus")
        .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"])
        .arg(format!("--web.listen-address={address}"))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.path().join("log")).unwrap())
        .spawn()
        .expect("`make test-alerts` installs Prometheus");
    Server { process, folder, address }
}

impl Server {
    /// The client, once the server answers.
    async fn client(&self) -> Prometheus {
        // One that has failed is left alone for a minute: until it is up, each question is somebody else's.
        let anew = || configured(&self.folder, &format!("url: 'http://{}'", self.address)).unwrap();
        let up = async {
            while anew().ask("team", "vector(1)").await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        tokio::time::timeout(LIMIT, up).await.unwrap_or_else(|_| panic!("{}", log()));
        anew()
    }
}

fn runs(series: &[Series], objective: &str, good: &str) -> f64 {
    let is_it = |series: &&Series| series.labels["objective"] == objective && series.labels["good"] == good;
    series.iter().find(is_it).unwrap_or_else(|| panic!("{series:?}")).value
}

#[tokio::test]
#[ignore = "needs Prometheus: make test-alerts"]
async fn prometheus_counts_the_runs_of_the_agents_own_pods() {
    let server = start();
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
