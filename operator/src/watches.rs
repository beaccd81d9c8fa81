//! One watch a kind for all controllers: it fills the kind's cache, and then wakes who is concerned.

mod back_off;
mod wakes;

use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};

use futures::{
    SinkExt, StreamExt,
    channel::mpsc::{self, Receiver, Sender},
    stream::BoxStream,
};
use gateway_api::httproutes::HttpRoute;
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, Deployment},
        batch::v1::Job,
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
        networking::v1::NetworkPolicy,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Resource,
    core::{DeserializeGuard, PartialObjectMeta, PartialObjectMetaExt},
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store},
        watcher::{self, Event, watcher},
    },
};
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_operator_core::{inference_pool::InferencePool, plan::RESYNC, prometheus::PrometheusRule};
use tokio::task::JoinSet;
use tracing::warn;

pub use self::wakes::Named;
use self::{
    back_off::BackOff,
    wakes::{Wake, place},
};
use crate::{
    kube_io::{
        applied::Applied,
        cache::{Cache, Caches, Changed, Kept, Stripped, Writer, cache},
        read::{Read, Reader},
    },
    panics::{self, Panicked},
    reconcile::Context,
};

/// Objects of one answer to a list.
const PAGE: u32 = 200;
/// Wakes that wait for a controller.
const WAITING: usize = 1024;
/// How long a kind that the cluster does not serve is not asked for again.
const UNSERVED: Duration = Duration::from_secs(60);
/// Seconds after which a watch is asked for again from where it was. One that fell silent is found out by that.
const WATCHED_SECONDS: u32 = 60;

type Guarded<K> = DeserializeGuard<K>;
type Queue<K> = Receiver<ObjectRef<Named<K>>>;

/// What controllers are woken by.
pub struct Queues {
    /// AgentDeployments to look at.
    pub agents: Queue<AgentDeployment>,
    /// Engines to look at.
    pub engines: Queue<Engine>,
    /// Profiles to look at.
    pub profiles: Queue<Profile>,
    /// Claims of stores to look at.
    pub stores: Queue<PersistentVolumeClaim>,
}

#[derive(Clone)]
struct Wakes {
    agents: Sender<ObjectRef<Named<AgentDeployment>>>,
    engines: Sender<ObjectRef<Named<Engine>>>,
    profiles: Sender<ObjectRef<Named<Profile>>>,
    stores: Sender<ObjectRef<Named<PersistentVolumeClaim>>>,
}

impl Wakes {
    /// Waits while too many wait already. A controller that has ended needs no waking.
    async fn send(&mut self, wake: Wake) {
        let sent: Result<(), mpsc::SendError> = match wake {
            Wake::Agent(of) => self.agents.send(of).await,
            Wake::Engine(of) => self.engines.send(of).await,
            Wake::Profile(of) => self.profiles.send(of).await,
            Wake::Store(of) => self.stores.send(of).await,
        };
        drop(sent);
    }
}

/// The objects of a kind that a controller looks at.
#[derive(Clone)]
pub struct Controlled<K: Kept> {
    /// Those that there are.
    pub names: Store<Named<K>>,
    /// What they are.
    pub objects: Cache<Guarded<K>>,
}

/// The watches of all kinds, as long as this is kept.
pub struct Watches {
    /// The AgentDeployments.
    pub agents: Controlled<AgentDeployment>,
    /// The Engines.
    pub engines: Controlled<Engine>,
    /// The Profiles.
    pub profiles: Controlled<Profile>,
    /// The claims of stores.
    pub claims: Controlled<PersistentVolumeClaim>,
    /// The Jobs.
    pub jobs: Cache<Job>,
    /// All of them.
    pub caches: Arc<Caches>,
    tasks: JoinSet<Infallible>,
}

impl Watches {
    /// Waits until one of them has ended, which none does but by a defect. What it has shown would be shown for ever.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }
}

/// Where watches are begun.
struct Beginning {
    context: Arc<Context>,
    wakes: Wakes,
    caches: Caches,
    tasks: JoinSet<Infallible>,
}

/// Which objects of a kind are watched.
fn selected(selector: &str) -> watcher::Config {
    watcher::Config::default().page_size(PAGE).labels(selector).timeout(WATCHED_SECONDS)
}

