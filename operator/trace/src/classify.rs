//! What a name says: the family of a kernel, the kind of a CUDA call, the phase a range stands for. Pure.
//!
//! Profiles carry no types, only names. The rules below match whole words where a fragment would lie: `mm` is an
//! operator, but also part of `comm`.

use serde::Serialize;

use super::record::AgentPhase;

/// Family of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum KernelClass {
    /// NCCL and the engines' own collectives.
    Communication,
    /// Fused attention.
    Attention,
    /// Matrix products.
    Gemm,
    /// Layer and RMS norms.
    Norm,
    /// Pointwise work, copies and activations: what a compiler would fuse.
    Elementwise,
    /// A CUDA graph whose kernels were not recorded.
    Graph,
    /// Anything else: sampling, sorting, indexing, reductions.
    Other,
}

impl KernelClass {
    /// All families, in the order of reports.
    pub const ALL: [Self; 7] =
        [Self::Gemm, Self::Attention, Self::Communication, Self::Norm, Self::Elementwise, Self::Graph, Self::Other];
}

/// Fragments that name a family; checked in this order, so that `fmha` with `gemm` in its template stays attention.
const KERNEL_FRAGMENTS: [(KernelClass, &[&str]); 5] = [
    (
        KernelClass::Communication,
        &["nccl", "allreduce", "all_reduce", "cross_device_reduce", "allgather", "reducescatter", "nvshmem", "deepep"],
    ),
    (KernelClass::Attention, &["fmha", "flash", "attention", "attn", "sdpa", "pagedkv", "xqa", "mhakernel"]),
    (KernelClass::Gemm, &["gemm", "gemv", "nvjet", "matmul", "splitkreduce", "xmma", "cutlass_tensorop"]),
    (KernelClass::Norm, &["norm"]),
    (
        KernelClass::Elementwise,
        &[
            "elementwise",
            "vectorized",
            "catarray",
            "act_and_mul",
            "silu",
            "gelu",
            "rotary",
            "rope",
            "copy_kernel",
            "fillfunctor",
            "triton_poi",
        ],
    ),
];

/// Whole words that name a matrix product.
const GEMM_WORDS: [&str; 4] = ["mm", "bmm", "addmm", "baddbmm"];

/// Returns the family of a kernel from its name, mangled or not.
#[must_use]
pub fn kernel_class(name: &str) -> KernelClass {
    let lower = name.to_ascii_lowercase();
    for (class, fragments) in KERNEL_FRAGMENTS {
        if fragments.iter().any(|fragment| lower.contains(fragment)) {
            return class;
        }
        if class == KernelClass::Gemm && words(&lower).any(|word| GEMM_WORDS.contains(&word)) {
            return class;
        }
    }
    KernelClass::Other
}

/// Says whether a kernel is NCCL's; the engines' own collectives are [`KernelClass::Communication`] but not NCCL.
#[must_use]
pub fn is_nccl(name: &str) -> bool {
    name.to_ascii_lowercase().contains("nccl")
}

/// Kind of a CUDA runtime or driver call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiClass {
    /// Puts a kernel or a graph on a stream.
    Launch,
    /// Puts a copy or a set on a stream.
    Copy,
    /// Takes memory from the driver.
    Allocate,
    /// Gives memory back to the driver.
    Free,
    /// Waits for the device, or polls it.
    Synchronize,
    /// Anything else.
    Other,
}

/// Returns the kind of a CUDA call; exports append a version (`cudaMalloc_v3020`), which does not matter here.
#[must_use]
pub fn api_class(name: &str) -> ApiClass {
    let lower = name.to_ascii_lowercase();
    let has = |fragments: &[&str]| fragments.iter().any(|fragment| lower.contains(fragment));
    if has(&["launch"]) {
        ApiClass::Launch
    } else if has(&["memfree", "cudafree", "memrelease", "memunmap", "hostunregister"]) {
        ApiClass::Free
    } else if has(&["malloc", "memalloc", "memcreate", "memmap", "hostalloc", "hostregister"]) {
        ApiClass::Allocate
    } else if has(&["synchronize", "query"]) {
        ApiClass::Synchronize
    } else if has(&["memcpy", "memset"]) {
        ApiClass::Copy
    } else {
        ApiClass::Other
    }
}

/// Says whether an operator handles memory: names with alloc, malloc, free, empty or resize.
#[must_use]
pub fn is_memory_operator(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["alloc", "free", "empty", "resize"].iter().any(|fragment| lower.contains(fragment))
}

/// What the engine was doing in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum EnginePhase {
    /// Only prompts were processed.
    Prefill,
    /// Only single tokens were generated.
    Decode,
    /// In-flight batching had both in one step.
    Mixed,
}

impl EnginePhase {
    /// All phases, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Prefill, Self::Decode, Self::Mixed];

    const fn of_step(prefills: u64, decodes: u64) -> Option<Self> {
        match (prefills, decodes) {
            (0, 0) => None,
            (_, 0) => Some(Self::Prefill),
            (0, _) => Some(Self::Decode),
            _ => Some(Self::Mixed),
        }
    }
}

