//! The quality gate: an engine that answers worse than allowed is refused with its numbers, and another one serves.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_e2e::agents::{
    READY_LIMIT, draw_question, facts_agent, fresh_seed, namespace_with_servers, workload_source,
};

#[tokio::test]
async fn an_engine_with_perturbed_weights_is_refused_with_its_score_and_the_other_serves() {
    let namespace = namespace_with_servers("quality").await.unwrap();
    namespace.give_workload().await.unwrap();
    let mut agent = facts_agent().unwrap();
    agent["spec"]["engine"]["custom"]["variants"] =
        json!([{"name": "trained"}, {"name": "perturbed", "options": {"weightNoisePercent": "100"}}]);
    agent["spec"]["slo"]["quality"] = json!({"maxDrop": "2%", "dataset": workload_source("quality.jsonl")});
    let served = namespace.wait_until_served(&namespace.apply(&agent).await.unwrap(), READY_LIMIT).await.unwrap();

    let status = served.status.unwrap();
    let [trained, perturbed] = status.engines.as_slice() else { panic!("two engines: {:?}", status.engines) };
    println!("{}: {}\n{}: {}", trained.display_name, trained.state, perturbed.display_name, perturbed.state);
    let (good, bad) = (trained.quality.clone().unwrap(), perturbed.quality.clone().unwrap());
    assert_eq!((good.accepted, bad.accepted, good.samples, bad.samples), (true, false, 400, 400));
    let percent = |parts: i32| format!("{:.2} %", f64::from(parts) / 1e4);
    let words = format!(
        "quality {}: a drop of {} from the reference, at most {}; spec.slo.quality.maxDrop allows 2%",
        percent(bad.score_parts_per_million),
        percent(bad.drop_parts_per_million.unwrap()),
        percent(bad.drop_upper_bound_parts_per_million.unwrap()),
    );
    assert_eq!(perturbed.state, format!("refused: {words}"));
    assert_eq!(status.selected.unwrap().engine(), Some(&trained.name));

    let events = namespace.api::<Event>().list(&ListParams::default()).await.unwrap();
    let told: Vec<_> = events.into_iter().filter(|e| e.reason.as_deref() == Some("EngineRefused")).collect();
    let messages: Vec<_> =
        told.iter().map(|event| (event.message.clone().unwrap(), event.count.unwrap_or(1))).collect();
    assert_eq!(messages, [(format!("{}: {words}", perturbed.display_name), 1)]);

    let question = draw_question(fresh_seed()).unwrap();
    namespace.teach(&question).await.unwrap();
    let run = namespace.ask("facts-agent", &question.question).await.unwrap();
    assert_eq!(run["answer"].as_str(), Some(question.answer.as_str()), "{run}");
    namespace.delete().await.unwrap();
}
