//! What was read a moment ago of what is not watched: the API's groups, the meaning of users' texts, and objects that
//! caches lack.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use slipway_operator_core::{
    agent_deployment::world::{CalibrationView, DatasetView, PriorView, WorkloadView},
    plan::{RESYNC, UNWATCHED},
};
use tokio::time::Instant;

/// How old the knowledge of groups and kinds may be: a kind that is installed is seen after as long.
const GROUPS: Duration = Duration::from_secs(60);

/// Bytes of all meanings together that are kept. What has no room is read each time.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that a meaning takes beside its texts.
const ENTRY: usize = 256;

/// Objects that caches lack and that are kept. What has no room is read each time.
const MOST_UNWATCHED: usize = 16_384;

/// What a text means to its reader.
pub trait Meaning: Clone + Send + 'static {
    /// Bytes of the texts that it keeps.
    fn bytes(&self) -> usize;
}

impl Meaning for WorkloadView {
    fn bytes(&self) -> usize {
        match self {
            Self::Invalid { problem } => problem.len(),
            Self::Missing | Self::Lines { .. } | Self::Runs { .. } => 0,
        }
    }
}

impl Meaning for DatasetView {
    fn bytes(&self) -> usize {
        match self {
            Self::Invalid { problem } => problem.len(),
            Self::Samples { prompts, .. } => prompts.len(),
            Self::Missing => 0,
        }
    }
}

impl Meaning for CalibrationView {
    fn bytes(&self) -> usize {
        match self {
            Self::Invalid { problem } => problem.len(),
            Self::Missing | Self::Texts { .. } => 0,
        }
    }
}

impl Meaning for PriorView {
    fn bytes(&self) -> usize {
        match self {
            Self::Invalid { problem } => problem.len(),
            Self::Table { table, .. } => table.bytes(),
            Self::Missing => 0,
        }
    }
}

/// Namespace, ConfigMap, key, and the function that reads the text.
type Place = (String, String, String, usize);
type Kept<T> = (Instant, T);
/// A meaning of any type, and the bytes of its texts.
type Weighed = (usize, Box<dyn Any + Send>);

/// What texts meant.
#[derive(Default)]
struct Meanings {
    all: HashMap<Place, Kept<Weighed>>,
    /// Bytes of all of them.
    bytes: usize,
}

impl Meanings {
    fn remove_old(&mut self) {
        self.all.retain(|_, (at, (bytes, _))| {
            let is_kept = at.elapsed() < RESYNC;
            self.bytes -= if is_kept { 0 } else { *bytes };
            is_kept
        });
    }

    fn remove(&mut self, place: &Place) {
        self.bytes -= self.all.remove(place).map_or(0, |(_, (bytes, _))| bytes);
    }
}

/// Kind, namespace and name of an object.
type Unwatched = (TypeId, String, String);

/// What was read, and when.
#[derive(Default)]
pub(super) struct Memo {
    groups: Mutex<Option<Kept<Vec<APIGroup>>>>,
    kinds: Mutex<HashMap<String, Kept<Vec<String>>>>,
    meanings: Mutex<Meanings>,
    unwatched: Mutex<HashMap<Unwatched, Kept<Box<dyn Any + Send>>>>,
}

impl Memo {
    pub(super) fn groups(&self) -> Option<Vec<APIGroup>> {
        let kept = locked(&self.groups);
        kept.as_ref().filter(|(at, _)| at.elapsed() < GROUPS).map(|(_, groups)| groups.clone())
    }

    pub(super) fn keep_groups(&self, groups: &[APIGroup]) {
        *locked(&self.groups) = Some((Instant::now(), groups.to_vec()));
    }

    pub(super) fn kinds(&self, group_version: &str) -> Option<Vec<String>> {
        let kept = locked(&self.kinds);
        kept.get(group_version).filter(|(at, _)| at.elapsed() < GROUPS).map(|(_, kinds)| kinds.clone())
    }

    pub(super) fn keep_kinds(&self, group_version: &str, kinds: &[String]) {
        locked(&self.kinds).insert(group_version.to_owned(), (Instant::now(), kinds.to_vec()));
    }

