//! Versions of backends that the platform team pins for specs that name none. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_backends::{no_build, tensorrt_llm::version};
use slipway_crds::v1alpha1::agent_deployment::VersionedBackend;

use super::InvalidSetting;

/// What is pinned, by [`VersionedBackend::setting`]: `vllm`, `vllmOpenAI`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backends(pub BTreeMap<String, BackendSettings>);

/// What is pinned for one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BackendSettings {
    /// Version of specs that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Backends {
    /// The version that is pinned for a backend.
    pub fn version(&self, of: VersionedBackend) -> Option<&str> {
        self.0.get(&of.setting())?.version.as_deref()
    }

    /// Checks that every name is that of a backend, and every version has an image.
    ///
    /// # Errors
    /// When one cannot be served; names the first.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        for (name, BackendSettings { version }) in &self.0 {
            let Some(of) = VersionedBackend::all().find(|of| of.setting() == *name) else {
                let known: Vec<_> = VersionedBackend::all().map(VersionedBackend::setting).collect();
                let problem = format!("is unknown: use one of {}", known.join(", "));
                return Err(InvalidSetting { field: format!("backends.{name}"), problem });
            };
            if let Some(problem) = version.as_ref().and_then(|version| unserved(of, version)) {
                return Err(InvalidSetting { field: format!("backends.{name}.version"), problem });
            }
        }
        Ok(())
    }
}

/// Why a version has no image. The backends' words begin with a field of the spec.
fn unserved(of: VersionedBackend, version: &str) -> Option<String> {
    let problem = match of {
        VersionedBackend::NoBuild(backend) => no_build::image(backend, version, None).err()?.to_string(),
        VersionedBackend::TensorRtLlm => version::find(version).err()?.to_string(),
    };
    Some(problem.split_once(": ").map_or(problem.clone(), |(_, problem)| problem.to_owned()))
}
