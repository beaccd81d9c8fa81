//! Versions of TensorRT-LLM that can build engines, and the images that carry them. Pure.
//!
//! Sources: the compatibility matrix of triton-inference-server/server (docs/introduction/compatibility.md at e1db8a6),
//! the submodule pins of triton-inference-server/tensorrtllm_backend, and the release notes of NVIDIA/TensorRT-LLM.
//! Engines can be built from 0.15, which the image 24.11 carries, up to 1.2. The 1.3 line removed convert scripts,
//! `trtllm-build` and the C++ backend (NVIDIA/TensorRT-LLM pull requests 15763, 15907, 15918, 16369).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The field of an `AgentDeployment` that names the version.
pub const FIELD: &str = "engine.tensorRTLLM.version";

/// A version such as `0.17.0.post1`. Orders as PEP 440 does for final and post releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    major: u16,
    minor: u16,
    patch: u16,
    post: u16,
}

/// Why a version cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VersionError {
    /// Not a version.
    #[error("{FIELD}: {text:?} is not a version; write it as 0.16.0 or 1.2.1")]
    Parse {
        /// What was written.
        text: String,
    },
    /// Too old.
    #[error(
        "{FIELD}: {version} is older than 0.15, the first version whose engines are built here; use {FIRST} or later, or backend \
         VLLM, which serves without a build"
    )]
    TooOld {
        /// The version.
        version: Version,
    },
    /// Without an engine flow.
    #[error(
        "{FIELD}: {version} no longer builds engines (the tools were removed in 1.3); use {LAST} or earlier, or \
         backend TensorRTLLMPyTorch or VLLM, which serve without a build"
    )]
    NoEngineFlow {
        /// The version.
        version: Version,
    },
    /// In range, but in no image.
    #[error("{FIELD}: no Triton image contains {version}; the nearest version in an image is {nearest}")]
    NoImage {
        /// The version.
        version: Version,
        /// The nearest released one.
        nearest: Version,
    },
}

impl Version {
    /// A final release.
    #[must_use]
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch, post: 0 }
    }

    const fn post(self, post: u16) -> Self {
        Self { post, ..self }
    }

    /// Whether this is `major.minor` or later.
    #[must_use]
    pub fn is_at_least(self, major: u16, minor: u16) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.post > 0 { write!(f, ".post{}", self.post) } else { Ok(()) }
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError::Parse { text: text.to_owned() };
        let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse::<u16>().map_err(|_| error()),
            false => Err(error()),
        };
        let parts: Vec<&str> = text.split('.').collect();
        let (numbers, post) = match parts.split_last() {
            Some((last, rest)) if last.starts_with("post") => (rest, number(last.trim_start_matches("post"))?),
            _ => (parts.as_slice(), 0),
        };
        match numbers {
            [major, minor] if post == 0 => Ok(Self::new(number(major)?, number(minor)?, 0)),
            [major, minor, patch] => Ok(Self::new(number(major)?, number(minor)?, number(patch)?).post(post)),
            // A fourth number is the build of the same release: the image 25.11 carries 1.0.3 as 1.0.3.2510.
            [major, minor, patch, build] if post == 0 => {
                number(build)?;
                Ok(Self::new(number(major)?, number(minor)?, number(patch)?))
            }
            _ => Err(error()),
        }
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

/// A version, an image that carries it and the TensorRT inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// TensorRT-LLM.
    pub version: Version,
    /// Tags of `nvcr.io/nvidia/tritonserver` are `<tag>-trtllm-python-py3`.
    pub tag: &'static str,
    /// TensorRT inside, by the compatibility matrix: the image's tag does not name it (triton-inference-server/server
    /// issue 8462).
    pub tensorrt: &'static str,
}

const FIRST: Version = Version::new(0, 15, 0);
const LAST: Version = Version::new(1, 2, 1);

const fn release(version: Version, tag: &'static str, tensorrt: &'static str) -> Release {
    Release { version, tag, tensorrt }
}

/// Every release that an image carries, oldest first; of several images with one version the newest comes last.
pub const RELEASES: [Release; 21] = [
    release(FIRST, "24.11", "10.6.0"),
    release(Version::new(0, 16, 0), "24.12", "10.7.0"),
    release(Version::new(0, 17, 0), "25.01", "10.8.0.43"),
    release(Version::new(0, 17, 0).post(1), "25.02", "10.8.0.43"),
    release(Version::new(0, 18, 0), "25.03", "10.9.0.34"),
    release(Version::new(0, 18, 2), "25.04", "10.9.0.34"),
    release(Version::new(0, 19, 0), "25.05", "10.9.0.34"),
    release(Version::new(0, 20, 0), "25.06", "10.10.0.31"),
    release(Version::new(0, 20, 0), "25.07", "10.10.0.31"),
    release(Version::new(0, 21, 0), "25.08", "10.11.0.33"),
    release(Version::new(1, 0, 0), "25.09", "10.11.0.33"),
    release(Version::new(1, 0, 0), "25.10", "10.11.0.33"),
    release(Version::new(1, 0, 3), "25.11", "10.13.3.9"),
    release(Version::new(1, 1, 0), "25.12", "10.13.3.9"),
    release(Version::new(1, 1, 0), "26.01", "10.13.3.9"),
    release(Version::new(1, 1, 0), "26.02", "10.13.3.9"),
    release(Version::new(1, 2, 0), "26.03", "10.14.1.48"),
    release(LAST, "26.04", "10.14.1.48"),
    release(LAST, "26.05", "10.14.1.48"),
    release(LAST, "26.06", "10.14.1.48"),
    release(LAST, "26.07", "10.14.1.48"),
];

