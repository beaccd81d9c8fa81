//! What watches have shown: objects of a kind without what nobody reads of them, as packed text. An object takes a
//! fraction of the memory that way, and is read again where somebody looks at it.
//!
//! Caches say when to look, and that there is nothing to do. They are never the ground of a write: what a glance at
//! them finds to be done is decided again on what the API server says.

mod entry;
mod pattern;
mod selector;
mod strip;

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use kube::{Resource, runtime::watcher::Event};

pub use self::strip::Stripped;
use self::{entry::Entry, pattern::Pattern, selector::Selector};

/// What a kind must be to be kept.
pub trait Kept: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {}
impl<K> Kept for K where K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {}

/// Objects by namespace and name.
#[derive(Default)]
struct Objects {
    all: HashMap<Box<str>, BTreeMap<Box<str>, Entry>>,
    /// What their texts have in common.
    pattern: Pattern,
}

/// The objects of a kind, by namespace. Clones are the same one.
pub struct Cache<K: Kept> {
    objects: Arc<RwLock<Objects>>,
    is_ready: Arc<AtomicBool>,
    unpack: fn(&[u8]) -> Option<K>,
}

impl<K: Kept> Clone for Cache<K> {
    fn clone(&self) -> Self {
        let Self { objects, is_ready, unpack } = self;
        Self { objects: objects.clone(), is_ready: is_ready.clone(), unpack: *unpack }
    }
}

impl<K: Kept> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("is_ready", &self.is_ready).finish_non_exhaustive()
    }
}

impl<K: Kept> Cache<K> {
    /// Whether it has everything that there is, as far as a watch tells.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// The objects of a namespace that a selector of labels selects, by name.
    pub fn list(&self, namespace: &str, selector: &str) -> Vec<K> {
        let selector = Selector::parse(selector);
        let objects = self.objects();
        let entries = objects.all.get(namespace).into_iter().flat_map(BTreeMap::values);
        if selector.is_of(&entry::KEYS) {
            let selected = entries.filter(|entry| selector.matches(|key| entry.label(key)));
            return selected.filter_map(|entry| self.read(entry, &objects.pattern)).collect();
        }
        let matches = |object: &K| {
            let labels = object.meta().labels.as_ref();
            selector.matches(|key| labels?.get(key).map(String::as_str))
        };
        entries.filter_map(|entry| self.read(entry, &objects.pattern)).filter(matches).collect()
    }

    /// The names of the objects of a namespace that are concerned by one of these. No object is read.
    pub fn concerned(&self, namespace: &str, by: &[String]) -> Vec<String> {
        let objects = self.objects();
        let entries = objects.all.get(namespace).into_iter().flatten();
        entries.filter(|(_, entry)| entry.is_concerned_by(by)).map(|(name, _)| name.to_string()).collect()
    }

    /// Looks at all objects, one after the other.
    pub fn each(&self, mut look: impl FnMut(&K)) {
        let namespaces: Vec<Box<str>> = self.objects().all.keys().cloned().collect();
        // Who writes does not wait for all of them.
        for namespace in namespaces {
            self.list(&namespace, "").iter().for_each(&mut look);
        }
    }

    /// An object, if it is there.
    pub fn get(&self, namespace: &str, name: &str) -> Option<K> {
        let objects = self.objects();
        self.read(objects.all.get(namespace)?.get(name)?, &objects.pattern)
    }

    /// The resource version of an object, if it is there.
    pub fn version(&self, namespace: &str, name: &str) -> Option<String> {
        Some(self.objects().all.get(namespace)?.get(name)?.version().to_owned())
    }

    fn read(&self, entry: &Entry, pattern: &Pattern) -> Option<K> {
        (self.unpack)(&pattern.unpack(entry.body())?)
    }

