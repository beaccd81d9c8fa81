//! What `record` makes of what pods remember, and how it reads it.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use kube::{Client, client::Body};
use kubectl_slipway::{
    cluster::{Cluster, Place},
    forward::Forwarder,
    record::{NothingRecorded, Pods, Wanted, by_clock, next_steps, record},
    recorder::{self, Outputs, RecordArgs, Sources},
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_vocabulary::{
    failure::chain,
    recording::{
        CallLengths, Minute, RecordedCall, RecordedRun, Recording, RecordingLevel, RunLengths, TraceLine, TurnLengths,
        per_kilosecond,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const HOUR: u64 = 3_600_000_000;
/// The pods' clock.
const NOW: u64 = 10 * HOUR;

fn run(minutes_ago: u64, height: &str) -> RecordedRun {
    let arrived_micros = Some(NOW - minutes_ago * 60_000_000);
    let call = CallLengths { tool: "lookup".into(), result_tokens: 30, latency_micros: 4_000 };
    let turns =
        vec![TurnLengths { output_tokens: 20, calls: vec![call] }, TurnLengths { output_tokens: 9, calls: Vec::new() }];
    let arguments = [("name".to_owned(), "Bela".to_owned())].into();
    let call = RecordedCall { tool: "lookup".into(), arguments, result: height.to_owned(), latency_micros: 4_000 };
    let texts = TraceLine { input: "How high is Bela?".into(), calls: vec![call], arrived_micros };
    RecordedRun { lengths: RunLengths { arrived_micros, input_tokens: 17, turns }, texts: Some(texts) }
}

fn pod(pod: &str, level: RecordingLevel, runs: Vec<RecordedRun>) -> Recording {
    let (revision, pod) = ("support-1".to_owned(), pod.to_owned());
    let since_micros = NOW - 2 * HOUR;
    let (dropped, unanswered) = (Vec::new(), Vec::new());
    Recording { version: 1, revision, pod, level, at_micros: NOW, since_micros, dropped, unanswered, runs }
}

fn minute(minutes_ago: u64, runs: u64) -> Vec<Minute> {
    vec![Minute { at_micros: NOW - minutes_ago * 60_000_000, runs }]
}

fn wanted(texts: bool) -> Wanted<'static> {
    Wanted { name: "support", micros: HOUR, texts }
}

fn all(recordings: impl Into<Vec<Recording>>) -> Pods {
    Pods { recordings: recordings.into(), ..Pods::default() }
}

#[test]
fn pods_are_joined_by_when_their_runs_arrived() {
    let pods = all([
        pod("a", RecordingLevel::Lengths, vec![run(61, "1"), run(30, "1"), run(10, "1")]),
        Recording { unanswered: minute(15, 2), ..pod("b", RecordingLevel::Lengths, vec![run(20, "1")]) },
    ]);
    let recorded = record(wanted(false), &pods).unwrap();
    let lines: Vec<RunLengths> = recorded.lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let arrived: Vec<_> = lines.iter().filter_map(|line| line.arrived_micros).collect();
    // They count from the first run of the hour. Five came in the time of three, and so they are closer.
    assert_eq!(arrived, [0, 360_000_000, 720_000_000]);
    assert!(!recorded.lines.contains("Bela"), "{}", recorded.lines);
    assert_eq!(
        recorded.told,
        [
            "3 runs of 2 pods in 20 min, from 1970-01-01T09:30:00Z to 1970-01-01T09:50:00Z, too few or too close for a rate: a campaign lets them arrive at random",
            "left out: 2 runs without an answer; the rate has them too"
        ]
    );
}

fn rate(lines: &str) -> Option<u64> {
    let times = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["arrivedMicros"].as_u64());
    per_kilosecond(times.collect::<Vec<_>>())
}

#[test]
fn the_rate_of_a_file_is_that_of_all_that_arrived() {
    // 40 runs in 39 minutes, of which ten have no texts, and ten more without an answer: one in 47 s.
    let texts_of = |minutes_ago: u64| {
        let run = run(minutes_ago, "1");
        if minutes_ago % 4 == 1 { RecordedRun { texts: None, ..run } } else { run }
    };
    let runs = (0..40).rev().map(texts_of).collect();
    let pods = all([Recording { unanswered: minute(9, 10), ..pod("a", RecordingLevel::Texts, runs) }]);
    let [lengths, texts] = [false, true].map(|texts| record(wanted(texts), &pods).unwrap());
    assert_eq!((lengths.lines.lines().count(), texts.lines.lines().count()), (40, 30));
    assert_eq!((rate(&lengths.lines), rate(&texts.lines)), (Some(20), Some(20)));
    assert!(texts.told[0].ends_with(", 0.020 a second"), "{}", texts.told[0]);
    let lately = record(Wanted { micros: HOUR / 10, ..wanted(false) }, &pods).unwrap();
    assert_eq!(lately.told.len(), 1, "of the last six minutes all have an answer: {:?}", lately.told);
}

#[test]
fn a_file_without_most_of_the_traffic_is_not_written() {
    let silent = |minutes_ago: u64| RecordedRun { texts: None, ..run(minutes_ago, "1") };
    let texts = all([pod("a", RecordingLevel::Texts, vec![silent(9), silent(8), silent(7), run(6, "1"), run(5, "1")])]);
    assert_eq!(
        record(wanted(true), &texts).unwrap_err().to_string(),
        "the file would have 2 of 5 runs, as 3 cannot be replayed with texts, 0 had to go and 0 had no answer. Less than a half is other traffic: leave out --texts"
    );
    assert!(record(wanted(false), &texts).is_ok());
    let full =
        Recording { unanswered: minute(5, 3), ..pod("a", RecordingLevel::Lengths, vec![run(6, "1"), run(5, "1")]) };
    assert_eq!(
        record(wanted(false), &all([full])).unwrap_err().to_string(),
        "the file would have 2 of 5 runs, as 0 cannot be replayed with texts, 0 had to go and 3 had no answer. Less than a half is other traffic: record while most runs are answered"
    );
}

#[test]
fn a_forged_count_ends_no_program() {
    let forged = |pod_name| {
        let (dropped, unanswered) = (minute(1, u64::MAX), minute(1, u64::MAX));
        Recording { dropped, unanswered, ..pod(pod_name, RecordingLevel::Lengths, vec![run(6, "1")]) }
    };
    let NothingRecorded::Minority { all, .. } = record(wanted(false), &all([forged("a"), forged("b")])).unwrap_err()
    else {
        panic!("no file has so many runs")
    };
    assert_eq!(all, u64::MAX);
}

#[test]
fn pods_with_other_clocks_are_joined_by_ours() {
    let of_ours = Recording {
        dropped: minute(50, 1),
        unanswered: minute(40, 1),
        ..pod("a", RecordingLevel::Texts, vec![run(30, "1")])
    };
    for theirs in [NOW + 90_000_000, NOW - 90_000_000] {
        let of_theirs = by_clock(of_ours.clone(), theirs);
        assert_eq!(of_theirs.at_micros, theirs);
        assert_ne!(of_theirs.runs, of_ours.runs);
        assert_eq!(by_clock(of_theirs, NOW), of_ours);
    }
}

#[test]
fn a_pod_that_says_two_times_of_a_run_is_believed_once() {
    let mut odd = run(20, "1");
    odd.texts.as_mut().unwrap().arrived_micros = Some(u64::MAX);
    let mut of_tomorrow = run(20, "1");
    of_tomorrow.lengths.arrived_micros = Some(NOW + HOUR);
    let pods = all([pod("a", RecordingLevel::Texts, vec![run(30, "1"), odd, run(10, "1"), of_tomorrow])]);
    let lines = record(wanted(true), &pods).unwrap().lines;
    let arrived: Vec<_> =
        lines.lines().map(|line| serde_json::from_str::<TraceLine>(line).unwrap().arrived_micros).collect();
    assert_eq!(arrived, [0, 600_000_000, 1_200_000_000].map(Some));
}

#[test]
fn texts_are_a_trace_in_which_an_equal_call_may_have_several_results() {
    let silent = RecordedRun { texts: None, ..run(5, "1") };
    let pods = all([pod("a", RecordingLevel::Texts, vec![run(30, "123"), run(20, "124"), run(10, "123"), silent])]);
    let recorded = record(wanted(true), &pods).unwrap();
    let lines: Vec<TraceLine> = recorded.lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let results: Vec<_> = lines.iter().map(|line| (line.calls[0].result.as_str(), line.arrived_micros)).collect();
    // Three of four, and so they come faster by a third.
    assert_eq!(results, [("123", Some(0)), ("124", Some(450_000_000)), ("123", Some(900_000_000))]);
    assert_eq!(recorded.told[1..], ["left out: 1 run that cannot be replayed with texts"]);
}

#[test]
fn the_latest_runs_stay_where_a_config_map_cannot_hold_all() {
    let runs = (0..11_000).map(|index| run(59 - index / 200, "1")).collect();
    let recorded = record(wanted(false), &all([pod("a", RecordingLevel::Lengths, runs)])).unwrap();
    assert!((950_000..=1_000_000).contains(&recorded.lines.len()), "{}", recorded.lines.len());
    let kept = recorded.lines.lines().count();
    let left_out = format!("left out: {} runs, the oldest: a workload holds no more", 11_000 - kept);
    assert_eq!(recorded.told[1], left_out);
    assert!(recorded.lines.starts_with("{\"arrivedMicros\":0,"), "times count from the first that stays");
}

#[test]
fn a_file_has_no_more_tokens_than_a_campaign_keeps_in_memory() {
    let long = |minutes_ago: u64| {
        let mut run = run(minutes_ago, "1");
        run.lengths.input_tokens = 1_600_000;
        run
    };
    let runs = (1..=6).rev().map(long).collect();
    let recorded = record(wanted(false), &all([pod("a", RecordingLevel::Lengths, runs)])).unwrap();
    assert_eq!((recorded.lines.lines().count(), recorded.told[1].starts_with("left out: 2 runs")), (4, true));
}

#[test]
fn a_pod_that_remembers_less_is_named() {
    let young = Recording { since_micros: NOW - HOUR / 4, ..pod("b", RecordingLevel::Lengths, Vec::new()) };
    let busy = Recording { dropped: minute(30, 1), pod: "c".into(), ..young.clone() };
    let off = pod("d", RecordingLevel::None, Vec::new());
    let recordings = vec![pod("a", RecordingLevel::Lengths, vec![run(1, "1")]), young, busy, off];
    let told =
        record(wanted(false), &Pods { recordings, older: vec!["e".into()], gone: vec!["f".into()] }).unwrap().told;
    assert_eq!(
        told,
        [
            "1 run of 4 pods in 0 s, from 1970-01-01T09:59:00Z to 1970-01-01T09:59:00Z, too few or too close for a rate: a campaign lets them arrive at random",
            "pod b has served for 15 min",
            "pod c remembers only the last 15 min: 1 run had to go, as it holds only so many",
            "pod d remembers no runs: its revision records nothing",
            "pod e remembers no runs: its agent runtime is older",
            "pod f ended before it answered: its runs are missing"
        ]
    );
}

#[test]
fn more_runs_that_had_to_go_than_are_left_are_not_the_traffic_that_was_asked_for() {
    let runs = || vec![run(10, "1"), run(5, "1")];
    let dropped = minute(30, 3);
    let busy = Recording { since_micros: NOW - HOUR / 5, dropped, ..pod("a", RecordingLevel::Lengths, runs()) };
    let pods = all([busy.clone(), pod("b", RecordingLevel::Lengths, Vec::new())]);
    assert_eq!(
        record(wanted(false), &pods).unwrap_err().to_string(),
        "3 runs of the last 60 min had to go, as pods and files hold only so many, and 2 are left: write --for 12m, of which every run is there"
    );
    let lately = Wanted { micros: HOUR / 5, ..wanted(false) };
    assert_eq!(record(lately, &pods).unwrap().told.len(), 1, "nothing of that time had to go");
    let many = (0..20_000).map(|index| run(59 - index / 400, "1")).collect();
    let NothingRecorded::Dropped { dropped, kept, known, .. } =
        record(wanted(false), &all([pod("a", RecordingLevel::Lengths, many)])).unwrap_err()
    else {
        panic!("a ConfigMap does not hold the half of it")
    };
    assert_eq!((dropped + kept, known.ends_with('m')), (20_000, true), "{known}");
}

#[rstest]
#[case::too_long(Wanted { micros: HOUR + 1, ..wanted(false) }, Pods::default(), "--for: pods remember an hour: write 1h or less")]
#[case::no_pod(wanted(false), Pods::default(), "no pod of support is ready: `kubectl slipway get support` shows why")]
#[case::older(
    wanted(false),
    Pods { older: vec!["a".into()], ..Pods::default() },
    "the pods of support have an agent runtime from before recordings, and the next revision brings a newer one: change spec.agent or spec.serving, and record once that revision has served"
)]
#[case::newer(
    wanted(false),
    all([Recording { version: 2, ..pod("a", RecordingLevel::Lengths, Vec::new()) }]),
    "pod a writes version 2 of recordings, and this plugin reads 1: install a newer plugin"
)]
#[case::off(
    wanted(false),
    all([pod("a", RecordingLevel::None, Vec::new())]),
    "the pods of support remember no runs: set spec.serving.recording.level to Lengths, and record once the new revision has served"
)]
#[case::no_texts(
    wanted(true),
    all([pod("a", RecordingLevel::Lengths, vec![run(1, "1")])]),
    "the pods of support remember no texts: set spec.serving.recording.level to Texts, and record once the new revision has served"
)]
#[case::no_texts_yet(
    wanted(true),
    all([
        pod("a", RecordingLevel::Lengths, vec![RecordedRun { texts: None, ..run(1, "1") }]),
        pod("b", RecordingLevel::Texts, Vec::new()),
    ]),
    "the pods that remember texts have answered no run of the last 60 min: record once their revision has traffic, or leave out --texts"
)]
#[case::no_run(
    wanted(false),
    all([pod("a", RecordingLevel::Lengths, vec![run(61, "1")])]),
    "no run of the last 60 min was answered: write a longer --for, or wait for traffic"
)]
#[case::nothing_to_replay(
    wanted(true),
    all([pod("a", RecordingLevel::Texts, vec![RecordedRun { texts: None, ..run(1, "1") }])]),
    "none of 1 runs can be replayed with its texts, as conversations, clients' instructions and failed tools cannot: leave out --texts"
)]
fn where_there_is_nothing_the_remedy_is_named(#[case] wanted: Wanted<'_>, #[case] pods: Pods, #[case] expected: &str) {
    let nothing: NothingRecorded = record(wanted, &pods).unwrap_err();
    assert_eq!(nothing.to_string(), expected);
}

