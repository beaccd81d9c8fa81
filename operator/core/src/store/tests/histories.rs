//! Whatever happens in a namespace, nothing that a kept revision or a running pod needs is on the list of a sweep.

use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use proptest::prelude::*;
use serde_json::json;
use slipway_worker_contract::{FailureClass, Outcome, SweepResult, SweepTask};

use super::{DAY, Life, agent, digest, engine};
use crate::{
    agent_deployment::rollout::revision::Revision,
    jobs::view::JobPhase,
    store::{decide::decide, references::Namespace},
};

/// What happens. Numbers are of Engines, artifacts and sources.
#[derive(Debug, Clone)]
enum Event {
    Agent(usize, usize),
    NoAgent,
    Engine(usize, usize, Option<usize>),
    NoEngine,
    Revision(usize, usize),
    NoRevision,
    Pod(usize, usize),
    NoPod,
    Pass(i64),
    Look,
    /// The record is written, and the operator ends before anything else.
    LookAndCrash,
    LoseRecord,
    EndSweep(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..3usize, 0..3usize).prop_map(|(engine, source)| Event::Agent(engine, source)),
        2 => Just(Event::NoAgent),
        3 => (0..3usize, 0..3usize, prop::option::of(0..2usize)).prop_map(|(of, from, at)| Event::Engine(of, from, at)),
        3 => Just(Event::NoEngine),
        2 => (0..3usize, 0..2usize).prop_map(|(engine, artifact)| Event::Revision(engine, artifact)),
        2 => Just(Event::NoRevision),
        2 => (0..3usize, 0..2usize).prop_map(|(engine, artifact)| Event::Pod(engine, artifact)),
        2 => Just(Event::NoPod),
        5 => (1..8 * DAY).prop_map(Event::Pass),
        12 => Just(Event::Look),
        2 => Just(Event::LookAndCrash),
        1 => Just(Event::LoseRecord),
        3 => any::<bool>().prop_map(Event::EndSweep),
    ]
}

fn revision(engine: usize, artifact: usize) -> Revision {
    let record: ControllerRevision = serde_json::from_value(json!({
        "metadata": {"name": format!("support-{engine}{artifact}")}, "revision": 1,
        "data": {
            "agent": {"systemPrompt": "x"}, "agentResources": {}, "agentRuntimeImage": "r", "hardware": {},
            "engine": {"displayName": "fp32", "manifestDigest": digest(artifact), "name": format!("engine-{engine}")},
            "maxInFlight": 8, "tritonImage": "t", "tritonResources": {}, "workerImage": "w",
        },
    }))
    .expect("a ControllerRevision");
    Revision::read(&record).expect("a plan")
}

fn pod(engine: usize, artifact: usize) -> Pod {
    let arguments = [
        "materialize".to_owned(),
        format!("--identity=engine-{engine}"),
        format!("--manifest-digest={}", digest(artifact)),
    ];
    let spec = json!({"containers": [], "initContainers": [{"name": "materialize", "args": arguments}]});
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running"}}))
        .expect("a pod")
}

fn befall(life: &mut Life, event: &Event) {
    let Namespace { users, engines, pods, .. } = &mut life.namespace;
    match event {
        Event::Agent(of, source) => {
            users.agent_deployments = vec![agent("support", *source, &[&format!("engine-{of}")])];
        }
        Event::NoAgent => users.agent_deployments.clear(),
        Event::Engine(number, source, artifact) => engines.push(engine(*number, *source, *artifact)),
        Event::NoEngine => drop(engines.pop()),
        Event::Revision(engine, artifact) => users.revisions.push(revision(*engine, *artifact)),
        Event::NoRevision => drop(users.revisions.pop()),
        Event::Pod(engine, artifact) => pods.push(pod(*engine, *artifact)),
        Event::NoPod => drop(pods.pop()),
        Event::Pass(seconds) => life.pass(*seconds),
        Event::Look => drop(life.look()),
        Event::LookAndCrash => life.record = decide(&life.world()).status,
        Event::LoseRecord => life.record = Default::default(),
        Event::EndSweep(well) => {
            if life.sweeps.values().any(|phase| matches!(phase, JobPhase::Running { .. })) {
                life.end_sweep(if *well { ended_well() } else { failed() });
            }
        }
    }
}

fn ended_well() -> JobPhase {
    JobPhase::Succeeded { outcome: Box::new(Outcome::Sweep(SweepResult::default())), milliseconds: 5 }
}

fn failed() -> JobPhase {
    JobPhase::Failed { class: FailureClass::Infrastructure, failure: "no".to_owned(), finished_at: None }
}

/// What must stay, told from the objects themselves.
fn needed(namespace: &Namespace) -> Vec<String> {
    let revisions = namespace.users.revisions.iter().map(|revision| &revision.plan.engine);
    let of_revisions = revisions.map(|engine| format!("engines/{}/{}", engine.name, engine.manifest_digest));
    let of_pods = namespace.pods.iter().map(|pod| {
        let arguments = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()?[0].args.clone());
        let arguments = arguments.expect("a pod has arguments");
        let value = |at: usize| arguments[at].split_once('=').expect("an option").1.to_owned();
        format!("engines/{}/{}", value(1), value(2))
    });
    let of_engines = namespace.engines.iter().filter_map(|engine| {
        let artifact = engine.status.as_ref()?.artifact.as_ref()?;
        Some(format!("engines/{}/{}", engine.metadata.name.as_ref()?, artifact.manifest_digest))
    });
    let models = namespace.users.agent_deployments.iter().filter_map(|agent| agent.status.as_ref()?.model.as_ref());
    let of_models = models.map(|model| format!("checkpoints/{}", model.source_digest));
    of_revisions.chain(of_pods).chain(of_engines).chain(of_models).collect()
}

fn is_safe(task: &SweepTask, folder: &String) -> bool {
    task.keeps(folder) && !task.remove.contains(folder)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Lists are checked against the namespace in which their Job began. At the end, with nobody left, everything goes.
    #[test]
    fn nothing_that_is_needed_is_ever_swept(events in prop::collection::vec(event(), 1..80)) {
        let mut life = Life::new();
        for event in &events {
            let begun = life.begun.len();
            befall(&mut life, event);
            for task in &life.begun[begun..] {
                let lost: Vec<String> = needed(&life.namespace).into_iter().filter(|folder| !is_safe(task, folder)).collect();
                prop_assert_eq!(lost, Vec::<String>::new());
                let overlap: Vec<&String> = task.remove.iter().filter(|folder| task.keep.contains(folder)).collect();
                prop_assert_eq!(overlap, Vec::<&String>::new());
            }
            let running = life.sweeps.values().filter(|phase| matches!(phase, JobPhase::Running { .. })).count();
            prop_assert!(running <= 1, "{running} sweeps at once");
        }
        life.namespace = Namespace::default();
        for _ in 0..6 {
            if life.sweeps.values().any(|phase| matches!(phase, JobPhase::Running { .. })) {
                life.end_sweep(ended_well());
            }
            life = life.looked(8 * DAY);
        }
        prop_assert!(life.record.items.is_empty(), "{:#?}", life.record);
    }
}