    /// An object that caches lack, or that it was not there either.
    pub(super) fn unwatched<K: Clone + 'static>(&self, namespace: &str, name: &str) -> Option<Option<K>> {
        let unwatched = locked(&self.unwatched);
        let (at, object) = unwatched.get(&(TypeId::of::<K>(), namespace.to_owned(), name.to_owned()))?;
        let object = object.downcast_ref::<Option<K>>()?;
        (at.elapsed() < UNWATCHED).then(|| object.clone())
    }

    pub(super) fn keep_unwatched<K: Clone + Send + 'static>(&self, namespace: &str, name: &str, object: &Option<K>) {
        let mut unwatched = locked(&self.unwatched);
        if unwatched.len() >= MOST_UNWATCHED {
            unwatched.retain(|_, (at, _)| at.elapsed() < UNWATCHED);
        }
        if unwatched.len() < MOST_UNWATCHED {
            let place = (TypeId::of::<K>(), namespace.to_owned(), name.to_owned());
            unwatched.insert(place, (Instant::now(), Box::new(object.clone())));
        }
    }

    /// What a text meant. A missing one is looked for again sooner.
    pub(super) fn meaning<V: Meaning>(&self, place: (&str, &str, &str), read: fn(&str) -> V) -> Option<Option<V>> {
        let meanings = locked(&self.meanings);
        let (at, (_, meaning)) = meanings.all.get(&key(place, read))?;
        let meaning = meaning.downcast_ref::<Option<V>>()?;
        let stands = if meaning.is_some() { RESYNC } else { UNWATCHED };
        (at.elapsed() < stands).then(|| meaning.clone())
    }

    pub(super) fn keep_meaning<V: Meaning>(&self, place: (&str, &str, &str), read: fn(&str) -> V, meaning: &Option<V>) {
        let mut meanings = locked(&self.meanings);
        let key = key(place, read);
        meanings.remove(&key);
        meanings.remove_old();
        let bytes = ENTRY + meaning.as_ref().map_or(0, V::bytes);
        if meanings.bytes + bytes <= MOST_BYTES {
            meanings.bytes += bytes;
            meanings.all.insert(key, (Instant::now(), (bytes, Box::new(meaning.clone()))));
        }
    }
}

fn key<V>((namespace, name, key): (&str, &str, &str), read: fn(&str) -> V) -> Place {
    (namespace.to_owned(), name.to_owned(), key.to_owned(), read as *const () as usize)
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No code panics while it holds the lock.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    impl Meaning for usize {
        fn bytes(&self) -> usize {
            0
        }
    }

    impl Meaning for bool {
        fn bytes(&self) -> usize {
            0
        }
    }

    impl Meaning for String {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_no_room_is_read_each_time_until_others_are_old() {
        let (memo, half) = (Memo::default(), Some("x".repeat(MOST_BYTES / 2)));
        let knows = |name: &'static str| memo.meaning(("team", name, "lines"), str::to_owned).is_some();
        let keep = |name: &'static str| memo.keep_meaning(("team", name, "lines"), str::to_owned, &half);
        keep("a");
        keep("b");
        assert_eq!([knows("a"), knows("b")], [true, false]);
        keep("a");
        memo.keep_meaning(("team", "c", "lines"), length, &Some(7));
        assert_eq!(locked(&memo.meanings).bytes, MOST_BYTES / 2 + 2 * ENTRY);
        tokio::time::advance(RESYNC).await;
        keep("b");
        assert_eq!(([knows("a"), knows("b")], locked(&memo.meanings).all.len()), ([false, true], 1));
    }

    fn length(text: &str) -> usize {
        text.len()
    }

    fn is_empty(text: &str) -> bool {
        text.is_empty()
    }

    #[tokio::test(start_paused = true)]
    async fn a_meaning_is_known_for_as_long_as_everything_may_go_unlooked_at() {
        let (memo, place) = (Memo::default(), ("team", "prompts", "lines"));
        assert_eq!(memo.meaning(place, length), None);
        memo.keep_meaning(place, length, &Some(7));
        memo.keep_meaning(("team", "prompts", "more"), length, &None);
        assert_eq!(memo.meaning(place, length), Some(Some(7)));
        assert_eq!(memo.meaning(("team", "prompts", "more"), length), Some(None));
        assert_eq!(memo.meaning(place, is_empty), None, "another function gives another meaning");
        tokio::time::advance(UNWATCHED).await;
        assert_eq!(memo.meaning(("team", "prompts", "more"), length), None);
        tokio::time::advance(RESYNC).await;
        assert_eq!(memo.meaning(place, length), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_caches_lack_is_known_for_as_long_as_what_is_not_watched_goes_unlooked_at() {
        let memo = Memo::default();
        assert_eq!(memo.unwatched::<usize>("team", "a"), None);
        memo.keep_unwatched("team", "a", &Some(7_usize));
        memo.keep_unwatched("team", "b", &None::<usize>);
        let known = |memo: &Memo| ["a", "b"].map(|name| memo.unwatched::<usize>("team", name));
        assert_eq!(known(&memo), [Some(Some(7)), Some(None)]);
        assert_eq!(memo.unwatched::<bool>("team", "a"), None, "an object of another kind");
        tokio::time::advance(UNWATCHED).await;
        assert_eq!(known(&memo), [None, None]);
    }

    #[tokio::test(start_paused = true)]
    async fn groups_and_kinds_are_known_for_a_minute() {
        let memo = Memo::default();
        memo.keep_groups(&[]);
        memo.keep_kinds("a/v1", &["B".to_owned()]);
        assert_eq!((memo.groups(), memo.kinds("a/v1")), (Some(Vec::new()), Some(vec!["B".to_owned()])));
        tokio::time::advance(GROUPS).await;
        assert_eq!((memo.groups(), memo.kinds("a/v1")), (None, None));
    }
}
