//! What known GPUs can do at most. Pure.
//!
//! Vendor data sheets, dense (no sparsity) half precision with float accumulation, and the memory's peak bandwidth.

/// Peaks of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Dense half-precision TFLOPS.
    pub tflops: f64,
    /// Memory bandwidth in GB/s.
    pub gb_per_s: f64,
    /// Whether the tensor cores multiply FP8.
    pub has_fp8: bool,
}

impl Peak {
    /// Returns the FLOPs per byte above which arithmetic limits and below which memory does (the roofline's ridge).
    #[must_use]
    pub fn ridge(&self) -> f64 {
        self.tflops * 1_000.0 / self.gb_per_s
    }
}

/// Words that a product's name must hold, most specific first.
const PRODUCTS: [(&[&str], f64, f64, bool); 16] = [
    (&["B200"], 2_250.0, 8_000.0, true),
    (&["GH200"], 989.4, 4_000.0, true),
    (&["H200"], 989.4, 4_800.0, true),
    (&["H100", "NVL"], 835.5, 3_938.0, true),
    (&["H100", "PCIE"], 756.5, 2_039.0, true),
    (&["H100"], 989.4, 3_352.0, true),
    (&["A100", "40GB"], 312.0, 1_555.0, false),
    (&["A100", "PCIE"], 312.0, 1_935.0, false),
    (&["A100"], 312.0, 2_039.0, false),
    (&["L40S"], 362.0, 864.0, true),
    (&["L40"], 181.0, 864.0, true),
    (&["L4"], 121.0, 300.0, true),
    (&["A10G"], 70.0, 600.0, false),
    (&["A10"], 125.0, 600.0, false),
    (&["4090"], 165.2, 1_008.0, true),
    (&["T4"], 65.0, 320.0, false),
];

/// Returns the peaks of a product by its name, nothing for one that is not known.
#[must_use]
pub fn of(name: Option<&str>) -> Option<Peak> {
    let upper = name?.to_ascii_uppercase();
    let words: Vec<_> = upper.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let known = PRODUCTS.into_iter().find(|(needed, ..)| needed.iter().all(|word| words.contains(word)));
    known.map(|(_, tflops, gb_per_s, has_fp8)| Peak { tflops, gb_per_s, has_fp8 })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("NVIDIA H200", Some(4_800.0))]
    #[case("NVIDIA H100 80GB HBM3", Some(3_352.0))]
    #[case("NVIDIA H100 PCIe", Some(2_039.0))]
    #[case("NVIDIA A100-SXM4-40GB", Some(1_555.0))]
    #[case("NVIDIA A100-SXM4-80GB", Some(2_039.0))]
    #[case("NVIDIA L40S", Some(864.0))]
    #[case("NVIDIA A10", Some(600.0))]
    #[case("Some Future GPU", None)]
    fn products_are_found_by_their_words(#[case] name: &str, #[case] gb_per_s: Option<f64>) {
        assert_eq!(of(Some(name)).map(|peak| peak.gb_per_s), gb_per_s);
    }

    #[test]
    fn the_ridge_of_an_h200_is_about_two_hundred_flops_per_byte() {
        assert_eq!(of(Some("NVIDIA H200")).map(|peak| peak.ridge().round()), Some(206.0));
    }
}
