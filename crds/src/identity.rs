//! Identity by content: the hash of canonical JSON.
//!
//! An engine's identity holds what decides its content and nothing else: no secret, no placement, no resource, no
//! version of this program. The hash of a given identity never changes: the golden values of the tests are a promise
//! that an upgrade of the operator rebuilds nothing. A member that is absent stays absent.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::v1alpha1::engine::EngineBuild;

/// Version of the rules by which identities are made. It changes only together with every engine.
const IDENTITY_VERSION: u32 = 1;
/// Digits of the short form of a hash.
const SHORT: usize = 10;

/// Why a value has no canonical JSON.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The value cannot be written as JSON.
    #[error("failed to write a value as JSON")]
    Serialize(#[source] serde_json::Error),
    /// The value holds a floating-point number, for which no canonical text is agreed.
    #[error("{path} is a floating-point number: identities hold only texts, integers, booleans and lists")]
    FloatingPoint {
        /// Where the number stands.
        path: String,
    },
}

/// SHA-256 over canonical JSON, as lowercase hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(String);

impl ContentHash {
    /// All 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 10 digits: enough to tell apart the objects of a namespace, short enough for names.
    pub fn short(&self) -> &str {
        &self.0[..SHORT]
    }
}

/// Whether a text can be the short form of a hash.
pub fn is_short_hash(text: &str) -> bool {
    text.len() == SHORT && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Hashes a value.
///
/// # Errors
/// When the value cannot be written as JSON, or holds a floating-point number.
pub fn content_hash<T: Serialize>(value: &T) -> Result<ContentHash, IdentityError> {
    let value = serde_json::to_value(value).map_err(IdentityError::Serialize)?;
    let mut canonical = String::new();
    write_canonical(&value, "$", &mut canonical)?;
    let digest = Sha256::digest(canonical.as_bytes());
    Ok(ContentHash(digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Writes JSON without white space and with sorted keys (the subset of RFC 8785 that knows no floating point).
fn write_canonical(value: &Value, path: &str, out: &mut String) -> Result<(), IdentityError> {
    match value {
        Value::Number(number) if number.is_f64() => Err(IdentityError::FloatingPoint { path: path.to_owned() }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
            Ok(())
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, &format!("{path}[{index}]"), out)?;
            }
            out.push(']');
            Ok(())
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (index, (key, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(member, &format!("{path}.{key}"), out)?;
            }
            out.push('}');
            Ok(())
        }
    }
}

/// The identity of an engine.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EngineIdentity<'a> {
    identity_version: u32,
    #[serde(flatten)]
    build: &'a EngineBuild,
}

/// Hash of an engine's identity.
///
/// # Errors
/// When the build cannot be written as canonical JSON; the types of a build leave no such case.
pub fn engine_identity(build: &EngineBuild) -> Result<ContentHash, IdentityError> {
    content_hash(&EngineIdentity { identity_version: IDENTITY_VERSION, build })
}

/// Name of the Engine object of an identity.
pub fn engine_name(identity: &ContentHash) -> String {
    format!("engine-{}", identity.short())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::v1alpha1::agent_deployment::{Backend, Precision};

    fn build() -> EngineBuild {
        EngineBuild {
            backend: Backend::Custom,
            source_digest: "sha256:1f".to_owned(),
            model_commit: None,
            tokenizer_digest: None,
            builder_image_digest: "sha256:2e".to_owned(),
            precision: Precision::FP32,
            variant: None,
            options: BTreeMap::new(),
            tensorrt_llm: None,
            no_build: None,
        }
    }

    fn hash_of(build: &EngineBuild) -> String {
        engine_identity(build).map(|hash| hash.as_str().to_owned()).unwrap_or_else(|error| error.to_string())
    }

    /// These values are on users' clusters as names of engines. A change here rebuilds every engine of every user.
    #[test]
    fn identities_never_change() {
        let with_everything = EngineBuild {
            model_commit: Some("0e9e39f2".to_owned()),
            tokenizer_digest: Some("sha256:3d".to_owned()),
            precision: Precision::INT8,
            options: BTreeMap::from([("variant".to_owned(), "small".to_owned())]),
            ..build()
        };
        let of_a_variant = EngineBuild { variant: Some("react-256".to_owned()), ..build() };
        let hashes = [build(), with_everything, of_a_variant].map(|build| hash_of(&build));
        insta::assert_snapshot!(hashes.join("\n"));
    }

    /// The same promise for engines of TensorRT-LLM.
    #[test]
    fn identities_of_tensorrt_llm_never_change() {
        let block = json!({
            "version": "0.16.0", "gpuProduct": "NVIDIA-H100-80GB-HBM3", "tensorParallel": 2, "pipelineParallel": 1,
            "kvCachePrecision": "FP8", "maxBatchSize": 16, "maxNumTokens": 8192,
            "calibration": {"digest": "4c", "samples": 512, "maxTokens": 512},
            "options": {"dtype": "Float16", "maxSeqLen": 4096, "extraArgs": {"build": ["--monitor_memory"]}},
        });
        let build = EngineBuild {
            backend: Backend::TensorRTLLM,
            precision: Precision::FP8,
            tensorrt_llm: serde_json::from_value(block).ok(),
            ..build()
        };
        assert!(build.tensorrt_llm.is_some());
        insta::assert_snapshot!(hash_of(&build));
    }

    /// The repository is a part of the artifact; a default that is written out is not.
    #[test]
    fn another_entry_is_another_engine() {
        let of = |entry: Option<&str>| {
            let mut options = json!({"maxSeqLen": 4096});
            if let Some(entry) = entry {
                options["entry"] = json!(entry);
            }
            let block = json!({
                "version": "0.16.0", "gpuProduct": "NVIDIA-H100-80GB-HBM3", "tensorParallel": 1, "pipelineParallel": 1,
                "kvCachePrecision": "Auto", "maxBatchSize": 16, "maxNumTokens": 8192, "options": options,
            });
            let tensorrt_llm = serde_json::from_value(block).ok();
            assert!(tensorrt_llm.is_some());
            hash_of(&EngineBuild { backend: Backend::TensorRTLLM, tensorrt_llm, ..build() })
        };
        assert_eq!(of(None), of(Some("Engine")));
        let different = std::collections::BTreeSet::from([of(None), of(Some("Ensemble")), of(Some("BLS"))]);
        assert_eq!(different.len(), 3);
    }

    /// The same promise for engines without a build.
    #[test]
    fn identities_without_a_build_never_change() {
        let block = |quantized: bool| {
            json!({
                "version": "1.2.1", "gpuProduct": "NVIDIA-H100-80GB-HBM3", "tensorParallel": 2, "pipelineParallel": 1,
                "kvCachePrecision": "Auto", "maxBatchSize": 64, "maxNumTokens": 8192, "memory": "90%",
                "quantizedAtLoad": quantized, "options": {"maxSeqLen": 4096, "extraArgs": ["enforce_eager=true"]},
            })
        };
        let of = |backend, precision, quantized| {
            let no_build = serde_json::from_value(block(quantized)).ok();
            assert!(no_build.is_some());
            hash_of(&EngineBuild { backend, precision, no_build, ..build() })
        };
        let mut own_server = block(false);
        own_server["server"] = json!("OpenAI");
        let no_build = serde_json::from_value(own_server).ok();
        let own_server =
            hash_of(&EngineBuild { backend: Backend::VLLM, precision: Precision::BF16, no_build, ..build() });
        assert_ne!(own_server, of(Backend::VLLM, Precision::BF16, false));
        let hashes = [
            of(Backend::TensorRTLLMPyTorch, Precision::BF16, false),
            of(Backend::VLLM, Precision::BF16, false),
            of(Backend::VLLM, Precision::FP8, true),
        ];
        insta::assert_snapshot!(hashes.join("\n"));
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let one = content_hash(&json!({"a": 1, "b": {"c": [true, "x"], "d": null}}));
        let other = content_hash(&json!({"b": {"d": null, "c": [true, "x"]}, "a": 1}));
        assert_eq!(one.ok(), other.ok());
    }

    #[test]
    fn an_absent_member_is_not_an_empty_one() {
        let mut other = build();
        other.model_commit = Some(String::new());
        assert_ne!(hash_of(&build()), hash_of(&other));
    }

    #[test]
    fn a_floating_point_number_has_no_identity() {
        let error = content_hash(&json!({"level": [1, 0.5]})).map_err(|e| e.to_string());
        assert_eq!(
            error,
            Err("$.level[1] is a floating-point number: identities hold only texts, integers, booleans and lists"
                .to_owned())
        );
    }
}
