//! What people are shown, as files.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kubectl_slipway::{
    conversation::{Run, conversation},
    measured::Measurements,
    outlook::outlook,
    overview::overview,
    progress::{Look, Narrator, Progress, progress},
    rollout::{is_under_way, rollout, self_check},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_vocabulary::evidence::{Evidence, Histogram};

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time})
}

fn agent(observed_generation: i64, conditions: &[Value]) -> AgentDeployment {
    let quality = json!({
        "manifestDigest": "m", "datasetDigest": "d", "samples": 400, "scorePartsPerMillion": 962_500,
        "dropPartsPerMillion": 12_500, "dropUpperBoundPartsPerMillion": 31_000, "accepted": false,
    });
    let object = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
        "metadata": {"name": "facts-agent", "namespace": "demo", "generation": 2},
        "spec": {
            "model": {"uri": "http://models/react-512/"},
            "engine": {"backend": "Custom", "custom": {"builderImage": "b", "tritonImage": "t"}},
            "slo": {"objectives": [
                {"name": "answer-median", "metric": "AgentRunLatency", "percentile": "p50", "max": "5s"},
                {"name": "answer-tail", "metric": "AgentRunLatency", "percentile": "p99", "max": "300ms"},
                {"name": "first-token", "metric": "TimeToFirstToken", "percentile": "p95", "max": "1s"},
            ]},
            "agent": {},
        },
        "status": {
            "observedGeneration": observed_generation, "stage": "Serving", "readyReplicas": "1/1",
            "conditions": conditions,
            "engines": [
                {"name": "engine-1", "displayName": "fp32", "precision": "FP32", "state": "built"},
                {"name": "engine-2", "displayName": "int8", "precision": "INT8", "state": "refused", "quality": quality},
            ],
            "selected": {
                "displayName": "fp32", "engine": "engine-1", "manifestDigest": "m", "maxInFlight": 8,
                "why": "the first that passed the gate",
            },
            "slo": [
                {"name": "answer-median", "objective": "AgentRunLatency p50", "target": "≤ 5s", "predicted": "401ms",
                 "observed": "410ms", "window": "3m", "met": true},
                {"name": "answer-tail", "objective": "AgentRunLatency p99", "target": "≤ 300ms", "observed": "420ms",
                 "window": "3m", "met": false},
                {"name": "first-token", "objective": "TimeToFirstToken p95", "target": "≤ 1s"},
                {"name": "slo.throughput", "objective": "throughput", "target": "≥ 2 runs/s", "predicted": "2.04 runs/s"},
            ],
        },
    });
    serde_json::from_value(object).unwrap()
}

fn evidence() -> Evidence {
    let mut buckets = Histogram::new();
    [400_000, 420_000, 410_000].into_iter().for_each(|value| buckets.record(value));
    let metric = json!({
        "metric": "AgentRunLatency", "unit": "Run", "stratum": "", "started": 3, "newSessions": 0, "inFlight": 0,
        "oldestInFlightMicroseconds": 0, "count": 3, "errors": 0, "sumMicroseconds": 1_230_000, "buckets": buckets,
    });
    let windows = json!([{"id": 1, "metrics": [metric]}]);
    let evidence = json!({"revision": "r", "pod": "p", "startedAt": "2026-01-01T00:00:00Z", "windows": windows});
    serde_json::from_value(evidence).unwrap()
}

fn at_rest() -> Vec<Value> {
    vec![condition("Ready", "True", "Serving", "1 ready"), condition("Reconciling", "False", "UpToDate", "at rest")]
}

/// An agent whose traffic is split between two revisions, or whose canary was rolled back.
fn rolling_out(rollout: Value) -> AgentDeployment {
    let mut object = agent(2, &[]);
    object.spec.rollout = serde_json::from_value(json!({
        "traffic": {"type": "ReplicaRatio"}, "steps": [{"weight": 20}, {"weight": 50}], "judge": {"falseRollback": "1%"},
    }))
    .unwrap();
    object.status.as_mut().unwrap().rollout = Some(serde_json::from_value(rollout).unwrap());
    object
}