    fn objects(&self) -> RwLockReadGuard<'_, Objects> {
        // No code panics while it holds the lock.
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts what a watch shows into a cache.
pub struct Writer<K: Kept> {
    cache: Cache<K>,
    pack: fn(&K) -> Vec<u8>,
    concerns: fn(&K) -> Vec<String>,
    /// What lists have shown that was not known, and of which nobody has been told: a list may fail midway.
    news: Vec<(Box<str>, Box<str>)>,
    /// Lists that have begun.
    lists: u32,
}

/// An empty cache of a kind, and what writes it.
pub fn cache<K: Kept + Stripped>() -> (Cache<K>, Writer<K>) {
    let cache = Cache { objects: Arc::default(), is_ready: Arc::default(), unpack: K::unpacked };
    (cache.clone(), Writer { cache, pack: K::packed, concerns: K::concerns, news: Vec::new(), lists: 0 })
}

/// An object that is new, changed or gone.
#[derive(Debug)]
pub enum Changed<K> {
    /// A list has shown it.
    Listed(Box<str>, Box<str>),
    /// An event has shown it.
    Shown(K),
    /// It is gone.
    Gone(K),
}

impl<K: Kept> Writer<K> {
    /// Takes an event in. Gives the objects that are new, changed or gone since: of a list, once it is whole.
    pub fn take(&mut self, event: Event<K>) -> Vec<Changed<K>> {
        match event {
            Event::Init => {
                self.lists = self.lists.wrapping_add(1);
                Vec::new()
            }
            Event::InitApply(object) => {
                let (namespace, name) = place(&object);
                if self.put(&object) {
                    self.news.push((namespace, name));
                }
                Vec::new()
            }
            Event::InitDone => self.end_of_list(),
            Event::Apply(object) => {
                self.put(&object);
                vec![Changed::Shown(object)]
            }
            Event::Delete(object) => {
                self.change(|objects| {
                    let (namespace, name) = place(&object);
                    let Some(names) = objects.all.get_mut(&namespace) else { return };
                    names.remove(&name);
                    if names.is_empty() {
                        objects.all.remove(&namespace);
                    }
                });
                vec![Changed::Gone(object)]
            }
        }
    }

    /// An object that has changed, as it is now known.
    pub fn object(&self, changed: Changed<K>) -> Option<K> {
        match changed {
            Changed::Listed(namespace, name) => self.cache.get(&namespace, &name),
            Changed::Shown(object) | Changed::Gone(object) => Some(object),
        }
    }

    /// The watch has ended: nobody knows what happens meanwhile.
    pub fn doubt(&self) {
        self.cache.is_ready.store(false, Ordering::Release);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        // No code panics while it holds the lock.
        change(&mut self.cache.objects.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts an object in its place. Whether another version was there, or none.
    fn put(&self, object: &K) -> bool {
        let (namespace, name) = place(object);
        let version = object.meta().resource_version.as_deref().unwrap_or_default();
        let is_known = self.change(|objects| {
            let known = objects.all.get_mut(&namespace).and_then(|names| names.get_mut(&name));
            let known = known.filter(|known| known.version() == version);
            known.map(|known| known.listed = self.lists).is_some()
        });
        if !is_known {
            let (text, concerns) = ((self.pack)(object), (self.concerns)(object));
            self.change(|objects| {
                let entry = Entry::of(object.meta(), &concerns, objects.pattern.pack(&text), self.lists);
                objects.all.entry(namespace).or_default().insert(name, entry);
            });
        }
        !is_known
    }

    /// What the list has not shown is gone.
    fn end_of_list(&mut self) -> Vec<Changed<K>> {
        let (lists, cache) = (self.lists, &self.cache);
        let gone = self.change(|Objects { all, pattern }| {
            let mut gone = Vec::new();
            all.retain(|_, names| {
                names.retain(|_, entry| {
                    let is_there = entry.listed == lists;
                    gone.extend((!is_there).then(|| cache.read(entry, pattern)).flatten());
                    is_there
                });
                !names.is_empty()
            });
            gone
        });
        self.cache.is_ready.store(true, Ordering::Release);
        let news = std::mem::take(&mut self.news).into_iter().map(|(namespace, name)| Changed::Listed(namespace, name));
        news.chain(gone.into_iter().map(Changed::Gone)).collect()
    }
}

fn place<K: Kept>(object: &K) -> (Box<str>, Box<str>) {
    let metadata = object.meta();
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    (text(&metadata.namespace), text(&metadata.name))
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
