//! Public figures of GPU products, for priors and hard filters. Pure.
//!
//! From the vendors' data sheets: dense FP16 tensor throughput, memory bandwidth and size. Prices are typical on-demand
//! prices of one GPU of the big clouds in US dollars an hour; they only shape a prior and are never charged.

/// Figures of one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuFigures {
    /// What the product's label contains, in lower case.
    pub name: &'static str,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Memory bandwidth in GB/s.
    pub bandwidth: f64,
    /// Dense FP16 or BF16 tensor throughput in TFLOPS.
    pub tflops: f64,
    /// Typical price in dollars an hour.
    pub price: f64,
    /// CUDA compute capability times ten, 0 for products without one.
    pub capability: u32,
}

const fn gpu(
    name: &'static str,
    memory_gib: f64,
    bandwidth: f64,
    tflops: f64,
    price: f64,
    capability: u32,
) -> GpuFigures {
    GpuFigures { name, memory_gib, bandwidth, tflops, price, capability }
}

/// Longer names first where one contains another.
const PRODUCTS: [GpuFigures; 22] = [
    gpu("gb200", 186.0, 8000.0, 2500.0, 14.0, 100),
    gpu("gb300", 278.0, 8000.0, 2500.0, 16.0, 103),
    gpu("b300", 278.0, 8000.0, 2250.0, 15.0, 103),
    gpu("b200", 180.0, 8000.0, 2250.0, 13.0, 100),
    gpu("gh200", 96.0, 4000.0, 989.0, 9.0, 90),
    gpu("h200", 141.0, 4800.0, 989.0, 11.0, 90),
    gpu("h100", 80.0, 3350.0, 989.0, 12.0, 90),
    gpu("l40s", 48.0, 864.0, 362.0, 2.0, 89),
    gpu("l40", 48.0, 864.0, 181.0, 1.8, 89),
    gpu("rtx6000ada", 48.0, 960.0, 182.0, 1.5, 89),
    gpu("a100", 80.0, 1935.0, 312.0, 4.0, 80),
    gpu("a10g", 24.0, 600.0, 125.0, 1.6, 86),
    gpu("a10", 24.0, 600.0, 125.0, 1.6, 86),
    gpu("a30", 24.0, 933.0, 165.0, 1.5, 80),
    gpu("a40", 48.0, 696.0, 150.0, 1.3, 86),
    gpu("l4", 24.0, 300.0, 121.0, 0.8, 89),
    gpu("v100", 16.0, 900.0, 125.0, 3.0, 70),
    gpu("t4", 16.0, 320.0, 65.0, 1.0, 75),
    gpu("mi355", 288.0, 8000.0, 2300.0, 12.0, 0),
    gpu("mi325", 256.0, 6000.0, 1307.0, 9.0, 0),
    gpu("mi300", 192.0, 5300.0, 1307.0, 8.0, 0),
    gpu("mi250", 128.0, 3277.0, 362.0, 4.0, 0),
];

/// Finds a product's figures from any of its usual spellings, such as `NVIDIA-H100-80GB-HBM3` or `h100`.
#[must_use]
pub fn figures(product: &str) -> Option<GpuFigures> {
    let plain: String = product.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    PRODUCTS.iter().find(|gpu| plain.contains(gpu.name)).copied()
}

impl GpuFigures {
    /// Whether its tensor cores run a precision: FP8 from compute capability 8.9, FP4 from 10.0, BF16 from 8.0, INT8 and
    /// INT4 weights from 7.5 and 7.0.
    #[must_use]
    pub fn runs(&self, precision: &str) -> bool {
        let precision = precision.to_lowercase();
        let least = match () {
            () if precision.contains("fp4") => 100,
            () if precision.contains("fp8") => 89,
            () if precision.contains("bf16") => 80,
            () if precision.contains("int8") => 75,
            () => 70,
        };
        self.capability == 0 || self.capability >= least
    }
}
