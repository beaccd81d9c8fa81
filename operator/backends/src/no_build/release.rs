//! Versions of the backends without a build, and the images that carry them. Pure.

use slipway_vocabulary::serving::NoBuildBackend;
use thiserror::Error;

use super::{Releases, of};

/// The first version of a backend that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oldest {
    /// Major, minor and patch.
    pub numbers: [u16; 3],
    /// The version, as people write it.
    pub name: &'static str,
    /// What it is the first to do, as in `that is served without a build here`.
    pub does: &'static str,
    /// What to use in place of an older one.
    pub remedy: &'static str,
}

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
    /// Before the first that is served.
    #[error(
        "{field}: {version} is older than {}, the first version {}; use {}",
        .oldest.name, .oldest.does, .oldest.remedy
    )]
    TooOld {
        /// Path of the field.
        field: String,
        /// The version.
        version: String,
        /// The first that is.
        oldest: Oldest,
    },
    /// In no image.
    #[error(
        "{field}: no Triton image of NVIDIA contains {version}; they contain {carried}: use one of these, or name an image"
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

/// The image that serves a version: the one named, else the vendor's newest that carries it.
///
/// # Errors
/// [`ReleaseError`]: the version is malformed or too old, or no image contains it and none is named.
pub fn image(backend: NoBuildBackend, version: &str, named: Option<&str>) -> Result<String, ReleaseError> {
    let of = of(backend);
    let Releases { example, oldest, image, carried } = &of.releases;
    let (field, text) = (of.field("version"), version.to_owned());
    let Some(numbers) = numbers(version) else { return Err(ReleaseError::Parse { field, text, example }) };
    if numbers < oldest.numbers {
        return Err(ReleaseError::TooOld { field, version: text, oldest: *oldest });
    }
    let found = named.map(str::to_owned).or_else(|| image(version));
    found.ok_or_else(|| ReleaseError::NoImage { field, version: text, carried: carried().join(", ") })
}

/// The version where none is named: the newest that an image of the vendor's carries, or the one that is shown.
#[must_use]
pub fn default_version(backend: NoBuildBackend) -> String {
    let Releases { example, carried, .. } = &of(backend).releases;
    carried().pop().unwrap_or_else(|| (*example).to_owned())
}

/// Major, minor and patch of a version such as `0.10.1.1`, `0.9.0rc1` or `1.2`.
pub fn numbers(version: &str) -> Option<[u16; 3]> {
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

    fn found(backend: NoBuildBackend, version: &str, named: Option<&str>) -> String {
        image(backend, version, named).unwrap_or_else(|error| error.to_string())
    }

    #[rstest]
    #[case(NoBuildBackend::VLLM, "0.11.0", None, "nvcr.io/nvidia/tritonserver:25.11-vllm-python-py3")]
    #[case(NoBuildBackend::VLLM, "0.27.1", None, "nvcr.io/nvidia/tritonserver:26.08-vllm-python-py3")]
    #[case(NoBuildBackend::VLLM, "0.40.0", Some("mirror/vllm:1"), "mirror/vllm:1")]
    #[case(NoBuildBackend::VLLMOpenAI, "0.11.0", None, "vllm/vllm-openai:v0.11.0")]
    #[case(NoBuildBackend::VLLMOpenAI, "0.11.0", Some("mirror/vllm:1"), "mirror/vllm:1")]
    #[case(NoBuildBackend::TensorRTLLMPyTorch, "1.2.1", None, "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3")]
    #[case(NoBuildBackend::TensorRTLLMPyTorch, "1.0.0", None, "nvcr.io/nvidia/tritonserver:25.10-trtllm-python-py3")]
    #[case(NoBuildBackend::TensorRTLLMPyTorch, "1.3.0rc2", Some("mirror/trtllm:1"), "mirror/trtllm:1")]
    fn a_version_has_an_image(
        #[case] backend: NoBuildBackend,
        #[case] version: &str,
        #[case] named: Option<&str>,
        #[case] expected: &str,
    ) {
        assert_eq!(found(backend, version, named), expected);
    }

    #[test]
    fn every_backend_has_a_default_that_is_served() {
        for backend in NoBuildBackend::ALL {
            let version = default_version(backend);
            assert!(image(backend, &version, None).is_ok(), "{backend:?} {version}");
        }
    }

    #[rstest]
    #[case(
        NoBuildBackend::TensorRTLLMPyTorch,
        "0.21.0",
        "engine.tensorRTLLMPyTorch.version: 0.21.0 is older than 1.0, the first version that is served without a build here; use \
         1.0.0 or later, or backend TensorRTLLM, which builds engines from 0.15 on"
    )]
    #[case(
        NoBuildBackend::TensorRTLLMPyTorch,
        "1.3.0",
        "engine.tensorRTLLMPyTorch.version: no Triton image of NVIDIA contains 1.3.0; they contain 1.0.0, 1.0.3, \
         1.1.0, 1.2.0, 1.2.1: use one of these, or name an image"
    )]
    #[case(
        NoBuildBackend::VLLM,
        "0.5.5",
        "engine.vllm.version: 0.5.5 is older than 0.6.3, the first version that says why and after how many tokens an answer ends; \
         use 0.6.3.post1 or later"
    )]
    #[case(
        NoBuildBackend::VLLMOpenAI,
        "0.8.5",
        "engine.vllm.version: 0.8.5 is older than 0.9.0, the first version whose own server takes every option from a file; use 0.9.0 \
         or later, or from 0.6.3.post1 on engine.vllm.server Triton"
    )]
    #[case(NoBuildBackend::VLLM, "newest", "engine.vllm.version: \"newest\" is not a version; write it as 0.25.0")]
    fn a_version_without_one_says_what_to_use(
        #[case] backend: NoBuildBackend,
        #[case] version: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(found(backend, version, None), expected);
    }
}
