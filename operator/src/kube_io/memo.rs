//! What was read a moment ago of what is not watched: the API's groups, and the meaning of users' texts.

use std::{
    any::Any,
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use slipway_operator_core::plan::{RESYNC, UNWATCHED};
use tokio::time::Instant;

/// How old the knowledge of groups and kinds may be: a kind that is installed is seen after as long.
const GROUPS: Duration = Duration::from_secs(60);

/// Namespace, ConfigMap, key, and the function that reads the text.
type Place = (String, String, String, usize);
type Kept<T> = (Instant, T);

/// What was read, and when.
#[derive(Default)]
pub(super) struct Memo {
    groups: Mutex<Option<Kept<Vec<APIGroup>>>>,
    kinds: Mutex<HashMap<String, Kept<Vec<String>>>>,
    meanings: Mutex<HashMap<Place, Kept<Box<dyn Any + Send>>>>,
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

    /// What a text meant. A missing one is looked for again sooner.
    pub(super) fn meaning<V: Clone + 'static>(
        &self,
        place: (&str, &str, &str),
        read: fn(&str) -> V,
    ) -> Option<Option<V>> {
        let meanings = locked(&self.meanings);
        let (at, meaning) = meanings.get(&key(place, read))?;
        let meaning = meaning.downcast_ref::<Option<V>>()?;
        let stands = if meaning.is_some() { RESYNC } else { UNWATCHED };
        (at.elapsed() < stands).then(|| meaning.clone())
    }

    pub(super) fn keep_meaning<V: Clone + Send + 'static>(
        &self,
        place: (&str, &str, &str),
        read: fn(&str) -> V,
        meaning: &Option<V>,
    ) {
        let mut meanings = locked(&self.meanings);
        meanings.retain(|_, (at, _)| at.elapsed() < RESYNC);
        meanings.insert(key(place, read), (Instant::now(), Box::new(meaning.clone())));
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
    async fn groups_and_kinds_are_known_for_a_minute() {
        let memo = Memo::default();
        memo.keep_groups(&[]);
        memo.keep_kinds("a/v1", &["B".to_owned()]);
        assert_eq!((memo.groups(), memo.kinds("a/v1")), (Some(Vec::new()), Some(vec!["B".to_owned()])));
        tokio::time::advance(GROUPS).await;
        assert_eq!((memo.groups(), memo.kinds("a/v1")), (None, None));
    }
}
