//! What holds on every path, however Jobs end, pods fail and specs are edited.

use std::collections::BTreeMap;

use proptest::prelude::*;
use slipway_crds::{
    labels::{APP_MANAGED_BY, MANAGED_BY},
    v1alpha1::{AgentDeploymentStatus, agent_deployment::Precision, agent_deployment::Stage},
};
use slipway_worker_contract::FailureClass;

use super::cluster::{Cluster, Ending, lines, metadata_of, name_of, routed_to, settings, world};
use crate::plan::{Child, Plan};

/// What befalls a cluster.
#[derive(Debug, Clone)]
enum Event {
    Reconcile,
    Prompt(u8),
    Model(u8),
    Precisions(Vec<Precision>),
    Replicas(i32),
    HistoryLimit(i32),
    EndJob(usize, Ending),
    DeleteJob(usize),
    ReadyPods,
    FailPods(usize),
    Upgrade(u8),
    LoseRecord(usize),
    Pass(i64),
}

fn failure() -> impl Strategy<Value = FailureClass> {
    prop_oneof![
        4 => Just(FailureClass::Infrastructure),
        1 => Just(FailureClass::BadModel),
        1 => Just(FailureClass::InsufficientMemory),
        1 => Just(FailureClass::UnsupportedPrecision),
        1 => Just(FailureClass::ImageMismatch),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![3 => Just(Ending::Success), 1 => failure().prop_map(Ending::Failure)]
}

fn event() -> impl Strategy<Value = Event> {
    let precisions = prop_oneof![
        Just(vec![Precision::FP32]),
        Just(vec![Precision::INT8]),
        Just(vec![Precision::INT8, Precision::FP32]),
    ];
    prop_oneof![
        8 => Just(Event::Reconcile),
        2 => (0..4u8).prop_map(Event::Prompt),
        1 => (0..3u8).prop_map(Event::Model),
        1 => precisions.prop_map(Event::Precisions),
        1 => (0..4i32).prop_map(Event::Replicas),
        1 => (0..3i32).prop_map(Event::HistoryLimit),
        8 => (any::<usize>(), ending()).prop_map(|(which, ending)| Event::EndJob(which, ending)),
        1 => any::<usize>().prop_map(Event::DeleteJob),
        4 => Just(Event::ReadyPods),
        1 => any::<usize>().prop_map(Event::FailPods),
        1 => (1..4u8).prop_map(Event::Upgrade),
        1 => any::<usize>().prop_map(Event::LoseRecord),
        2 => (1..120i64).prop_map(Event::Pass),
    ]
}

fn nth<T: Clone>(items: Vec<T>, which: usize) -> Option<T> {
    items.get(which.checked_rem(items.len())?).cloned()
}

impl Cluster {
    fn befall(self, event: Event) -> Self {
        let mut cluster = self;
        match event {
            Event::Reconcile => cluster.checked_step(),
            Event::Prompt(text) => return cluster.edited(|spec| spec.agent.system_prompt = format!("Answer {text}.")),
            Event::Model(model) => {
                return cluster.edited(|spec| spec.model.uri = Some(format!("http://models.example/{model}")));
            }
            Event::Precisions(precisions) => return cluster.edited(|spec| spec.search.precision = precisions),
            Event::Replicas(replicas) => return cluster.edited(|spec| spec.serving.replicas = replicas),
            Event::HistoryLimit(limit) => return cluster.edited(|spec| spec.rollout.revision_history_limit = limit),
            Event::EndJob(which, ending) => {
                if let Some(job) = nth(cluster.running_jobs(), which) {
                    cluster.end_job(&job, ending);
                }
            }
            Event::DeleteJob(which) => {
                if let Some(job) = nth(cluster.world.jobs.keys().cloned().collect(), which) {
                    cluster.world.jobs.remove(&job);
                }
            }
            Event::ReadyPods => cluster.ready_pods(),
            Event::FailPods(which) => {
                if let Some(revision) = nth(cluster.world.serving.keys().cloned().collect(), which) {
                    cluster.fail_pods(&revision, "triton exited with code 1");
                }
            }
            Event::Upgrade(version) => cluster.world.settings = settings(&version.to_string()),
            Event::LoseRecord(which) => {
                if let Some(lost) = nth(cluster.world.revisions.clone(), which) {
                    cluster.world.revisions.retain(|revision| revision.hash != lost.hash);
                }
            }
            Event::Pass(seconds) => cluster.pass(seconds),
        }
        cluster
    }

    /// One reconciliation whose plan is held to what must hold for every plan.
    fn checked_step(&mut self) {
        let plan = self.plan();
        assert_eq!(plan, self.plan(), "the same world gives the same plan");
        check_objects(self, &plan);
        check_removals(self, &plan);
        check_status(self, &plan);
        check_repetition(self, &plan);
        self.step();
    }
}

/// Everything planned is labelled as ours, lies in the namespace, and is owned by this AgentDeployment or shared by
/// design.
fn check_objects(cluster: &Cluster, plan: &Plan<AgentDeploymentStatus>) {
    for child in &plan.children {
        let (_, metadata) = metadata_of(child);
        let name = name_of(child);
        let is_managed =
            metadata.labels.iter().flatten().any(|label| label == (&APP_MANAGED_BY.into(), &MANAGED_BY.into()));
        assert!(is_managed, "{name} is not labelled as ours");
        assert_eq!(metadata.namespace.as_ref(), Some(&cluster.world.namespace), "{name}");
        let owners = metadata.owner_references.clone().unwrap_or_default();
        match child {
            Child::PersistentVolumeClaim(_) | Child::Engine(_) => assert_eq!(owners, vec![], "{name} is shared"),
            Child::ConfigMap(_)
            | Child::Service(_)
            | Child::Deployment(_)
            | Child::HttpRoute(_)
            | Child::InferencePool(_)
            | Child::NetworkPolicy(_)
            | Child::PrometheusRule(_)
            | Child::Job(_)
            | Child::Profile(_)
            | Child::ControllerRevision(_) => assert_eq!(owners, vec![cluster.world.owner.clone()], "{name}"),
        }
    }
}

/// Only what was observed is removed, and never what serves or is about to.
fn check_removals(cluster: &Cluster, plan: &Plan<AgentDeploymentStatus>) {
    let rollout = plan.status.rollout.clone().unwrap_or_default();
    let living = rollout.stable.iter().chain(&rollout.canary);
    let names: Vec<String> = living.map(|revision| format!("support-{revision}")).collect();
    let mut observed: Vec<_> =
        cluster.world.objects.values().flatten().map(|o| (&o.name, &o.uid, &o.resource_version)).collect();
    observed.extend(cluster.world.rules.objects.iter().map(|o| (&o.name, &o.uid, &o.resource_version)));
    observed.extend(cluster.world.revisions.iter().map(|r| (&r.name, &r.uid, &r.resource_version)));
    for removal in &plan.removals {
        assert!(!names.contains(&removal.name) && removal.name != "support", "{removal:?} is needed");
        let identity = (&removal.name, &removal.uid, &removal.resource_version);
        assert!(observed.contains(&identity), "{removal:?} was not observed");
    }
}

/// kstatus, attempts, and where clients are sent.
fn check_status(cluster: &Cluster, plan: &Plan<AgentDeploymentStatus>) {
    let status = &plan.status;
    let holds: BTreeMap<_, _> = status.conditions.iter().map(|c| (c.type_.as_str(), c.status == "True")).collect();
    assert_eq!(holds.keys().copied().collect::<Vec<_>>(), ["Ready", "Reconciling", "Stalled"]);
    assert!(!(holds["Reconciling"] && holds["Stalled"]), "{:?}", lines(plan));
    assert!(status.conditions.iter().all(|c| c.observed_generation == Some(cluster.world.generation)));
    for before in &cluster.world.status.jobs {
        let same = status.jobs.iter().find(|job| (&job.kind, &job.input_hash) == (&before.kind, &before.input_hash));
        assert!(same.is_none_or(|after| after.attempt >= before.attempt), "{before:?} became {same:?}");
    }
    let stable = status.rollout.as_ref().and_then(|rollout| rollout.stable.clone());
    for child in &plan.children {
        if let Child::Service(service) = child
            && service.metadata.name.as_deref() == Some("support")
        {
            assert_eq!(routed_to(service), stable, "clients are sent to stable");
        }
    }
    let before = cluster.world.stable();
    if let Some(new) = stable.as_deref().filter(|stable| Some(*stable) != before) {
        let view = &cluster.world.serving[new];
        assert!(view.ready >= cluster.world.spec.serving.replicas, "{new} took over before it was ready: {view:?}");
    }
    for deployment in plan.children.iter().filter_map(|child| match child {
        Child::Deployment(deployment) => Some(deployment),
        _ => None,
    }) {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        assert_eq!(replicas, Some(cluster.world.spec.serving.replicas), "every revision has its full capacity");
    }
}

/// With its status recorded and nothing else done, a plan is made once more: nothing is lost, and no event is told
/// twice. A plan that records an attempt is the exception: the Job of an earlier time may already exist. A judge that
/// cannot read its memory is another: the next look asks for all windows. Shares of pods change with the capacity, and
/// with them what the judge was asked for.
pub(super) fn check_repetition(cluster: &Cluster, plan: &Plan<AgentDeploymentStatus>) {
    if plan.status.jobs != cluster.world.status.jobs {
        return;
    }
    let mut recorded = cluster.clone();
    recorded.world.status = plan.status.clone();
    let again = recorded.plan();
    let [before, planned, repeated] = [&cluster.world.status, &plan.status, &again.status];
    if !forgets_what_was_judged(before, planned) && !forgets_what_was_judged(planned, repeated) {
        assert_eq!(repeated, planned);
    }
    assert_eq!(again.removals, plan.removals);
    assert_eq!(again.notes, vec![], "told before");
    let lost: Vec<_> = plan.children.iter().filter(|child| !again.children.contains(child)).map(name_of).collect();
    assert_eq!(lost, Vec::<String>::new());
}

fn forgets_what_was_judged(before: &AgentDeploymentStatus, after: &AgentDeploymentStatus) -> bool {
    let rollout = |status: &AgentDeploymentStatus| status.rollout.clone().unwrap_or_default();
    let (before, after) = (rollout(before), rollout(after));
    before.judge_state.is_some()
        && after.judge_state.is_none()
        && after.canary.is_some()
        && (before.canary, before.weight_since) == (after.canary, after.weight_since)
}

/// From here on everything goes well but for Jobs whose fate it is to fail; ends when nothing changes any more.
fn come_to_rest(mut cluster: Cluster, fates: &[Ending]) -> Cluster {
    let mut fates = fates.iter().copied().cycle();
    for _ in 0..40 {
        let before = format!("{:?} {:?}", cluster.world.status, cluster.world.jobs);
        for _ in 0..3 {
            cluster.checked_step();
        }
        for job in cluster.running_jobs() {
            cluster.end_job(&job, fates.next().unwrap_or(Ending::Success));
        }
        cluster.ready_pods();
        cluster.pass(100);
        for _ in 0..3 {
            cluster.checked_step();
        }
        if before == format!("{:?} {:?}", cluster.world.status, cluster.world.jobs) {
            return cluster;
        }
    }
    panic!("no rest: {:?}", lines(&cluster.plan()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_path_ends_in_serving_or_in_a_stop_with_a_reason(
        events in prop::collection::vec(event(), 0..60),
        fates in prop::collection::vec(ending(), 1..6),
    ) {
        let cluster = events.into_iter().fold(world(), Cluster::befall);
        let cluster = come_to_rest(cluster, &fates);
        let status = &cluster.world.status;
        let stalled = status.conditions.iter().find(|c| c.type_ == "Stalled" && c.status == "True");
        match status.stage {
            Some(Stage::Serving) => {
                prop_assert_eq!(stalled, None);
                prop_assert_eq!(&cluster.routed_to, &status.rollout.clone().and_then(|rollout| rollout.stable));
                // Exactly one revision is left, and it has all its pods.
                let views: Vec<_> = cluster.world.serving.values().map(|view| (view.ready, view.wanted)).collect();
                let replicas = cluster.world.spec.serving.replicas;
                prop_assert_eq!(views, vec![(replicas, replicas)]);
            }
            Some(Stage::Failed | Stage::Stalled) => prop_assert!(stalled.is_some_and(|stalled| !stalled.message.is_empty())),
            _ => prop_assert!(false, "neither serving nor stopped: {:?}", lines(&cluster.plan())),
        }
        prop_assert_eq!(cluster.running_jobs(), Vec::<String>::new());
    }

    /// What a spec leads to does not depend on the specs before it.
    #[test]
    fn without_failures_the_last_spec_alone_decides_what_is_served(
        edits in prop::collection::vec((0..4u8, 0..3u8), 1..6),
    ) {
        let edit = |cluster: Cluster, (prompt, model): (u8, u8)| {
            cluster.befall(Event::Prompt(prompt)).befall(Event::Model(model))
        };
        let last = edits[edits.len() - 1];
        let succeed = [Ending::Success];
        let by_way = edits.into_iter().fold(world(), |cluster, each| come_to_rest(edit(cluster, each), &succeed));
        let direct = come_to_rest(edit(world(), last), &succeed);
        prop_assert_eq!(by_way.stable(), direct.stable());
        prop_assert_eq!(by_way.routed_to, direct.routed_to);
    }
}
