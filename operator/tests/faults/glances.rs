//! What a glance makes of pods that change while they are asked.

use std::sync::{Arc, Mutex};

use axum::{Router, http::StatusCode};
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_operator::agent_deployment::reconcile::reconcile;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        ApiServer,
        kinds::{AGENT_DEPLOYMENTS, PODS},
        store::{Key, Writer},
    },
    operator::{self, Operator},
    story::{AGENT, Act, NAMESPACE, Scene},
    watched::Watched,
    world::settings,
};

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Answers for all pods, as a proxy: none of them has counted anything. Does first what is to be done once.
async fn pods(first: Hook) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = move || {
        if let Some(first) = first.lock().unwrap().take() {
            first();
        }
        std::future::ready(StatusCode::NOT_FOUND)
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    address
}

#[tokio::test]
async fn pods_that_are_moved_while_they_are_asked_are_asked_once_more_and_the_api_server_is_not() {
    let (hook, scene) = (Hook::default(), Scene::first(None).play(&Act::Create).await.after);
    let server = ApiServer::new(operator::now);
    server.state().store = scene.store.clone();
    let watched = Arc::new(Mutex::new(Watched::begin(&scene.store)));
    let started = Operator::start(&server, &settings((None, scene.release), false), &pods(hook.clone()).await).await;
    let context = started.context();
    let agent = server.state().store.get(&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, AGENT)).unwrap();
    let agent = Arc::new(serde_json::from_value((*agent).clone()).unwrap());
    let look = async || {
        let before = server.state().faults.requests.len();
        let action = reconcile(Arc::clone(&agent), context.clone(), CancellationToken::new()).await.unwrap();
        (action, server.state().faults.requests.split_off(before))
    };
    // Until everything has been found to be as it should be, on the API server.
    let (_, of_a_look) = look().await;
    context.glance_at(watched.lock().unwrap().caches.clone());
    // These watches show no PrometheusRules.
    let undisturbed = look().await;
    assert_eq!((undisturbed.1.len(), of_a_look.len() > 10), (1, true), "{undisturbed:?}, {of_a_look:?}");
    let moved = server.clone();
    *hook.lock().unwrap() = Some(Box::new(move || {
        let mut state = moved.state();
        let serving = state.store.of_kind(PODS).find(|(key, _)| key.name.starts_with(AGENT)).unwrap();
        let (key, mut pod) = (serving.0.clone(), (**serving.1).clone());
        pod["status"]["podIP"] = json!("10.0.9.9");
        state.store.put(key, pod, Writer::Cluster);
        // The second time it shows what was new at the first.
        let mut watched = watched.lock().unwrap();
        (0..2).for_each(|_| watched.go_on(&state.store));
    }));
    assert_eq!(look().await, undisturbed);
    assert!(hook.lock().unwrap().is_none(), "a pod was asked");
}
