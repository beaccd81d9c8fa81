//! The server in memory beside a real one: the same requests, and the answers of Kubernetes' own server as recorded.
//!
//! `make record-api-server` records them from a cluster whose controllers stand still. Compared are codes, bodies,
//! generations, owners of fields and the order of versions. What differs is listed, with the reason.

mod claims;
mod normal;
mod pods;
mod quotas;
mod script;
mod step;
mod watches;

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

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

use self::{normal::Normal, step::Step};

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
    answers: Answers,
}

impl Record {
    /// A line an answer: a changed one is a changed line.
    fn lines(&self) -> String {
        let line = |(name, answer)| format!("{}:{}", json!(name), json!(answer));
        let answers: Vec<String> = self.answers.iter().map(line).collect();
        format!("{{\"version\":{},\"answers\":{{\n{}\n}}}}\n", json!(self.version), answers.join(",\n"))
    }
}

/// Requests with a record of their own. What one group leaves behind, the next ones find.
struct Group {
    record: &'static str,
    steps: fn() -> Vec<Step>,
}

const GROUPS: [Group; 5] = [
    Group { record: "recorded.json", steps: script::steps },
    Group { record: "recorded-claims.json", steps: claims::steps },
    Group { record: "recorded-pods.json", steps: pods::steps },
    Group { record: "recorded-quotas.json", steps: quotas::steps },
    Group { record: "recorded-watches.json", steps: watches::steps },
];

impl Group {
    fn file(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/faults/conformance").join(self.record)
    }

    /// What a real server answered. A new group needs its record: `make record-api-server`.
    fn recorded(&self) -> Record {
        serde_json::from_str(&fs::read_to_string(self.file()).unwrap()).unwrap()
    }
}

type Answers = BTreeMap<String, Answer>;

/// Sends one request after the other. What changes from run to run is replaced by the order in which it appeared.
async fn play(client: &Client, steps: &[Step]) -> Answers {
    let mut normal = Normal::default();
    let mut answers = Answers::new();
    for step in steps {
        let (code, bytes) = ask(client, step, &normal).await;
        let text = || Value::String(String::from_utf8_lossy(&bytes).trim().to_owned());
        let body = if step.is_watch() && code == 200 {
            // A line an event. Where it is, a watch may hear twice.
            let events = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
            let mut events: Vec<Value> = events.map(|event| normal.of_event(event.unwrap())).collect();
            events.dedup();
            Value::Array(events)
        } else {
            normal.of(serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
        };
        let before = answers.insert(step.name.clone(), Answer { code, body });
        assert!(before.is_none(), "two requests are called {}", step.name);
    }
    answers
}

/// Times that a patient request is sent, and the pause between two.
const PATIENCE: (usize, Duration) = (1_000, Duration::from_millis(10));

/// The code and the bytes of an answer.
async fn ask(client: &Client, step: &Step, normal: &Normal) -> (u16, Vec<u8>) {
    let (times, pause) = PATIENCE;
    for left in (0..times).rev() {
        let request = Request::builder().method(step.method.clone()).uri(normal.filled(&step.path));
        let request = request.header("content-type", step.content).header("accept", step.accept);
        let body = normal.filled(&step.body).into_bytes();
        let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes().to_vec();
        if left == 0 || !step.is_patient || step.code == Some(code) {
            return (code, bytes);
        }
        tokio::time::sleep(pause).await;
    }
    unreachable!("the last answer is taken")
}

/// Plays all groups on the server in memory.
async fn play_here() -> Vec<(Group, Vec<Step>, Answers)> {
    let server = ApiServer::new(Timestamp::now);
    let mut played = Vec::new();
    for group in GROUPS {
        // A real server has forgotten how it began.
        server.state().store.compact();
        let steps = (group.steps)();
        let answers = play(&server.client(), &steps).await;
        played.push((group, steps, answers));
    }
    played
}

/// What the server in memory answers to one of them.
async fn answers_of(record: &str) -> Answers {
    play_here().await.into_iter().find(|(group, ..)| group.record == record).unwrap().2
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
    for group in GROUPS {
        let record = Record { version: version.clone(), answers: play(&client, &(group.steps)()).await };
        fs::write(group.file(), record.lines()).unwrap();
    }
}

/// Differences that are known, by the request's name, with the reason.
const KNOWN: [(&str, &str); 11] = [
    ("a group that nobody serves", "the real one answers in plain text, which clients read as NotFound too"),
    ("AgentDeployment: one with too many items is created", "the real one names a repeated item once"),
    ("Job: it is changed as another object", "the real one also misses the labels of the UID; both refuse"),
    ("Job: it is deleted while it is going", "the real one keeps the policy of the second deletion too"),
    ("Job: it is held no longer", "its version follows from the request before"),
    ("PersistentVolumeClaim: it is applied again", "the real one writes a claim again that an application created"),
    ("PersistentVolumeClaim: a list by label", "its version follows from that application"),
    ("PersistentVolumeClaim: a list by name", "its version follows from that application"),
    ("PersistentVolumeClaim: the other is deleted", "its version follows from that application"),
    ("PersistentVolumeClaim: all are gone", "its version follows from that application"),
    ("claims: no pod uses the second", "its version follows from that application"),
];

/// An answer without bookmarks: a real server sends one of a quiet collection in some runs, and none in others.
fn without_bookmarks(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    if let Some(events) = answer.body.as_array_mut() {
        events.retain(|event| event["type"] != "BOOKMARK");
    }
    answer
}

#[tokio::test(start_paused = true)]
async fn the_server_in_memory_answers_as_a_real_one_does() {
    let (mut compared, mut differing): (usize, Vec<(String, String)>) = (0, Vec::new());
    for (group, steps, answers) in play_here().await {
        let record = group.recorded();
        let names = |answers: &Answers| answers.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&answers), names(&record.answers), "recorded are other requests: make record-api-server");
        compared += steps.len();
        for step in steps {
            let [here, real] = [&answers, &record.answers].map(|all| without_bookmarks(&all[&step.name]));
            if here != real {
                let text = |answer: &Answer| serde_json::to_string_pretty(answer).unwrap();
                let lines = pretty_assertions::StrComparison::new(&text(&real), &text(&here)).to_string();
                differing.push((step.name, lines));
            }
        }
    }
    assert!(compared >= 690, "{compared} requests");
    println!("{} of {compared} requests are answered alike", compared - differing.len());
    let is_known = |name: &str| KNOWN.iter().any(|(known, _)| *known == name);
    let unknown = differing.iter().filter(|(name, _)| !is_known(name));
    let lines: Vec<String> = unknown.map(|(name, lines)| format!("{name}\n{lines}")).collect();
    assert!(lines.is_empty(), "{} of {compared} differ (< real, here >):\n{}", lines.len(), lines.join("\n"));
    let names = KNOWN.iter().map(|(known, _)| *known);
    let gone: Vec<&str> = names.filter(|known| differing.iter().all(|(name, _)| name != known)).collect();
    assert_eq!(gone, Vec::<&str>::new(), "these differ no longer");
}

