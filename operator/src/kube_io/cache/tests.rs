//! What a cache shows while lists and events come in.

use k8s_openapi::api::core::v1::Service;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn service(namespace: &str, name: &str, version: &str) -> Service {
    let labels = json!({"app": name});
    let metadata = json!({"namespace": namespace, "name": name, "resourceVersion": version, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn empty() -> (Cache<Service>, Writer<Service>) {
    cache(Service::clone)
}

fn names(objects: &[Arc<Service>]) -> Vec<String> {
    let mut names: Vec<String> = objects.iter().map(|object| place(object.as_ref()).1).collect();
    names.sort();
    names
}

fn listed(writer: &mut Writer<Service>, objects: &[Service]) -> Vec<String> {
    writer.take(&Event::Init);
    for object in objects {
        assert!(writer.take(&Event::InitApply(object.clone())).is_empty(), "before the list is whole");
    }
    names(&writer.take(&Event::InitDone))
}

#[test]
fn a_list_is_shown_once_it_is_whole_and_tells_of_what_has_changed() {
    let (cache, mut writer) = empty();
    assert!(!cache.is_ready());
    let first = [service("team", "a", "1"), service("team", "b", "2"), service("other", "c", "3")];
    assert_eq!(listed(&mut writer, &first), ["a", "b", "c"]);
    assert!(cache.is_ready());
    assert_eq!(cache.list("team", "app=a"), [first[0].clone()]);
    let again = [service("team", "a", "1"), service("other", "c", "4"), service("team", "d", "5")];
    assert_eq!(listed(&mut writer, &again), ["b", "c", "d"], "one is gone, one has changed, one is new");
    assert_eq!(cache.list("team", ""), [again[0].clone(), again[2].clone()]);
    assert_eq!(cache.version("other", "c").as_deref(), Some("4"));
}

#[test]
fn events_change_what_is_shown() {
    let (cache, mut writer) = empty();
    listed(&mut writer, &[service("team", "a", "1")]);
    let changed = service("team", "a", "2");
    assert_eq!(names(&writer.take(&Event::Apply(changed.clone()))), ["a"]);
    assert_eq!(cache.get("team", "a"), Some(changed.clone()));
    assert_eq!(names(&writer.take(&Event::Delete(changed))), ["a"]);
    assert_eq!((cache.get("team", "a"), cache.list("team", "")), (None, Vec::new()));
}

#[test]
fn a_cache_whose_watch_has_ended_is_not_glanced_at() {
    let (cache, mut writer) = empty();
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
