//! What the inputs of a campaign say of its engines and its load.

use std::collections::BTreeMap;

use super::{HourlyPrice, ProfileInputs, ProfiledEngine};
use crate::{labels::GPU_PRODUCT, v1alpha1::agent_deployment::selected_nodes, values::PositiveDecimal};

impl ProfileInputs {
    /// Whether engines are built only when the search asks for them.
    pub fn is_asking(&self) -> bool {
        self.engines.iter().any(|engine| engine.manifest_digest.is_empty())
    }

    /// Whether there are whole runs, recorded or made up.
    pub fn has_runs(&self) -> bool {
        self.agent_trace.is_some() || self.is_made_up()
    }

    /// Whether their texts are made up.
    pub fn is_made_up(&self) -> bool {
        self.recorded_lengths.is_some() || self.synthetic.is_some()
    }

    /// Gives the labels of nodes that measure and serve an engine.
    pub fn node_selector_of(&self, engine: &ProfiledEngine) -> BTreeMap<String, String> {
        selected_nodes(&self.placement.node_selector, engine.gpu_product.as_deref())
    }

    /// Gives the labels of nodes with a GPU model.
    pub fn node_selector_with(&self, gpu_product: &str) -> BTreeMap<String, String> {
        selected_nodes(&self.placement.node_selector, Some(gpu_product))
    }

    /// Gives the GPU model of an engine, where one is named.
    pub fn gpu_product_of<'a>(&'a self, engine: &'a ProfiledEngine) -> Option<&'a str> {
        engine.gpu_product.as_ref().or_else(|| self.placement.node_selector.get(GPU_PRODUCT)).map(String::as_str)
    }

    /// Gives the GPU models of the engines, each once, in the order of preference. Empty where all are for that of
    /// `placement`.
    pub fn gpu_products(&self) -> Vec<&str> {
        let mut known: Vec<&str> = Vec::new();
        for product in self.engines.iter().filter_map(|engine| engine.gpu_product.as_deref()) {
            if !known.contains(&product) {
                known.push(product);
            }
        }
        known
    }

    /// Gives the price by which the costs of an engine are compared, if they are.
    pub fn price_of(&self, engine: &str) -> Option<&HourlyPrice> {
        self.priced_by((self.price.as_ref(), &self.prices), engine)
    }

    /// Gives the one of some prices that is of an engine: the only one, or that of its GPU model.
    pub fn priced_by<'a>(
        &self,
        (only, of_products): (Option<&'a HourlyPrice>, &'a [HourlyPrice]),
        engine: &str,
    ) -> Option<&'a HourlyPrice> {
        let engine = self.engines.iter().find(|known| known.name == engine);
        match engine.and_then(|engine| engine.gpu_product.as_ref()) {
            Some(product) => of_products.iter().find(|price| price.gpu_product.as_ref() == Some(product)),
            None => only,
        }
    }

    /// Runs a second over all replicas, where the traffic says how many arrive.
    pub fn runs_per_second(&self) -> Option<&PositiveDecimal> {
        self.synthetic.as_ref()?.arrival.runs_per_second.as_ref()
    }
}
