//! Labels are those of the driver's list with dashes for spaces, memory that of `nvidia-smi` on such a machine.

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

#[rstest]
#[case("NVIDIA-B300-SXM6-AC", 275_040, 103)]
#[case("NVIDIA-GB300", 284_208, 103)]
#[case("NVIDIA-B200", 183_359, 100)]
#[case("NVIDIA-GB200", 189_471, 100)]
#[case("NVIDIA-GB10", 122_572, 121)]
#[case("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97_887, 120)]
#[case("NVIDIA-GeForce-RTX-5090", 32_607, 120)]
#[case("NVIDIA-GH200-480GB", 97_871, 90)]
#[case("GH200-120GB", 97_871, 90)]
#[case("NVIDIA-GH200-144G-HBM3e", 146_831, 90)]
#[case("NVIDIA-H200", 143_771, 90)]
#[case("NVIDIA-H200-NVL", 143_771, 90)]
#[case("NVIDIA-H100-80GB-HBM3", 81_559, 90)]
#[case("NVIDIA-H100-PCIe", 81_559, 90)]
#[case("NVIDIA-H100-NVL", 95_830, 90)]
#[case("NVIDIA-H800", 81_559, 90)]
#[case("NVIDIA-H20", 97_871, 90)]
#[case("NVIDIA-H20-3e", 143_771, 90)]
#[case("NVIDIA-L40S", 46_068, 89)]
#[case("NVIDIA-L20", 46_068, 89)]
#[case("NVIDIA-L4", 23_034, 89)]
#[case("NVIDIA-RTX-6000-Ada-Generation", 49_140, 89)]
#[case("NVIDIA-GeForce-RTX-4090", 24_564, 89)]
#[case("NVIDIA-A100-SXM4-40GB", 40_960, 80)]
#[case("NVIDIA-A100-SXM4-80GB-SHARED", 81_920, 80)]
#[case("NVIDIA-A100-80GB-PCIe", 81_920, 80)]
#[case("A100-PCIE-40GB", 40_960, 80)]
#[case("NVIDIA-A800-SXM4-80GB", 81_920, 80)]
#[case("NVIDIA-A40", 46_068, 86)]
#[case("NVIDIA-A10G", 23_028, 86)]
#[case("NVIDIA-A10", 23_028, 86)]
#[case("NVIDIA-RTX-A6000", 49_140, 86)]
#[case("Tesla-T4", 15_360, 75)]
#[case("Tesla-V100-SXM2-32GB", 32_768, 70)]
#[case::by_hand("h100", 81_559, 90)]
fn a_label_names_its_product(#[case] label: &str, #[case] memory_mib: u32, #[case] sm: u32) {
    let gpu = by_label(label).unwrap();
    assert_eq!((gpu.memory_mib, gpu.sm), (memory_mib, Some(sm)));
}

#[rstest]
#[case::no_a40("NVIDIA-RTX-A4000")]
#[case::no_a100("NVIDIA-RTX-A1000")]
#[case::no_t4("NVIDIA-T400-4GB")]
#[case::no_l4("NVIDIA-L40G")]
#[case::no_h100("NVIDIA-H100-96GB-HBM3")]
#[case("NVIDIA-GeForce-GTX-1080")]
#[case::not_nvidias("mi300x")]
#[case("")]
fn a_product_that_only_looks_like_another_is_unknown(#[case] label: &str) {
    assert_eq!(by_label(label), Err(NoWholeGpu::Unknown { meant: None }));
}

#[rstest]
#[case(
    "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "is the MIG slice 1g.5gb of a GPU, whose figures are not known: name nodes without MIG (NVIDIA-A100-SXM4-40GB)"
)]
#[case(
    "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb+me-SHARED",
    "is the MIG slice 1g.10gb+me of a GPU, whose figures are not known: name nodes without MIG (NVIDIA-H100-80GB-HBM3)"
)]
#[case("GRID-A100D-80C", "has a vGPU profile (80C), whose figures its host decides: name nodes with whole GPUs")]
#[case("NVIDIA-A40-48Q", "has a vGPU profile (48Q), whose figures its host decides: name nodes with whole GPUs")]
fn a_part_of_a_gpu_is_named(#[case] label: &str, #[case] message: &str) {
    assert_eq!(by_label(label).unwrap_err().to_string(), message);
}

