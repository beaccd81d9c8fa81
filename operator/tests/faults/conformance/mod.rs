//! The server in memory beside a real one: the same requests, and the answers of Kubernetes' own server as recorded.
//!
//! `make record-api-server` records them from a cluster whose controllers stand still. Compared are codes, bodies,
//! generations, owners of fields and the order of versions. What differs is listed, with the reason.

mod awaiting;
mod normal;
mod script;

use std::{collections::BTreeMap, fs, path::PathBuf};

use http::Request;
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use pretty_assertions::assert_eq;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::ApiServer;

use self::{normal::Normal, script::Step};

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Answer {
    code: u16,
    body: Value,
}

/// The answers of a real server, by the names of the requests.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// As the server says it of itself.
    version: String,
    answers: BTreeMap<String, Answer>,
}

impl Record {
    /// A line an answer: a changed one is a changed line.
    fn lines(&self) -> String {
        let line = |(name, answer)| format!("{}:{}", json!(name), json!(answer));
        let answers: Vec<String> = self.answers.iter().map(line).collect();
        format!("{{\"version\":{},\"answers\":{{\n{}\n}}}}\n", json!(self.version), answers.join(",\n"))
    }
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/faults/conformance/recorded.json")
}

/// All requests, with those that may not be recorded.
fn all() -> Vec<Step> {
    script::steps().into_iter().chain(awaiting::steps()).collect()
}

/// Sends one request after the other. What changes from run to run is replaced by the order in which it appeared.
async fn play(client: &Client, steps: &[Step]) -> BTreeMap<String, Answer> {
    let mut normal = Normal::default();
    let mut answers = BTreeMap::new();
    for step in steps {
        let request = Request::builder().method(step.method.clone()).uri(normal.filled(&step.path));
        let request = request.header("content-type", step.content).header("accept", "application/json");
        let body = normal.filled(&step.body).into_bytes();
        let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).trim().to_owned());
        let body = if step.is_watch() {
            // A line an event.
            let events = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
            events.map(|event| normal.of_event(event.unwrap())).collect()
        } else {
            normal.of(serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
        };
        let before = answers.insert(step.name.clone(), Answer { code, body });
        assert!(before.is_none(), "two requests are called {}", step.name);
    }
    answers
}

/// Records what a real server answers. Its namespace `conformance` is new, and its controllers stand still.
#[tokio::test]
#[ignore = "needs a cluster: make record-api-server"]
async fn the_answers_of_a_real_server_are_recorded() {
    let path = std::env::var("SLIPWAY_CONFORMANCE_KUBECONFIG").unwrap();
    let (kubeconfig, options) = (Kubeconfig::read_from(path).unwrap(), KubeConfigOptions::default());
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let version = client.apiserver_version().await.unwrap().git_version;
    let record = Record { version, answers: play(&client, &all()).await };
    fs::write(file(), record.lines()).unwrap();
}

/// Differences that are known, by the request's name, with the reason.
const KNOWN: [(&str, &str); 6] = [
    ("a group that nobody serves", "the real one answers in plain text, which clients read as NotFound too"),
    ("AgentDeployment: one with too many items is created", "the real one names a repeated item once"),
    ("Job: it is changed as another object", "the real one also misses the labels of the UID; both refuse"),
    ("Job: it is deleted while it is going", "the real one keeps the policy of the second deletion too"),
    ("Job: it is held no longer", "its version follows from the request before"),
    ("Service: the other is deleted", "the real one shows the version of the deletion"),
];

#[tokio::test(start_paused = true)]
async fn the_server_in_memory_answers_as_a_real_one_does() {
    let record: Record = serde_json::from_str(&fs::read_to_string(file()).unwrap()).unwrap();
    let mut steps = all();
    let mut answers = play(&ApiServer::new(Timestamp::now).client(), &steps).await;
    // Those that await a record are compared from then on.
    for awaiting in awaiting::steps().iter().filter(|step| !record.answers.contains_key(&step.name)) {
        answers.remove(&awaiting.name);
    }
    steps.retain(|step| answers.contains_key(&step.name));
    assert!(steps.len() >= 150, "{} requests", steps.len());
    let names = |answers: &BTreeMap<String, Answer>| answers.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&answers), names(&record.answers), "recorded are other requests: make record-api-server");
    let mut differing: Vec<(&str, String)> = Vec::new();
    for step in &steps {
        let (here, real) = (&answers[&step.name], &record.answers[&step.name]);
        if here != real {
            let text = |answer: &Answer| serde_json::to_string_pretty(answer).unwrap();
            differing
                .push((&step.name, format!("{}", pretty_assertions::StrComparison::new(&text(real), &text(here)))));
        }
    }
    let unknown: Vec<&(&str, String)> =
        differing.iter().filter(|(name, _)| KNOWN.iter().all(|(known, _)| known != name)).collect();
    let lines: Vec<String> = unknown.iter().map(|(name, lines)| format!("{name}\n{lines}")).collect();
    assert!(lines.is_empty(), "{} of {} differ (< real, here >):\n{}", lines.len(), steps.len(), lines.join("\n"));
    let gone: Vec<&str> =
        KNOWN.iter().map(|(known, _)| *known).filter(|known| differing.iter().all(|(name, _)| name != known)).collect();
    assert_eq!(gone, Vec::<&str>::new(), "these differ no longer");
}

/// What is known of the answers that await a record.
#[tokio::test(start_paused = true)]
async fn the_server_in_memory_counts_quotas_and_tells_watches_of_what_they_select() {
    let answers = play(&ApiServer::new(Timestamp::now).client(), &all()).await;
    let code = |name: &str| answers[name].code;
    let beyond =
        ["the second beyond a quota is created", "one beyond a quota is applied", "the first is created again"];
    assert_eq!(beyond.map(code), [403; 3]);
    assert_eq!(["the first is changed", "a Service within a quota is created"].map(code), [200, 201]);
    let resource = "count/controllerrevisions.apps";
    let words = format!(
        "controllerrevisions.apps \"second\" is forbidden: exceeded quota: limits, requested: {resource}=1, \
         used: {resource}=1, limited: {resource}=1"
    );
    assert_eq!(answers[beyond[0]].body["message"], words);
    let types = |name: &str| {
        let events = answers[name].body.as_array().unwrap().iter();
        events.map(|event| event["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types("a watch by label"), ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(types("a watch by name"), ["ADDED", "MODIFIED", "MODIFIED"]);
    assert_eq!(types("a watch sees one come and one go"), ["MODIFIED", "DELETED", "ADDED", "DELETED"]);
}
