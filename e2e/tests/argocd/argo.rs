//! Argo CD itself: its programs run on this machine, against the scenarios' cluster. They end with the scenario.
//! Reads the environment; reads and writes IO.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use slipway_e2e::{
    agents::path,
    cluster,
    gitops::{LOOK_EVERY, Programs, apply, eventually, kubectl},
    repository::{BRANCH, FOLDER, Repository},
};

/// The namespace of its objects.
pub const NAMESPACE: &str = "argocd";
/// Names the binary, which is every program of Argo CD by its name.
const BINARY: &str = "SLIPWAY_E2E_ARGOCD";
/// Names the folder with the CRDs of the same release.
const CRDS: &str = "SLIPWAY_E2E_ARGOCD_CRDS";
/// What it is installed with beside Slipway's health checks.
const INSTALLATION: &str = include_str!("installation.yaml");
/// The project of Applications, unless another one is named.
const PROJECT: &str = "default";
/// Ports on this machine: of Redis, and of the repository server and the controller with their metrics.
pub const REDIS: &str = "127.0.0.1:17379";
const REDIS_PORT: &str = "17379";
pub const REPO_SERVER: &str = "127.0.0.1:18081";
const REPO_SERVER_PORT: &str = "18081";
const METRICS_PORTS: [&str; 2] = ["18082", "18084"];

/// The annotation that makes it compare at once.
const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Longest time of a comparison.
const COMPARE_LIMIT: Duration = Duration::from_secs(60);

/// The running programs.
pub struct ArgoCd {
    programs: Programs,
}

/// Where the manifests of an Application are, and the project that it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub folder: &'a str,
    pub branch: &'a str,
    pub project: &'a str,
}

impl Default for Source<'_> {
    fn default() -> Self {
        Self { folder: FOLDER, branch: BRANCH, project: PROJECT }
    }
}

/// What Argo CD says of an Application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whether the cluster is as Git is.
    pub sync: String,
    /// The commit that it was compared with.
    pub revision: String,
    /// The health of the AgentDeployment, and its message.
    pub health: String,
    pub message: String,
}

