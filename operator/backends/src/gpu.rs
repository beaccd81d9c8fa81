//! Figures of NVIDIA's GPU products, as the checks need them. Pure.
//!
//! The table is the vocabulary's: [`slipway_vocabulary::gpu`].

use slipway_vocabulary::gpu;
pub use slipway_vocabulary::gpu::NoWholeGpu;

/// Figures of one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// Short name, in lower case.
    pub name: &'static str,
    /// Memory in GiB, as the driver reports it.
    pub memory_gib: f64,
    /// CUDA compute capability times ten: 89 is SM89.
    pub sm: u32,
}

/// Finds a whole GPU by the value of GPU feature discovery's label `nvidia.com/gpu.product`.
///
/// # Errors
/// [`NoWholeGpu`] says what the label names instead.
pub fn by_label(label: &str) -> Result<Gpu, NoWholeGpu> {
    let gpu::Gpu { name, memory_mib, sm, .. } = gpu::by_label(label)?;
    let sm = sm.ok_or(NoWholeGpu::Unknown { meant: None })?;
    Ok(Gpu { name, memory_gib: f64::from(memory_mib) / 1024.0, sm })
}
