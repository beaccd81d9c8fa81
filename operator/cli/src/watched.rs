//! Objects as a watch tells them. Pure.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt, runtime::watcher::Event};

/// The objects of a kind, by name.
#[derive(Debug)]
pub struct Watched<K> {
    known: BTreeMap<String, K>,
    /// Those of a list that is being read again.
    listed: Option<BTreeMap<String, K>>,
    is_complete: bool,
}

impl<K> Default for Watched<K> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listed: None, is_complete: false }
    }
}

impl<K: Resource + Clone> Watched<K> {
    /// Takes what a watch tells.
    pub fn take(&mut self, event: Event<K>) {
        match event {
            Event::Init => self.listed = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                self.listed.get_or_insert_default().insert(object.name_any(), object);
            }
            Event::InitDone => {
                self.known = self.listed.take().unwrap_or_default();
                self.is_complete = true;
            }
            Event::Apply(object) => {
                self.known.insert(object.name_any(), object);
            }
            Event::Delete(object) => {
                self.known.remove(&object.name_any());
            }
        }
    }

    /// Whether all objects of the beginning are known.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The objects, by name.
    pub fn all(&self) -> Vec<K> {
        self.known.values().cloned().collect()
    }

    /// One object.
    pub fn get(&self, name: &str) -> Option<&K> {
        self.known.get(name)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use pretty_assertions::assert_eq;

    use super::*;

    fn pod(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod
    }

    fn names(watched: &Watched<Pod>) -> Vec<String> {
        watched.all().iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn objects_come_and_go_as_a_watch_tells() {
        let mut watched = Watched::default();
        [Event::Init, Event::InitApply(pod("a"))].into_iter().for_each(|event| watched.take(event));
        assert_eq!((watched.is_complete(), names(&watched)), (false, vec![]), "the list is not complete yet");
        watched.take(Event::InitDone);
        watched.take(Event::Apply(pod("b")));
        watched.take(Event::Delete(pod("a")));
        assert_eq!((watched.is_complete(), names(&watched)), (true, vec!["b".to_owned()]));
    }

    #[test]
    fn a_list_that_is_read_again_replaces_what_was_known() {
        let mut watched = Watched::default();
        let events =
            [Event::Init, Event::InitApply(pod("a")), Event::InitDone, Event::Init, Event::InitApply(pod("b"))];
        events.into_iter().for_each(|event| watched.take(event));
        assert_eq!(names(&watched), ["a"], "what is known stays until the new list is complete");
        watched.take(Event::InitDone);
        assert_eq!(names(&watched), ["b"]);
    }
}
