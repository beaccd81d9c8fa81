//! GPU products: their names on nodes' labels, and the figures that checks and searches plan with.
//!
//! GPU feature discovery writes a product as the driver names it, with dashes for spaces, then `-MIG-<profile>` for a
//! slice and `-SHARED` for time slices (NVIDIA/k8s-device-plugin, internal/lm/resource.go at 02f65cc: `productLabel`).
//! Names of products are those of the driver's own list (NVIDIA/open-gpu-kernel-modules, README.md at df1c9a3; the V100
//! is older than that list). A name is compared as a whole: an RTX A4000 is not an A40.
//!
//! Memory is what the driver reports, as `nvidia-smi` and the label `nvidia.com/gpu.memory` have it. Products with
//! GDDR6 keep a sixteenth of it for error correction: of the 24 GB of an L4, 23,034 MiB are left. Bandwidth and
//! throughput are those of the vendors' data sheets.

use std::{collections::BTreeSet, fmt};

/// Figures of one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// Short name, in lower case.
    pub name: &'static str,
    /// Names that the driver gives it, with dashes for spaces and without `NVIDIA-`.
    labels: &'static [&'static str],
    /// Memory in MiB, as the driver reports it.
    pub memory_mib: u32,
    /// CUDA's compute capability times ten: 89 is SM89. `None` if the product is not NVIDIA's.
    pub sm: Option<u32>,
    /// Memory bandwidth in GB/s.
    pub bandwidth: f64,
    /// Dense throughput in FP16 or BF16, in TFLOPS.
    pub tflops: f64,
}

impl Gpu {
    /// The value that GPU feature discovery writes for it: the first of its names. None if the product is not NVIDIA's.
    #[must_use]
    pub fn label(&self) -> Option<String> {
        // The driver says `Tesla T4`, without the vendor before it.
        self.labels.first().map(|name| match name.starts_with("Tesla-") {
            true => (*name).to_owned(),
            false => format!("NVIDIA-{name}"),
        })
    }
}

const fn nvidia(
    name: &'static str,
    labels: &'static [&'static str],
    (memory_mib, sm): (u32, u32),
    (bandwidth, tflops): (f64, f64),
) -> Gpu {
    Gpu { name, labels, memory_mib, sm: Some(sm), bandwidth, tflops }
}

const fn amd(name: &'static str, memory_mib: u32, (bandwidth, tflops): (f64, f64)) -> Gpu {
    Gpu { name, labels: &[], memory_mib, sm: None, bandwidth, tflops }
}