#[test]
fn an_unknown_product_is_told_which_are_known() {
    let message = by_label("NVIDIA-RTX-A4000").unwrap_err().to_string();
    assert!(message.starts_with("is not a GPU whose figures are known (a10, a100, a100-40g, "), "{message}");
    assert!(
        !message.contains("mi300x") && message.ends_with("): write the label of nodes with one of them"),
        "{message}"
    );
}

#[rstest]
#[case("H100", "NVIDIA-H100-80GB-HBM3")]
#[case("nvidia-l4", "NVIDIA-L4")]
#[case("H200-Nvl-SHARED", "NVIDIA-H200-NVL-SHARED")]
fn what_people_call_a_product_is_told_its_label(#[case] label: &str, #[case] expected: &str) {
    let message = format!("is not a label of GPU nodes: write {expected}, as GPU feature discovery labels them");
    assert_eq!(by_label(label).unwrap_err().to_string(), message);
}

#[rstest]
#[case("H100", Some("h100"))]
#[case("A100-80GB", Some("a100"))]
#[case("NVIDIA-A100-SXM4-40GB", Some("a100-40g"))]
#[case("NVIDIA RTX 6000 Ada", Some("rtx6000ada"))]
#[case("AMD Instinct MI300X", Some("mi300x"))]
#[case("RTX A4000", None)]
#[case("H100 MIG 1g.10gb", None)]
fn what_people_call_a_product_is_read_by_whole_words(#[case] text: &str, #[case] name: Option<&str>) {
    assert_eq!(by_words(text).map(|gpu| gpu.name), name);
}

#[rstest]
#[case("h100_sxm", Some("h100"))]
#[case("h100_pcie", Some("h100-pcie"))]
#[case("H200_SXM", Some("h200"))]
#[case("b200_sxm", Some("b200"))]
#[case("b300_sxm", Some("b300"))]
#[case("gb200", Some("gb200"))]
#[case("gb300", Some("gb300"))]
#[case("a100_sxm", Some("a100-sxm"))]
#[case("a100_pcie", Some("a100"))]
#[case("a30", Some("a30"))]
#[case("l4", Some("l4"))]
#[case("l40s", Some("l40s"))]
#[case("rtx_pro_6000_server", Some("rtxpro6000"))]
#[case("b60", None)]
#[case("h100_vendor", None)]
#[case("", None)]
fn a_system_of_aiconfigurator_is_a_product(#[case] system: &str, #[case] name: Option<&str>) {
    assert_eq!(by_system(system).map(|gpu| gpu.name), name);
}

#[test]
fn a_name_and_a_label_belong_to_one_row() {
    let names: BTreeSet<&str> = PRODUCTS.iter().map(|gpu| gpu.name).collect();
    let labels: Vec<&str> = PRODUCTS.iter().flat_map(|gpu| gpu.labels.iter().copied()).collect();
    assert_eq!(names.len(), PRODUCTS.len());
    assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len());
}

#[test]
fn a_product_is_found_by_the_label_that_its_nodes_have() {
    let of_nvidia = PRODUCTS.iter().filter(|gpu| gpu.sm.is_some());
    let found = of_nvidia.clone().map(|gpu| by_label(&gpu.label().unwrap()).map(|found| found.name));
    assert_eq!(found.collect::<Result<Vec<_>, _>>(), Ok(of_nvidia.map(|gpu| gpu.name).collect()));
    assert_eq!(
        ["t4", "h100"].map(|name| by_label(name).unwrap().label().unwrap()),
        ["Tesla-T4", "NVIDIA-H100-80GB-HBM3"]
    );
    assert_eq!(by_words("MI300X").unwrap().label(), None);
}