#[test]
fn a_rollout_shows_shares_verdict_and_how_near_the_evidence_is_to_the_bound() {
    let object = rolling_out(json!({
        "stable": "1f2e3d4c5b", "canary": "5b4c3d2e1f", "weight": 20, "weightSince": "2026-01-01T12:00:00Z",
        "verdict": "Hold", "reason": "NotYetShown", "message": "no harm is shown, and no equality either",
        "judgedAt": "2026-01-01T12:01:30Z", "expectedVerdict": "about 4 min at today's traffic",
        "evidence": [
            {"guard": "RequestLatency/relative", "logEvidence": "2.30"},
            {"guard": "RequestLatency/errors", "logEvidence": "-0.41"},
        ],
        "rejected": [{"plan": "0a0b0c0d0e", "at": "2026-01-01T11:00:00Z", "reason": "5 of 100 runs failed"}],
    }));
    assert!(is_under_way(&object));
    let expected = "\
Rollout:
  revision 1f2e3d4c5b has 80 % of the traffic, canary 5b4c3d2e1f has 20 % since 12:00:00 UTC; the steps are 20 %, 50 %
  the judge says Hold (NotYetShown), at 12:01:30 UTC: no harm is shown, and no equality either
  for a revision that equals stable: about 4 min at today's traffic
  evidence of harm, as logarithms; the canary is rolled back when their weighted mean reaches 4.6
    GUARD                     LOG     OF THE BOUND
    RequestLatency/relative   2.30    ########## the strongest
    RequestLatency/errors     -0.41
  0a0b0c0d0e was rolled back at 11:00:00 UTC: 5 of 100 runs failed
";
    assert_eq!(rollout(&object), expected);
}

#[test]
fn a_rollout_says_whether_its_judge_can_be_trusted_where_that_was_checked() {
    let mut object = rolling_out(json!({"stable": "1f2e3d4c5b"}));
    assert_eq!(self_check(&object), "");
    let conditions = [
        condition("JudgeTrusted", "True", "SelfCheckPassed", "0 of 10 shuffles"),
        condition("JudgeTrusted", "False", "SelfCheckFailed", "4 of 10 shuffles"),
        condition("JudgeTrusted", "Unknown", "TooFewPods", "3 pods"),
    ];
    let said = conditions.map(|condition| {
        object.status.as_mut().unwrap().conditions = vec![serde_json::from_value(condition).unwrap()];
        self_check(&object)
    });
    let expected = [
        "The judge can be trusted here (SelfCheckPassed):\n  0 of 10 shuffles\n",
        "The judge cannot be trusted here (SelfCheckFailed):\n  4 of 10 shuffles\n",
        "The judge may or may not be trusted here (TooFewPods):\n  3 pods\n",
    ];
    assert_eq!(said, expected);
}

/// Ten minutes of a pod whose runs take one model request each, of 0.7 to 1.4 s; so many end in a window.
fn ten_minutes_of(revision: &str, pod: &str, runs: u64) -> Evidence {
    let window = |id: u64| {
        let mut buckets = Histogram::new();
        (0..runs).for_each(|run| buckets.record(700_000 + 700_000 * ((run * 15 + id) % 60) / 60));
        let metric = |name: &str| {
            json!({
                "metric": name, "unit": "Run", "stratum": "", "started": runs, "newSessions": 0, "inFlight": 0,
                "oldestInFlightMicroseconds": 0, "count": runs, "errors": 0, "sumMicroseconds": 0, "buckets": buckets,
            })
        };
        let metrics = ["AgentRunLatency", "ModelTime", "RequestLatency"].map(metric);
        json!({"id": id, "metrics": metrics})
    };
    let windows: Vec<Value> = (1..=60).map(window).collect();
    let evidence = json!({
        "version": 2, "revision": revision, "pod": pod, "startedAt": "2026-01-01T00:00:00Z", "windows": windows,
    });
    serde_json::from_value(evidence).unwrap()
}

#[test]
fn an_outlook_says_from_stables_traffic_how_long_verdicts_take_and_which_steps_are_faster() {
    let mut object = rolling_out(json!({"stable": "1f2e3d4c5b", "canary": "5b4c3d2e1f", "weight": 20}));
    object.spec.slo.objectives.clear();
    let pods = [
        ten_minutes_of("1f2e3d4c5b", "a", 4),
        ten_minutes_of("1f2e3d4c5b", "b", 4),
        ten_minutes_of("5b4c3d2e1f", "c", 9),
    ];
    let expected = "\
Outlook at the traffic of the last 10 min, 0.80 runs/s on 2 pods:
  STEPS        AN EQUAL REVISION IS PROMOTED AFTER   ONE 50 % SLOWER IS ROLLED BACK WITHIN
  33 %, 50 %   20 min                                6 min
  50 %         10 min                                5 min
  equal: shown to be slower by less than 10%; slower: the model calls are, and 95 of 100 are found by then
  fewer steps are faster, and a bad revision has more users from the start
";
    assert_eq!(outlook(&object, &pods), expected);
}