/// Begins them. A controller that is woken finds in the caches what woke it.
pub fn begin(context: &Arc<Context>) -> (Watches, Queues) {
    let (agents, of_agents) = mpsc::channel(WAITING);
    let (engines, of_engines) = mpsc::channel(WAITING);
    let (profiles, of_profiles) = mpsc::channel(WAITING);
    let (stores, of_stores) = mpsc::channel(WAITING);
    let queues = Queues { agents: of_agents, engines: of_engines, profiles: of_profiles, stores: of_stores };
    let wakes = Wakes { agents, engines, profiles, stores };
    let caches = Caches::default();
    let mut all = Beginning { context: context.clone(), wakes, caches, tasks: JoinSet::new() };
    let ours = format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY);
    let of_stores = format!("{ours},{}={}", labels::APP_COMPONENT, Component::Store.as_str());
    let agents = all.controlled::<AgentDeployment>("", |agent| vec![wakes::of_agent(agent)]);
    let concerned = agents.objects.clone();
    let engines = all.controlled::<Engine>("", move |engine| wakes::of_engine(&concerned, engine));
    let profiles = all.controlled::<Profile>("", wakes::of_profile);
    let concerned = agents.objects.clone();
    let claims = all.controlled::<PersistentVolumeClaim>(&of_stores, move |claim| wakes::of_claim(&concerned, claim));
    let concerned = agents.objects.clone();
    let jobs = all.needed::<Job>(&ours, move |job| wakes::of_job(&concerned, job));
    let woken = context.clone();
    all.needed::<Pod>(&ours, move |pod| wakes::of_pod(&woken.neighbours, &woken.glanced_neighbours, pod));
    all.needed::<Deployment>(&ours, wakes::of_child);
    all.needed::<Service>(&ours, wakes::of_child);
    // The operator alone writes them, but anybody deletes them.
    all.needed::<ConfigMap>(&ours, wakes::of_child);
    all.needed::<ControllerRevision>(&ours, wakes::of_child);
    all.optional::<HttpRoute>(&ours, wakes::of_child);
    // Nobody is asked for what the chart does not allow.
    if context.settings.gateway.inference_pools {
        all.optional::<InferencePool>(&ours, wakes::of_child);
    }
    if context.settings.network_policies.agents {
        all.optional::<NetworkPolicy>(&ours, wakes::of_child);
    }
    all.optional::<PartialObjectMeta<PrometheusRule>>(&ours, wakes::of_child);
    let Beginning { caches, tasks, .. } = all;
    (Watches { agents, engines, profiles, claims, jobs, caches: Arc::new(caches), tasks }, queues)
}

impl Beginning {
    fn controlled<K>(
        &mut self,
        selector: &str,
        wake: impl Fn(&Guarded<K>) -> Vec<Wake> + Send + Sync + 'static,
    ) -> Controlled<K>
    where
        K: Read + Kept,
        Guarded<K>: Stripped,
    {
        let (names, mut writer) = reflector::store();
        let named = move |event: &Event<Guarded<K>>| writer.apply_watcher_event(&name_of(event));
        let objects = self.begin(selector, Box::new(named), wake);
        self.caches.add(objects.clone());
        Controlled { names, objects }
    }

    fn needed<K: Read + Kept + Stripped>(
        &mut self,
        selector: &str,
        wake: impl Fn(&K) -> Vec<Wake> + Send + Sync + 'static,
    ) -> Cache<K> {
        let shown = self.begin(selector, Box::new(|_| {}), wake);
        self.caches.add(shown.clone());
        shown
    }

    fn begin<K: Read + Kept + Stripped>(
        &mut self,
        selector: &str,
        named: Names<K>,
        wake: impl Fn(&K) -> Vec<Wake> + Send + Sync + 'static,
    ) -> Cache<K> {
        let (shown, writer) = cache();
        let events = self.events::<K>(selector);
        self.follow(Followed { writer, named, events, is_served: true, back_off: BackOff::default() }, wake);
        shown
    }

    /// The same of a kind that a cluster may lack.
    fn optional<K: Read + Kept + Stripped>(
        &mut self,
        selector: &str,
        wake: impl Fn(&K) -> Vec<Wake> + Send + Sync + 'static,
    ) {
        let (shown, writer) = cache();
        self.caches.add_optional(shown);
        let events = self.events::<K>(selector);
        self.follow(
            Followed { writer, named: Box::new(|_| {}), events, is_served: false, back_off: BackOff::default() },
            wake,
        );
    }

