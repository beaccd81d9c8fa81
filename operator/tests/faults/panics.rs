//! A defect of the operator's that one object meets: its reconciliation panics. The object says so, and no other one
//! waits for it.

use pretty_assertions::assert_eq;
use serde_json::Value;
use slipway_operator::controllers;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        kinds::{AGENT_DEPLOYMENTS, CLAIMS, CONFIG_MAPS, EVENTS, Kind},
        store::Key,
    },
    story::{AGENT, Act, NAMESPACE, OTHER, Scene},
    watches::{PATIENCE, until},
    world::World,
};

/// What the operator publishes of a panic.
const REASON: &str = "ReconcilePanicked";

/// Two agents, and an operator whose controllers run. Reading this object is where its defect shows.
struct Rig {
    world: World,
    running: JoinHandle<&'static str>,
    stop: CancellationToken,
}

impl Rig {
    async fn with_defect_at(kind: Kind, name: &str) -> Self {
        let mut world = World::of(&Scene::first(None), None).await;
        let stop = CancellationToken::new();
        let running = tokio::spawn(controllers::run(world.operator.context(), stop.clone()));
        world.server.state().faults.panics_at = Some(Key::new(kind, NAMESPACE, name));
        world.act(&Act::CreateBoth);
        world.server.wake();
        Self { world, running, stop }
    }

    async fn wait(&mut self, what: &str, is_so: impl Fn(&World) -> bool) {
        assert!(until(&mut self.world, is_so).await < PATIENCE, "not after {PATIENCE} s: {what}");
        assert!(!self.running.is_finished(), "the operator has ended");
    }

    fn repair(&self) {
        self.world.server.state().faults.panics_at = None;
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
        assert_eq!(self.world.violations, Vec::<String>::new());
    }
}

pub fn stage(world: &World, agent: &str) -> Value {
    let object = world.server.state().store.get(&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, agent));
    object.map(|agent| agent["status"]["stage"].clone()).unwrap_or_default()
}

/// Why it has stopped, if it has: reason and message.
pub fn stalled(world: &World, agent: &str) -> Option<(String, String)> {
    let object = world.server.state().store.get(&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, agent))?;
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let stalled = conditions.find(|condition| condition["type"] == "Stalled" && condition["status"] == "True")?;
    Some((stalled["reason"].as_str()?.to_owned(), stalled["message"].as_str()?.to_owned()))
}

fn is_told(world: &World, kind: Kind, name: &str) -> bool {
    let state = world.server.state();
    state.store.of_kind(EVENTS).any(|(_, event)| {
        event["reason"] == REASON && event["regarding"]["kind"] == kind.kind && event["regarding"]["name"] == name
    })
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_reconciliation_panics_says_so_and_serves_once_it_does_not_and_no_other_waits() {
    let mut rig = Rig::with_defect_at(AGENT_DEPLOYMENTS, OTHER).await;
    rig.wait("the other agent serves", |world| stage(world, AGENT) == "Serving").await;
    rig.wait("the agent says so", |world| stalled(world, OTHER).is_some()).await;
    let (reason, message) = stalled(&rig.world, OTHER).unwrap();
    assert_eq!(reason, REASON);
    assert!(message.starts_with("the operator has a defect, please report it: a defect that "), "{message}");
    assert!(is_told(&rig.world, AGENT_DEPLOYMENTS, OTHER) && !is_told(&rig.world, AGENT_DEPLOYMENTS, AGENT));
    rig.repair();
    rig.wait("it serves", |world| stage(world, OTHER) == "Serving" && stalled(world, OTHER).is_none()).await;
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_reconciliation_panics_says_so_and_agents_serve() {
    let name = slipway_crds::store::NAME;
    let mut rig = Rig::with_defect_at(CONFIG_MAPS, name).await;
    let serve = |world: &World| [AGENT, OTHER].into_iter().all(|agent| stage(world, agent) == "Serving");
    rig.wait("both agents serve", serve).await;
    rig.wait("the claim says so", |world| is_told(world, CLAIMS, name)).await;
    rig.repair();
    let record = Key::new(CONFIG_MAPS, NAMESPACE, name);
    rig.wait("the store is recorded", |world| world.server.state().store.get(&record).is_some()).await;
    rig.end().await;
}
