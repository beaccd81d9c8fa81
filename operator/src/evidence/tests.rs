//! Which pods are asked, for what, and who waits for whom.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_vocabulary::evidence::PATH;

use super::{
    room::{ROOMS, ROOMS_OF_CANARIES},
    *,
};

fn asked(deleted: Option<&str>, conditions: &Value) -> Option<AskedPod> {
    let metadata =
        json!({"name": "support-a-0", "labels": {"slipway.dev/revision": "a"}, "deletionTimestamp": deleted});
    let status = json!({"podIP": "10.0.0.7", "conditions": conditions});
    let pod = json!({"metadata": metadata, "spec": {"containers": [], "nodeName": "gpu-1"}, "status": status});
    AskedPod::of(&serde_json::from_value(pod).expect("a pod"))
}

/// The end of such a pod does not count as harm by its revision.
#[test]
fn a_pod_that_is_deleted_drained_or_evicted_is_leaving() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let expected = |is_ready, is_leaving| {
        let (revision, pod, address) = ("a".to_owned(), "support-a-0".to_owned(), "10.0.0.7".to_owned());
        let node = Some("gpu-1".to_owned());
        Some(AskedPod { revision, pod, node, address, is_ready, is_leaving })
    };
    assert_eq!(asked(None, &ready), expected(true, false));
    assert_eq!(asked(Some("2026-01-01T12:00:00Z"), &json!([])), expected(false, true));
    let disrupted = json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
    assert_eq!(asked(None, &disrupted), expected(false, true));
}

fn pod(name: &str, address: &str) -> AskedPod {
    let metadata = json!({"name": name, "labels": {"slipway.dev/revision": "a"}});
    let status = json!({"podIP": address, "conditions": [{"type": "Ready", "status": "True"}]});
    let pod = json!({"metadata": metadata, "spec": {"containers": []}, "status": status});
    AskedPod::of(&serde_json::from_value(pod).unwrap()).unwrap()
}

fn question(namespace: &str, windows_after: Option<u64>) -> Question<'_> {
    let spec = json!({"model": {"uri": "hf://a/b"}, "engine": {"backend": "Custom"}, "agent": {"systemPrompt": ""}});
    let keep = Keep::of(&serde_json::from_value(spec).unwrap());
    let windows = windows_after.map(Windows::after);
    Question { namespace, windows, keep, has_canary: false }
}

/// Pods with addresses of 10.9 never answer, and those of 10.8 begin an answer and never end it. Others have counted a
/// run in each of ten windows.
fn pods(asked: Arc<Mutex<Vec<String>>>, started_at: &'static str) -> Pods {
    Pods::asking(move |url| {
        asked.lock().unwrap().push(url.clone());
        Box::pin(async move {
            if url.contains("//10.9.") {
                tokio::time::sleep(PATIENCE).await;
                return Err(EvidenceError::Silent);
            }
            let stalls = url.contains("//10.8.");
            let after: u64 = url.rsplit('=').next().unwrap().parse().unwrap();
            let window = |id: u64| {
                json!({"id": id, "metrics": [{"metric": "AgentRunLatency", "unit": "Run", "started": 1, "count": 1,
                    "errors": 0, "buckets": [[600, 1]]}]})
            };
            let windows: Vec<Value> = (100..110).filter(|id| *id > after).map(window).collect();
            let evidence = json!({"revision": "a", "pod": "p", "startedAt": started_at, "windows": windows});
            // Those of 10.7 have as much to say as any pod may.
            let bytes = if url.contains("//10.7.") { MAX_BYTES } else { evidence.to_string().len() };
            let rest = async move {
                if stalls {
                    tokio::time::sleep(PATIENCE).await;
                    return Err(EvidenceError::Silent);
                }
                Ok::<Evidence, EvidenceError>(serde_json::from_value(evidence).unwrap())
            };
            Ok(Rest { bytes, read: Box::pin(rest) })
        })
    })
}