    fn events<K: Read>(&self, selector: &str) -> Events<K> {
        let (api, config) = (Api::<K>::all(self.context.client.clone()), selected(selector));
        Box::new(move || watcher(api.clone(), config.clone()).boxed())
    }

    fn follow<K: Kept + Stripped>(
        &mut self,
        followed: Followed<K>,
        wake: impl Fn(&K) -> Vec<Wake> + Send + Sync + 'static,
    ) {
        // Not all kinds are listed again at the same moment.
        let every = RESYNC + Duration::from_secs(5) * u32::try_from(self.tasks.len()).unwrap_or_default();
        let (context, wakes) = (self.context.clone(), self.wakes.clone());
        self.tasks
            .spawn(async move { follow(followed, (&context.reader, &context.applied, every), wakes, wake).await });
    }
}

/// Begins a watch with a list.
type Events<K> = Box<dyn Fn() -> BoxStream<'static, watcher::Result<Event<K>>> + Send + Sync>;

/// Keeps the names of the objects that events show.
type Names<K> = Box<dyn FnMut(&Event<K>) + Send>;

/// An event without what controllers find in a cache.
fn name_of<K: Resource<DynamicType = ()>>(event: &Event<Guarded<K>>) -> Event<Named<K>> {
    let named = |object: &Guarded<K>| {
        let of = object.meta();
        let metadata = ObjectMeta { name: of.name.clone(), namespace: of.namespace.clone(), ..ObjectMeta::default() };
        metadata.into_response_partial()
    };
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(named(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(named(object)),
        Event::Delete(object) => Event::Delete(named(object)),
    }
}

struct Followed<K: Kept> {
    writer: Writer<K>,
    named: Names<K>,
    events: Events<K>,
    /// Whether every cluster serves the kind.
    is_served: bool,
    back_off: BackOff,
}

/// Why a watch is over before its time, in the words of what ended it.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Watch(#[from] watcher::Error),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

/// Follows a kind for ever. What a watch has missed is found by the next list. An object that makes it panic costs
/// everybody this kind's cache, and nobody the process.
async fn follow<K: Kept + Stripped>(
    mut followed: Followed<K>,
    (reader, applied, every): (&Reader, &Applied, Duration),
    mut wakes: Wakes,
    wake: impl Fn(&K) -> Vec<Wake>,
) -> Infallible {
    loop {
        if !followed.is_served && !serves::<K>(reader).await {
            followed.writer.doubt();
            tokio::time::sleep(UNSERVED).await;
            continue;
        }
        let watched = panics::caught(watch(&mut followed, (applied, every), &mut wakes, &wake)).await;
        if let Err(error) = watched.map_err(WatchError::from).and_then(|ended| ended.map_err(WatchError::from)) {
            followed.writer.doubt();
            warn!(kind = %K::kind(&()), error = &error as &dyn Error, "a watch failed; it begins again with a list");
            tokio::time::sleep(followed.back_off.failed()).await;
        }
    }
}

/// Lists and watches a kind until it is time to list again.
async fn watch<K: Kept + Stripped>(
    followed: &mut Followed<K>,
    (applied, every): (&Applied, Duration),
    wakes: &mut Wakes,
    wake: &impl Fn(&K) -> Vec<Wake>,
) -> Result<(), watcher::Error> {
    let mut events = (followed.events)().modify(K::strip).take_until(Box::pin(tokio::time::sleep(every)));
    while let Some(event) = events.next().await {
        let event = event?;
        followed.back_off.seen(&event);
        (followed.named)(&event);
        for changed in followed.writer.take(event) {
            let is_gone = matches!(changed, Changed::Gone(_));
            let Some(changed) = followed.writer.object(changed) else { continue };
            if is_gone {
                let (namespace, name) = place(&changed);
                applied.forget::<K>(&namespace, &name);
            }
            for woken in wake(&changed) {
                wakes.send(woken).await;
            }
        }
    }
    Ok(())
}

/// Whether the cluster serves a kind. Asking for objects of one that it does not serve leaves warnings in its log.
async fn serves<K: Resource<DynamicType = ()>>(reader: &Reader) -> bool {
    let group_version = K::api_version(&());
    let Ok(groups) = reader.groups().await else { return false };
    let mut versions = groups.iter().flat_map(|group| &group.versions);
    if !versions.any(|version| version.group_version == group_version) {
        return false;
    }
    reader.kinds(&group_version).await.is_ok_and(|kinds| kinds.iter().any(|kind| *kind == K::kind(&())))
}
