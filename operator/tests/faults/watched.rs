//! What the operator's watches have shown when a look begins: what there was when the look before began. So what is
//! glanced at is older than what is written over.

use std::sync::Arc;

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
};
use kube::{core::DeserializeGuard, runtime::watcher::Event};
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_crds::{
    labels,
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_operator::kube_io::cache::{Caches, Kept, Stripped, cache};

use crate::api::{
    kinds::{
        AGENT_DEPLOYMENTS, CLAIMS, CONFIG_MAPS, CONTROLLER_REVISIONS, DEPLOYMENTS, ENGINES, JOBS, Kind, PODS, PROFILES,
        ROUTES, SERVICES,
    },
    store::{Change, Happened, Store},
};

/// An event, and its object where it has one.
type Shown<'a> = Event<&'a Value>;

/// A kind that is watched.
struct Watch {
    kind: Kind,
    show: Box<dyn FnMut(Shown<'_>) + Send>,
}

/// Watches of all kinds.
pub struct Watched {
    /// What they have shown.
    pub caches: Arc<Caches>,
    watches: Vec<Watch>,
    /// Changes that they have shown, and those that there were at the last look.
    shown: usize,
    known: usize,
}

impl Watched {
    /// Begins them.
    pub fn begin(store: &Store) -> Self {
        let (mut caches, mut watches) = (Caches::default(), Vec::new());
        watch::<DeserializeGuard<AgentDeployment>>(&mut caches, &mut watches, AGENT_DEPLOYMENTS);
        watch::<DeserializeGuard<Engine>>(&mut caches, &mut watches, ENGINES);
        watch::<DeserializeGuard<Profile>>(&mut caches, &mut watches, PROFILES);
        watch::<DeserializeGuard<PersistentVolumeClaim>>(&mut caches, &mut watches, CLAIMS);
        watch::<Job>(&mut caches, &mut watches, JOBS);
        watch::<Pod>(&mut caches, &mut watches, PODS);
        watch::<Deployment>(&mut caches, &mut watches, DEPLOYMENTS);
        watch::<Service>(&mut caches, &mut watches, SERVICES);
        watch::<ConfigMap>(&mut caches, &mut watches, CONFIG_MAPS);
        watch::<ControllerRevision>(&mut caches, &mut watches, CONTROLLER_REVISIONS);
        watch::<HttpRoute>(&mut caches, &mut watches, ROUTES);
        for Watch { kind, show } in &mut watches {
            show(Event::Init);
            let listed = store.of_kind(*kind).map(|(_, object)| object);
            listed.filter(|object| is_watched(*kind, object)).for_each(|object| show(Event::InitApply(object)));
            show(Event::InitDone);
        }
        let changes = store.changes.len();
        Self { caches: Arc::new(caches), watches, shown: changes, known: changes }
    }

    /// Shows what had happened before the last look.
    pub fn go_on(&mut self, store: &Store) {
        for Change { happened, key, object, .. } in &store.changes[self.shown..self.known] {
            let watches = self.watches.iter_mut().filter(|watch| watch.kind == key.kind);
            for Watch { show, .. } in watches.filter(|watch| is_watched(watch.kind, object)) {
                match happened {
                    Happened::Created | Happened::Modified => show(Event::Apply(object)),
                    Happened::Deleted => show(Event::Delete(object)),
                }
            }
        }
        (self.shown, self.known) = (self.known, store.changes.len());
    }
}

fn watch<K: Kept + Stripped + DeserializeOwned>(caches: &mut Caches, watches: &mut Vec<Watch>, kind: Kind) {
    let (shown, mut writer) = cache::<K>();
    caches.add(shown);
    let read = |object: &Value| {
        let mut object: K = serde_json::from_value(object.clone()).unwrap();
        object.strip();
        object
    };
    let show = move |event: Shown<'_>| {
        let event = match event {
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(read(object)),
            Event::InitDone => Event::InitDone,
            Event::Apply(object) => Event::Apply(read(object)),
            Event::Delete(object) => Event::Delete(read(object)),
        };
        drop(writer.take(event));
    };
    watches.push(Watch { kind, show: Box::new(show) });
}

/// Of kinds of others, only what is labelled as ours is watched.
fn is_watched(kind: Kind, object: &Value) -> bool {
    let is_our_kind = [AGENT_DEPLOYMENTS, ENGINES, PROFILES].contains(&kind);
    is_our_kind || object["metadata"]["labels"][labels::APP_MANAGED_BY] == labels::MANAGED_BY
}
