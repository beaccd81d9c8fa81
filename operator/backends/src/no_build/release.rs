//! Versions of the backends without a build, and the images that carry them. Pure.
//!
//! Source: triton-inference-server/server, docs/introduction/compatibility.md at 0f963c9.

use thiserror::Error;

use super::Backend;
use crate::version::RELEASES;

/// vLLM and the tag of the newest image of `nvcr.io/nvidia/tritonserver` that carries it, oldest first: `<tag>-vllm-python-py3`.
/// Earlier images carry versions that do not say why and after how many tokens an answer ends.
const VLLM: [(&str, &str); 18] = [
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

/// Why a version cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReleaseError {
    /// Not a version.
    #[error("{field}: {text:?} is not a version; write it as {example}")]
    Parse {
        /// Path of the field.
        field: String,
        /// What was written.
        text: String,
        /// One that is.
        example: &'static str,
    },
    /// Before the `llmapi` model was stable.
    #[error(
        "{field}: {version} is older than 1.0, the first version that is served without a build here; use 1.0.0 or later, or backend \
         TensorRTLLM, which builds engines from 0.15 on"
    )]
    PyTorchTooOld {
        /// Path of the field.
        field: String,
        /// The version.
        version: String,
    },
    /// Before Triton's backend gave what the sidecar needs.
    #[error(
        "{field}: {version} is older than 0.6.3, the first version that says why and after how many tokens an answer ends; use \
         0.6.3.post1 or later"
    )]
    VllmTooOld {
        /// Path of the field.
        field: String,
        /// The version.
        version: String,
    },
    /// Before its server could be told all that a field says.
    #[error(
        "{field}: {version} is older than 0.9.0, the first version whose own server takes every option from a file; use 0.9.0 or later, \
         or engine.vllm.server Triton"
    )]
    ServerTooOld {
        /// Path of the field.
        field: String,
        /// The version.
        version: String,
    },
    /// In no image.
    #[error(
        "{field}: no Triton image of NVIDIA's carries {version}; they carry {carried}: use one of these, or name an image"
    )]
    NoImage {
        /// Path of the field.
        field: String,
        /// The version.
        version: String,
        /// What images carry.
        carried: String,
    },
}

/// The image that serves a version: the one named, else the newest of NVIDIA's that carries it; of vLLM's own server vLLM's image.
///
/// # Errors
/// [`ReleaseError`]: the version is none, too old, or in no image and none is named.
pub fn image(backend: Backend, version: &str, named: Option<&str>) -> Result<String, ReleaseError> {
    let (field, text) = (backend.field("version"), version.to_owned());
    let Some(numbers) = numbers(version) else {
        let example = match backend {
            Backend::Vllm | Backend::VllmOpenAi => "0.11.0",
            Backend::PyTorch => "1.2.1",
        };
        return Err(ReleaseError::Parse { field, text, example });
    };
    match backend {
        Backend::PyTorch if numbers < [1, 0, 0] => return Err(ReleaseError::PyTorchTooOld { field, version: text }),
        Backend::Vllm if numbers < [0, 6, 3] => return Err(ReleaseError::VllmTooOld { field, version: text }),
        Backend::VllmOpenAi if numbers < [0, 9, 0] => return Err(ReleaseError::ServerTooOld { field, version: text }),
        Backend::PyTorch | Backend::Vllm | Backend::VllmOpenAi => {}
    }
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let found = match backend {
        Backend::Vllm => VLLM.iter().find(|(known, _)| *known == version).map(|(_, tag)| vllm_image(tag)),
        Backend::VllmOpenAi => Some(format!("vllm/vllm-openai:v{version}")),
        Backend::PyTorch => py_torch().find(|release| release.version.to_string() == version).map(|of| of.image()),
    };
    found.ok_or_else(|| ReleaseError::NoImage { field, version: text, carried: carried(backend) })
}

/// Whether vLLM of this version writes prompts to its log by default.
pub fn logs_requests(version: &str) -> bool {
    numbers(version).is_some_and(|numbers| numbers < [0, 10, 0])
}

fn vllm_image(tag: &str) -> String {
    format!("nvcr.io/nvidia/tritonserver:{tag}-vllm-python-py3")
}

/// The newest first.
fn py_torch() -> impl Iterator<Item = &'static crate::version::Release> {
    RELEASES.iter().rev().filter(|release| release.version.is_at_least(1, 0))
}

