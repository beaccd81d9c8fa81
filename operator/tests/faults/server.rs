//! The server by itself: what clients rely on, and what it refuses.

use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, Service},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams},
    core::Status,
};
use pretty_assertions::assert_eq;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine};
use slipway_operator::kube_io::record;

use crate::{api::ApiServer, story::agent};

fn server() -> ApiServer {
    ApiServer::new(|| Timestamp::UNIX_EPOCH)
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn as_object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Code, reason and words of a refusal.
fn refused<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => {
            let Status { code, reason, message, .. } = *status;
            (code, reason, message)
        }
        other => panic!("{other}"),
    }
}

fn said(code: u16, reason: &str, message: &str) -> (u16, String, String) {
    (code, reason.to_owned(), message.to_owned())
}

async fn applied<K>(api: &Api<K>, manager: &str, name: &str, object: Value) -> Result<K, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Serialize,
{
    api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(object)).await
}

#[tokio::test]
async fn an_object_is_created_once_and_known_by_its_name() {
    let api: Api<ConfigMap> = Api::namespaced(server().client(), "team");
    let made = api.create(&PostParams::default(), &as_object(config_map("a", json!({"k": "v"})))).await.unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_some());
    let again = refused(api.create(&PostParams::default(), &made_again("a")).await);
    assert_eq!(again, said(409, "AlreadyExists", "configmaps \"a\" already exists"));
    assert_eq!(refused(api.get("b").await), said(404, "NotFound", "configmaps \"b\" not found"));
    let bad = refused(api.create(&PostParams::default(), &made_again("A_b")).await);
    assert_eq!((bad.0, bad.1.as_str()), (422, "Invalid"));
}

fn made_again(name: &str) -> ConfigMap {
    as_object(config_map(name, json!({})))
}

#[tokio::test]
async fn of_two_who_write_the_same_version_one_wins() {
    let api: Api<ConfigMap> = Api::namespaced(server().client(), "team");
    let made = api.create(&PostParams::default(), &made_again("a")).await.unwrap();
    let mut changed = made.clone();
    changed.data = Some([("k".to_owned(), "v".to_owned())].into());
    api.replace("a", &PostParams::default(), &changed).await.unwrap();
    let words = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
                 please apply your changes to the latest version and try again";
    assert_eq!(refused(api.replace("a", &PostParams::default(), &changed).await), said(409, "Conflict", words));
}

#[tokio::test]
async fn a_delete_of_another_object_of_that_name_is_refused() {
    let api: Api<ConfigMap> = Api::namespaced(server().client(), "team");
    let first = api.create(&PostParams::default(), &made_again("a")).await.unwrap();
    let named = |uid: Option<String>| DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version: None }),
        ..DeleteParams::background()
    };
    api.delete("a", &named(first.uid())).await.unwrap();
    let second = api.create(&PostParams::default(), &made_again("a")).await.unwrap();
    let (code, reason, words) = refused(api.delete("a", &named(first.uid())).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(words.contains("does not match the UID in record"), "{words}");
    api.delete("a", &named(second.uid())).await.unwrap();
}

#[tokio::test]
async fn what_never_changes_is_kept() {
    let client = server().client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "team");
    let mut fixed = config_map("a", json!({"k": "v"}));
    fixed["immutable"] = json!(true);
    applied(&maps, "one", "a", fixed.clone()).await.unwrap();
    fixed["data"]["k"] = json!("w");
    let (code, reason, words) = refused(applied(&maps, "one", "a", fixed).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(words.contains("field is immutable when `immutable` is set"), "{words}");
    let jobs: Api<Job> = Api::namespaced(client, "team");
    let job = |image: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}}})
    };
    jobs.create(&PostParams::default(), &as_object(job("one"))).await.unwrap();
    let (code, _, words) = refused(applied(&jobs, "one", "a", job("two")).await);
    assert_eq!(code, 422);
    assert!(
        words.starts_with("Job.batch \"a\" is invalid: spec.template: Invalid value: {...}: field is immutable"),
        "{words}"
    );
}

