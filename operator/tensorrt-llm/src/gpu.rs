//! Figures of NVIDIA's GPU products. Pure.
//!
//! From NVIDIA's data sheets of each product (A10, A30, A40, A100, B200 and GB200 in the Blackwell data sheet, GH200, H100,
//! H200, L4, L40, L40S, RTX 4090 and RTX 6000 Ada, T4, V100) and, for A10G, of AWS: memory, bandwidth, and dense tensor throughput,
//! which is half of what a sheet states with sparsity. A figure that no sheet gives is absent, not guessed. Prices are
//! typical on-demand prices of one GPU of the big clouds in US dollars an hour; they only shape a prior.

/// Figures of one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// Short name, in lower case.
    pub name: &'static str,
    /// What a label contains, letters and digits in lower case.
    words: &'static [&'static str],
    /// Memory in GiB, as it is sold.
    pub memory_gib: f64,
    /// Memory bandwidth in GB/s.
    pub bandwidth: f64,
    /// Dense FP16 tensor throughput in TFLOPS, and BF16's where the product has it.
    pub fp16_tflops: f64,
    /// Dense FP8 tensor throughput in TFLOPS.
    pub fp8_tflops: Option<f64>,
    /// Dense INT8 tensor throughput in TOPS.
    pub int8_tops: Option<f64>,
    /// Dense FP4 tensor throughput in TFLOPS.
    pub fp4_tflops: Option<f64>,
    /// CUDA compute capability times ten: 89 is SM89.
    pub sm: u32,
    /// Typical price in dollars an hour.
    pub price: f64,
}

/// Throughput per precision: FP16, FP8, INT8, FP4; 0 for none.
type Peaks = [f64; 4];

const fn gpu(words: &'static [&'static str], figures: (f64, f64, u32, f64), peaks: Peaks) -> Gpu {
    let (memory_gib, bandwidth, sm, price) = figures;
    let [fp16_tflops, fp8, int8, fp4] = peaks;
    Gpu {
        name: words[0],
        words,
        memory_gib,
        bandwidth,
        fp16_tflops,
        fp8_tflops: some(fp8),
        int8_tops: some(int8),
        fp4_tflops: some(fp4),
        sm,
        price,
    }
}

const fn some(figure: f64) -> Option<f64> {
    if figure > 0.0 { Some(figure) } else { None }
}

