//! Figures of NVIDIA's GPU products. Pure.
//!
//! Memory and architecture are from NVIDIA's data sheets of each product. These are A10, A30, A40, A100, B200 and GB200
//! in the Blackwell data sheet, GH200, H100, H200, L4, L40, L40S, RTX 4090 and RTX 6000 Ada, T4 and V100. For A10G the
//! figures are from AWS.

/// Figures of one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// Short name, in lower case.
    pub name: &'static str,
    /// What a label contains, letters and digits in lower case.
    words: &'static [&'static str],
    /// Memory in GiB, as it is sold.
    pub memory_gib: f64,
    /// CUDA compute capability times ten: 89 is SM89.
    pub sm: u32,
}

const fn gpu(words: &'static [&'static str], memory_gib: f64, sm: u32) -> Gpu {
    Gpu { name: words[0], words, memory_gib, sm }
}

/// The narrower spelling first where a label could mean two.
pub const PRODUCTS: [Gpu; 20] = [
    gpu(&["gb200"], 186.0, 100),
    gpu(&["b200"], 180.0, 100),
    gpu(&["gh200"], 96.0, 90),
    gpu(&["h200"], 141.0, 90),
    gpu(&["h100", "nvl"], 94.0, 90),
    gpu(&["h100"], 80.0, 90),
    gpu(&["l40s"], 48.0, 89),
    gpu(&["l40"], 48.0, 89),
    gpu(&["rtx6000ada"], 48.0, 89),
    gpu(&["rtx4090"], 24.0, 89),
    gpu(&["a100", "40gb"], 40.0, 80),
    gpu(&["a100"], 80.0, 80),
    gpu(&["a10g"], 24.0, 86),
    gpu(&["a10"], 24.0, 86),
    gpu(&["a30"], 24.0, 80),
    gpu(&["a40"], 48.0, 86),
    gpu(&["l4"], 24.0, 89),
    gpu(&["v100", "32gb"], 32.0, 70),
    gpu(&["v100"], 16.0, 70),
    gpu(&["t4"], 16.0, 75),
];

/// Finds a whole GPU by the value of GPU feature discovery's label `nvidia.com/gpu.product`, such as
/// `NVIDIA-H100-80GB-HBM3`, or by a short name such as `h100`. A time-sliced GPU (`-SHARED`) is found as the whole.
///
/// A MIG slice (`-MIG-1g.10gb`) is not: what a slice reaches is in no data sheet.
#[must_use]
pub fn by_label(label: &str) -> Option<Gpu> {
    let plain: String = label.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let is_slice = label.to_lowercase().contains("-mig-");
    let found = PRODUCTS.iter().find(|gpu| gpu.words.iter().all(|word| plain.contains(word)));
    found.copied().filter(|_| !is_slice)
}

/// Short names of the products, as an error lists them.
#[must_use]
pub fn names() -> String {
    let names: std::collections::BTreeSet<&str> = PRODUCTS.iter().map(|gpu| gpu.name).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("NVIDIA-H100-80GB-HBM3", 80.0, 90)]
    #[case("NVIDIA-H100-PCIe", 80.0, 90)]
    #[case("NVIDIA-H100-NVL", 94.0, 90)]
    #[case("NVIDIA-H200", 141.0, 90)]
    #[case("NVIDIA-GH200-480GB", 96.0, 90)]
    #[case("NVIDIA-B200", 180.0, 100)]
    #[case("NVIDIA-GB200", 186.0, 100)]
    #[case("NVIDIA-A100-SXM4-40GB", 40.0, 80)]
    #[case("NVIDIA-A100-SXM4-80GB-SHARED", 80.0, 80)]
    #[case("NVIDIA-A100-80GB-PCIe", 80.0, 80)]
    #[case("NVIDIA-A10G", 24.0, 86)]
    #[case("NVIDIA-A10", 24.0, 86)]
    #[case("NVIDIA-L40S", 48.0, 89)]
    #[case("NVIDIA-L4", 24.0, 89)]
    #[case("NVIDIA-GeForce-RTX-4090", 24.0, 89)]
    #[case("Tesla-T4", 16.0, 75)]
    #[case("Tesla-V100-SXM2-32GB", 32.0, 70)]
    fn a_label_names_its_product(#[case] label: &str, #[case] memory_gib: f64, #[case] sm: u32) {
        let gpu = by_label(label).unwrap();
        assert_eq!((gpu.memory_gib, gpu.sm), (memory_gib, sm));
    }

    #[rstest]
    #[case("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")]
    #[case("NVIDIA-GeForce-GTX-1080")]
    #[case("")]
    fn a_slice_and_an_unknown_product_have_no_figures(#[case] label: &str) {
        assert_eq!(by_label(label), None);
    }
}
