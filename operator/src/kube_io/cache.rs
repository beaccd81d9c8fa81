//! What watches have shown: objects of a kind without what nobody reads of them.
//!
//! Caches say when to look, and that there is nothing to do. They are never the ground of a write: what a glance at
//! them finds to be done is decided again on what the API server says.

mod selector;
mod strip;

use std::{
    any::{Any, TypeId},
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use kube::{
    Resource,
    runtime::{
        reflector::{self, ObjectRef, Store},
        watcher::Event,
    },
};

use self::selector::Selector;
pub use self::strip::Stripped;

/// What a kind must be to be kept.
pub trait Kept: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {}
impl<K> Kept for K where K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {}

/// The objects of a kind, by namespace. Clones are the same one.
pub struct Cache<K: Kept> {
    objects: Store<K>,
    names: Arc<Mutex<HashMap<String, BTreeSet<String>>>>,
    is_ready: Arc<AtomicBool>,
    /// Gives an object as it was before it was stripped, but for what is lost.
    restore: fn(&K) -> K,
}

impl<K: Kept> Clone for Cache<K> {
    fn clone(&self) -> Self {
        let Self { objects, names, is_ready, restore } = self;
        Self { objects: objects.clone(), names: names.clone(), is_ready: is_ready.clone(), restore: *restore }
    }
}

impl<K: Kept> Cache<K> {
    /// Whether it has everything that there is, as far as a watch tells.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// The objects as controllers and metrics read them.
    pub fn store(&self) -> Store<K> {
        self.objects.clone()
    }

    /// The objects of a namespace, by name.
    pub fn of_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.get(namespace).into_iter().flatten();
        names.filter_map(|name| self.objects.get(&ObjectRef::new(name).within(namespace))).collect()
    }

    /// The objects of a namespace that a selector of labels selects.
    pub fn list(&self, namespace: &str, selector: &str) -> Vec<K> {
        let selector = Selector::parse(selector);
        let objects = self.of_namespace(namespace);
        let selected = objects.iter().filter(|object| selector.matches(object.meta().labels.as_ref()));
        selected.map(|object| (self.restore)(object)).collect()
    }

    /// An object, if it is there.
    pub fn get(&self, namespace: &str, name: &str) -> Option<K> {
        self.objects.get(&ObjectRef::new(name).within(namespace)).map(|object| (self.restore)(&object))
    }

    /// The resource version of an object, if it is there.
    pub fn version(&self, namespace: &str, name: &str) -> Option<String> {
        self.objects.get(&ObjectRef::new(name).within(namespace))?.meta().resource_version.clone()
    }
}

/// Puts what a watch shows into a cache.
pub struct Writer<K: Kept> {
    cache: Cache<K>,
    objects: reflector::store::Writer<K>,
    /// What a list in progress has shown that is not known yet.
    news: Vec<Arc<K>>,
}

/// An empty cache of a kind, and what writes it.
pub fn cache<K: Kept>(restore: fn(&K) -> K) -> (Cache<K>, Writer<K>) {
    let (objects, writer) = reflector::store();
    let cache = Cache { objects, names: Arc::default(), is_ready: Arc::default(), restore };
    (cache.clone(), Writer { cache, objects: writer, news: Vec::new() })
}

impl<K: Kept> Writer<K> {
    /// Takes an event in. Gives the objects that are new, changed or gone since: of a list, once it is whole.
    pub fn take(&mut self, event: &Event<K>) -> Vec<Arc<K>> {
        match event {
            Event::Init => {
                self.news.clear();
                self.objects.apply_watcher_event(event);
                Vec::new()
            }
            Event::InitApply(object) => {
                let known = self.cache.objects.get(&ObjectRef::from_obj(object));
                let version = |object: &K| object.meta().resource_version.clone();
                if known.is_none_or(|known| version(&known) != version(object)) {
                    self.news.push(Arc::new(object.clone()));
                }
                self.objects.apply_watcher_event(event);
                Vec::new()
            }
            Event::InitDone => self.end_of_list(event),
            Event::Apply(object) => {
                self.objects.apply_watcher_event(event);
                self.with_names(object, |names, name| {
                    names.insert(name);
                });
                vec![Arc::new(object.clone())]
            }
            Event::Delete(object) => {
                self.objects.apply_watcher_event(event);
                self.with_names(object, |names, name| {
                    names.remove(&name);
                });
                vec![Arc::new(object.clone())]
            }
        }
    }

    /// Whether an object is still there.
    pub fn has(&self, object: &K) -> bool {
        self.cache.objects.get(&ObjectRef::from_obj(object)).is_some()
    }

    /// The watch has ended: nobody knows what happens meanwhile.
    pub fn doubt(&self) {
        self.cache.is_ready.store(false, Ordering::Release);
    }

    fn end_of_list(&mut self, event: &Event<K>) -> Vec<Arc<K>> {
        let before = self.cache.objects.state();
        self.objects.apply_watcher_event(event);
        let mut names: HashMap<String, BTreeSet<String>> = HashMap::new();
        for object in self.cache.objects.state() {
            let (namespace, name) = place(object.as_ref());
            names.entry(namespace).or_default().insert(name);
        }
        *self.cache.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        self.cache.is_ready.store(true, Ordering::Release);
        let is_gone = |object: &Arc<K>| self.cache.objects.get(&ObjectRef::from_obj(object.as_ref())).is_none();
        let gone = before.into_iter().filter(is_gone);
        std::mem::take(&mut self.news).into_iter().chain(gone).collect()
    }

    fn with_names(&self, object: &K, change: impl FnOnce(&mut BTreeSet<String>, String)) {
        let (namespace, name) = place(object);
        let mut all = self.cache.names.lock().unwrap_or_else(PoisonError::into_inner);
        let names = all.entry(namespace.clone()).or_default();
        change(names, name);
        if names.is_empty() {
            all.remove(&namespace);
        }
    }
}

fn place<K: Kept>(object: &K) -> (String, String) {
    let metadata = object.meta();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The caches that there are, by kind. A kind that is not among them is read from the API server.
#[derive(Default)]
pub struct Caches {
    kinds: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    /// Those without which nothing is glanced at.
    needed: Vec<Arc<AtomicBool>>,
}

impl Caches {
    /// Adds the cache of a kind that every cluster has.
    pub fn add<K: Kept>(&mut self, cache: Cache<K>) {
        self.needed.push(cache.is_ready.clone());
        self.add_optional(cache);
    }

    /// Adds the cache of a kind that is read from the API server while the cache is not ready.
    pub fn add_optional<K: Kept>(&mut self, cache: Cache<K>) {
        self.kinds.insert(TypeId::of::<K>(), Box::new(cache));
    }

    /// Whether what they show can be glanced at.
    pub fn are_ready(&self) -> bool {
        !self.needed.is_empty() && self.needed.iter().all(|is_ready| is_ready.load(Ordering::Acquire))
    }

    /// The cache of a kind, if there is one that is ready.
    pub fn of<K: Kept>(&self) -> Option<&Cache<K>> {
        let cache = self.kinds.get(&TypeId::of::<K>())?.downcast_ref::<Cache<K>>()?;
        cache.is_ready().then_some(cache)
    }
}

#[cfg(test)]
mod tests;
