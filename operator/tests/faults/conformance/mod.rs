//! The server in memory beside a real one: the same requests, and the answers of Kubernetes' own server as recorded.
//!
//! `make record-api-server` records them from a cluster whose controllers stand still. Compared are codes, bodies,
//! generations, owners of fields and the order of versions. What differs is listed, with the reason.

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
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).trim().to_owned()));
        let before = answers.insert(step.name.clone(), Answer { code, body: normal.of(body) });
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
    let record = Record { version, answers: play(&client, &script::steps()).await };
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

#[tokio::test]
async fn the_server_in_memory_answers_as_a_real_one_does() {
    let record: Record = serde_json::from_str(&fs::read_to_string(file()).unwrap()).unwrap();
    let steps = script::steps();
    let answers = play(&ApiServer::new(Timestamp::now).client(), &steps).await;
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
