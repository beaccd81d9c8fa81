//! Reads a model's shape from its config.json and the headers of its weights. Pure.
//!
//! Safetensors headers are described at <https://github.com/huggingface/safetensors#format>. config.json is read by
//! [`config_json`].

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use slipway_backends::config_json::{self, ConfigError, ConfigFigures};
use slipway_worker_contract::ModelShape;

/// Most bytes of a safetensors header that are believed (the format's own limit).
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Sums of the parameters in safetensors files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Number of elements.
    pub count: u64,
    /// Bytes of each data type, as in `BF16`.
    pub bytes_by_type: BTreeMap<String, u64>,
    /// Elements and bytes of each layer that names tell, as in `model.layers.61.`.
    pub by_layer: BTreeMap<u32, (u64, u64)>,
}

/// Says why a shape cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// No config.json at the source's root.
    #[error("the source has no config.json: give the folder that save_pretrained() writes")]
    NoConfig,
    /// A config.json that does not say what is needed.
    #[error(transparent)]
    Config(ConfigError),
    /// A header that is not what the format says.
    #[error("the safetensors header of {path} is damaged: {reason}")]
    Header {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Parameters {
    /// Adds the tensors of one file's header, given without its eight length bytes.
    ///
    /// # Errors
    /// [`ShapeError::Header`] names the file.
    pub fn add_header(&mut self, path: &str, header: &[u8]) -> Result<(), ShapeError> {
        let damaged = |reason: String| ShapeError::Header { path: path.to_owned(), reason };
        let entries: BTreeMap<String, Value> = serde_json::from_slice(header).map_err(|e| damaged(e.to_string()))?;
        for (name, entry) in entries.into_iter().filter(|(name, _)| name != "__metadata__") {
            let tensor: Tensor = serde_json::from_value(entry).map_err(|e| damaged(format!("{name}: {e}")))?;
            let (begin, end) = tensor.data_offsets;
            let bytes = end.checked_sub(begin).ok_or_else(|| damaged(format!("{name} ends before it begins")))?;
            let count = tensor.shape.iter().try_fold(1_u64, |n, dim| n.checked_mul(*dim));
            let count = count.ok_or_else(|| damaged(format!("{name} has an impossible shape")))?;
            self.count += count;
            if let Some(layer) = layer_of(&name) {
                let of_layer = self.by_layer.entry(layer).or_default();
                *of_layer = (of_layer.0 + count, of_layer.1 + bytes);
            }
            *self.bytes_by_type.entry(tensor.dtype).or_default() += bytes;
        }
        Ok(())
    }

    /// Sums the bytes of all types.
    pub fn bytes(&self) -> u64 {
        self.bytes_by_type.values().sum()
    }

    /// Elements and bytes of layers from a number on: those that predict further tokens, which no server loads unless
    /// it speculates (DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 2.2).
    fn beyond(&self, layers: u32) -> (u64, u64) {
        self.by_layer.range(layers..).fold((0, 0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1))
    }

    fn main_type(&self) -> Option<String> {
        let (name, _) = self.bytes_by_type.iter().max_by_key(|(_, bytes)| **bytes)?;
        Some(match name.as_str() {
            "BF16" => "bfloat16".to_owned(),
            "F16" => "float16".to_owned(),
            "F32" => "float32".to_owned(),
            other => other.to_ascii_lowercase(),
        })
    }
}

/// The layer that a tensor's name tells: the first number behind `layers`.
fn layer_of(name: &str) -> Option<u32> {
    name.split_once("model.layers.")?.1.split('.').next()?.parse().ok()
}

/// Returns how many bytes a safetensors header has, from the file's first eight.
///
/// # Errors
/// [`ShapeError::Header`] if there are fewer than eight, or the length is beyond the format's limit.
pub fn header_length(path: &str, first_eight: &[u8]) -> Result<u64, ShapeError> {
    let damaged = |reason: String| ShapeError::Header { path: path.to_owned(), reason };
    let bytes: [u8; 8] = first_eight.try_into().map_err(|_| damaged(format!("it has {} bytes", first_eight.len())))?;
    match u64::from_le_bytes(bytes) {
        length if length <= MAX_HEADER_BYTES => Ok(length),
        length => Err(damaged(format!("its length field says {length} bytes"))),
    }
}

/// Reads the shape; `weight_bytes` stands for the parameters' bytes if the weights are not safetensors. What the
/// weights are is in `hf_quant_config.json` where config.json does not say it.
///
/// # Errors
/// [`ShapeError`] names the field that is missing.
pub fn read(
    config: &[u8],
    quant_config: Option<&[u8]>,
    parameters: &Parameters,
    weight_bytes: u64,
) -> Result<ModelShape, ShapeError> {
    let figures = config_json::read(config, quant_config).map_err(ShapeError::Config)?;
    let (spare_count, spare_bytes) = parameters.beyond(figures.layers);
    let bytes = parameters.bytes() - spare_bytes;
    // Destructured so that what is read is also reported.
    let ConfigFigures {
        architecture,
        hidden_size,
        layers,
        heads,
        key_value_heads,
        head_dim,
        intermediate_size,
        experts,
        experts_per_token,
        dense_layers,
        dense_intermediate_size,
        shared_intermediate_size,
        latent_size,
        tied_embeddings,
        vocabulary,
        max_positions,
        dtype,
        quantization,
        quantization_method,
    } = figures;
    Ok(ModelShape {
        architecture,
        hidden_size,
        layers,
        heads,
        key_value_heads,
        head_dim,
        intermediate_size,
        experts,
        experts_per_token,
        dense_layers,
        dense_intermediate_size,
        shared_intermediate_size,
        latent_size,
        tied_embeddings,
        vocabulary,
        max_positions,
        dtype: dtype.or_else(|| parameters.main_type()),
        quantization,
        quantization_method,
        parameters: parameters.count - spare_count,
        parameter_bytes: if parameters.count > 0 { bytes } else { weight_bytes },
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn header() -> Parameters {
        let mut parameters = Parameters::default();
        let header = br#"{"__metadata__":{"format":"pt"},
            "a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}}"#;
        parameters.add_header("m.safetensors", header).unwrap();
        parameters
    }

    #[test]
    fn a_llama_with_grouped_heads_is_read() {
        let config = br#"{"architectures":["LlamaForCausalLM"],"hidden_size":4096,"num_hidden_layers":32,
            "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"max_position_embeddings":131072,
            "torch_dtype":"bfloat16"}"#;
        let expected = ModelShape {
            architecture: "LlamaForCausalLM".into(),
            hidden_size: 4096,
            layers: 32,
            heads: 32,
            key_value_heads: 8,
            head_dim: 128,
            intermediate_size: Some(14_336),
            experts: None,
            experts_per_token: None,
            dense_layers: 0,
            dense_intermediate_size: 0,
            shared_intermediate_size: 0,
            latent_size: 0,
            tied_embeddings: false,
            vocabulary: 128_256,
            max_positions: Some(131_072),
            dtype: Some("bfloat16".into()),
            quantization: None,
            quantization_method: None,
            parameters: 7,
            parameter_bytes: 16,
        };
        assert_eq!(read(config, None, &header(), 99).unwrap(), expected);
    }

    #[test]
    fn older_names_and_nested_configurations_are_understood() {
        let gpt2 =
            br#"{"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,"vocab_size":50257,"n_positions":1024}"#;
        let shape = read(gpt2, None, &Parameters::default(), 548_000_000).unwrap();
        assert_eq!((shape.architecture.as_str(), shape.max_positions), ("gpt2", Some(1024)));
        assert_eq!((shape.key_value_heads, shape.parameters, shape.parameter_bytes), (12, 0, 548_000_000));
        let nested = br#"{"architectures":["X"],"text_config":{"hidden_size":64,"num_hidden_layers":2,
            "num_attention_heads":4,"vocab_size":97}}"#;
        assert_eq!(read(nested, None, &header(), 0).unwrap().dtype, Some("bfloat16".into()));
    }

    #[test]
    fn a_missing_field_is_named() {
        let config = br#"{"hidden_size":64,"num_attention_heads":4,"vocab_size":9}"#;
        assert_eq!(
            read(config, None, &header(), 0).unwrap_err().to_string(),
            "config.json lacks num_hidden_layers (a positive integer), without which memory and parallelism cannot \
             be planned"
        );
        assert_eq!(read(b"<html>", None, &header(), 0).unwrap_err().to_string(), "config.json is not JSON");
    }

    #[test]
    fn a_damaged_header_names_its_file() {
        let text = |result: Result<u64, ShapeError>| result.unwrap_err().to_string();
        assert_eq!(
            text(header_length("m.safetensors", &[0xff; 8])),
            "the safetensors header of m.safetensors is damaged: its length field says 18446744073709551615 bytes"
        );
        assert!(text(header_length("m.safetensors", b"abc")).ends_with("it has 3 bytes"));
        let error = Parameters::default().add_header("m", br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#);
        assert!(error.unwrap_err().to_string().ends_with("w ends before it begins"));
    }

    #[test]
    fn layers_that_predict_further_tokens_are_not_loaded() {
        let config = br#"{"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":9}"#;
        let mut parameters = Parameters::default();
        let header = br#"{"model.layers.1.w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},
            "model.layers.2.w":{"dtype":"BF16","shape":[6],"data_offsets":[8,20]},
            "model.embed_tokens.weight":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]}}"#;
        parameters.add_header("m.safetensors", header).unwrap();
        let shape = read(config, None, &parameters, 0).unwrap();
        assert_eq!((shape.parameters, shape.parameter_bytes), (6, 12));
    }
}
