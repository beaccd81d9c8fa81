//! The stories, each to the moment at which a tool looks.

use slipway_crds::{
    commands::Command,
    v1alpha1::{agent_deployment::Precision, profile::ProfilePhase},
};
use slipway_worker_contract::FailureClass;

use super::{
    super::{
        approval::{asking, chosen_otherwise, proposed},
        capacity::full,
        cluster::{Cluster, Ending, world},
        drift::proposing,
        profiling::{ended, profiled},
        trial::{EQUAL, ROLLOUT, Trial, Users, edited, trial, trial_with},
    },
    Story,
    kstatus::Health::{self, Current, Failed, InProgress},
};

/// kstatus knows no waiting for a person.
const WAITS_FOR_A_PERSON: (Health, Health) = (Current, InProgress);

fn both(health: Health) -> (Health, Health) {
    (health, health)
}

/// All of them, in the order of an agent's life.
pub(super) fn stories() -> Vec<Story> {
    [first_steps(), refusals(), campaigns(), rollouts(), ends(), commands(), waits()].into_iter().flatten().collect()
}

fn settled(mut cluster: Cluster) -> Cluster {
    cluster.settle();
    cluster
}

fn first_steps() -> Vec<Story> {
    vec![
        Story::new("nobody has seen it", &world(), both(Current)).without_status(InProgress),
        Story::new("the model is resolved", &settled(world()), both(InProgress)),
        Story::new("the checkpoint is fetched", &world().resolved(), both(InProgress)),
        Story::new("the engine is built", &world().resolved().fetched(), both(InProgress)),
        Story::new("the first pods start", &built(), both(InProgress)),
        Story::new("it serves", &world().serving(), both(Current)),
        Story::new("an edit is not seen yet", &reworded(world().serving()), both(InProgress)),
        Story::new("it is scaled to nothing", &to_nothing(), (InProgress, Current)),
        Story::new("its pods are lost", &without_pods(), both(InProgress)),
    ]
}

fn built() -> Cluster {
    world().resolved().fetched().with_engine_built(Precision::FP32)
}

fn reworded(cluster: Cluster) -> Cluster {
    cluster.edited(|spec| spec.agent.system_prompt = "Think, then answer.".to_owned())
}

fn to_nothing() -> Cluster {
    settled(world().serving().edited(|spec| spec.serving.replicas = 0)).with_pods_ready()
}

fn without_pods() -> Cluster {
    let mut cluster = world().serving();
    cluster.world.serving.values_mut().for_each(|view| view.ready = 0);
    settled(cluster)
}

fn refusals() -> Vec<Story> {
    let tools = "[{name: lookup, type: HTTP, http: {url: 'http://facts/{entitie}', arguments: [entity]}}]";
    let refused = world().edited(|spec| spec.agent.tools = serde_norway::from_str(tools).expect("a tool"));
    let ending = |class| world().resolved().fetched().with_engine_ended(Precision::FP32, Ending::Failure(class));
    let mut failing = built();
    let revision = failing.canary();
    failing.fail_pods(&revision, "triton exited with code 1");
    vec![
        Story::new("the spec is refused", &settled(refused), both(Failed)),
        Story::new("a build is tried again", &ending(FailureClass::Infrastructure), both(InProgress)),
        Story::new("no engine can be built", &ending(FailureClass::InsufficientMemory), both(Failed)),
        Story::new("the first pods fail", &settled(failing), both(Failed)),
    ]
}

fn campaigns() -> Vec<Story> {
    let chosen = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let edited = chosen.clone().edited(|spec| spec.slo.objectives[0].max = "300ms".parse().expect("a duration"));
    let waiting = chosen_otherwise(asking());
    let hash = proposed(&waiting).plan_hash;
    let approved = waiting.clone().told(Command::Approve, &hash);
    vec![
        Story::new("configurations are measured", &profiled(), both(InProgress)),
        Story::new("no configuration is feasible", &ended(profiled(), ProfilePhase::Infeasible), both(Failed)),
        Story::new("the campaign fails", &ended(profiled(), ProfilePhase::Failed), both(Failed)),
        Story::new("a tighter objective is infeasible", &ended(edited, ProfilePhase::Infeasible), both(Failed)),
        Story::new("a choice waits for approval", &waiting, WAITS_FOR_A_PERSON),
        Story::new("a choice is approved", &settled(approved.clone()), both(InProgress)),
        Story::new("the approved choice serves", &approved.with_pods_ready(), both(Current)),
        Story::new("another campaign waits for approval", &proposing(), both(Current)),
    ]
}

