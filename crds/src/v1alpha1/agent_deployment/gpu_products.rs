//! GPU models of a spec: that of the node selector, or several to choose among.

use std::collections::BTreeMap;

use kube::core::Rule;

use super::AgentDeploymentSpec;
use crate::labels::GPU_PRODUCT;

/// Labels of the nodes that have a GPU model, from the labels that all nodes have.
pub(in crate::v1alpha1) fn selected(
    labels: &BTreeMap<String, String>,
    gpu_product: Option<&str>,
) -> BTreeMap<String, String> {
    let named = gpu_product.map(|product| (GPU_PRODUCT.to_owned(), product.to_owned()));
    labels.clone().into_iter().chain(named).collect()
}

impl AgentDeploymentSpec {
    /// GPU models to choose among, or the one of the node selector; the preferred one first. Empty where none is named.
    pub fn gpu_products(&self) -> Vec<&str> {
        let several = self.search.gpu_products.iter();
        let one = self.hardware.node_selector.get(GPU_PRODUCT).filter(|_| self.search.gpu_products.is_empty());
        several.chain(one).map(String::as_str).collect()
    }
}

/// The rule of a spec that engines for GPUs name their models.
pub(super) fn are_named() -> Rule {
    Rule::new(
        "has(self.model.upstream) || !has(self.engine) || self.engine.backend == 'Custom' || (has(self.hardware) && has(self.hardware.nodeSelector) && \
         'nvidia.com/gpu.product' in self.hardware.nodeSelector) || (has(self.search) && has(self.search.gpuProducts))",
    )
    .message(
        "hardware.nodeSelector must name the one GPU model of all pods: add the label nvidia.com/gpu.product, or name \
         several in search.gpuProducts",
    )
    .field_path(".hardware.nodeSelector")
}

/// The rule of a spec that GPU models are named in one place. Their memory is that of each.
pub(super) fn are_named_once() -> Rule {
    Rule::new(
        "!has(self.search) || !has(self.search.gpuProducts) || !has(self.hardware) || !has(self.hardware.nodeSelector) || \
         !('nvidia.com/gpu.product' in self.hardware.nodeSelector || 'nvidia.com/gpu.memory' in self.hardware.nodeSelector) && \
         size(self.hardware.nodeSelector) < 16",
    )
    .message(
        "search.gpuProducts names several GPU models: remove the labels nvidia.com/gpu.product and \
         nvidia.com/gpu.memory, and keep at most 15 others",
    )
    .field_path(".hardware.nodeSelector")
}

/// The rule of a spec that a choice among GPU models has measurements.
pub(super) fn are_measured() -> Rule {
    Rule::new("!has(self.search) || !has(self.search.gpuProducts) || has(self.profiling)")
        .message(
            "choosing among GPU models requires measurements: add profiling, or name one in hardware.nodeSelector and \
             remove search.gpuProducts",
        )
        .field_path(".search.gpuProducts")
}

/// The rule of a spec that each GPU model has engines of its own.
pub(super) fn have_engines() -> Rule {
    Rule::new(
        "!has(self.search) || !has(self.search.gpuProducts) || !has(self.engine) || self.engine.backend != 'Custom'",
    )
    .message(
        "engines of backend Custom are built for no GPU model: remove search.gpuProducts, and name one in \
         hardware.nodeSelector",
    )
    .field_path(".search.gpuProducts")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::v1alpha1::agent_deployment::Hardware;

    fn spec(search: serde_json::Value, labels: serde_json::Value) -> AgentDeploymentSpec {
        let hardware = json!({"nodeSelector": labels});
        let spec = json!({"model": {"uri": "hf://a/b"}, "agent": {}, "search": search, "hardware": hardware});
        serde_json::from_value(spec).expect("a constant spec")
    }

    #[test]
    fn a_spec_has_the_models_of_its_search_or_the_one_of_its_nodes() {
        let labels = json!({"nvidia.com/gpu.product": "NVIDIA-L4"});
        assert_eq!(spec(json!({}), labels).gpu_products(), ["NVIDIA-L4"]);
        let several = json!({"gpuProducts": ["NVIDIA-L40S", "NVIDIA-L4"]});
        assert_eq!(spec(several, json!({})).gpu_products(), ["NVIDIA-L40S", "NVIDIA-L4"]);
        assert_eq!(spec(json!({}), json!({})).gpu_products(), Vec::<&str>::new());
    }

    #[test]
    fn the_nodes_of_a_model_have_its_label_beside_all_others() {
        let hardware: Hardware = serde_json::from_value(json!({"nodeSelector": {"zone": "a"}})).expect("hardware");
        let on = |product| serde_json::to_value(hardware.on(product)).expect("a value");
        assert_eq!(
            on(Some("NVIDIA-L4")),
            json!({"nodeSelector": {"zone": "a", "nvidia.com/gpu.product": "NVIDIA-L4"}})
        );
        assert_eq!(on(None), json!({"nodeSelector": {"zone": "a"}}));
    }
}