#[test]
fn an_outlook_says_from_how_many_units_on_a_promotion_can_rest_on_the_percentile_of_an_objective() {
    let mut object = rolling_out(json!({"stable": "1f2e3d4c5b", "canary": "5b4c3d2e1f", "weight": 20}));
    object.spec.slo.objectives.clear();
    let objective = json!({"name": "answer", "metric": "AgentRunLatency", "percentile": "p95", "max": "60s"});
    object.spec.slo.objectives.push(serde_json::from_value(objective).unwrap());
    let pods = ["a", "b"].map(|pod| ten_minutes_of("1f2e3d4c5b", pod, 4));
    let text = outlook(&object, &pods);
    let line = text.lines().last().unwrap();
    let units = line.strip_prefix("  AgentRunLatency at p95: promoted from about ").unwrap();
    let (units, rest) = units.split_once(' ').unwrap();
    assert_eq!(rest, "units of each revision on, TooFewUnitsAtPercentile below");
    assert!((100..100_000).contains(&units.parse::<u64>().unwrap()), "{text}");
}

#[test]
fn an_outlook_without_traffic_or_without_a_judge_says_nothing_that_nobody_can_know() {
    let object = rolling_out(json!({"stable": "1f2e3d4c5b"}));
    assert_eq!(outlook(&object, &[]), "");
    let idle = outlook(&object, &[ten_minutes_of("1f2e3d4c5b", "a", 0)]);
    let row = idle.lines().nth(2).unwrap().split("   ").filter(|cell| !cell.is_empty()).map(str::trim);
    assert_eq!(row.collect::<Vec<_>>(), ["50 %", "unknown: too little traffic", "not within minSoak"]);
    assert_eq!(outlook(&agent(2, &[]), &[evidence()]), "", "nobody judges where all traffic switches at once");
}

#[test]
fn a_rollout_beside_a_baseline_shows_the_shares_of_all_three() {
    let object = rolling_out(json!({
        "stable": "1f2e3d4c5b", "canary": "5b4c3d2e1f", "weight": 20, "weightSince": "2026-01-01T12:00:00Z",
        "baseline": {"revision": "5b4c3d2e1f-base", "weight": 20, "pods": 2, "readyPods": 1},
    }));
    let expected = "\
Rollout:
  revision 1f2e3d4c5b has 60 % of the traffic, canary 5b4c3d2e1f has 20 % since 12:00:00 UTC; the steps are 20 %, 50 %
  its baseline 5b4c3d2e1f-base, fresh pods of stable's plan, has 20 %: 1 of 2 pods are ready
";
    assert_eq!(rollout(&object), expected);
}

#[test]
fn what_waits_for_approval_shows_what_it_would_change_and_how_to_approve_it() {
    let object = rolling_out(json!({
        "stable": "1f2e3d4c5b",
        "proposed": {
            "planHash": "5b4c3d2e1f", "since": "2026-01-01T12:00:00Z", "why": "highest throughput of 8 measured points",
            "changes": ["engine.displayName: fp32 -> int8", "maxInFlight: 4 -> 8"],
        },
    }));
    let expected = "\
Rollout:
  revision 1f2e3d4c5b has all traffic
  5b4c3d2e1f waits for approval since 12:00:00 UTC: highest throughput of 8 measured points
    engine.displayName: fp32 -> int8
    maxInFlight: 4 -> 8
  approve it with `kubectl slipway approve facts-agent -n demo`, or spec.rollout.approve: 5b4c3d2e1f in the manifest
";
    assert_eq!((is_under_way(&object), rollout(&object).as_str()), (false, expected));
}

#[test]
fn a_rollout_without_room_shows_what_it_has_and_when_it_asks_again() {
    let scheduler = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu";
    let shown = |phase: &str, pods: i32, drained: i32, reason: Option<&str>| {
        let capacity = json!({
            "phase": phase, "wanted": 4, "pods": pods, "drained": drained, "since": "2026-01-01T12:00:00Z", "message": scheduler,
            "retryAt": drained.eq(&0).then_some("2026-01-01T12:05:00Z"), "reason": reason,
        });
        let object =
            rolling_out(json!({"stable": "1f2e3d4c5b", "canary": "5b4c3d2e1f", "weight": 20, "capacity": capacity}));
        rollout(&object).lines().nth(2).unwrap().trim().to_owned()
    };
    assert_eq!(
        [
            shown("Waiting", 0, 0, None),
            shown("Limited", 1, 0, None),
            shown("InPlace", 2, 2, None),
            shown("Restoring", 2, 2, Some("one of its pods failed")),
        ],
        [
            "the cluster lacks capacity for its 4 pods since 12:00:00 UTC, next probe at 12:05:00 UTC: 0/1 nodes are available: 1 \
             Insufficient nvidia.com/gpu",
            "the cluster has capacity for 1 of 4 pods since 12:00:00 UTC, next probe at 12:05:00 UTC: 0/1 nodes are available: 1 \
             Insufficient nvidia.com/gpu",
            "in place: 2 stable pods were drained, the last at 12:00:00 UTC; the canary has 2: 0/1 nodes are available: 1 \
             Insufficient nvidia.com/gpu",
            "stable's pods are being restored, 2 missing since 12:00:00 UTC: one of its pods failed",
        ]
    );
}

