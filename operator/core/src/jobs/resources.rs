//! What containers that we add may use where nobody says it: an agent's own programs must not take a node along. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};
use slipway_crds::v1alpha1::shared::ContainerResources;

/// A resource, its request and its limit.
type Bound = (&'static str, &'static str, &'static str);

/// What one kind of container may use.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Its memory.
    pub memory: Bound,
    /// Its processors.
    pub cpu: Bound,
}

/// The agent runtime idles at 14 to 17 MB, and reads a tokenizer of 151,643 tokens into 110 MB. The rest is room for
/// transcripts of runs in flight. It has as many threads as it has processors.
pub const SIDECAR: Bounds = Bounds { memory: ("memory", "64Mi", "1Gi"), cpu: ("cpu", "50m", "8") };

/// A server of tools on standard input is another's program, and must not take the node along.
pub const STDIO: Bounds = Bounds { memory: ("memory", "64Mi", "512Mi"), cpu: ("cpu", "50m", "2") };

/// What such a server writes.
pub const STDIO_STORAGE: Bound = ("ephemeral-storage", "64Mi", "2Gi");

/// The checks of GPUs. On an H200 they took 96 MiB for one GPU, most of it the driver's, and a second of a processor.
pub const PREFLIGHT: Bounds = Bounds { memory: ("memory", "128Mi", "4Gi"), cpu: ("cpu", "100m", "4") };

/// These resources, and the bounds of those that they leave out.
pub fn bounded(resources: &ContainerResources, bounds: &[Bound]) -> ResourceRequirements {
    let mut resources = resources.to_requirements();
    let (requests, limits) = (resources.requests.get_or_insert_default(), resources.limits.get_or_insert_default());
    for (name, request, limit) in bounds {
        if !requests.contains_key(*name) && !limits.contains_key(*name) {
            requests.insert((*name).to_owned(), Quantity((*request).to_owned()));
            limits.insert((*name).to_owned(), Quantity((*limit).to_owned()));
        }
    }
    resources
}

/// The same for the agent runtime.
pub fn bounded_sidecar(resources: &ContainerResources) -> ResourceRequirements {
    bounded(resources, &[SIDECAR.memory, SIDECAR.cpu])
}

/// Of these the devices: resources whose names have a domain, as `nvidia.com/gpu` has.
pub fn devices(resources: &ContainerResources) -> ContainerResources {
    let of = |quantities: &BTreeMap<String, String>| {
        let devices = quantities.iter().filter(|(name, _)| name.contains('/'));
        devices.map(|(name, quantity)| (name.clone(), quantity.clone())).collect()
    };
    ContainerResources { requests: of(&resources.requests), limits: of(&resources.limits) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    type Quantities = BTreeMap<String, String>;

    /// What requests and limits that a user writes become.
    fn sidecar(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> (Quantities, Quantities) {
        let resources = ContainerResources { requests: map(requests), limits: map(limits) };
        let bounded = bounded_sidecar(&resources);
        let texts = |quantities: Option<BTreeMap<String, Quantity>>| {
            quantities.unwrap_or_default().into_iter().map(|(name, Quantity(value))| (name, value)).collect()
        };
        (texts(bounded.requests), texts(bounded.limits))
    }

    fn map(pairs: &[(&str, &str)]) -> Quantities {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn memory_and_processors_are_bounded_where_nobody_says_it() {
        let bounds = (map(&[("cpu", "50m"), ("memory", "64Mi")]), map(&[("cpu", "8"), ("memory", "1Gi")]));
        assert_eq!(sidecar(&[], &[]), bounds);
        let with_processors = (map(&[("cpu", "1"), ("memory", "64Mi")]), map(&[("memory", "1Gi")]));
        assert_eq!(sidecar(&[("cpu", "1")], &[]), with_processors);
    }

    #[test]
    fn what_is_said_of_memory_stays() {
        let processors = |memory: &[(&str, &str)], cpu: &str| {
            let mut quantities = map(memory);
            quantities.insert("cpu".to_owned(), cpu.to_owned());
            quantities
        };
        let requested = (processors(&[("memory", "2Gi")], "50m"), processors(&[], "8"));
        assert_eq!(sidecar(&[("memory", "2Gi")], &[]), requested);
        let limited = (processors(&[], "50m"), processors(&[("memory", "32Mi")], "8"));
        assert_eq!(sidecar(&[], &[("memory", "32Mi")]), limited);
    }

    #[test]
    fn devices_are_what_a_domain_names() {
        let gpus = map(&[("nvidia.com/gpu", "2")]);
        let mut all = map(&[("cpu", "4"), ("memory", "16Gi"), ("hugepages-2Mi", "1Gi")]);
        all.extend(gpus.clone());
        let resources = ContainerResources { requests: map(&[("cpu", "1")]), limits: all };
        assert_eq!(devices(&resources), ContainerResources { requests: map(&[]), limits: gpus });
    }
}
