//! What a cache shows while lists and events come in.

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::labels;

use super::*;

fn service(namespace: &str, name: &str, version: &str) -> Service {
    let labels = json!({"app": name, labels::AGENT_DEPLOYMENT: name});
    let metadata = json!({"namespace": namespace, "name": name, "resourceVersion": version, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

/// What an event changes, by name; what is gone in brackets.
fn taken(writer: &mut Writer<Service>, event: Event<Service>) -> Vec<String> {
    let changed = writer.take(event);
    let name = |changed| {
        let is_gone = matches!(changed, Changed::Gone(_));
        let name = writer.object(changed).unwrap().name_any();
        if is_gone { format!("({name})") } else { name }
    };
    let mut names: Vec<String> = changed.into_iter().map(name).collect();
    names.sort();
    names
}

fn listed(writer: &mut Writer<Service>, objects: &[Service]) -> Vec<String> {
    writer.take(Event::Init);
    for object in objects {
        assert!(writer.take(Event::InitApply(object.clone())).is_empty(), "before the list is whole");
    }
    taken(writer, Event::InitDone)
}

#[test]
fn a_list_is_shown_once_it_is_whole_and_tells_of_what_has_changed() {
    let (cache, mut writer) = cache();
    assert!(!cache.is_ready());
    let first = [service("team", "a", "1"), service("team", "b", "2"), service("other", "c", "3")];
    assert_eq!(listed(&mut writer, &first), ["a", "b", "c"]);
    assert!(cache.is_ready());
    let again = [service("team", "a", "1"), service("other", "c", "4"), service("team", "d", "5")];
    assert_eq!(listed(&mut writer, &again), ["(b)", "c", "d"], "one is gone, one has changed, one is new");
    assert_eq!(cache.list("team", ""), [again[0].clone(), again[2].clone()]);
    assert_eq!((cache.version("other", "c").as_deref(), cache.get("team", "b")), (Some("4"), None));
    assert_eq!(listed(&mut writer, &[]), ["(a)", "(c)", "(d)"]);
    assert!(cache.objects().all.is_empty(), "a namespace without objects takes nothing");
}

#[test]
fn what_a_list_has_shown_that_failed_midway_is_told_once_the_next_one_is_whole() {
    let (_, mut writer) = cache();
    writer.take(Event::Init);
    writer.take(Event::InitApply(service("team", "a", "1")));
    let again = [service("team", "a", "1"), service("team", "b", "2")];
    assert_eq!(listed(&mut writer, &again), ["a", "b"]);
    assert_eq!(listed(&mut writer, &again), [""; 0], "once");
}

#[test]
fn objects_are_found_by_labels_that_are_kept_beside_them_and_by_others() {
    let (cache, mut writer) = cache();
    let all = [service("team", "a", "1"), service("team", "b", "2"), service("other", "a", "3")];
    listed(&mut writer, &all);
    let selected = |selector: &str| cache.list("team", selector).iter().map(Service::name_any).collect::<Vec<_>>();
    let agent = labels::AGENT_DEPLOYMENT;
    let selectors = [format!("{agent}=a"), "app=b".to_owned(), format!("app=a,{agent}=b"), agent.to_owned()];
    assert_eq!(selectors.map(|of| selected(&of)), [vec!["a"], vec!["b"], vec![], vec!["a", "b"]]);
    let mut seen = Vec::new();
    cache.each(|service| seen.push(service.metadata.resource_version.clone().unwrap()));
    seen.sort();
    assert_eq!(seen, ["1", "2", "3"]);
}

#[test]
fn events_change_what_is_shown() {
    let (cache, mut writer) = cache();
    listed(&mut writer, &[service("team", "a", "1")]);
    let changed = service("team", "a", "2");
    assert_eq!(taken(&mut writer, Event::Apply(changed.clone())), ["a"]);
    assert_eq!(cache.get("team", "a"), Some(changed.clone()));
    assert_eq!(taken(&mut writer, Event::Delete(changed)), ["(a)"]);
    assert_eq!((cache.get("team", "a"), cache.list("team", "")), (None, Vec::new()));
}

#[test]
fn a_cache_whose_watch_has_ended_is_not_glanced_at() {
    let (cache, mut writer) = cache();
    let mut caches = Caches::default();
    assert!(!caches.are_ready(), "without any cache nothing is known");
    caches.add(cache);
    assert!(caches.of::<Service>().is_none() && !caches.are_ready());
    listed(&mut writer, &[]);
    assert!(caches.of::<Service>().is_some() && caches.are_ready());
    writer.doubt();
    assert!(caches.of::<Service>().is_none() && !caches.are_ready());
    listed(&mut writer, &[]);
    assert!(caches.are_ready());
}