#[test]
fn a_rollback_is_shown_with_its_reason_and_a_quiet_agent_shows_none() {
    let back = rolling_out(json!({
        "stable": "1f2e3d4c5b",
        "rejected": [{"plan": "0a0b0c0d0e", "at": "2026-01-01T11:00:00Z", "reason": "5 of 100 runs failed"}],
    }));
    let expected = "Rollout:\n  revision 1f2e3d4c5b has all traffic\n  0a0b0c0d0e was rolled back at 11:00:00 UTC: 5 of 100 runs \
                    failed\n";
    assert_eq!((is_under_way(&back), rollout(&back).as_str()), (false, expected));
    assert_eq!(rollout(&rolling_out(json!({"stable": "1f2e3d4c5b"}))), "");
}

#[test]
fn a_status_shows_conditions_engines_the_choice_and_objectives_against_what_was_measured() {
    insta::assert_snapshot!("overview", overview(&agent(2, &at_rest()), None, &Measurements::of(&[evidence()])));
}

#[test]
fn drift_is_shown_with_its_first_day_and_with_what_can_be_done() {
    let mut object = agent(2, &at_rest());
    let drift = json!({
        "revision": "7c1f9a2b3d", "verdict": "WorkloadDrift", "since": "2026-01-03T04:10:00Z",
        "message": "users ask for other work than on the first day: more prompts are long", "signals": ["more prompts are long"],
        "baselineFrom": "2026-01-01T00:00:00Z", "baselineUntil": "2026-01-02T00:00:00Z", "unknown": ["driver", "gpu"],
        "leftOut": "in other pods image.triton was sha256:1 and is sha256:2", "proposal": "7c1f9a2b3d-1",
        "risk": {"since": "2026-01-03T04:10:00Z", "message": "slo.errorRate: more runs fail", "blocksLeft": 12},
    });
    let status = object.status.as_mut().unwrap();
    status.drift = Some(serde_json::from_value(drift).unwrap());
    status.slo[0].prediction_error = Some("+2%".to_owned());
    let text = overview(&object, None, &Measurements::of(&[evidence()]));
    let expected = "
Drift: WorkloadDrift since 2026-01-03T04:10:00Z
  users ask for other work than on the first day: more prompts are long
  baseline: from 2026-01-01T00:00:00Z, until 2026-01-02T00:00:00Z
  left out: in other pods image.triton was sha256:1 and is sha256:2
  at risk: slo.errorRate: more runs fail
  cause: 12 more blocks with traffic show whether tools are slower
  to measure again: run `kubectl slipway approve facts-agent -n demo`, or set spec.profiling.approveReprofiling to 7c1f9a2b3d-1 in the manifest
  not reported by the pods: driver, gpu
";
    assert!(text.ends_with(expected), "{text}");
    assert!(text.contains("410ms (+2%)"), "{text}");
}

#[test]
fn a_run_shows_its_calls_and_the_answer() {
    let run: Run = serde_json::from_value(json!({
        "status": "succeeded", "answer": " 5526 ",
        "steps": [
            {"step": 1, "modelMicroseconds": 210_000, "toolCalls": [
                {"name": "lookup", "input": "Belaro.population", "status": "ok", "observation": "4711", "microseconds": 900},
                {"name": "lookup", "input": "Zuvina.population", "status": "cancelled", "microseconds": 1_200},
            ]},
            {"step": 2, "modelMicroseconds": 90_000, "toolCalls": []},
        ],
        "timings": {"totalMicroseconds": 302_000, "modelMicroseconds": 300_000, "toolMicroseconds": 1_200},
    }))
    .unwrap();
    insta::assert_snapshot!("conversation", conversation("How many live in Belaro and Zuvina?", &run));
}

#[test]
fn a_run_without_an_answer_says_why() {
    let run = json!({"status": "failed", "error": {"message": "the run took more than 8 steps"}, "steps": []});
    let run: Run = serde_json::from_value(run).unwrap();
    assert_eq!(conversation("?", &run), "Question: ?\nNo answer: the run took more than 8 steps\n");
}