impl ArgoCd {
    /// Installs and starts it. What its programs print is kept in the folder.
    pub fn start(folder: &Path) -> Self {
        install(folder);
        let mut argo = Self { programs: Programs::default() };
        let redis = ["--port", REDIS_PORT, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        argo.programs.start(Command::new("redis-server").args(redis), "redis", folder);
        let [controller_metrics, repo_metrics] = METRICS_PORTS;
        argo.programs.start(
            program("argocd-repo-server").args([
                "--disable-tls",
                "--redis",
                REDIS,
                "--port",
                REPO_SERVER_PORT,
                "--metrics-port",
                repo_metrics,
            ]),
            "repo-server",
            folder,
        );
        let kubeconfig = env::var(cluster::KUBECONFIG).unwrap();
        argo.programs.start(
            program("argocd-application-controller").env("KUBECONFIG", &kubeconfig).args([
                "--kubeconfig",
                &kubeconfig,
                "--namespace",
                NAMESPACE,
                "--redis",
                REDIS,
                "--repo-server",
                REPO_SERVER,
                "--repo-server-plaintext",
                "--persist-resource-health",
                "--app-resync",
                "10",
                "--metrics-port",
                controller_metrics,
            ]),
            "application-controller",
            folder,
        );
        argo
    }

    /// An Application that synchronizes a namespace by itself, and puts back what others change.
    pub fn follow(&self, name: &str, namespace: &str, repository: &Repository) {
        self.follow_source(name, namespace, repository, Source::default());
    }

    /// The same of one folder and branch, in a project.
    pub fn follow_source(&self, name: &str, namespace: &str, repository: &Repository, source: Source<'_>) {
        let Source { folder, branch, project } = source;
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "project": project,
                "source": {"repoURL": repository.url(), "path": folder, "targetRevision": branch},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
                "syncPolicy": {
                    "automated": {"selfHeal": true, "prune": true},
                    // A sync that a rollback ended is tried again, and by default with the commit that was rolled back.
                    "retry": {"refresh": true, "limit": 5, "backoff": {"duration": "5s", "maxDuration": "30s"}},
                },
            },
        });
        apply(name, &application);
    }

    /// Deletes an Application, and leaves what it applied.
    pub fn forget(&self, name: &str) {
        kubectl(&["--namespace", NAMESPACE, "delete", "application", name]);
    }

    /// Reads Git at once, as a webhook makes it do.
    pub fn refresh(&self, name: &str) {
        let hard = format!("{REFRESH}=hard");
        kubectl(&["--namespace", NAMESPACE, "annotate", "application", name, &hard, "--overwrite"]);
    }

    /// Reads Git and the cluster once more, and gives what it says then.
    pub async fn compare(&self, name: &str) -> Seen {
        self.refresh(name);
        // It takes the annotation away once it has compared.
        let has_compared = async || match &self.application(name)["metadata"]["annotations"][REFRESH] {
            Value::Null => Ok(()),
            asked => Err(asked.to_string()),
        };
        eventually("a comparison", COMPARE_LIMIT, has_compared).await;
        self.look(name)
    }

    fn application(&self, name: &str) -> Value {
        let output = kubectl(&["--namespace", NAMESPACE, "get", "application", name, "--output", "json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What it says now.
    pub fn look(&self, name: &str) -> Seen {
        let status = self.application(name)["status"].take();
        let health = health_of(&status, "AgentDeployment");
        Seen {
            sync: text(&status["sync"]["status"]),
            revision: text(&status["sync"]["revision"]),
            health: text(&health["status"]),
            message: text(&health["message"]),
        }
    }

    /// The health of its only object of a kind.
    pub fn health(&self, name: &str, kind: &str) -> String {
        text(&health_of(&self.application(name)["status"], kind)["status"])
    }

    /// Waits until the cluster is as a commit is, with this health; gives what was seen on the way, each once in turn.
    pub async fn wait(&self, name: &str, commit: &str, health: &str, limit: Duration) -> Vec<Seen> {
        let deadline = Instant::now() + limit;
        let mut history: Vec<Seen> = Vec::new();
        loop {
            let seen = self.look(name);
            if seen.revision == commit && seen.sync == "Synced" && history.last() != Some(&seen) {
                history.push(seen.clone());
            }
            if history.last() == Some(&seen) && seen.health == health {
                return history;
            }
            assert!(Instant::now() < deadline, "waited {limit:?} for {health} of {commit}: {seen:?}, {history:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Looks for so long, and gives what was seen, each once in turn.
    pub async fn watch(&self, name: &str, time: Duration) -> Vec<Seen> {
        let end = Instant::now() + time;
        let mut history: Vec<Seen> = Vec::new();
        while Instant::now() < end {
            let seen = self.look(name);
            if history.last() != Some(&seen) {
                history.push(seen);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        history
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn health_of(status: &Value, kind: &str) -> Value {
    let resources = status["resources"].as_array();
    let of_kind = resources.into_iter().flatten().find(|resource| resource["kind"] == kind);
    of_kind.map(|resource| resource["health"].clone()).unwrap_or_default()
}

/// A program of Argo CD, which its binary takes its name for.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(env::var_os(BINARY).unwrap_or_else(|| panic!("{BINARY} names no binary")));
    command.arg0(name).env("ARGOCD_FAKE_IN_CLUSTER", "true").env("ARGOCD_GPG_ENABLED", "false");
    command
}

/// As people install it: CRDs, its own objects, then Slipway's file.
fn install(folder: &Path) {
    let crds = PathBuf::from(env::var_os(CRDS).unwrap_or_else(|| panic!("{CRDS} names no folder")));
    for file in ["application-crd.yaml", "appproject-crd.yaml", "applicationset-crd.yaml"] {
        kubectl(&["apply", "--server-side", "-f", &crds.join(file).to_string_lossy()]);
    }
    kubectl(&["wait", "--for=condition=Established", "crd/applications.argoproj.io", "crd/appprojects.argoproj.io"]);
    let installation = folder.join("installation.yaml");
    fs::write(&installation, INSTALLATION).unwrap();
    kubectl(&["apply", "-f", &installation.to_string_lossy()]);
    let health = path("../charts/slipway/files/argocd/argocd-cm.yaml");
    let patch = health.to_string_lossy();
    kubectl(&["--namespace", NAMESPACE, "patch", "configmap", "argocd-cm", "--patch-file", &patch]);
}
