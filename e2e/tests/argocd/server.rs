//! Argo CD's own server, and a person who is on call: logged in there, with the role of docs/gitops.md. The server runs
//! on this machine and ends with the scenario. Reads the environment; reads and writes IO.

use std::{
    env,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use serde_json::{Value, json};
use slipway_e2e::{
    cluster,
    gitops::{Programs, eventually},
};

use super::argo::{NAMESPACE, REDIS, REPO_SERVER, program};

/// Its address on this machine, and the ports of it and of its metrics.
const ADDRESS: &str = "127.0.0.1:18080";
const PORT: &str = "18080";
const METRICS_PORT: &str = "18083";
/// Longest time until it answers.
const LIMIT: Duration = Duration::from_secs(60);
/// The account of installation.yaml.
const NAME: &str = "on-call";
const PASSWORD: &str = "on-call-in-a-scenario";

/// The person, with the server that runs for them.
pub struct OnCall {
    _programs: Programs,
    client: reqwest::Client,
    token: String,
    /// Where the command line would look for its own settings.
    folder: PathBuf,
}

impl OnCall {
    /// Starts the server, and logs in. What it prints is kept in the folder.
    pub async fn log_in(folder: &Path) -> Self {
        let programs = start(folder);
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let session = json!({"username": NAME, "password": PASSWORD});
        let log_in = async || {
            let asked = client.post(format!("http://{ADDRESS}/api/v1/session")).json(&session).send().await;
            let answer = asked.map_err(|error| error.to_string())?.text().await.unwrap();
            let session: Value = serde_json::from_str(&answer).unwrap_or_default();
            session["token"].as_str().map(str::to_owned).ok_or(answer)
        };
        let token = eventually("a session", LIMIT, log_in).await;
        let person = Self { _programs: programs, client, token, folder: folder.to_owned() };
        // The server reads roles beside its first requests.
        let has_its_role = async || {
            let asked = person.argocd(&["account", "can-i", "get", "applications", "agents/any"]);
            if asked.stdout.trim_ascii() == b"yes" { Ok(()) } else { Err(format!("{asked:?}")) }
        };
        eventually("the role", LIMIT, has_its_role).await;
        person
    }

    /// Runs Argo CD's command line, which asks the server.
    pub fn argocd(&self, arguments: &[&str]) -> Output {
        program("argocd")
            .env("ARGOCD_CONFIG_DIR", &self.folder)
            .args(arguments)
            .args(["--server", ADDRESS, "--plaintext", "--auth-token", &self.token])
            .output()
            .unwrap()
    }

    /// The actions on the AgentDeployment of an Application that are possible now, by name.
    pub fn possible_actions(&self, application: &str) -> Vec<String> {
        let list = ["app", "actions", "list", application, "--kind", "AgentDeployment", "--out", "json"];
        let output = self.succeed(&list);
        let actions: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let possible = actions.iter().filter(|action| action["Disabled"] == false);
        let mut names: Vec<String> = possible.map(|action| action["Action"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Runs an action on the AgentDeployment of an Application.
    pub fn run_action(&self, application: &str, action: &str) {
        self.succeed(&["app", "actions", "run", application, action, "--kind", "AgentDeployment"]);
    }

    fn succeed(&self, arguments: &[&str]) -> Output {
        let output = self.argocd(arguments);
        assert!(output.status.success(), "argocd {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// What the web page draws of an Application: its objects with what they own, and beside them what nobody owns.
    pub async fn tree(&self, application: &str) -> Value {
        let url = format!("http://{ADDRESS}/api/v1/applications/{application}/resource-tree");
        let answer = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
        answer.error_for_status().unwrap().json().await.unwrap()
    }
}

fn start(folder: &Path) -> Programs {
    let kubeconfig = env::var(cluster::KUBECONFIG).unwrap();
    let mut server = program("argocd-server");
    server.env("KUBECONFIG", &kubeconfig).args(["--kubeconfig", &kubeconfig, "--namespace", NAMESPACE]);
    server.args(["--redis", REDIS, "--repo-server", REPO_SERVER, "--repo-server-plaintext", "--insecure"]);
    server.args(["--address", "127.0.0.1", "--port", PORT, "--metrics-port", METRICS_PORT]);
    let mut programs = Programs::default();
    programs.start(&mut server, "server", folder);
    programs
}