#[test]
fn conditions_of_an_earlier_spec_do_not_end_a_wait() {
    assert_eq!(
        progress(&agent(1, &at_rest())),
        Progress::InProgress("the operator has not processed it yet".to_owned())
    );
    assert_eq!(progress(&agent(2, &at_rest())), Progress::Ready);
}

#[test]
fn a_rollout_under_way_is_not_at_rest_though_a_revision_serves() {
    let conditions = [
        condition("Ready", "True", "Serving", "1 ready"),
        condition("Reconciling", "True", "RevisionStarting", "0 of 1 pods ready"),
    ];
    assert_eq!(
        progress(&agent(2, &conditions)),
        Progress::InProgress("RevisionStarting: 0 of 1 pods ready".to_owned())
    );
}

#[test]
fn a_stalled_agent_says_why() {
    let conditions = [condition("Stalled", "True", "JobFailed", "exit code 3: no such folder")];
    assert_eq!(
        progress(&agent(2, &conditions)),
        Progress::Stalled("JobFailed: exit code 3: no such folder".to_owned())
    );
}

#[test]
fn a_rollout_that_waits_for_a_person_is_neither_at_rest_nor_under_way() {
    let paused = condition("Suspended", "True", "RolloutPaused", "at 20 %");
    let conditions = [at_rest(), vec![paused]].concat();
    assert_eq!(progress(&agent(2, &conditions)), Progress::Suspended("RolloutPaused: at 20 %".to_owned()));
}

fn event(uid: &str, second: u8, reason: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {"uid": uid}, "involvedObject": {}, "type": "Normal", "reason": reason, "message": "done",
        "eventTime": format!("2026-01-01T00:00:{second:02}.000000Z"),
    }))
    .unwrap()
}

#[test]
fn each_event_is_told_once_in_the_order_of_time_and_silence_is_broken_by_where_it_stands() {
    let building = agent(2, &[condition("Reconciling", "True", "BuildingEngines", "1 of 2 built")]);
    let (resolved, fetched) = (event("a", 1, "ModelResolved"), event("b", 2, "ModelFetched"));
    let mut narrator = Narrator::default();
    let mut told = Vec::new();
    for (second, events) in [(1, vec![]), (3, vec![fetched.clone(), resolved.clone()]), (4, vec![resolved, fetched])] {
        let look = Look { object: &building, events: &events, profile: None };
        told.extend(narrator.tell(Duration::from_secs(second), look));
    }
    told.extend(narrator.tell(Duration::from_secs(18), Look { object: &building, events: &[], profile: None }));
    assert_eq!(
        told,
        [
            "    1 s  ...                  BuildingEngines: 1 of 2 built",
            "    3 s  ModelResolved        done",
            "    3 s  ModelFetched         done",
            "   18 s  ...                  unchanged after 17 s",
        ]
    );
}

#[test]
fn what_had_happened_before_the_first_look_is_told_as_earlier_and_what_belongs_to_an_earlier_spec_not_at_all() {
    let mut object = agent(2, &at_rest());
    let written = |manager: &str, second: u8, fields: Value| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "slipway.dev/v1alpha1", "fieldsType": "FieldsV1",
               "fieldsV1": fields, "time": format!("2026-01-01T00:00:{second:02}Z")})
    };
    object.metadata.managed_fields = Some(vec![
        serde_json::from_value(written("kubectl", 10, json!({"f:spec": {}}))).unwrap(),
        serde_json::from_value(written("other", 30, json!({"f:metadata": {"f:labels": {}}}))).unwrap(),
    ]);
    let events = [event("a", 9, "ModelFetched"), event("b", 10, "RevisionStarting")];
    let told = Narrator::default().tell(Duration::ZERO, Look { object: &object, events: &events, profile: None });
    assert_eq!(told, ["earlier  RevisionStarting     done"]);
}

#[test]
fn an_answer_after_calls_that_all_failed_rests_on_no_tool() {
    let run = |statuses: &[&str]| -> Run {
        let call = |status: &&str| json!({"name": "lookup", "input": "a.b", "status": status, "microseconds": 1});
        let calls: Vec<_> = statuses.iter().map(call).collect();
        let steps = json!([{"step": 1, "modelMicroseconds": 1, "toolCalls": calls}]);
        serde_json::from_value(json!({"status": "succeeded", "answer": "error: HTTP status 404", "steps": steps}))
            .unwrap()
    };
    let judged = [&["error"][..], &["error", "cancelled"], &["error", "ok"], &[]].map(|s| run(s).rests_on_no_tool());
    assert_eq!(judged, [true, true, false, false]);
}