/// A short name alone means the first of its rows.
const PRODUCTS: [Gpu; 47] = [
    nvidia("gb300", &["GB300"], (284_208, 103), (8000.0, 2500.0)),
    nvidia("b300", &["B300-SXM6-AC"], (275_040, 103), (8000.0, 2250.0)),
    nvidia("gb200", &["GB200"], (189_471, 100), (8000.0, 2500.0)),
    nvidia("b200", &["B200"], (183_359, 100), (8000.0, 2250.0)),
    nvidia("gb10", &["GB10"], (122_572, 121), (273.0, 125.0)),
    nvidia("rtxpro6000", RTX_PRO_6000, (97_887, 120), (1597.0, 480.0)),
    nvidia("rtx5090", &["GeForce-RTX-5090"], (32_607, 120), (1792.0, 209.5)),
    nvidia("gh200", &["GH200-480GB", "GH200-120GB"], (97_871, 90), (4000.0, 989.0)),
    nvidia("gh200-144g", &["GH200-144G-HBM3e"], (146_831, 90), (4900.0, 989.0)),
    nvidia("h200", &["H200"], (143_771, 90), (4800.0, 989.0)),
    nvidia("h200-nvl", &["H200-NVL"], (143_771, 90), (4800.0, 835.0)),
    nvidia("h100", &["H100-80GB-HBM3"], (81_559, 90), (3350.0, 989.0)),
    nvidia("h100-pcie", &["H100-PCIe"], (81_559, 90), (2039.0, 756.0)),
    nvidia("h100-nvl", &["H100-NVL"], (95_830, 90), (3938.0, 835.0)),
    nvidia("h800", &["H800"], (81_559, 90), (3350.0, 989.0)),
    nvidia("h800-pcie", &["H800-PCIe"], (81_559, 90), (2039.0, 756.0)),
    nvidia("h800-nvl", &["H800-NVL"], (95_830, 90), (3938.0, 835.0)),
    nvidia("h20", &["H20", "H20-NVL16"], (97_871, 90), (4000.0, 148.0)),
    nvidia("h20-3e", &["H20-3e"], (143_771, 90), (4800.0, 148.0)),
    nvidia("l40s", &["L40S"], (46_068, 89), (864.0, 362.0)),
    nvidia("l40", &["L40"], (46_068, 89), (864.0, 181.0)),
    nvidia("l20", &["L20"], (46_068, 89), (864.0, 119.5)),
    nvidia("l4", &["L4"], (23_034, 89), (300.0, 121.0)),
    nvidia("rtx6000ada", &["RTX-6000-Ada-Generation"], (49_140, 89), (960.0, 182.0)),
    nvidia("rtx4090", &["GeForce-RTX-4090"], (24_564, 89), (1008.0, 165.0)),
    nvidia("a100", &["A100-80GB-PCIe"], (81_920, 80), (1935.0, 312.0)),
    nvidia("a100-sxm", &["A100-SXM4-80GB"], (81_920, 80), (2039.0, 312.0)),
    nvidia("a100-64g", &["A100-SXM-64GB"], (65_536, 80), (1635.0, 312.0)),
    nvidia("a100-40g", &["A100-SXM4-40GB", "A100-PCIE-40GB"], (40_960, 80), (1555.0, 312.0)),
    nvidia("a800", &["A800-80GB-PCIe", "A800-80GB-PCIe-LC"], (81_920, 80), (1935.0, 312.0)),
    nvidia("a800-sxm", &["A800-SXM4-80GB"], (81_920, 80), (2039.0, 312.0)),
    nvidia("a800-40g", &["A800-SXM4-40GB", "A800-40GB-Active"], (40_960, 80), (1555.0, 312.0)),
    nvidia("a30", &["A30"], (24_576, 80), (933.0, 165.0)),
    nvidia("a40", &["A40"], (46_068, 86), (696.0, 150.0)),
    nvidia("a10g", &["A10G"], (23_028, 86), (600.0, 70.0)),
    nvidia("a10", &["A10"], (23_028, 86), (600.0, 125.0)),
    nvidia("rtxa6000", &["RTX-A6000"], (49_140, 86), (768.0, 155.0)),
    nvidia("rtx3090", &["GeForce-RTX-3090"], (24_576, 86), (936.0, 71.0)),
    nvidia("t4", &["Tesla-T4", "T4"], (15_360, 75), (320.0, 65.0)),
    nvidia("v100", V100_16, (16_384, 70), (900.0, 125.0)),
    nvidia("v100-32g", V100_32, (32_768, 70), (900.0, 125.0)),
    nvidia("v100s", &["Tesla-V100S-PCIE-32GB", "V100S-PCIE-32GB"], (32_768, 70), (1134.0, 130.0)),
    amd("mi355x", 294_912, (8000.0, 2300.0)),
    amd("mi325x", 262_144, (6000.0, 1307.0)),
    amd("mi300x", 196_608, (5300.0, 1307.0)),
    amd("mi250x", 65_536, (3277.0, 383.0)),
    amd("mi250", 65_536, (3277.0, 362.0)),
];

const RTX_PRO_6000: &[&str] = &[
    "RTX-PRO-6000-Blackwell-Server-Edition",
    "RTX-PRO-6000-Blackwell-Workstation-Edition",
    "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
];
const V100_16: &[&str] =
    &["Tesla-V100-SXM2-16GB", "Tesla-V100-PCIE-16GB", "Tesla-V100-FHHL-16GB", "V100-SXM2-16GB", "V100-PCIE-16GB"];
const V100_32: &[&str] = &[
    "Tesla-V100-SXM2-32GB",
    "Tesla-V100-SXM3-32GB",
    "Tesla-V100-PCIE-32GB",
    "V100-SXM2-32GB",
    "V100-SXM3-32GB",
    "V100-PCIE-32GB",
];

/// Why a label names no whole GPU with known figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoWholeGpu {
    /// A MIG slice: what of a GPU's bandwidth and units a slice reaches is in no data sheet.
    MigSlice {
        /// The GPU's own name, as its nodes without MIG have it.
        whole: String,
        /// The profile, as in `1g.10gb`.
        profile: String,
    },
    /// A virtual GPU: its host decides what it reaches.
    Virtual {
        /// The profile, as in `48Q`.
        profile: String,
    },
    /// A product that is not in the table.
    Unknown {
        /// The label of nodes with the product whose short name it is, but for case.
        meant: Option<String>,
    },
}

