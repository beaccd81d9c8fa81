//! Figures of NVIDIA's GPU products, as the checks need them. Pure.
//!
//! The table is the vocabulary's: [`slipway_vocabulary::gpu`].

use std::fmt::Display;

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

/// The field of the spec that names several GPU models.
pub const PRODUCTS_FIELD: &str = "search.gpuProducts";

/// What is wrong on one of several GPU models, with the remedy of doing without it.
pub fn refused_on(product: &str, problem: &impl Display) -> String {
    format!("on {product}, {problem}, or remove {product} from {PRODUCTS_FIELD}")
}

/// Names that tell the engines of several GPU models apart: the short name of each. Of several with one name the second
/// is called so too, with its number, as in `h100-2`.
#[must_use]
pub fn distinct_names(labels: &[&str]) -> Vec<String> {
    let short = |label: &str| by_label(label).map_or_else(|_| label.to_lowercase(), |gpu| gpu.name.to_owned());
    let mut names: Vec<String> = Vec::new();
    for (at, label) in labels.iter().enumerate() {
        let name = short(label);
        let before = labels[..at].iter().filter(|other| short(other) == name).count();
        names.push(if before == 0 { name } else { format!("{name}-{}", before + 1) });
    }
    names
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn gpu_models_are_told_apart_by_short_names_and_those_with_one_name_by_numbers() {
        assert_eq!(distinct_names(&["NVIDIA-L4", "NVIDIA-H200"]), ["l4", "h200"]);
        let forms = ["NVIDIA-H100-80GB-HBM3", "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3-SHARED"];
        assert_eq!(distinct_names(&forms), ["h100", "l4", "h100-2"]);
        assert_eq!(distinct_names(&["NVIDIA-Unheard-Of"]), ["nvidia-unheard-of"]);
    }

    /// A display name of the API has 63 characters, and up to 40 of them are of other axes.
    #[test]
    fn every_name_leaves_room_for_the_other_axes() {
        let longest = gpu::short_names().split(", ").map(str::len).max();
        assert!(longest.is_some_and(|longest| longest + "--2".len() <= 23), "{longest:?}");
    }
}