#[test]
fn a_file_is_applied_where_the_agent_is_and_again() {
    let flags = ["--kubeconfig", "/my files/config", "--context", "prod", "--namespace", "team"].map(str::to_owned);
    assert_eq!(
        next_steps(&wanted(false), (&flags, "my runs.jsonl"))[0],
        "kubectl create configmap support-runs --kubeconfig '/my files/config' --context prod --namespace team \
         '--from-file=runs.jsonl=my runs.jsonl' --dry-run=client -o yaml | \
         kubectl apply --kubeconfig '/my files/config' --context prod --namespace team --server-side -f -"
    );
}

/// An API server with an agent of one pod, which answers the proxied path.
fn cluster(recording: impl Fn() -> (u16, Value) + Send + Sync + Clone + 'static) -> Cluster {
    cluster_for(usize::MAX, recording)
}

/// The same whose pod is listed so often, and then is gone.
fn cluster_for(listed: usize, recording: impl Fn() -> (u16, Value) + Send + Sync + Clone + 'static) -> Cluster {
    let lists = Arc::new(AtomicUsize::new(0));
    let serve = move |request: Request<Body>| {
        let (recording, lists) = (recording.clone(), Arc::clone(&lists));
        async move {
            let agent = json!({
                "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": "support"},
                "spec": {
                    "model": {"uri": "http://models.example/react"},
                    "engine": {"backend": "Custom", "custom": {"builderImage": "b:1", "tritonImage": "t:1"}},
                    "agent": {},
                },
            });
            let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            let all = [
                json!({"metadata": {"name": "support-1-x"}, "status": ready}),
                json!({"metadata": {"name": "starting"}}),
            ];
            let pods = || {
                let gone = usize::from(lists.fetch_add(1, Ordering::Relaxed) >= listed);
                json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": all[gone..]})
            };
            let (status, body) = match request.uri().path() {
                "/apis/slipway.dev/v1alpha1/namespaces/team/agentdeployments/support" => (200, agent),
                "/api/v1/namespaces/team/pods" => (200, pods()),
                "/api/v1/namespaces/team/pods/support-1-x:9464/proxy/slipway/v1/recording" => recording(),
                other => (500, json!({"message": format!("nobody asks for {other}")})),
            };
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(status).body(Body::from(body.to_string().into_bytes())).unwrap(),
            )
        }
    };
    Cluster::behind(Client::new(tower::service_fn(serve), "team"), "team")
}

