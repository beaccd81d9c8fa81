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
    gitops::{LOOK_EVERY, Programs, apply, kubectl},
    repository::{BRANCH, FOLDER, Repository},
};

/// The namespace of its objects.
const NAMESPACE: &str = "argocd";
/// Names the binary, which is every program of Argo CD by its name.
const BINARY: &str = "SLIPWAY_E2E_ARGOCD";
/// Names the folder with the CRDs of the same release.
const CRDS: &str = "SLIPWAY_E2E_ARGOCD_CRDS";
/// What it is installed with beside Slipway's health checks.
const INSTALLATION: &str = include_str!("installation.yaml");
/// Ports on this machine: of Redis, and of the two servers with their metrics.
const REDIS: &str = "127.0.0.1:17379";
const REDIS_PORT: &str = "17379";
const REPO_SERVER: &str = "127.0.0.1:18081";
const REPO_SERVER_PORT: &str = "18081";
const METRICS_PORTS: [&str; 2] = ["18082", "18084"];

/// The running programs.
pub struct ArgoCd {
    programs: Programs,
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
        self.follow_branch(name, namespace, repository, (FOLDER, BRANCH));
    }

    /// The same of one folder and branch.
    pub fn follow_branch(&self, name: &str, namespace: &str, repository: &Repository, source: (&str, &str)) {
        let (folder, branch) = source;
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "project": "default",
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
        let hard = "argocd.argoproj.io/refresh=hard";
        kubectl(&["--namespace", NAMESPACE, "annotate", "application", name, hard, "--overwrite"]);
    }

    /// What it says now.
    pub fn look(&self, name: &str) -> Seen {
        let output = kubectl(&["--namespace", NAMESPACE, "get", "application", name, "--output", "json"]);
        let application: Value = serde_json::from_slice(&output.stdout).unwrap();
        let status = &application["status"];
        let resources = status["resources"].as_array().cloned().unwrap_or_default();
        let agent = resources.into_iter().find(|resource| resource["kind"] == "AgentDeployment").unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Seen {
            sync: text(&status["sync"]["status"]),
            revision: text(&status["sync"]["revision"]),
            health: text(&agent["health"]["status"]),
            message: text(&agent["health"]["message"]),
        }
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

/// A program of Argo CD, which its binary takes its name for.
fn program(name: &str) -> Command {
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
