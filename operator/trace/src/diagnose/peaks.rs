//! What known GPUs can do at most, as the table of GPU products has it. Pure.

use slipway_vocabulary::gpu;

/// The first compute capability, times ten, whose tensor cores multiply FP8.
const FP8_SINCE: u32 = 89;

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

/// Returns the peaks of a product by the name that the driver or CUDA gives it, nothing for one that is not known.
///
/// A slice of MIG and a virtual GPU are not known: what they reach is in no data sheet.
#[must_use]
pub fn of(name: Option<&str>) -> Option<Peak> {
    // A node's label is the same name with dashes for spaces.
    let known = gpu::by_label(&name?.trim().replace(' ', "-")).ok()?;
    let has_fp8 = known.sm.is_some_and(|sm| sm >= FP8_SINCE);
    Some(Peak { tflops: known.tflops, gb_per_s: known.bandwidth, has_fp8 })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("NVIDIA H200", Some((4_800.0, true)))]
    #[case("NVIDIA H200 NVL", Some((4_800.0, true)))]
    #[case("NVIDIA H100 80GB HBM3", Some((3_350.0, true)))]
    #[case("NVIDIA H100 PCIe", Some((2_039.0, true)))]
    #[case("NVIDIA B300 SXM6 AC", Some((8_000.0, true)))]
    #[case("NVIDIA A100-SXM4-40GB", Some((1_555.0, false)))]
    #[case("NVIDIA A100-SXM4-80GB", Some((2_039.0, false)))]
    #[case("NVIDIA L40S", Some((864.0, true)))]
    #[case("NVIDIA A10", Some((600.0, false)))]
    #[case("NVIDIA GeForce RTX 4090", Some((1_008.0, true)))]
    #[case("Tesla T4", Some((320.0, false)))]
    #[case("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None)]
    #[case("Some Future GPU", None)]
    fn products_are_found_by_their_whole_names(#[case] name: &str, #[case] known: Option<(f64, bool)>) {
        assert_eq!(of(Some(name)).map(|peak| (peak.gb_per_s, peak.has_fp8)), known);
    }

    #[test]
    fn the_ridge_of_an_h200_is_about_two_hundred_flops_per_byte() {
        assert_eq!(of(Some("NVIDIA H200")).map(|peak| peak.ridge().round()), Some(206.0));
    }
}
