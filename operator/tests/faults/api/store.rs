//! Objects with their versions, and every change that was ever made.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use slipway_crds::identity::content_hash;

use super::kinds::Kind;
use crate::cluster::volume::Volume;

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    Created,
    Modified,
    Deleted,
}

/// Who wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writer {
    /// By a request.
    Client,
    /// Controllers and kubelets of the cluster, and people who use the agents.
    Cluster,
    /// A person who removes what the operator has made.
    Cleaner,
}

/// One change.
#[derive(Debug, Clone)]
pub struct Change {
    pub version: u64,
    pub happened: Happened,
    pub key: Key,
    pub object: Arc<Value>,
    pub writer: Writer,
}

/// All objects.
#[derive(Debug, Clone, Default)]
pub struct Store {
    version: u64,
    /// How often there has been an object here.
    lives: BTreeMap<Key, u64>,
    objects: BTreeMap<Key, Arc<Value>>,
    pub changes: Vec<Change>,
    /// What Jobs have left on the volume of the artifact store.
    pub volume: Volume,
    /// Pods of agents for which the node has room; any number if none is said.
    pub room: Option<usize>,
    forgotten: u64,
}

impl Store {
    /// Watches from before this version must begin again.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Forgets how objects came to be what they are, as etcd does when it is compacted. Watches from before end.
    pub fn compact(&mut self) {
        self.forgotten = self.version;
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    pub fn all(&self) -> &BTreeMap<Key, Arc<Value>> {
        &self.objects
    }

    /// Objects of a kind, in the order of their names.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter().filter(move |(key, _)| key.kind == kind)
    }

    /// The UID of a new object. It tells one life of an object from the next, and is the same in every telling of a
    /// story.
    pub fn next_uid(&mut self, key: &Key) -> String {
        let lives = self.lives.entry(key.clone()).or_default();
        *lives += 1;
        let hash = content_hash(&(key.kind.plural, key.kind.group, &key.namespace, &key.name, *lives)).unwrap();
        let digits = hash.as_str();
        format!("{}-{}-4{}-8{}-{}", &digits[..8], &digits[8..12], &digits[12..15], &digits[15..18], &digits[18..30])
    }

    /// Keeps an object. One that is going and held by nobody goes.
    pub fn put(&mut self, key: Key, object: Value, writer: Writer) -> Arc<Value> {
        if is_going(&object) && is_free(&object) {
            self.objects.insert(key.clone(), Arc::new(object.clone()));
            self.remove(&key, writer);
            return Arc::new(object);
        }
        self.keep(key, object, writer)
    }

    /// Keeps an object as it is, even one that goes next.
    pub fn keep(&mut self, key: Key, mut object: Value, writer: Writer) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        let happened = if before.is_some() { Happened::Modified } else { Happened::Created };
        self.changes.push(Change { version: self.version, happened, key, object: Arc::clone(&object), writer });
        object
    }

    /// Removes an object. Gives it as it was, with the version of its end.
    pub fn remove(&mut self, key: &Key, writer: Writer) -> Option<Arc<Value>> {
        let object = self.objects.remove(key)?;
        self.version += 1;
        let mut last = (*object).clone();
        last["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let (key, object) = (key.clone(), Arc::new(last));
        let change = Change { version: self.version, happened: Happened::Deleted, key, object: object.clone(), writer };
        self.changes.push(change);
        Some(object)
    }

    /// The objects as they were.
    pub fn as_of(&self, version: u64) -> BTreeMap<Key, Arc<Value>> {
        let mut objects = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.version <= version) {
            match change.happened {
                Happened::Created | Happened::Modified => {
                    objects.insert(change.key.clone(), Arc::clone(&change.object));
                }
                Happened::Deleted => {
                    objects.remove(&change.key);
                }
            }
        }
        objects
    }
}

/// Whether somebody has deleted it.
pub fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Whether neither a finalizer nor a running pod's grace keeps it.
pub fn is_free(object: &Value) -> bool {
    let is_held = object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    let is_ending = object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    !is_held && !is_ending
}