#[tokio::test]
async fn what_a_manager_no_longer_says_goes_and_what_others_say_stays() {
    let api: Api<Service> = Api::namespaced(server().client(), "team");
    let service = |labels: Value, ports: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": labels},
            "spec": {"selector": {"app": "a"}, "ports": ports}})
    };
    let http = json!({"name": "http", "port": 80});
    let more = json!({"name": "more", "port": 81});
    applied(&api, "one", "a", service(json!({"x": "1", "y": "1"}), json!([http, more]))).await.unwrap();
    applied(
        &api,
        "two",
        "a",
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"y": "1", "z": "1"}}}),
    )
    .await
    .unwrap();
    let after = applied(&api, "one", "a", service(json!({}), json!([http]))).await.unwrap();
    let labels: Vec<&String> = after.labels().keys().collect();
    assert_eq!(labels, ["y", "z"]);
    let ports: Vec<i32> =
        after.spec.iter().flat_map(|spec| spec.ports.iter().flatten()).map(|port| port.port).collect();
    assert_eq!(ports, [80]);
}

#[tokio::test]
async fn an_apply_that_changes_nothing_is_no_change() {
    let api: Api<Service> = Api::namespaced(server().client(), "team");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    let first = applied(&api, "one", "a", service.clone()).await.unwrap();
    let second = applied(&api, "one", "a", service).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn another_managers_field_is_taken_by_force_alone() {
    let api: Api<ConfigMap> = Api::namespaced(server().client(), "team");
    applied(&api, "one", "a", config_map("a", json!({"k": "1"}))).await.unwrap();
    let other = Patch::Apply(config_map("a", json!({"k": "2"})));
    let (code, reason, words) = refused(api.patch("a", &PatchParams::apply("two"), &other).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(words, "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    api.patch("a", &PatchParams::apply("two").force(), &other).await.unwrap();
    let fields = api.get("a").await.unwrap().metadata.managed_fields.unwrap();
    let of_one =
        fields.iter().find(|entry| entry.manager.as_deref() == Some("one")).and_then(|entry| entry.fields_v1.clone());
    assert_eq!(of_one.map(|fields| fields.0), None, "it owns nothing any more");
}

#[tokio::test]
async fn a_generation_counts_changes_of_the_spec_and_the_status_is_written_by_itself() {
    let api: Api<AgentDeployment> = Api::namespaced(server().client(), "team");
    let made = api.create(&PostParams::default(), &as_object(agent())).await.unwrap();
    assert_eq!((made.metadata.generation, made.spec.serving.replicas), (Some(1), 1));
    let status = json!({"apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
        "metadata": {"resourceVersion": made.resource_version()}, "status": {"stage": "Serving"},
        "spec": {"agent": {"systemPrompt": "no"}}});
    let told =
        api.patch_status("support", &PatchParams::apply("status").force(), &Patch::Apply(&status)).await.unwrap();
    assert_eq!((told.metadata.generation, told.spec.agent.system_prompt.as_str()), (Some(1), "Answer."));
    let again =
        refused(api.patch_status("support", &PatchParams::apply("status").force(), &Patch::Apply(&status)).await);
    assert_eq!((again.0, again.1.as_str()), (409, "Conflict"));
    let edit = Patch::Merge(json!({"spec": {"agent": {"systemPrompt": "Think."}}, "status": {"stage": "Failed"}}));
    let edited = api.patch("support", &PatchParams::default(), &edit).await.unwrap();
    assert_eq!(edited.metadata.generation, Some(2));
    assert_eq!(edited.status, told.status, "not by this path");
}

#[tokio::test]
async fn our_own_kinds_are_held_to_their_schemas_and_rules() {
    let api: Api<AgentDeployment> = Api::namespaced(server().client(), "team");
    api.create(&PostParams::default(), &as_object(agent())).await.unwrap();
    let edit = async |spec: Value| {
        let edit = Patch::Merge(json!({"spec": spec}));
        refused(api.patch("support", &PatchParams::default(), &edit).await).2
    };
    let words = edit(json!({"serving": {"replicas": "two"}})).await;
    assert!(words.contains("spec.serving.replicas in body must be of type integer"), "{words}");
    let words = edit(json!({"engine": {"backend": "Other"}})).await;
    assert!(words.contains("Unsupported value: \"Other\""), "{words}");
    let words = edit(json!({"model": null})).await;
    assert!(words.contains("spec.model: Required value"), "{words}");
    let words = edit(json!({"model": {"uri": null}})).await;
    assert!(words.contains("set exactly one of model.uri and model.upstream"), "{words}");
    let words = edit(json!({"model": {"uri": "ftp://x"}})).await;
    assert!(words.contains("spec.model.uri in body should match"), "{words}");
    let engines: Api<Engine> = Api::namespaced(api.into_client(), "team");
    let engine = |precision: &str| {
        json!({"apiVersion": "slipway.dev/v1alpha1", "kind": "Engine", "metadata": {"name": "e"},
            "spec": {"placement": {"builderImage": "b:1"},
                "build": {"backend": "Custom", "sourceDigest": "1f", "builderImageDigest": "sha256:2e",
                    "precision": precision}}})
    };
    applied(&engines, "one", "e", engine("FP32")).await.unwrap();
    let words = refused(applied(&engines, "one", "e", engine("INT8")).await).2;
    assert!(words.contains("build is immutable: create another Engine for another build"), "{words}");
}

/// An operator that was upgraded before its definitions goes on, and says what they lack.
#[tokio::test]
async fn a_status_with_fields_that_the_definition_lacks_is_written_without_them() {
    let client = server().client();
    let api: Api<AgentDeployment> = Api::namespaced(client.clone(), "team");
    let made = api.create(&PostParams::default(), &as_object(agent())).await.unwrap();
    let wanted = json!({"stage": "Serving", "strange": 1, "slo": [{"name": "p95", "objective": "p95 < 2s", "target": "2s", "odd": 1}]});
    let written = record::status(&client, &made, None, &wanted).await.unwrap().unwrap();
    let status = serde_json::to_value(&written).unwrap()["status"].clone();
    assert_eq!((&status["stage"], &status["slo"][0]["name"]), (&json!("Serving"), &json!("p95")));
    assert_eq!(record::lost(&wanted, &written).as_deref(), Some("status.slo.0.odd"));
}

#[tokio::test]
async fn lists_are_selected_and_come_in_pages() {
    let api: Api<ConfigMap> = Api::namespaced(server().client(), "team");
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        let mut object = config_map(name, json!({}));
        object["metadata"]["labels"] = json!({"x": label});
        applied(&api, "one", name, object).await.unwrap();
    }
    let names = async |params: ListParams| {
        let list = api.list(&params).await.unwrap();
        (list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), list.metadata.continue_)
    };
    let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(ListParams::default().labels("x=1")).await.0, of(&["a", "c"]));
    assert_eq!(names(ListParams::default().labels("x in (2, 3)")).await.0, of(&["b"]));
    assert_eq!(names(ListParams::default().labels("x,x!=1")).await.0, of(&["b"]));
    assert_eq!(names(ListParams::default().fields("metadata.name=c")).await.0, of(&["c"]));
    let (first, token) = names(ListParams::default().limit(2)).await;
    assert_eq!(first, of(&["a", "b"]));
    assert_eq!(names(ListParams::default().limit(2).continue_token(&token.unwrap())).await.0, of(&["c"]));
    assert_eq!(api.get_metadata("a").await.unwrap().labels()["x"], "1");
}