/// Returns the engine's phase that a range's name states.
///
/// Known labels: `[Executor] _forward_step 12: 1 ctx reqs, 4 gen reqs` (TensorRT-LLM, `py_executor.py`),
/// `execute_context_1(512)_generation_3(3)` and `execute_new_1_cached_3` (vLLM, `gpu_worker.py`), and the plain words
/// prefill and decode.
#[must_use]
pub fn engine_phase(name: &str) -> Option<EnginePhase> {
    let lower = name.to_ascii_lowercase();
    if let (Some(context), Some(generation)) = (number_before(&lower, " ctx reqs"), number_before(&lower, " gen reqs"))
    {
        return EnginePhase::of_step(context, generation);
    }
    for (first, second) in [("context_", "_generation_"), ("execute_new_", "_cached_")] {
        if let (Some(context), Some(generation)) = (number_after(&lower, first), number_after(&lower, second)) {
            return EnginePhase::of_step(context, generation);
        }
    }
    if lower.contains("token") {
        return None;
    }
    words(&lower).find_map(|word| match word {
        "prefill" => Some(EnginePhase::Prefill),
        "decode" | "decoding" => Some(EnginePhase::Decode),
        _ => None,
    })
}

/// Returns the phase of an agent run that a range's name states: the first of its words that is a known one.
#[must_use]
pub fn agent_phase(name: &str) -> Option<AgentPhase> {
    let lower = name.to_ascii_lowercase();
    words(&lower).find_map(|word| match word {
        "preprocess" | "preprocessing" | "tokenize" | "tokenise" | "tokenization" | "tokenisation" => {
            Some(AgentPhase::Preprocessing)
        }
        "inference" | "llm" => Some(AgentPhase::Inference),
        "tool" | "tools" => Some(AgentPhase::Tool),
        "idle" => Some(AgentPhase::Idle),
        _ => None,
    })
}

/// Replaces every run of digits with `#`, so that ranges that differ in a counter count as one.
#[must_use]
pub fn without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        if !character.is_ascii_digit() {
            text.push(character);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

fn number_before(text: &str, marker: &str) -> Option<u64> {
    let head = &text[..text.find(marker)?];
    let digits = head.len() - head.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    head[head.len() - digits..].parse().ok()
}

fn number_after(text: &str, marker: &str) -> Option<u64> {
    let tail = &text[text.find(marker)? + marker.len()..];
    let digits = tail.len() - tail.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    tail[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", KernelClass::Communication)]
    #[case("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>", KernelClass::Communication)]
    #[case("nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT", KernelClass::Gemm)]
    #[case("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", KernelClass::Gemm)]
    #[case("triton_mm_kernel_mm_12", KernelClass::Gemm)]
    #[case("comm_buffer_init", KernelClass::Other)]
    #[case("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(gemm)", KernelClass::Attention)]
    #[case("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>", KernelClass::Attention)]
    #[case("void rms_norm_kernel<c10::BFloat16>", KernelClass::Norm)]
    #[case("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>", KernelClass::Elementwise)]
    #[case("void at::native::reduce_kernel<512, 1, ArgMaxOps>", KernelClass::Other)]
    fn kernels_have_families(#[case] name: &str, #[case] class: KernelClass) {
        assert_eq!(kernel_class(name), class);
    }

    #[rstest]
    #[case("cudaLaunchKernel_v7000", ApiClass::Launch)]
    #[case("cuLaunchKernelEx", ApiClass::Launch)]
    #[case("cudaGraphLaunch_v10000", ApiClass::Launch)]
    #[case("cudaMalloc_v3020", ApiClass::Allocate)]
    #[case("cuMemAlloc_v2", ApiClass::Allocate)]
    #[case("cudaFree_v3020", ApiClass::Free)]
    #[case("cudaMemcpyAsync", ApiClass::Copy)]
    #[case("cudaStreamSynchronize", ApiClass::Synchronize)]
    #[case("cudaEventQuery", ApiClass::Synchronize)]
    #[case("cudaMemGetInfo", ApiClass::Other)]
    fn calls_have_kinds(#[case] name: &str, #[case] class: ApiClass) {
        assert_eq!(api_class(name), class);
    }

    #[rstest]
    #[case("[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", Some(EnginePhase::Decode))]
    #[case("[Executor] _forward_step 7: 2 ctx reqs, 1 gen reqs", Some(EnginePhase::Mixed))]
    #[case("execute_context_1(512)_generation_0(0)", Some(EnginePhase::Prefill))]
    #[case("execute_context_0(0)_generation_8(8)", Some(EnginePhase::Decode))]
    #[case("execute_new_0_cached_3", Some(EnginePhase::Decode))]
    #[case("decode step 4", Some(EnginePhase::Decode))]
    #[case("Prefill", Some(EnginePhase::Prefill))]
    #[case("tokenizer.decode", None)]
    #[case("decoder_layer", None)]
    #[case("0 ctx reqs, 0 gen reqs", None)]
    fn ranges_state_the_engines_phase(#[case] name: &str, #[case] phase: Option<EnginePhase>) {
        assert_eq!(engine_phase(name), phase);
    }

    #[rstest]
    #[case("tool: order_lookup", Some(AgentPhase::Tool))]
    #[case("agent/preprocess", Some(AgentPhase::Preprocessing))]
    #[case("toolkit.load", None)]
    #[case("LLM call 3", Some(AgentPhase::Inference))]
    fn ranges_state_the_agents_phase(#[case] name: &str, #[case] phase: Option<AgentPhase>) {
        assert_eq!(agent_phase(name), phase);
    }

    #[test]
    fn counters_in_names_are_masked() {
        assert_eq!(without_numbers("ProfilerStep#12 of 300"), "ProfilerStep# of #");
    }
}
