//! What GPUs cost the platform team. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use slipway_crds::{v1alpha1::profile::HourlyPrice, values::PositiveDecimal};
use slipway_selection::cost;
use thiserror::Error;

use super::InvalidSetting;

/// Label by which a node selector names a GPU model.
const PRODUCT_LABEL: &str = "nvidia.com/gpu.product";

/// Prices of an hour in US dollars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prices {
    /// Prices of one GPU, by the value of the label `nvidia.com/gpu.product`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, GpuPrices>,
    /// Price of a pod that holds no GPU.
    #[serde(skip_serializing_if = "Option::is_none", rename = "podWithoutGPU")]
    pub pod_without_gpu: Option<Amount>,
    /// Labels of spot nodes. A node selector with one of them means the price of spot.
    pub spot_labels: BTreeMap<String, String>,
}

/// Prices of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GpuPrices {
    /// On a node that stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<Amount>,
    /// On a spot node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_per_hour: Option<Amount>,
}

/// An amount as it was written, as a text or as a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Amount(String);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Integer(i64),
            Decimal(f64),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Integer(number) => number.to_string(),
            Written::Decimal(number) => number.to_string(),
        }))
    }
}

impl Amount {
    fn price(&self) -> Result<PositiveDecimal, cost::PriceError> {
        cost::price(&self.0)
    }
}

impl Default for Prices {
    /// Spot nodes as Karpenter, EKS, GKE and AKS label them.
    fn default() -> Self {
        let spot = [
            ("karpenter.sh/capacity-type", "spot"),
            ("eks.amazonaws.com/capacityType", "SPOT"),
            ("cloud.google.com/gke-spot", "true"),
            ("kubernetes.azure.com/scalesetpriority", "spot"),
        ];
        let spot_labels = spot.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        Self { gpus: BTreeMap::new(), pod_without_gpu: None, spot_labels }
    }
}

/// Why pods have no price.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoPrice {
    /// The configuration lacks it.
    #[error(
        "the operator's configuration has no price of {what}: add prices.{value} to the chart's values{}",
        but(known)
    )]
    Missing {
        /// What it is the price of.
        what: String,
        /// The value to add.
        value: String,
        /// Products that have one.
        known: Vec<String>,
    },
    /// Nobody says which GPU the pods hold.
    #[error("prices are by GPU model, and spec.hardware.nodeSelector names none: add the label nvidia.com/gpu.product")]
    UnknownProduct,
    /// The pods run on nodes with GPUs, and hold none that are counted.
    #[error(
        "prices are by GPU, and pods on {product} request none: set spec.serving.tritonResources.limits to a number of \
         nvidia.com/gpu"
    )]
    NoGpu {
        /// The GPU model.
        product: String,
    },
}

fn but(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (it has {})", known.join(", ")) }
}

impl Prices {
    /// The price of pods with this node selector that hold so many GPUs.
    ///
    /// # Errors
    /// [`NoPrice`] if there is none.
    pub fn of(&self, node_selector: &BTreeMap<String, String>, gpus: u32) -> Result<HourlyPrice, NoPrice> {
        let spot = self.spot_labels.iter().any(|(key, value)| node_selector.get(key) == Some(value));
        match (node_selector.get(PRODUCT_LABEL), gpus) {
            (None, 0) => {
                let missing = || NoPrice::Missing {
                    what: "a pod without a GPU".to_owned(),
                    value: "podWithoutGPU".to_owned(),
                    known: Vec::new(),
                };
                let per_hour = parsed(self.pod_without_gpu.as_ref()).ok_or_else(missing)?;
                Ok(HourlyPrice { gpu_product: None, spot: false, per_hour })
            }
            (Some(product), 0) => Err(NoPrice::NoGpu { product: product.clone() }),
            (None, _) => Err(NoPrice::UnknownProduct),
            (Some(product), _) => {
                let (member, words) = if spot { ("spotPerHour", " on spot nodes") } else { ("perHour", "") };
                let missing = || NoPrice::Missing {
                    what: format!("{product}{words}"),
                    value: format!("gpus.{product}.{member}"),
                    known: self.gpus.keys().cloned().collect(),
                };
                let prices = self.gpus.get(product);
                let amount = prices.and_then(|of| if spot { of.spot_per_hour.as_ref() } else { of.per_hour.as_ref() });
                let per_hour = parsed(amount).ok_or_else(missing)?;
                Ok(HourlyPrice { gpu_product: Some(product.clone()), spot, per_hour })
            }
        }
    }