#[tokio::test]
async fn a_watch_tells_what_happens_to_those_that_it_selects() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(server.client(), "team");
    let labelled = |value: &str| {
        let mut object = config_map("a", json!({}));
        object["metadata"]["labels"] = json!({"x": value});
        object
    };
    applied(&api, "one", "a", labelled("0")).await.unwrap();
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let watch = api.watch(&WatchParams::default().labels("x=1"), &start).await.unwrap();
    let mut watch = std::pin::pin!(watch);
    for value in ["1", "1", "2"] {
        let mut object = labelled(value);
        object["data"] = json!({"at": server.state().store.version().to_string()});
        applied(&api, "one", "a", object).await.unwrap();
    }
    let mut types = Vec::new();
    for _ in 0..3 {
        types.push(match watch.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => "another",
        });
    }
    assert_eq!(types, ["added", "modified", "deleted"]);
    server.state().store.compact();
    let late = api.watch(&WatchParams::default(), &start).await.unwrap();
    let event = std::pin::pin!(late).try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Error(status) if (status.code, status.reason.as_str()) == (410, "Expired")));
}

#[tokio::test]
async fn an_owner_takes_what_it_owns_with_it_and_a_finalizer_holds_it_back() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(server.client(), "team");
    let mut owner = config_map("owner", json!({}));
    owner["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let owner = applied(&api, "one", "owner", owner).await.unwrap();
    let mut owned = config_map("owned", json!({}));
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()}]);
    applied(&api, "one", "owned", owned).await.unwrap();
    api.delete("owner", &DeleteParams::background()).await.unwrap();
    crate::cluster::step(&mut server.state());
    assert!(api.get("owner").await.unwrap().metadata.deletion_timestamp.is_some());
    assert!(api.get_opt("owned").await.unwrap().is_some());
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("owner", &PatchParams::default(), &free).await.unwrap();
    crate::cluster::step(&mut server.state());
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
    let pods: Api<Pod> = Api::namespaced(server.client(), "team");
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
}
