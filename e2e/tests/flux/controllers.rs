//! Flux itself: its source and its kustomize controller run on this machine, against the scenarios' cluster. They end
//! with the scenario. Reads the environment; reads and writes IO.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use slipway_e2e::{
    agents::path,
    cluster,
    gitops::{LOOK_EVERY, Programs, apply, eventually, kubectl},
    repository::{BRANCH, FOLDER},
    servers::git,
};
use tokio::net::TcpListener;

/// The namespace of its objects.
const NAMESPACE: &str = "flux-system";
/// Name the binaries.
const SOURCE_CONTROLLER: &str = "SLIPWAY_E2E_SOURCE_CONTROLLER";
const KUSTOMIZE_CONTROLLER: &str = "SLIPWAY_E2E_KUSTOMIZE_CONTROLLER";
/// Name the folders with the CRDs of the same releases.
const SOURCE_CRDS: &str = "SLIPWAY_E2E_SOURCE_CONTROLLER_CRDS";
const KUSTOMIZE_CRDS: &str = "SLIPWAY_E2E_KUSTOMIZE_CONTROLLER_CRDS";
/// Where the source controller gives away what it fetched.
const ARTIFACTS: &str = "127.0.0.1:18190";
/// Addresses on this machine of metrics and health, of each controller.
const SOURCE_PORTS: [&str; 2] = ["127.0.0.1:18191", "127.0.0.1:18192"];
const KUSTOMIZE_PORTS: [&str; 2] = ["127.0.0.1:18193", "127.0.0.1:18194"];
/// How often Git is read, and the cluster held against it.
const INTERVAL: &str = "10s";
/// Longest time of one comparison that waits for nothing.
const RECONCILE_LIMIT: Duration = Duration::from_secs(60);

/// The running controllers, and the host of the repository.
pub struct Flux {
    programs: Programs,
    host: String,
}

