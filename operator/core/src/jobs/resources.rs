//! What containers that we add may use where nobody says it: an agent's own programs must not take a node along. Pure.

use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};
use slipway_crds::v1alpha1::shared::ContainerResources;

/// A resource, its request and its limit.
pub type Bound = (&'static str, &'static str, &'static str);

/// The agent runtime idles at 14 to 17 MB, and reads a tokenizer of 151,643 tokens into 110 MB. The rest is room for
/// transcripts of runs in flight.
const SIDECAR: [Bound; 1] = [("memory", "64Mi", "1Gi")];

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
    bounded(resources, &SIDECAR)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;

    type Quantities = BTreeMap<String, String>;

    /// What requests and limits that a user writes become.
    fn sidecar(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> (Quantities, Quantities) {
        let bounded = bounded_sidecar(&ContainerResources { requests: map(requests), limits: map(limits) });
        let texts = |quantities: Option<BTreeMap<String, Quantity>>| {
            quantities.unwrap_or_default().into_iter().map(|(name, Quantity(value))| (name, value)).collect()
        };
        (texts(bounded.requests), texts(bounded.limits))
    }

    fn map(pairs: &[(&str, &str)]) -> Quantities {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn memory_is_bounded_where_nobody_says_it() {
        assert_eq!(sidecar(&[], &[]), (map(&[("memory", "64Mi")]), map(&[("memory", "1Gi")])));
        let with_processors = (map(&[("cpu", "1"), ("memory", "64Mi")]), map(&[("memory", "1Gi")]));
        assert_eq!(sidecar(&[("cpu", "1")], &[]), with_processors);
    }

    #[test]
    fn what_is_said_of_memory_stays() {
        assert_eq!(sidecar(&[("memory", "2Gi")], &[]), (map(&[("memory", "2Gi")]), map(&[])));
        assert_eq!(sidecar(&[], &[("memory", "32Mi")]), (map(&[]), map(&[("memory", "32Mi")])));
    }
}