fn carried(backend: Backend) -> String {
    let mut versions: Vec<String> = match backend {
        Backend::Vllm | Backend::VllmOpenAi => VLLM.iter().map(|(version, _)| (*version).to_owned()).collect(),
        Backend::PyTorch => py_torch().map(|release| release.version.to_string()).collect(),
    };
    if backend == Backend::PyTorch {
        versions.reverse();
    }
    versions.dedup();
    versions.join(", ")
}

/// Major, minor and patch of a version such as `0.10.1.1`, `0.9.0rc1` or `1.2`.
fn numbers(version: &str) -> Option<[u16; 3]> {
    let mut numbers = [0; 3];
    let parts: Vec<&str> = version.split('.').collect();
    if parts.len() < 2 {
        return None;
    }
    for (number, part) in numbers.iter_mut().zip(&parts) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        *number = digits.parse().ok()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn found(backend: Backend, version: &str, named: Option<&str>) -> String {
        image(backend, version, named).unwrap_or_else(|error| error.to_string())
    }

    #[rstest]
    #[case(Backend::Vllm, "0.11.0", None, "nvcr.io/nvidia/tritonserver:25.11-vllm-python-py3")]
    #[case(Backend::Vllm, "0.27.1", None, "nvcr.io/nvidia/tritonserver:26.08-vllm-python-py3")]
    #[case(Backend::Vllm, "0.40.0", Some("mirror/vllm:1"), "mirror/vllm:1")]
    #[case(Backend::VllmOpenAi, "0.11.0", None, "vllm/vllm-openai:v0.11.0")]
    #[case(Backend::VllmOpenAi, "0.11.0", Some("mirror/vllm:1"), "mirror/vllm:1")]
    #[case(Backend::PyTorch, "1.2.1", None, "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3")]
    #[case(Backend::PyTorch, "1.0.0", None, "nvcr.io/nvidia/tritonserver:25.10-trtllm-python-py3")]
    #[case(Backend::PyTorch, "1.3.0rc2", Some("mirror/trtllm:1"), "mirror/trtllm:1")]
    fn a_version_has_an_image(
        #[case] backend: Backend,
        #[case] version: &str,
        #[case] named: Option<&str>,
        #[case] expected: &str,
    ) {
        assert_eq!(found(backend, version, named), expected);
    }

    #[rstest]
    #[case(
        Backend::PyTorch,
        "0.21.0",
        "engine.tensorRTLLMPyTorch.version: 0.21.0 is older than 1.0, the first version that is served without a build here; use \
         1.0.0 or later, or backend TensorRTLLM, which builds engines from 0.15 on"
    )]
    #[case(
        Backend::PyTorch,
        "1.3.0",
        "engine.tensorRTLLMPyTorch.version: no Triton image of NVIDIA's carries 1.3.0; they carry 1.0.0, 1.0.3, 1.1.0, 1.2.0, \
         1.2.1: use one of these, or name an image"
    )]
    #[case(
        Backend::Vllm,
        "0.5.5",
        "engine.vllm.version: 0.5.5 is older than 0.6.3, the first version that says why and after how many tokens an answer ends; \
         use 0.6.3.post1 or later"
    )]
    #[case(
        Backend::VllmOpenAi,
        "0.8.5",
        "engine.vllm.version: 0.8.5 is older than 0.9.0, the first version whose own server takes every option from a file; use 0.9.0 \
         or later, or engine.vllm.server Triton"
    )]
    #[case(Backend::Vllm, "newest", "engine.vllm.version: \"newest\" is not a version; write it as 0.11.0")]
    fn a_version_without_one_says_what_to_use(#[case] backend: Backend, #[case] version: &str, #[case] expected: &str) {
        assert_eq!(found(backend, version, None), expected);
    }

    #[test]
    fn vllms_versions_are_in_order_and_no_image_carries_two() {
        assert!(VLLM.windows(2).all(|pair| numbers(pair[0].0) <= numbers(pair[1].0) && pair[0].1 < pair[1].1));
    }

    #[test]
    fn only_versions_that_know_the_argument_are_told_to_log_no_prompt() {
        assert_eq!(["0.9.2", "0.10.1.1", "0.27.1"].map(logs_requests), [true, false, false]);
    }
}