/// The condition `Ready` of a Kustomization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The commit that it reports on.
    pub revision: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl Flux {
    /// Installs and starts it, and a host of the repositories below the folder. What the programs print is kept there.
    pub async fn start(folder: &Path) -> Self {
        install();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("http://{}", listener.local_addr().unwrap());
        let root = folder.to_owned();
        tokio::spawn(async move { axum::serve(listener, git::router(root)).await });
        let mut flux = Self { programs: Programs::default(), host };
        let storage = folder.join("artifacts");
        fs::create_dir_all(&storage).unwrap();
        let storage = storage.to_string_lossy().into_owned();
        let of_source = ["--storage-path", &storage, "--storage-addr", ARTIFACTS, "--storage-adv-addr", ARTIFACTS];
        flux.run(SOURCE_CONTROLLER, SOURCE_PORTS, &of_source, folder);
        flux.run(KUSTOMIZE_CONTROLLER, KUSTOMIZE_PORTS, &[], folder);
        flux
    }

    fn run(&mut self, variable: &str, [metrics, health]: [&str; 2], further: &[&str], folder: &Path) {
        let program = env::var_os(variable).unwrap_or_else(|| panic!("{variable} names no binary"));
        let mut command = Command::new(program);
        command
            .args(["--metrics-addr", metrics, "--health-addr", health, "--enable-leader-election=false"])
            .args(further)
            .env("KUBECONFIG", env::var_os(cluster::KUBECONFIG).unwrap())
            .env("RUNTIME_NAMESPACE", NAMESPACE);
        self.programs.start(&mut command, variable, folder);
    }

    /// A GitRepository of the folder's `repository`, and a Kustomization that applies its manifests to a namespace. It
    /// waits for their health or not.
    pub fn follow(&self, name: &str, waits: bool) {
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"interval": INTERVAL, "url": format!("{}/repository", self.host), "ref": {"branch": BRANCH}},
        });
        let expressions = fs::read(path("../charts/slipway/files/flux/health-check-exprs.yaml")).unwrap();
        let kustomization = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "sourceRef": {"kind": "GitRepository", "name": name},
                "path": format!("./{FOLDER}"),
                "targetNamespace": name,
                "interval": INTERVAL,
                "retryInterval": INTERVAL,
                "timeout": "15m",
                "prune": true,
                "wait": waits,
                "healthCheckExprs": serde_norway::from_slice::<Value>(&expressions).unwrap(),
            },
        });
        apply(name, &json!({"apiVersion": "v1", "kind": "List", "items": [source, kustomization]}));
    }

    /// Deletes the Kustomization without what it applied, and the source.
    pub fn forget(&self, name: &str) {
        let keep = r#"{"spec":{"prune":false}}"#;
        kubectl(&["--namespace", NAMESPACE, "patch", "kustomization", name, "--type", "merge", "--patch", keep]);
        kubectl(&["--namespace", NAMESPACE, "delete", "kustomization,gitrepository", name]);
    }

    /// Reads Git at once, as a webhook makes it do.
    pub fn refresh(&self, name: &str) {
        let now = format!("reconcile.fluxcd.io/requestedAt={:?}", Instant::now());
        kubectl(&["--namespace", NAMESPACE, "annotate", "gitrepository", name, &now, "--overwrite"]);
    }

    /// Has the cluster held against Git once more, and waits until that has ended. Twice, for the first may have begun
    /// before it was asked for.
    pub async fn reconcile(&self, name: &str) {
        for _ in 0..2 {
            let asked = format!("{:?}", Instant::now());
            let annotation = format!("reconcile.fluxcd.io/requestedAt={asked}");
            kubectl(&["--namespace", NAMESPACE, "annotate", "kustomization", name, &annotation, "--overwrite"]);
            let has_ended = async || match &self.kustomization(name)["status"]["lastHandledReconcileAt"] {
                handled if *handled == asked => Ok(()),
                other => Err(other.to_string()),
            };
            eventually("a reconciliation", RECONCILE_LIMIT, has_ended).await;
        }
    }

    fn kustomization(&self, name: &str) -> Value {
        let output = kubectl(&["--namespace", NAMESPACE, "get", "kustomization", name, "--output", "json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What it says now. What it said before its Kustomization was edited is of no commit.
    pub fn look(&self, name: &str) -> Seen {
        let kustomization = self.kustomization(name);
        let (generation, status) = (&kustomization["metadata"]["generation"], &kustomization["status"]);
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_current = |condition: &Value| condition["observedGeneration"] == *generation;
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready").filter(is_current);
        let Some(ready) = ready else { return Seen::default() };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let revision = text(&status["lastAttemptedRevision"]);
        Seen {
            // Such as main@sha1:0123.
            revision: revision.rsplit(':').next().unwrap_or_default().to_owned(),
            status: text(&ready["status"]),
            reason: text(&ready["reason"]),
            message: text(&ready["message"]),
        }
    }

    /// Waits until a commit ended with this status; gives what was seen of it on the way, each once in turn.
    pub async fn wait(&self, name: &str, commit: &str, status: &str, limit: Duration) -> Vec<Seen> {
        let deadline = Instant::now() + limit;
        let mut history: Vec<Seen> = Vec::new();
        loop {
            let seen = self.look(name);
            if seen.revision == commit && history.last() != Some(&seen) {
                history.push(seen.clone());
            }
            if history.last() == Some(&seen) && seen.status == status {
                return history;
            }
            assert!(Instant::now() < deadline, "waited {limit:?} for {status} of {commit}: {seen:?}, {history:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// As people install it: CRDs, then the namespace of its objects.
fn install() {
    for variable in [SOURCE_CRDS, KUSTOMIZE_CRDS] {
        let folder = PathBuf::from(env::var_os(variable).unwrap_or_else(|| panic!("{variable} names no folder")));
        kubectl(&["apply", "--server-side", "-f", &folder.to_string_lossy()]);
    }
    let crds = ["crd/gitrepositories.source.toolkit.fluxcd.io", "crd/kustomizations.kustomize.toolkit.fluxcd.io"];
    kubectl(&["wait", "--for=condition=Established", crds[0], crds[1]]);
    let exists = cluster::kubectl(&["get", "namespace", NAMESPACE]).unwrap().status.success();
    if !exists {
        kubectl(&["create", "namespace", NAMESPACE]);
    }
}
