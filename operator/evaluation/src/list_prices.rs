//! Prices that problems of a grid with several GPU products are planned by. Pure.
//!
//! They are typical of one GPU on demand at the big clouds, in US dollars an hour. Campaigns know none of them: theirs
//! are in the operator's configuration.

use slipway_vocabulary::gpu::by_words;

/// By the short name of a product.
const PRICES: [(&str, f64); 47] = [
    ("gb300", 16.0),
    ("b300", 15.0),
    ("gb200", 14.0),
    ("b200", 13.0),
    ("gb10", 0.8),
    ("rtxpro6000", 2.5),
    ("rtx5090", 0.9),
    ("gh200", 9.0),
    ("gh200-144g", 9.5),
    ("h200", 11.0),
    ("h200-nvl", 10.0),
    ("h100", 12.0),
    ("h100-pcie", 8.0),
    ("h100-nvl", 9.0),
    ("h800", 12.0),
    ("h800-pcie", 8.0),
    ("h800-nvl", 9.0),
    ("h20", 4.0),
    ("h20-3e", 4.5),
    ("l40s", 2.0),
    ("l40", 1.8),
    ("l20", 1.5),
    ("l4", 0.8),
    ("rtx6000ada", 1.5),
    ("rtx4090", 0.7),
    ("a100", 4.0),
    ("a100-sxm", 4.0),
    ("a100-64g", 3.5),
    ("a100-40g", 3.0),
    ("a800", 4.0),
    ("a800-sxm", 4.0),
    ("a800-40g", 3.0),
    ("a30", 1.5),
    ("a40", 1.3),
    ("a10g", 1.6),
    ("a10", 1.6),
    ("rtxa6000", 1.0),
    ("rtx3090", 0.5),
    ("t4", 1.0),
    ("v100", 3.0),
    ("v100-32g", 3.0),
    ("v100s", 3.0),
    ("mi355x", 12.0),
    ("mi325x", 9.0),
    ("mi300x", 8.0),
    ("mi250x", 4.0),
    ("mi250", 4.0),
];

/// The price of a product by what people call it.
#[must_use]
pub fn list_price(product: &str) -> Option<f64> {
    let gpu = by_words(product)?;
    PRICES.iter().find(|(name, _)| *name == gpu.name).map(|(_, price)| *price)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_found_by_what_people_call_it() {
        assert_eq!(["A100-80GB", "NVIDIA H100", "L4"].map(list_price), [Some(4.0), Some(12.0), Some(0.8)]);
        assert_eq!(list_price("CPU"), None);
    }
}
