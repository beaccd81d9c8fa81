//! Versions of vLLM, and NVIDIA's images that carry them. Pure.
//!
//! Source: triton-inference-server/server, docs/introduction/compatibility.md at 0f963c9.

use crate::no_build::{Oldest, numbers};

/// vLLM and the tag of the newest image of `nvcr.io/nvidia/tritonserver` that carries it, oldest first:
/// `<tag>-vllm-python-py3`. Earlier images carry versions that do not say why and after how many tokens an answer ends.
const CARRIED: [(&str, &str); 18] = [
    ("0.6.3.post1", "25.01"),
    ("0.7.0", "25.02"),
    ("0.7.3", "25.03"),
    ("0.8.1", "25.04"),
    ("0.8.4", "25.05"),
    ("0.9.0rc1", "25.07"),
    ("0.9.2", "25.08"),
    ("0.10.1.1", "25.09"),
    ("0.10.2", "25.10"),
    ("0.11.0", "25.11"),
    ("0.11.1", "25.12"),
    ("0.13.0", "26.01"),
    ("0.15.1", "26.02"),
    ("0.17.1", "26.03"),
    ("0.19.0", "26.05"),
    ("0.22.1", "26.06"),
    ("0.24.0", "26.07"),
    ("0.27.1", "26.08"),
];

/// Before it, Triton's backend does not give what the sidecar needs.
pub const BEHIND_TRITON: Oldest = Oldest {
    numbers: [0, 6, 3],
    name: "0.6.3",
    does: "that says why and after how many tokens an answer ends",
    remedy: "0.6.3.post1 or later",
};

/// Before it, the server cannot be told all that a field says.
pub const OWN_SERVER: Oldest = Oldest {
    numbers: [0, 9, 0],
    name: "0.9.0",
    does: "whose own server takes every option from a file",
    remedy: "0.9.0 or later, or from 0.6.3.post1 on engine.vllm.server Triton",
};

/// NVIDIA's newest image that carries a version.
pub fn triton_image(version: &str) -> Option<String> {
    let (_, tag) = CARRIED.iter().find(|(known, _)| *known == version)?;
    Some(format!("nvcr.io/nvidia/tritonserver:{tag}-vllm-python-py3"))
}

/// Versions that an image of NVIDIA's carries.
pub fn carried() -> Vec<String> {
    CARRIED.iter().map(|(version, _)| (*version).to_owned()).collect()
}

/// Whether vLLM of this version writes prompts to its log by default. `enable_log_requests`, which is off, took the
/// place of `disable_log_requests` in 0.10.1 (vllm-project/vllm pull request 21739).
pub fn logs_requests(version: &str) -> bool {
    numbers(version).is_some_and(|numbers| numbers < [0, 10, 1])
}

/// The first version that can be told to read prompts at once.
pub const CHUNKS_BY_CHOICE: &str = "0.12.0";

/// Whether vLLM of this version reads long prompts in pieces whatever it is told: V1, the engine by default since
/// 0.8.0, set `enable_chunked_prefill` itself (vllm-project/vllm issue 18547; vllm/engine/arg_utils.py of 0.11.0).
pub fn always_reads_in_pieces(version: &str) -> bool {
    numbers(version).is_some_and(|numbers| ([0, 8, 0]..[0, 12, 0]).contains(&numbers))
}

/// Whether vLLM of this version compiles models by default: V1 does, the engine by default since 0.8.0.
pub fn compiles(version: &str) -> bool {
    numbers(version).is_none_or(|numbers| numbers >= [0, 8, 0])
}

/// Whether artifacts of this version have vLLM's metrics shown by Triton: those after 0.27.1, the newest that images
/// carried when this was added.
pub fn reports_metrics(version: &str) -> bool {
    numbers(version).is_some_and(|numbers| numbers >= [0, 28, 0])
}

/// Whether vLLM of this version keeps a whole model in 16 bits until it quantizes it. Later ones may not.
pub fn loads_whole_before_quantizing(version: &str) -> bool {
    numbers(version).is_some_and(|numbers| numbers < [0, 12, 0])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn versions_are_in_order_and_no_image_carries_two() {
        assert!(CARRIED.windows(2).all(|pair| numbers(pair[0].0) <= numbers(pair[1].0) && pair[0].1 < pair[1].1));
    }

    #[test]
    fn only_versions_that_know_the_argument_are_told_to_log_no_prompt() {
        assert_eq!(
            ["0.9.2", "0.10.0", "0.10.1.1", "0.27.1"].map(logs_requests),
            [true, true, false, false],
            "0.10.1 is the first with the other argument"
        );
    }

    #[test]
    fn the_engine_of_some_versions_reads_in_pieces_whatever_it_is_told() {
        let versions = ["0.7.3", "0.8.1", "0.11.1", CHUNKS_BY_CHOICE, "0.25.0"];
        assert_eq!(versions.map(always_reads_in_pieces), [false, true, true, false, false]);
    }
}
