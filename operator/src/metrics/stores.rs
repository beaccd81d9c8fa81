//! Artifact stores as metrics: their known size, and what their volumes had left at the last sweep.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::DeserializeGuard;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    registry::Unit,
};
use slipway_crds::store::{StoreRecord, SweepFigures};

use super::gauges::{Family, Watched};
use crate::kube_io::cache::Cache;

/// Claims of stores as the API server's watch shows them.
pub type Claims = Cache<DeserializeGuard<PersistentVolumeClaim>>;

/// There are as many as stores.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreLabels {
    namespace: String,
}

/// States are a closed vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SizeLabels {
    namespace: String,
    state: &'static str,
}

/// Remembers what was last recorded of each store. Only stores whose claim is there are shown.
#[derive(Debug, Clone, Default)]
pub struct Stores {
    /// Their claims.
    pub claims: Watched<DeserializeGuard<PersistentVolumeClaim>>,
    records: Arc<Mutex<BTreeMap<String, StoreRecord>>>,
}

impl Stores {
    /// Remembers a record.
    pub fn recorded(&self, namespace: &str, record: &StoreRecord) {
        // No code panics while it holds the lock.
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(namespace.to_owned(), record.clone());
    }

    /// Records of the stores that there are; others are forgotten.
    fn present(&self) -> BTreeMap<String, StoreRecord> {
        let present = self.claims.readable(|_| ());
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|namespace, _| present.iter().any(|(claim, _)| claim.namespace == *namespace));
        records.clone()
    }
}

impl Collector for Stores {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let records = self.present();
        let sizes = records.iter().flat_map(|(namespace, record)| {
            let of = |state| SizeLabels { namespace: namespace.clone(), state };
            [(of("needed"), size(record, true)), (of("kept"), size(record, false))]
        });
        let help = "Known size of what a store holds: what is needed, and what is kept for a while";
        Family { name: "store_size", help, unit: Some(&Unit::Bytes) }.encode(&mut encoder, sizes)?;
        let swept = |figure: fn(&SweepFigures) -> i64| {
            records.iter().filter_map(move |(namespace, record)| {
                let figures = record.last.as_ref()?.figures.as_ref()?;
                Some((StoreLabels { namespace: namespace.clone() }, figure(figures) as f64))
            })
        };
        let help = "What the volume of a store had left at the last sweep";
        Family { name: "store_free", help, unit: Some(&Unit::Bytes) }
            .encode(&mut encoder, swept(|figures| figures.free_bytes))?;
        let help = "Size of the volume of a store at the last sweep";
        Family { name: "store_capacity", help, unit: Some(&Unit::Bytes) }
            .encode(&mut encoder, swept(|figures| figures.capacity_bytes))?;
        let failed = records.iter().filter_map(|(namespace, record)| {
            let has_failed = record.last.as_ref()?.failure.is_some();
            Some((StoreLabels { namespace: namespace.clone() }, f64::from(u8::from(has_failed))))
        });
        Family { name: "store_sweep_failed", help: "1 if the last sweep of a store failed", unit: None }
            .encode(&mut encoder, failed)
    }
}

/// Bytes of what is needed, or of what is not.
fn size(record: &StoreRecord, is_needed: bool) -> f64 {
    let items = record.items.values().filter(|item| item.unreferenced_since.is_none() == is_needed);
    items.filter_map(|item| item.bytes).fold(0, i64::saturating_add) as f64
}
