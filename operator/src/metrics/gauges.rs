//! Families of gauges whose values are read when metrics are asked for: objects that are gone have no series.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use kube::{ResourceExt, core::DeserializeGuard};
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};

use crate::kube_io::cache::{Cache, Kept};

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
pub struct Watched<K: Kept>(Arc<OnceLock<Cache<K>>>);

impl<K: Kept> Watched<K> {
    /// Names the objects. A second call changes nothing.
    pub fn set(&self, objects: Cache<K>) {
        self.0.get_or_init(|| objects);
    }

    /// What is shown of the objects as they are now. One is read after the other: all of them would fill the memory.
    pub fn rows<T>(&self, of: impl Fn(&K) -> Option<T>) -> Vec<T> {
        let mut rows = Vec::new();
        if let Some(objects) = self.0.get() {
            objects.each(|object| rows.extend(of(object)));
        }
        rows
    }
}

impl<K> Watched<DeserializeGuard<K>>
where
    DeserializeGuard<K>: Kept,
    K: ResourceExt,
{
    /// What is shown of objects, by namespace and name; those that cannot be read are left out.
    pub fn readable<T>(&self, of: impl Fn(&K) -> T) -> Vec<(Object, T)> {
        let mut rows = self.rows(|object| object.0.as_ref().ok().map(|object| (Object::of(object), of(object))));
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        rows
    }
}

impl<K: Kept> Clone for Watched<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Kept> Default for Watched<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
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
