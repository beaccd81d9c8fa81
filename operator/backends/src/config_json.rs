//! Reads a model's shape from its config.json. Pure.
//!
//! config.json is that of Hugging Face transformers. What models name differently is in [`fields`], and how weights are
//! quantized in [`quantization`].

use serde_json::Value;
use thiserror::Error;

use crate::check::Checkpoint;
use crate::memory::Shape;

mod fields;
mod quantization;

use self::fields::Fields;

/// Why a shape cannot be read.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not JSON.
    #[error("config.json is not JSON")]
    Syntax(#[source] serde_json::Error),
    /// A field is missing, or no positive integer.
    #[error("config.json lacks {0} (a positive integer), without which memory and parallelism cannot be planned")]
    Field(&'static str),
}

/// What a config.json says of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFigures {
    /// The first of `architectures`, as in `LlamaForCausalLM`.
    pub architecture: String,
    /// `hidden_size`.
    pub hidden_size: u32,
    /// `num_hidden_layers`.
    pub layers: u32,
    /// `num_attention_heads`.
    pub heads: u32,
    /// `num_key_value_heads`; equal to the heads where absent.
    pub key_value_heads: u32,
    /// `head_dim`; hidden size / heads where absent.
    pub head_dim: u32,
    /// `intermediate_size`, or `moe_intermediate_size` with a mixture; absent where the model names none.
    pub intermediate_size: Option<u32>,
    /// Experts of a layer; absent without a mixture.
    pub experts: Option<u32>,
    /// Experts that a token visits; absent without a mixture.
    pub experts_per_token: Option<u32>,
    /// Layers of a mixture that have one MLP in place of experts; 0 without.
    pub dense_layers: u32,
    /// Width of these layers' MLP; 0 without.
    pub dense_intermediate_size: u32,
    /// Width of the experts that every token visits, together; 0 without.
    pub shared_intermediate_size: u32,
    /// What latent attention keeps of a token in a layer; 0 without.
    pub latent_size: u32,
    /// Whether the output layer is the embedding.
    pub tied_embeddings: bool,
    /// `vocab_size`.
    pub vocabulary: u32,
    /// Longest sequence that the positions allow; absent where the model has none.
    pub max_positions: Option<u32>,
    /// `torch_dtype` or `dtype`; absent where the model names none.
    pub dtype: Option<String>,
    /// How the weights are quantized: the API's word for the precision, or the method's own name.
    pub quantization: Option<String>,
    /// Who quantized them, where the precision has a name of the API.
    pub quantization_method: Option<String>,
}

/// Reads a config.json. What the weights are is in `hf_quant_config.json` where config.json does not say it.
///
/// # Errors
/// [`ConfigError`] names the field that is missing.
pub fn read(config: &[u8], quant_config: Option<&[u8]>) -> Result<ConfigFigures, ConfigError> {
    let config: Value = serde_json::from_slice(config).map_err(ConfigError::Syntax)?;
    let fields = Fields::of(&config);
    let hidden_size = fields.required("hidden_size", &["n_embd", "d_model"])?;
    let heads = fields.required("num_attention_heads", &["n_head"])?;
    let layers = fields.required("num_hidden_layers", &["n_layer"])?;
    let quantization = quantization::of_model(&config, quant_config);
    let mixture = fields.mixture(layers);
    Ok(ConfigFigures {
        architecture: fields.architecture(),
        hidden_size,
        layers,
        heads,
        key_value_heads: fields.number("num_key_value_heads", &[]).unwrap_or(heads),
        head_dim: fields.number("head_dim", &[]).unwrap_or(hidden_size / heads),
        intermediate_size: mixture.expert_size.or_else(|| fields.number("intermediate_size", &["n_inner"])),
        experts: mixture.experts,
        experts_per_token: fields.number("num_experts_per_tok", &["experts_per_token", "moe_topk", "moe_k"]),
        dense_layers: mixture.dense_layers,
        dense_intermediate_size: mixture.dense_size,
        shared_intermediate_size: mixture.shared_size,
        latent_size: fields.latent_size(),
        tied_embeddings: fields.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false),
        vocabulary: fields.required("vocab_size", &[])?,
        max_positions: fields.positions(),
        dtype: fields.text("torch_dtype").or_else(|| fields.text("dtype")),
        quantization: quantization.as_ref().map(|found| found.word.clone()),
        quantization_method: quantization.and_then(|found| found.method),
    })
}

impl ConfigFigures {
    /// The shape by which memory is planned. The weights themselves are not counted here.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape {
            layers: self.layers,
            heads: self.heads,
            kv_heads: self.key_value_heads,
            head_size: self.head_dim,
            hidden: self.hidden_size,
            // Four times the width is what models without the field have.
            intermediate: self.intermediate_size.unwrap_or(self.hidden_size.saturating_mul(4)),
            experts: self.experts.unwrap_or(1),
            experts_per_token: self.experts_per_token.unwrap_or(1),
            vocabulary: self.vocabulary,
            is_tied: self.tied_embeddings,
            max_positions: self.max_positions.unwrap_or(0),
            dense_layers: self.dense_layers,
            dense_intermediate: self.dense_intermediate_size,
            shared_intermediate: self.shared_intermediate_size,
            latent: self.latent_size,
            parameters: 0,
            stored_bytes: 0,
        }
    }

    /// How the weights are stored.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint::of_word(self.quantization.as_deref(), self.quantization_method.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const LLAMA: &[u8] = br#"{"architectures":["LlamaForCausalLM"],"hidden_size":4096,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,
        "max_position_embeddings":131072,"torch_dtype":"bfloat16"}"#;

    #[test]
    fn memory_is_planned_by_the_shape_that_config_json_has() {
        let expected = Shape {
            layers: 32,
            heads: 32,
            kv_heads: 8,
            head_size: 128,
            hidden: 4096,
            intermediate: 14_336,
            vocabulary: 128_256,
            max_positions: 131_072,
            ..Shape::PLAIN
        };
        let read = read(LLAMA, None).unwrap();
        assert_eq!((read.shape(), read.checkpoint()), (expected, Checkpoint::Plain));
    }

    #[test]
    fn a_model_that_names_no_mlp_has_one_of_four_times_its_width() {
        let gpt2 =
            br#"{"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,"vocab_size":50257,"n_positions":1024}"#;
        let read = read(gpt2, None).unwrap();
        assert_eq!((read.architecture.as_str(), read.shape().intermediate), ("gpt2", 3072));
    }

    #[test]
    fn a_missing_field_is_named() {
        let config = br#"{"hidden_size":64,"num_attention_heads":4,"vocab_size":9}"#;
        let message = |config: &[u8]| read(config, None).unwrap_err().to_string();
        assert!(message(config).starts_with("config.json lacks num_hidden_layers (a positive integer)"));
        assert_eq!(message(b"<html>"), "config.json is not JSON");
    }
}