async fn told(cluster: &Cluster, forwarder: &Forwarder, args: &RecordArgs) -> (String, String) {
    let (mut out, mut aside) = (Vec::new(), Vec::new());
    let sources = Sources { cluster, forwarder, clock: || NOW };
    let end = recorder::run(sources, args, Outputs { out: &mut out, aside: &mut aside }).await;
    let aside = end.map_or_else(|error| chain(&error), |()| String::from_utf8(aside).unwrap());
    (String::from_utf8(out).unwrap(), aside)
}

fn args(texts: bool) -> RecordArgs {
    RecordArgs { name: "support".into(), within: "1h".parse().unwrap(), output: None, texts }
}

fn kubectl(program: &Path) -> Forwarder {
    Forwarder { program: program.to_owned(), place: Place { namespace: Some("team".into()), ..Place::default() } }
}

fn answer(level: RecordingLevel) -> Value {
    let RecordedRun { lengths, .. } = run(1, "123");
    // What a pod calls itself does not matter.
    serde_json::to_value(pod("--forged", level, vec![RecordedRun { lengths, texts: None }])).unwrap()
}

#[tokio::test]
async fn lengths_come_through_the_proxy_and_the_next_steps_are_told_aside() {
    let cluster = cluster(|| (200, answer(RecordingLevel::Lengths)));
    let (out, aside) = told(&cluster, &kubectl(Path::new("/nowhere/kubectl")), &args(false)).await;
    let line = "{\"arrivedMicros\":0,\"inputTokens\":17,\"turns\":[{\"outputTokens\":20,\"calls\":[{\"tool\":\"lookup\",\
                \"resultTokens\":30,\"latencyMicros\":4000}]},{\"outputTokens\":9}]}\n";
    assert_eq!(out, line);
    assert_eq!(
        aside,
        "1 run of 1 pod in 0 s, from 1970-01-01T09:59:00Z to 1970-01-01T09:59:00Z, too few or too close for a rate: \
         a campaign lets them arrive at random\n\
         kubectl create configmap support-runs --namespace team --from-file=runs.jsonl=FILE --dry-run=client -o yaml | \
         kubectl apply --namespace team --server-side -f -\n\
         spec.profiling: {workloads: [{name: recorded, recordedLengths: {configMap: {name: support-runs, key: runs.jsonl}}}]}\n"
    );
}