/// The narrower spelling first where a label could mean two.
pub const PRODUCTS: [Gpu; 23] = [
    gpu(&["gb200"], (186.0, 8000.0, 100, 14.0), [2500.0, 5000.0, 5000.0, 10000.0]),
    gpu(&["b200"], (180.0, 8000.0, 100, 13.0), [2250.0, 4500.0, 4500.0, 9000.0]),
    gpu(&["gh200"], (96.0, 4000.0, 90, 9.0), [989.0, 1979.0, 1979.0, 0.0]),
    gpu(&["h200", "nvl"], (141.0, 4800.0, 90, 11.0), [835.0, 1671.0, 1671.0, 0.0]),
    gpu(&["h200"], (141.0, 4800.0, 90, 11.0), [989.0, 1979.0, 1979.0, 0.0]),
    gpu(&["h100", "nvl"], (94.0, 3900.0, 90, 12.0), [835.0, 1671.0, 1671.0, 0.0]),
    gpu(&["h100", "pcie"], (80.0, 2000.0, 90, 12.0), [756.0, 1513.0, 1513.0, 0.0]),
    gpu(&["h100"], (80.0, 3350.0, 90, 12.0), [989.0, 1979.0, 1979.0, 0.0]),
    gpu(&["l40s"], (48.0, 864.0, 89, 2.0), [362.0, 733.0, 733.0, 0.0]),
    gpu(&["l40"], (48.0, 864.0, 89, 1.8), [181.0, 362.0, 362.0, 0.0]),
    gpu(&["rtx6000ada"], (48.0, 960.0, 89, 1.5), [182.0, 364.0, 364.0, 0.0]),
    gpu(&["rtx4090"], (24.0, 1008.0, 89, 0.5), [165.0, 330.0, 660.0, 0.0]),
    gpu(&["a100", "40gb"], (40.0, 1555.0, 80, 3.0), [312.0, 0.0, 624.0, 0.0]),
    gpu(&["a100", "sxm"], (80.0, 2039.0, 80, 4.0), [312.0, 0.0, 624.0, 0.0]),
    gpu(&["a100"], (80.0, 1935.0, 80, 4.0), [312.0, 0.0, 624.0, 0.0]),
    gpu(&["a10g"], (24.0, 600.0, 86, 1.6), [70.0, 0.0, 140.0, 0.0]),
    gpu(&["a10"], (24.0, 600.0, 86, 1.6), [125.0, 0.0, 250.0, 0.0]),
    gpu(&["a30"], (24.0, 933.0, 80, 1.5), [165.0, 0.0, 330.0, 0.0]),
    gpu(&["a40"], (48.0, 696.0, 86, 1.3), [150.0, 0.0, 299.0, 0.0]),
    gpu(&["l4"], (24.0, 300.0, 89, 0.8), [121.0, 242.0, 242.0, 0.0]),
    gpu(&["v100", "32gb"], (32.0, 900.0, 70, 3.0), [125.0, 0.0, 0.0, 0.0]),
    gpu(&["v100"], (16.0, 900.0, 70, 3.0), [125.0, 0.0, 0.0, 0.0]),
    gpu(&["t4"], (16.0, 320.0, 75, 1.0), [65.0, 0.0, 130.0, 0.0]),
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
    #[case("NVIDIA-H100-80GB-HBM3", 80.0, 3350.0)]
    #[case("NVIDIA-H100-PCIe", 80.0, 2000.0)]
    #[case("NVIDIA-H100-NVL", 94.0, 3900.0)]
    #[case("NVIDIA-H200", 141.0, 4800.0)]
    #[case("NVIDIA-GH200-480GB", 96.0, 4000.0)]
    #[case("NVIDIA-B200", 180.0, 8000.0)]
    #[case("NVIDIA-GB200", 186.0, 8000.0)]
    #[case("NVIDIA-A100-SXM4-40GB", 40.0, 1555.0)]
    #[case("NVIDIA-A100-SXM4-80GB-SHARED", 80.0, 2039.0)]
    #[case("NVIDIA-A100-80GB-PCIe", 80.0, 1935.0)]
    #[case("NVIDIA-A10G", 24.0, 600.0)]
    #[case("NVIDIA-A10", 24.0, 600.0)]
    #[case("NVIDIA-L40S", 48.0, 864.0)]
    #[case("NVIDIA-L4", 24.0, 300.0)]
    #[case("NVIDIA-GeForce-RTX-4090", 24.0, 1008.0)]
    #[case("Tesla-T4", 16.0, 320.0)]
    #[case("Tesla-V100-SXM2-32GB", 32.0, 900.0)]
    fn a_label_names_its_product(#[case] label: &str, #[case] memory_gib: f64, #[case] bandwidth: f64) {
        let gpu = by_label(label).unwrap();
        assert_eq!((gpu.memory_gib, gpu.bandwidth), (memory_gib, bandwidth));
    }

    #[rstest]
    #[case("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")]
    #[case("NVIDIA-GeForce-GTX-1080")]
    #[case("")]
    fn a_slice_and_an_unknown_product_have_no_figures(#[case] label: &str) {
        assert_eq!(by_label(label), None);
    }

    #[test]
    fn formats_come_with_the_architecture_that_has_them() {
        for gpu in PRODUCTS {
            assert_eq!(gpu.fp8_tflops.is_some(), gpu.sm >= 89, "{}", gpu.name);
            assert_eq!(gpu.fp4_tflops.is_some(), gpu.sm >= 100, "{}", gpu.name);
            assert!(gpu.fp8_tflops.is_none_or(|fp8| fp8 >= 1.9 * gpu.fp16_tflops), "{}", gpu.name);
        }
    }
}
