//! An object that this release cannot read: it says so, keeps serving, and nobody else waits for it.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_operator::controllers;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        kinds::{AGENT_DEPLOYMENTS, EVENTS},
        store::{Key, Writer},
    },
    panics::{stage, stalled},
    story::{AGENT, Act, NAMESPACE, OTHER, Scene},
    watches::{PATIENCE, until},
    world::World,
};

const REASON: &str = "Unreadable";

/// Gives the other agent a temperature, as a definition that takes any number would.
fn set_temperature(world: &World, temperature: &str) {
    let key = Key::new(AGENT_DEPLOYMENTS, NAMESPACE, OTHER);
    let mut state = world.server.state();
    let mut agent = Value::clone(&state.store.get(&key).unwrap());
    agent["spec"]["agent"]["sampling"] = json!({"temperature": temperature});
    agent["metadata"]["generation"] = json!(agent["metadata"]["generation"].as_i64().unwrap() + 1);
    state.store.put(key, agent, Writer::Cluster);
    drop(state);
    world.server.wake();
}

/// How often an agent was told, and what.
fn told(world: &World, agent: &str) -> Vec<String> {
    let state = world.server.state();
    let of_agent = |event: &Value| event["reason"] == REASON && event["regarding"]["name"] == agent;
    let events = state.store.of_kind(EVENTS).filter(|(_, event)| of_agent(event));
    events.map(|(_, event)| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn wait(world: &mut World, what: &str, is_so: impl Fn(&World) -> bool) {
    assert!(until(world, is_so).await < PATIENCE, "not after {PATIENCE} s: {what}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_read_says_which_field_and_goes_on_once_it_can() {
    let mut world = World::of(&Scene::first(None), None).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(controllers::run(world.operator.context(), stop.clone()));
    world.act(&Act::CreateBoth);
    world.server.wake();
    wait(&mut world, "both serve", |world| [AGENT, OTHER].iter().all(|agent| stage(world, agent) == "Serving")).await;

    set_temperature(&world, "2.5");
    wait(&mut world, "the agent says so", |world| stalled(world, OTHER).is_some()).await;
    let problem = r#"spec.agent.sampling.temperature: "2.5" is not a temperature: write a number from 0 to 2 with at most four places, such as 0.7. This release of the operator cannot read the object and leaves it and what serves alone: change the field, or run the release that wrote it"#;
    assert_eq!(stalled(&world, OTHER), Some((REASON.to_owned(), problem.to_owned())));
    assert_eq!((told(&world, OTHER), told(&world, AGENT)), (vec![problem.to_owned()], Vec::new()));
    assert_eq!((stage(&world, OTHER), stage(&world, AGENT)), (json!("Serving"), json!("Serving")));

    set_temperature(&world, "0");
    wait(&mut world, "it goes on", |world| stalled(world, OTHER).is_none()).await;
    wait(&mut world, "it serves again", |world| stage(world, OTHER) == "Serving").await;
    assert!(!running.is_finished(), "the operator has ended");
    stop.cancel();
    running.await.unwrap();
    assert_eq!(world.violations, Vec::<String>::new());
}
