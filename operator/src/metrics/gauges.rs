//! Families of gauges whose values are read when metrics are asked for: objects that are gone have no series.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use kube::{
    ResourceExt,
    core::DeserializeGuard,
    runtime::reflector::{Lookup, Store},
};
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};

/// Labels of an object. There are as many as objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct Object {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Object {
    fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

/// Objects of a watch that begins after the registry was made; until then there are none. Clones show the same.
#[derive(Debug)]
pub struct Watched<K: Lookup<DynamicType = ()> + 'static>(Arc<OnceLock<Store<K>>>);

impl<K: Lookup<DynamicType = ()> + Clone + 'static> Watched<K> {
    /// Names the objects. A second call changes nothing.
    pub fn set(&self, objects: Store<K>) {
        self.0.get_or_init(|| objects);
    }

    /// The objects as they are now.
    pub fn objects(&self) -> Vec<Arc<K>> {
        self.0.get().map(Store::state).unwrap_or_default()
    }
}

impl<K: Lookup<DynamicType = ()> + 'static> Clone for Watched<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Lookup<DynamicType = ()> + 'static> Default for Watched<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Objects by namespace and name; those that cannot be read are left out.
pub fn readable<K: ResourceExt>(objects: &[Arc<DeserializeGuard<K>>]) -> Vec<(Object, &K)> {
    let readable = objects.iter().filter_map(|object| object.0.as_ref().ok());
    let mut readable: Vec<_> = readable.map(|object| (Object::of(object), object)).collect();
    readable.sort_by(|(a, _), (b, _)| a.cmp(b));
    readable
}

/// What a family is called. The unit is the name's end.
#[derive(Debug, Clone, Copy)]
pub struct Family<'a> {
    /// Name without the registry's prefix and without the unit.
    pub name: &'a str,
    /// What it gives.
    pub help: &'a str,
    /// Base unit, if it has one.
    pub unit: Option<&'a Unit>,
}

impl Family<'_> {
    /// Writes the family with its series.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn encode<L: EncodeLabelSet>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        series: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(self.name, self.help, self.unit, MetricType::Gauge)?;
        for (labels, value) in series {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