#[tokio::test]
async fn a_file_that_is_named_is_written_and_told() {
    let folder = std::env::temp_dir().join(format!("slipway-record-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("runs.jsonl");
    let cluster = cluster(|| (200, answer(RecordingLevel::Lengths)));
    let args = RecordArgs { output: Some(path.clone()), ..args(false) };
    let (out, aside) = told(&cluster, &kubectl(Path::new("/nowhere/kubectl")), &args).await;
    assert!(out.contains(&format!(" --from-file=runs.jsonl={} ", path.display())), "{out}");
    assert_eq!((aside.as_str(), fs::read_to_string(&path).unwrap().lines().count()), ("", 1));
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn pods_of_an_earlier_release_are_told_apart() {
    let cluster = cluster(|| (404, json!({"message": "not found"})));
    let (_, aside) = told(&cluster, &kubectl(Path::new("/nowhere/kubectl")), &args(false)).await;
    assert_eq!(
        aside,
        "the pods of support have an agent runtime from before recordings, and the next revision brings a newer one: \
         change spec.agent or spec.serving, and record once that revision has served"
    );
}

#[tokio::test]
async fn a_pod_that_ends_meanwhile_is_not_taken_for_an_older_one() {
    let cluster = cluster_for(1, || (404, json!({"message": "pods \"support-1-x\" not found"})));
    let (_, aside) = told(&cluster, &kubectl(Path::new("/nowhere/kubectl")), &args(false)).await;
    assert_eq!(aside, "no pod of support is ready: `kubectl slipway get support` shows why");
}

/// A program in place of kubectl, which says where it forwards to, and notes how it was called.
fn stand_in(folder: &Path, script: &str) -> std::path::PathBuf {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("kubectl");
    fs::write(&path, format!("#!/bin/sh\necho \"$@\" > {}/called\n{script}\n", folder.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn texts_come_through_a_forwarded_port_of_loopback() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 512];
        let length = stream.read(&mut request).await.unwrap();
        assert!(request[..length].starts_with(b"GET /slipway/v1/recording HTTP/1.0\r\n"));
        let body = serde_json::to_string(&pod("--forged", RecordingLevel::Texts, vec![run(1, "123")])).unwrap();
        stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{body}").as_bytes()).await.unwrap();
    });
    let folder = std::env::temp_dir().join(format!("slipway-forward-{}", std::process::id()));
    let program = stand_in(&folder, &format!("echo 'Forwarding from 127.0.0.1:{port} -> 9467'; exec sleep 60"));
    let cluster = cluster(|| (200, answer(RecordingLevel::Texts)));
    let path = folder.join("runs.jsonl");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let args = RecordArgs { output: Some(path.clone()), ..args(true) };
    let (aside, errors) = told(&cluster, &kubectl(&program), &args).await;
    assert_eq!(errors, "");
    let line: TraceLine = serde_json::from_str(fs::read_to_string(&path).unwrap().trim()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "texts are for nobody else");
    assert_eq!((line.input.as_str(), line.calls[0].result.as_str()), ("How high is Bela?", "123"));
    assert!(aside.contains("agentTrace: {configMap: {name: support-runs, key: runs.jsonl}}"), "{aside}");
    let called = "--namespace team port-forward --address 127.0.0.1 pod/support-1-x :9467\n";
    assert_eq!(fs::read_to_string(folder.join("called")).unwrap(), called);
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn who_may_not_forward_ports_gets_no_texts_and_is_told_why() {
    let folder = std::env::temp_dir().join(format!("slipway-forbidden-{}", std::process::id()));
    let refusal = "pods \"support-1-x\" is forbidden: cannot create resource \"pods/portforward\"";
    let program = stand_in(&folder, &format!("echo '{refusal}' >&2; exit 1"));
    let cluster = cluster(|| (200, answer(RecordingLevel::Texts)));
    let (out, aside) = told(&cluster, &kubectl(&program), &args(true)).await;
    assert_eq!(out, "");
    assert_eq!(aside, format!("failed to read the texts of pod support-1-x: kubectl port-forward ended: {refusal}"));
    fs::remove_dir_all(&folder).unwrap();
}