impl fmt::Display for NoWholeGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MigSlice { whole, profile } => {
                write!(
                    f,
                    "is the MIG slice {profile} of a GPU, whose figures are not known: name nodes without MIG ({whole})"
                )
            }
            Self::Virtual { profile } => {
                write!(f, "has a vGPU profile ({profile}), whose figures its host decides: name nodes with whole GPUs")
            }
            Self::Unknown { meant: Some(label) } => {
                write!(f, "is not a label of GPU nodes: write {label}, as GPU feature discovery labels them")
            }
            Self::Unknown { meant: None } => {
                let known = short_names();
                write!(f, "is not a GPU whose figures are known ({known}): write the label of nodes with one of them")
            }
        }
    }
}

/// Finds a whole NVIDIA GPU by the value of the label `nvidia.com/gpu.product`, such as `NVIDIA-H100-80GB-HBM3`, or by
/// a short name such as `h100`, for nodes that are labelled by hand. A time-sliced GPU (`-SHARED`) is found as the
/// whole.
///
/// # Errors
/// [`NoWholeGpu`] says what the label names instead.
pub fn by_label(label: &str) -> Result<Gpu, NoWholeGpu> {
    let of_nvidia = || PRODUCTS.iter().filter(|gpu| gpu.sm.is_some());
    let whole = label.strip_suffix("-SHARED").unwrap_or(label);
    if let Some((whole, profile)) = whole.split_once("-MIG-") {
        return Err(NoWholeGpu::MigSlice { whole: whole.to_owned(), profile: profile.to_owned() });
    }
    let product = whole.strip_prefix("NVIDIA-").unwrap_or(whole);
    let found = of_nvidia().find(|gpu| gpu.name == whole || gpu.labels.contains(&product));
    match (found, vgpu_profile(product)) {
        (Some(gpu), _) => Ok(*gpu),
        (None, Some(profile)) => Err(NoWholeGpu::Virtual { profile: profile.to_owned() }),
        (None, None) => {
            let lower = product.to_ascii_lowercase();
            let short_name = lower.strip_prefix("nvidia-").unwrap_or(&lower);
            let meant = of_nvidia().find(|gpu| gpu.name == short_name).and_then(Gpu::label);
            let shared = if whole.len() < label.len() { "-SHARED" } else { "" };
            Err(NoWholeGpu::Unknown { meant: meant.map(|label| format!("{label}{shared}")) })
        }
    }
}

/// What a virtual GPU's name ends with: `GRID-A100-10C`, `NVIDIA-A40-48Q`. The letter is the series: A, B, C or Q
/// (NVIDIA's Virtual GPU Software User Guide, "Virtual GPU Types").
fn vgpu_profile(product: &str) -> Option<&str> {
    let (_, profile) = product.rsplit_once('-')?;
    let size = profile.strip_suffix(['A', 'B', 'C', 'Q'])?;
    (!size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit())).then_some(profile)
}

/// Finds a product of any vendor by whole words of what people call it, such as `A100-80GB` or `NVIDIA H100`.
///
/// For expectations that a measurement corrects: it takes the first row of a short name where a spelling could mean
/// two.
#[must_use]
pub fn by_words(text: &str) -> Option<Gpu> {
    if let Ok(gpu) = by_label(text) {
        return Some(gpu);
    }
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_said = |name: &str| (1..=3).any(|count| words.windows(count).any(|run| run.concat() == name));
    let is_slice = words.contains(&"mig");
    PRODUCTS.iter().find(|gpu| !is_slice && is_said(gpu.name)).copied()
}

/// Finds an NVIDIA product by the name that AIConfigurator gives a system of it, such as `h100_sxm` or `a100_pcie`
/// (ai-dynamo/aiconfigurator, aic-core/src/aiconfigurator_core/systems at 095f58a).
#[must_use]
pub fn by_system(system: &str) -> Option<Gpu> {
    let name = system.trim().to_lowercase().replace('_', "-");
    // The table names a form where the short name means another.
    let bare = ["-sxm", "-pcie"].iter().find_map(|form| name.strip_suffix(form)).unwrap_or(&name);
    let of_server = || name.strip_suffix("-server").map(|name| name.replace('-', ""));
    by_label(&name).or_else(|_| by_label(bare)).ok().or_else(|| by_label(&of_server()?).ok())
}

/// Short names of NVIDIA's products in the table, as an error lists them.
#[must_use]
pub fn short_names() -> String {
    let names: BTreeSet<&str> = PRODUCTS.iter().filter(|gpu| gpu.sm.is_some()).map(|gpu| gpu.name).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
