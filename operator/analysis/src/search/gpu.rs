//! Public figures of GPU products, for the analytic prior. Pure.
//!
//! From the vendors' data sheets: dense FP16 tensor throughput, and memory bandwidth. Prices are typical on-demand
//! prices of one GPU of the big clouds in US dollars an hour; they only shape a prior and are never charged.

/// Figures of one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuFigures {
    /// What the product's label contains, in lower case.
    pub name: &'static str,
    /// Memory bandwidth in GB/s.
    pub bandwidth: f64,
    /// Dense FP16 or BF16 tensor throughput in TFLOPS.
    pub tflops: f64,
    /// Typical price in dollars an hour.
    pub price: f64,
}

const fn gpu(name: &'static str, bandwidth: f64, tflops: f64, price: f64) -> GpuFigures {
    GpuFigures { name, bandwidth, tflops, price }
}

/// Longer names first where one contains another.
const PRODUCTS: [GpuFigures; 22] = [
    gpu("gb200", 8000.0, 2500.0, 14.0),
    gpu("gb300", 8000.0, 2500.0, 16.0),
    gpu("b300", 8000.0, 2250.0, 15.0),
    gpu("b200", 8000.0, 2250.0, 13.0),
    gpu("gh200", 4000.0, 989.0, 9.0),
    gpu("h200", 4800.0, 989.0, 11.0),
    gpu("h100", 3350.0, 989.0, 12.0),
    gpu("l40s", 864.0, 362.0, 2.0),
    gpu("l40", 864.0, 181.0, 1.8),
    gpu("rtx6000ada", 960.0, 182.0, 1.5),
    gpu("a100", 1935.0, 312.0, 4.0),
    gpu("a10g", 600.0, 125.0, 1.6),
    gpu("a10", 600.0, 125.0, 1.6),
    gpu("a30", 933.0, 165.0, 1.5),
    gpu("a40", 696.0, 150.0, 1.3),
    gpu("l4", 300.0, 121.0, 0.8),
    gpu("v100", 900.0, 125.0, 3.0),
    gpu("t4", 320.0, 65.0, 1.0),
    gpu("mi355", 8000.0, 2300.0, 12.0),
    gpu("mi325", 6000.0, 1307.0, 9.0),
    gpu("mi300", 5300.0, 1307.0, 8.0),
    gpu("mi250", 3277.0, 362.0, 4.0),
];

/// Finds a product's figures from any of its usual spellings, such as `NVIDIA-H100-80GB-HBM3` or `h100`.
#[must_use]
pub fn figures(product: &str) -> Option<GpuFigures> {
    let plain: String = product.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    PRODUCTS.iter().find(|gpu| plain.contains(gpu.name)).copied()
}