/// Whether the one pod was heard, and after how many seconds.
async fn heard(all: &Pods, question: Question<'_>, own: &[AskedPod]) -> (bool, u64) {
    let begin = Instant::now();
    let asked = all.ask(&question, own).await;
    (asked.counted["a"][0].is_some(), begin.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_asked_for_what_it_has_counted_since() {
    let asked = Arc::default();
    let (all, own) = (pods(Arc::clone(&asked), "t"), [pod("p", "10.1.0.1")]);
    let first = all.ask(&question("team", None), &own).await;
    let second = all.ask(&question("team", None), &own).await;
    assert_eq!((first.counted["a"].clone(), first.windows), (second.counted["a"].clone(), BTreeMap::new()));
    let judged = all.ask(&question("team", Some(104)), &own).await;
    let windows = judged.windows["a"][0].evidence.as_ref().unwrap().windows.iter().map(|window| window.id);
    assert_eq!(windows.collect::<Vec<_>>(), [105, 106, 107, 108, 109]);
    all.ask(&question("other", None), &own).await;
    let url = |after: u64| format!("http://10.1.0.1:9464{PATH}?after={after}");
    assert_eq!(*asked.lock().unwrap(), [url(0), url(109), url(104), url(0)]);
}

#[tokio::test(start_paused = true)]
async fn eight_agents_whose_pods_never_answer_delay_no_other_agent() {
    let all = Arc::new(pods(Arc::default(), "t"));
    let (healthy, begin) = ([pod("p", "10.1.0.1")], Instant::now());
    all.ask(&question("team", None), &healthy).await;
    let silent = |agent: usize| {
        let all = Arc::clone(&all);
        async move {
            let (namespace, own) =
                (format!("team-{agent}"), (0..8).map(|n| pod(&format!("p{n}"), &format!("10.9.{agent}.{n}"))));
            let own: Vec<AskedPod> = own.collect();
            loop {
                let asked = all.ask(&question(&namespace, None), &own).await;
                assert_eq!(asked.counted["a"], vec![None; 8]);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    };
    let others: Vec<_> = (0..8).map(|agent| tokio::spawn(silent(agent))).collect();
    for second in 1..120 {
        tokio::time::sleep_until(begin + Duration::from_secs(second)).await;
        let (before, newcomer) = (Instant::now(), [pod(&format!("n{second}"), "10.1.0.2")]);
        let known = all.ask(&question("team", None), &healthy).await;
        assert_eq!((known.counted["a"][0].is_some(), before.elapsed()), (true, Duration::ZERO), "at {second} s");
        // New pods of theirs are asked for two seconds at most, once.
        if second > 2 {
            let new = all.ask(&question("team", None), &newcomer).await;
            assert_eq!((new.counted["a"][0].is_some(), before.elapsed()), (true, Duration::ZERO), "at {second} s");
        }
    }
    others.into_iter().for_each(|other| other.abort());
}

#[tokio::test(start_paused = true)]
async fn a_silent_pod_is_left_alone_for_a_while_and_heard_once_it_answers() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let all = pods(Arc::clone(&asked), "t");
    for _ in 0..3 {
        all.ask(&question("team", None), &[pod("p", "10.9.0.1")]).await;
    }
    assert_eq!(asked.lock().unwrap().len(), 1);
    tokio::time::advance(AGAIN).await;
    let heard = all.ask(&question("team", None), &[pod("p", "10.1.0.1")]).await;
    assert!(heard.counted["a"][0].is_some());
}

#[test]
fn a_pod_that_has_ended_is_not_asked() {
    let of = |phase: &str| {
        let metadata = json!({"name": "p", "labels": {"slipway.dev/revision": "a"}});
        let pod = json!({"metadata": metadata, "status": {"podIP": "10.0.0.7", "phase": phase}});
        AskedPod::of(&serde_json::from_value(pod).unwrap()).is_some()
    };
    assert_eq!(["Pending", "Running", "Failed", "Succeeded"].map(of), [true, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_canary_is_told_whom_there_was_no_turn_for_and_who_was_silent() {
    let all = pods(Arc::default(), "t");
    let canary = Question { has_canary: true, ..question("team", Some(0)) };
    let told = async |address: &str| {
        let asked = all.ask(&canary, &[pod("p", address)]).await;
        let pod = &asked.windows["a"][0];
        (pod.was_asked, pod.evidence.is_some(), asked.is_whole)
    };
    assert_eq!(told("10.1.0.1").await, (true, true, true));
    let taken = taken(&all.lanes.of_canaries.turns);
    assert_eq!(told("10.1.0.1").await, (false, false, false), "there was no turn");
    drop(taken);
    assert_eq!(told("10.9.0.1").await, (true, false, true), "it was silent");
    assert_eq!(told("10.9.0.1").await, (true, false, true), "and was so a moment ago");
}

/// All turns, taken by others.
fn taken(turns: &Shared) -> Vec<Turn> {
    (0..).map_while(|other| turns.take_now(&format!("other-{other}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn slow_answers_of_one_namespace_leave_places_to_others() {
    let (all, own) = (pods(Arc::default(), "t"), [pod("p", "10.1.0.1")]);
    let canary = |namespace| Question { has_canary: true, ..question(namespace, None) };
    assert_eq!(heard(&all, canary("team"), &own).await, (true, 0));
    let answers = &all.lanes.of_canaries.answers;
    let slow: Vec<Turn> = std::iter::from_fn(|| answers.take_now("slow")).collect();
    assert_eq!(heard(&all, canary("team"), &own).await, (true, 0));
    drop(slow);
}

/// Rooms may belong to those who wait for the one that waits here.
#[tokio::test(start_paused = true)]
async fn a_canary_that_finds_no_room_gives_up_and_is_not_judged_by_silence() {
    let (all, own) = (pods(Arc::default(), "t"), [pod("p", "10.1.0.1")]);
    let canary = Question { has_canary: true, ..question("team", Some(0)) };
    let mut kept = Vec::new();
    for _ in 0..ROOMS_OF_CANARIES[1] {
        kept.push(all.ask(&canary, &own).await);
    }
    let began = Instant::now();
    let asked = all.ask(&canary, &own).await;
    let pod = &asked.windows["a"][0];
    assert_eq!((pod.was_asked, pod.evidence.is_some(), asked.room.is_some()), (false, false, false));
    assert_eq!((asked.counted["a"][0].is_some(), began.elapsed()), (true, ROOM));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waited_in_vain_for_its_turn_is_not_silent() {
    let (all, own) = (pods(Arc::default(), "t"), [pod("p", "10.1.0.1")]);
    assert_eq!(heard(&all, question("team", None), &own).await, (true, 0));
    let others = taken(&all.lanes.answering.turns);
    assert_eq!(heard(&all, question("team", None), &own).await, (false, LOOK.as_secs()));
    drop(others);
    let _silent = taken(&all.lanes.silent.turns);
    assert_eq!(heard(&all, question("team", None), &own).await, (true, 0));
}

#[tokio::test(start_paused = true)]
async fn answers_that_never_end_delay_no_pod_that_has_answered_and_no_canary() {
    let all = Arc::new(pods(Arc::default(), "t"));
    let (known, first) = ([pod("p", "10.1.0.1")], [pod("c", "10.1.0.2")]);
    all.ask(&question("team", None), &known).await;
    let stalled = (0..8).map(|agent| {
        let all = Arc::clone(&all);
        tokio::spawn(async move {
            let own: Vec<AskedPod> = (0..8).map(|n| pod(&format!("p{n}"), &format!("10.8.{agent}.{n}"))).collect();
            loop {
                all.ask(&question(&format!("team-{agent}"), None), &own).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    });
    let stalled: Vec<_> = stalled.collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(all.lanes.new.answers.take_now("team").is_none(), "they are being read");
    assert_eq!(heard(&all, question("team", None), &known).await, (true, 0));
    let canary = Question { has_canary: true, ..question("team", Some(104)) };
    assert_eq!(heard(&all, canary.clone(), &first).await, (true, 0), "for the first time");
    assert_eq!(heard(&all, canary, &known).await, (true, 0));
    stalled.iter().for_each(|stalled| stalled.abort());
}

#[tokio::test(start_paused = true)]
async fn pods_that_never_answer_take_no_room() {
    let all = Arc::new(pods(Arc::default(), "t"));
    let windows = |namespace: &'static str, address: &'static str| {
        let all = Arc::clone(&all);
        async move { all.ask(&question(namespace, Some(0)), &[pod("p", address)]).await }
    };
    let silent: Vec<_> = (0..8).map(|_| tokio::spawn(windows("silent", "10.9.0.1"))).collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begin = Instant::now();
    let heard = windows("team", "10.1.0.1").await;
    assert_eq!((heard.room.is_some(), heard.windows["a"].len(), begin.elapsed()), (true, 1, Duration::ZERO));
    for silent in silent {
        assert!(silent.await.unwrap().room.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn without_room_no_windows_are_kept_and_a_canary_waits() {
    let (all, own) = (Arc::new(pods(Arc::default(), "t")), [pod("p", "10.1.0.1")]);
    let mut kept = Vec::new();
    for _ in 0..ROOMS[1] {
        kept.push(all.ask(&question("team", Some(0)), &own).await);
    }
    let windows = async |namespace: &str| {
        let asked = all.ask(&question(namespace, Some(0)), &own).await;
        assert!(asked.counted["a"][0].is_some(), "what was counted is known all the same");
        (asked.windows.get("a").map_or(0, Vec::len), asked.room.is_some())
    };
    assert_eq!((windows("team").await, windows("other").await), ((0, false), (1, true)));
    kept.pop();
    assert_eq!(windows("team").await, (1, true));
    let canary = || Question { has_canary: true, ..question("team", Some(0)) };
    let mut canaries = Vec::new();
    for _ in 0..ROOMS_OF_CANARIES[1] {
        canaries.push(all.ask(&canary(), &own).await);
    }
    let waiting = tokio::spawn({
        let all = Arc::clone(&all);
        async move { heard(&all, Question { has_canary: true, ..question("team", Some(0)) }, &[pod("p", "10.1.0.1")]).await }
    });
    tokio::time::sleep(LOOK * 3).await;
    canaries.pop();
    assert_eq!(waiting.await.unwrap(), (true, 3 * LOOK.as_secs()));
}

/// As much as two hours of a busy pod, from each of twenty.
#[tokio::test(start_paused = true)]
async fn pods_that_say_as_much_as_they_may_take_the_memory_of_one_answer_and_none_of_canaries() {
    let all = pods(Arc::default(), "t");
    let forged: Vec<AskedPod> = (0..20).map(|n| pod(&format!("p{n}"), &format!("10.7.0.{n}"))).collect();
    let kept = |asked: &Asked| asked.windows["a"].iter().filter(|pod| pod.evidence.is_some()).count();
    let began = Instant::now();
    let first = all.ask(&question("forger", Some(0)), &forged).await;
    assert_eq!((kept(&first), first.is_whole), (1, false), "the others were not asked");
    assert!(began.elapsed() <= FIRST_LOOK, "{:?}", began.elapsed());

    let own = [pod("p", "10.1.0.1")];
    assert_eq!(heard(&all, question("team", Some(0)), &own).await, (true, 0), "another namespace");
    let canary = Question { has_canary: true, ..question("team", Some(0)) };
    assert_eq!(heard(&all, canary, &own).await, (true, 0));
    drop(first);
    assert_eq!(kept(&all.ask(&question("forger", Some(0)), &forged[1..2]).await), 1, "the memory came back");
}