impl Release {
    /// The image that builds and serves this release's engines: an engine runs only on the build it was made with.
    #[must_use]
    pub fn image(&self) -> String {
        format!("nvcr.io/nvidia/tritonserver:{}-trtllm-python-py3", self.tag)
    }
}

/// Finds the newest image of a version.
///
/// # Errors
/// The version cannot be parsed, is out of range, or is in no image.
pub fn find(text: &str) -> Result<Release, VersionError> {
    let version: Version = text.parse()?;
    if !version.is_at_least(0, 15) {
        return Err(VersionError::TooOld { version });
    }
    if version.is_at_least(1, 3) {
        return Err(VersionError::NoEngineFlow { version });
    }
    let found = RELEASES.iter().rev().find(|release| release.version == version);
    found.copied().ok_or_else(|| VersionError::NoImage { version, nearest: nearest(version) })
}

/// The version where none is named: the newest that builds engines.
#[must_use]
pub const fn default() -> Version {
    LAST
}

fn nearest(version: Version) -> Version {
    let earlier = RELEASES.iter().rev().find(|release| release.version < version);
    earlier.map_or(FIRST, |release| release.version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0.16.0", "24.12")]
    #[case("0.17.0.post1", "25.02")]
    #[case("1.2", "26.03")]
    #[case("1.2.1", "26.07")]
    #[case("0.20.0", "25.07")]
    fn a_version_names_its_newest_image(#[case] version: &str, #[case] tag: &str) {
        let image = find(version).unwrap().image();
        assert_eq!(image, format!("nvcr.io/nvidia/tritonserver:{tag}-trtllm-python-py3"));
    }

    #[rstest]
    #[case(
        "0.14.0",
        "0.14.0 is older than 0.15, the first version whose engines are built here; use 0.15.0 or later, or backend VLLM, which \
         serves without a build"
    )]
    #[case(
        "1.3.0",
        "1.3.0 no longer builds engines (the tools were removed in 1.3); use 1.2.1 or earlier, or backend \
         TensorRTLLMPyTorch or VLLM, which serve without a build"
    )]
    #[case("0.19.7", "no Triton image contains 0.19.7; the nearest version in an image is 0.19.0")]
    #[case("1.0rc1", "\"1.0rc1\" is not a version; write it as 0.16.0 or 1.2.1")]
    #[case("", "\"\" is not a version; write it as 0.16.0 or 1.2.1")]
    fn a_version_that_cannot_be_used_says_what_can(#[case] version: &str, #[case] message: &str) {
        let error = find(version).unwrap_err();
        assert_eq!(error.to_string(), format!("engine.tensorRTLLM.version: {message}"));
    }

    #[test]
    fn releases_are_in_order_and_no_image_carries_two() {
        assert!(RELEASES.windows(2).all(|pair| pair[0].version <= pair[1].version && pair[0].tag < pair[1].tag));
    }

    #[test]
    fn the_build_of_a_release_is_that_release() {
        // "[TensorRT-LLM] TensorRT-LLM version: 1.0.3.2510" is what the tools of the image 25.11 print, and its engines
        // say.
        assert_eq!("1.0.3.2510".parse(), Ok(Version::new(1, 0, 3)));
        assert_eq!(find("1.0.3").unwrap().tag, "25.11");
    }

    #[test]
    fn every_release_has_its_row_of_the_compatibility_matrix() {
        // triton-inference-server/server, docs/introduction/compatibility.md at e1db8a6: "25.04 [...] 10.9.0.34 |
        // 0.18.2".
        let rows =
            ["0.15.0", "0.18.2", "0.20.0", "1.0.0", "1.0.3", "1.2.1"].map(|version| find(version).unwrap().tensorrt);
        assert_eq!(rows, ["10.6.0", "10.9.0.34", "10.10.0.31", "10.11.0.33", "10.13.3.9", "10.14.1.48"]);
    }

    /// The kit looks at an image of its own accord before an engine is built with it.
    #[test]
    fn the_acceptance_kit_looks_at_the_image_that_builds() {
        let steps = include_str!("../../../../e2e/gpu/accept/steps.sh");
        let of_kit: BTreeMap<&str, &str> =
            steps.lines().filter_map(|line| line.trim().strip_suffix(" ;;")?.split_once(") release=")).collect();
        let text: Vec<String> = RELEASES.iter().map(|release| release.version.to_string()).collect();
        let of_operator = text.iter().map(|version| (version.as_str(), find(version).unwrap().tag)).collect();
        assert_eq!(of_kit, of_operator);
    }

    #[test]
    fn a_post_release_follows_its_release() {
        let [first, post, next] = ["0.17.0", "0.17.0.post1", "0.18.0"].map(|text| text.parse::<Version>().unwrap());
        assert!(first < post && post < next);
        assert_eq!(post.to_string(), "0.17.0.post1");
    }
}