/// Whatever is recorded: the scripts say what their requests come to.
#[tokio::test(start_paused = true)]
async fn requests_come_to_the_codes_that_their_scripts_expect() {
    let played = play_here().await;
    let asked = played.iter().flat_map(|(_, steps, answers)| steps.iter().map(|step| (step, answers[&step.name].code)));
    let expected: Vec<(&str, u16, u16)> =
        asked.filter_map(|(step, code)| Some((step.name.as_str(), step.code?, code))).collect();
    assert!(expected.len() >= 150, "{} requests", expected.len());
    let other: Vec<_> = expected.into_iter().filter(|(_, expected, code)| expected != code).collect();
    assert_eq!(other, Vec::new(), "(request, expected, answered)");
}

/// The operator shows these words to people.
#[tokio::test(start_paused = true)]
async fn quotas_say_what_they_refuse() {
    let said = [
        (
            "one is tried before it is known what is used",
            "controllerrevisions.apps \"first\" is forbidden: status unknown for quota: objects, resources: \
             count/controllerrevisions.apps",
        ),
        (
            "the second is created",
            "controllerrevisions.apps \"second\" is forbidden: exceeded quota: objects, requested: \
             count/controllerrevisions.apps=1, used: count/controllerrevisions.apps=1, limited: \
             count/controllerrevisions.apps=1",
        ),
        (
            "a pod that does not say what it needs",
            "pods \"silent\" is forbidden: failed quota: compute: must specify limits.memory for: main; requests.cpu \
             for: main",
        ),
        (
            "a pod that is too large is created",
            "pods \"second\" is forbidden: exceeded quota: compute, requested: \
             limits.memory=1536Mi,requests.cpu=750m, used: limits.memory=1Gi,requests.cpu=500m, limited: \
             limits.memory=2Gi,requests.cpu=1",
        ),
        (
            "a claim grows beyond the quota",
            "persistentvolumeclaims \"second\" is forbidden: exceeded quota: storage, requested: \
             requests.storage=2Gi, used: requests.storage=3Gi, limited: requests.storage=4Gi",
        ),
    ];
    let answers = answers_of("recorded-quotas.json").await;
    let found = said.map(|(name, _)| (name, answers[&format!("quotas: {name}")].body["message"].as_str().unwrap()));
    assert_eq!(found, said);
}

/// The operator's caches live by these events.
#[tokio::test(start_paused = true)]
async fn watches_show_what_they_select() {
    let answers = answers_of("recorded-watches.json").await;
    let types = |name: &str| {
        let events = answers[&format!("watch: {name}")].body.as_array().unwrap().iter();
        events.map(|event| event["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let watches = [
        ("by label", "ADDED MODIFIED DELETED"),
        ("by name", "ADDED MODIFIED MODIFIED"),
        ("of all namespaces", "ADDED MODIFIED DELETED"),
        ("sees them come and go", "MODIFIED DELETED ADDED DELETED ADDED"),
        ("of no version", "ADDED ADDED"),
        ("of a version long gone", "ERROR"),
        ("hears where it is", "MODIFIED DELETED ADDED DELETED ADDED BOOKMARK"),
        ("of nothing new hears where it is", "BOOKMARK"),
        ("from the list on", "MODIFIED MODIFIED MODIFIED MODIFIED DELETED"),
        ("of pods", "ADDED ADDED MODIFIED MODIFIED DELETED MODIFIED MODIFIED DELETED"),
    ];
    assert_eq!(watches.map(|(name, _)| (name, types(name))), watches.map(|(name, types)| (name, types.to_owned())));
}