fn rollouts() -> Vec<Story> {
    let judged = {
        let mut trial = trial();
        trial.serve(60, EQUAL);
        trial
    };
    let unserved = {
        let mut trial = trial();
        let crate::agent_deployment::world::RouteView::Present { problem, .. } = &mut trial.cluster.world.route else {
            panic!("there is a route")
        };
        *problem = Some("Gateway agents does not serve HTTPRoute support: Accepted NoMatchingParent".to_owned());
        trial.settle();
        trial
    };
    let full = full(2, "capacity: RequireSurge");
    vec![
        Story::new("a canary starts", &settled(edited(ROLLOUT)), both(InProgress)),
        Story::new("a canary is judged", &judged.cluster, both(InProgress)),
        Story::new("no gateway serves the route", &unserved.cluster, both(InProgress)),
        Story::new("a canary waits for a node", &full.cluster, both(InProgress)),
    ]
}

fn rolled_back() -> Trial {
    let mut trial = trial();
    trial.serve(20 * 60, Users { slowdown: 2.0, ..EQUAL });
    trial
}

fn ends() -> Vec<Story> {
    let won = {
        let mut trial = trial();
        trial.serve(45 * 60, EQUAL);
        trial
    };
    let rolled_back = rolled_back();
    let reverted = rolled_back.cluster.clone().edited(|spec| spec.agent.system_prompt = "Answer.".to_owned());
    let mut no_room = full(2, "capacity: RequireSurge");
    no_room.cluster.pass(3_600);
    no_room.settle();
    vec![
        Story::new("the canary has won", &won.cluster, both(Current)),
        Story::new("the canary was rolled back", &rolled_back.cluster, both(Failed)),
        Story::new("the revert of a rollback is not seen yet", &reverted, both(InProgress)),
        Story::new("a rollback is reverted", &settled(reverted.clone()), both(Current)),
        Story::new("there is no room for a canary", &no_room.cluster, both(Failed)),
    ]
}

fn commands() -> Vec<Story> {
    let told = |command| {
        let mut trial = trial();
        let canary = trial.cluster.canary();
        trial.cluster = trial.cluster.clone().told(command, &canary);
        trial.settle();
        trial.cluster
    };
    let rolled_back = rolled_back();
    let plan = rolled_back.rollout().rejected[0].plan.clone();
    let retried = settled(rolled_back.cluster.clone().told(Command::Retry, &plan));
    let mut again = Trial::on(retried.clone());
    again.cluster.ready_pods();
    again.settle();
    again.serve(30 * 60, Users { slowdown: 2.0, ..EQUAL });
    vec![
        Story::new("a rollback is retried", &retried, both(InProgress)),
        Story::new("a retry is rolled back", &again.cluster, both(Failed)),
        Story::new("a canary is aborted", &told(Command::Abort), both(Failed)),
        Story::new("a canary is paused", &told(Command::Pause), WAITS_FOR_A_PERSON),
        Story::new(
            "a command is invalid",
            &settled(world().serving().annotated("slipway.dev/pause", "true")),
            both(Current),
        ),
    ]
}

fn waits() -> Vec<Story> {
    let by_field = {
        let mut trial = trial();
        trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.paused = true);
        trial.settle();
        trial
    };
    let undecided = {
        let mut trial = trial_with(&ROLLOUT.replace("maxSoak: 30m", "maxSoak: 3m"));
        trial.serve(10 * 60, Users { runs: 0, ..EQUAL });
        trial
    };
    let without_pods = {
        let mut trial = trial();
        trial.serve(60, EQUAL);
        trial.cluster = trial.cluster.clone().edited(|spec| spec.serving.replicas = 0);
        trial.settle();
        trial
    };
    vec![
        Story::new("a canary is paused by the spec", &by_field.cluster, WAITS_FOR_A_PERSON),
        Story::new("a canary has no traffic", &undecided.cluster, WAITS_FOR_A_PERSON),
        Story::new("a rollout has no pods", &without_pods.cluster, (InProgress, InProgress)),
    ]
}