    /// Checks every price.
    ///
    /// # Errors
    /// When a value cannot be used; names the first.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let Self { gpus, pod_without_gpu, spot_labels: _ } = self;
        let usable = |field: String, amount: &Option<Amount>| match amount.as_ref().map(Amount::price) {
            Some(Err(error)) => Err(InvalidSetting { field, problem: error.to_string() }),
            Some(Ok(_)) | None => Ok(()),
        };
        for (product, GpuPrices { per_hour, spot_per_hour }) in gpus {
            if per_hour.is_none() && spot_per_hour.is_none() {
                let problem = "has no price: add perHour, spotPerHour or both, or leave the product out".to_owned();
                return Err(InvalidSetting { field: format!("prices.gpus.{product}"), problem });
            }
            usable(format!("prices.gpus.{product}.perHour"), per_hour)?;
            usable(format!("prices.gpus.{product}.spotPerHour"), spot_per_hour)?;
        }
        usable("prices.podWithoutGPU".to_owned(), pod_without_gpu)
    }
}

/// The price, which a checked configuration has wherever it has an amount.
fn parsed(amount: Option<&Amount>) -> Option<PositiveDecimal> {
    amount?.price().ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn prices(yaml: &str) -> Prices {
        serde_norway::from_str(yaml).expect("prices")
    }

    fn selector(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    const L4: (&str, &str) = (PRODUCT_LABEL, "NVIDIA-L4");
    const SPOT: (&str, &str) = ("karpenter.sh/capacity-type", "spot");

    #[rstest]
    #[case::that_stays(&[L4], 1, "NVIDIA-L4 0.8")]
    #[case::spot(&[L4, SPOT], 2, "NVIDIA-L4 spot 0.3")]
    #[case::on_demand_of_karpenter(&[L4, ("karpenter.sh/capacity-type", "on-demand")], 1, "NVIDIA-L4 0.8")]
    #[case::without_a_gpu(&[("disk", "ssd")], 0, "pod 0.05")]
    fn pods_have_the_price_of_what_they_hold(
        #[case] labels: &[(&str, &str)],
        #[case] gpus: u32,
        #[case] expected: &str,
    ) {
        let prices = prices("{gpus: {NVIDIA-L4: {perHour: 0.80, spotPerHour: '0.3'}}, podWithoutGPU: 0.05}");
        let HourlyPrice { gpu_product, spot, per_hour } = prices.of(&selector(labels), gpus).expect("a price");
        let spot = if spot { " spot" } else { "" };
        assert_eq!(format!("{}{spot} {per_hour}", gpu_product.unwrap_or_else(|| "pod".to_owned())), expected);
    }

    #[rstest]
    #[case::another_product(
        &[(PRODUCT_LABEL, "NVIDIA-H200")], 1,
        "the operator's configuration has no price of NVIDIA-H200: add prices.gpus.NVIDIA-H200.perHour to the chart's \
         values (it has NVIDIA-L4)"
    )]
    #[case::spot(
        &[L4, SPOT], 1,
        "the operator's configuration has no price of NVIDIA-L4 on spot nodes: add prices.gpus.NVIDIA-L4.spotPerHour to the \
         chart's values (it has NVIDIA-L4)"
    )]
    #[case::without_a_gpu(
        &[], 0,
        "the operator's configuration has no price of a pod without a GPU: add prices.podWithoutGPU to the chart's values"
    )]
    #[case::a_gpu_of_any_model(
        &[], 1,
        "prices are by GPU model, and spec.hardware.nodeSelector names none: add the label nvidia.com/gpu.product"
    )]
    #[case::a_slice(
        &[L4], 0,
        "prices are by GPU, and pods on NVIDIA-L4 request none: set spec.serving.tritonResources.limits to a number of \
         nvidia.com/gpu"
    )]
    fn pods_without_a_price_say_which_value_is_missing(
        #[case] labels: &[(&str, &str)],
        #[case] gpus: u32,
        #[case] expected: &str,
    ) {
        let found = prices("{gpus: {NVIDIA-L4: {perHour: 0.80}}}").of(&selector(labels), gpus);
        assert_eq!(found.map_err(|error| error.to_string()), Err(expected.to_owned()));
    }
}
