//! The fields of config.json by the names that models give them. Pure.
//!
//! huggingface/transformers, src/transformers/models: qwen2_moe, qwen3_moe (`num_experts`, `moe_intermediate_size`,
//! `shared_expert_intermediate_size`, `mlp_only_layers`, `decoder_sparse_step`), deepseek_v3, glm4_moe
//! (`n_routed_experts`, `n_shared_experts`, `first_k_dense_replace`, `kv_lora_rank`), mixtral, gpt_oss
//! (`num_local_experts`) and gemma3, whose checkpoints leave out what `Gemma3TextConfig` has by default.

use serde_json::Value;

use super::ConfigError;

/// What `Gemma3TextConfig` has where config.json says nothing
/// (src/transformers/models/gemma3/configuration_gemma3.py).
const GEMMA_3: [(&str, u32); 9] = [
    ("head_dim", 256),
    ("hidden_size", 2304),
    ("intermediate_size", 9216),
    ("max_position_embeddings", 131_072),
    ("num_attention_heads", 8),
    ("num_hidden_layers", 26),
    ("num_key_value_heads", 4),
    ("sliding_window", 4096),
    ("vocab_size", 262_208),
];

/// A model's fields, and those of its language model where it has several.
pub struct Fields<'a> {
    outer: &'a Value,
    inner: Option<&'a Value>,
    is_gemma_3: bool,
}

/// The layers of a mixture of experts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mixture {
    /// Experts of a layer; nothing without a mixture.
    pub experts: Option<u32>,
    /// Width of an expert, where it has a name of its own.
    pub expert_size: Option<u32>,
    /// Layers with one MLP.
    pub dense_layers: u32,
    /// Its width.
    pub dense_size: u32,
    /// Width of the experts that every token visits, together.
    pub shared_size: u32,
}

impl<'a> Fields<'a> {
    /// The fields of a config.json.
    pub fn of(config: &'a Value) -> Self {
        // Models of text and images keep the language model's fields one level down.
        let inner = config.get("text_config");
        let kind = inner.unwrap_or(config).get("model_type").and_then(Value::as_str);
        Self { outer: config, inner, is_gemma_3: kind == Some("gemma3_text") }
    }

    /// A field of either.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.outer.get(name).or_else(|| self.inner?.get(name))
    }

    /// A positive integer by its name or another, or as the model has it by default.
    pub fn number(&self, name: &str, aliases: &[&str]) -> Option<u32> {
        let said = std::iter::once(&name).chain(aliases).find_map(|name| self.get(name));
        let said = said.and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        said.or_else(|| self.default_of(name))
    }

    fn default_of(&self, name: &str) -> Option<u32> {
        let known = || GEMMA_3.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        if self.is_gemma_3 { known() } else { None }
    }

    /// A positive integer that must be there.
    pub fn required(&self, name: &'static str, aliases: &[&str]) -> Result<u32, ConfigError> {
        self.number(name, aliases).ok_or(ConfigError::Field(name))
    }

    /// A text, as in `torch.bfloat16`.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.as_str().map(|text| text.trim_start_matches("torch.").to_owned())
    }

    /// The first of `architectures`, else the model's type.
    pub fn architecture(&self) -> String {
        let first = self.outer.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
        first.map(str::to_owned).or_else(|| self.text("model_type")).unwrap_or_else(|| "unknown".to_owned())
    }

    /// Longest sequence that the positions allow, as vLLM derives it (vllm-project/vllm, vllm/config/model.py,
    /// `_get_and_verify_max_len`). YaRN multiplies the length that the model was trained with, other methods the one
    /// that is named. LongRoPE and Llama 3's method name the scaled one.
    pub fn positions(&self) -> Option<u32> {
        let named = self.number("max_position_embeddings", &["n_positions", "n_ctx"])?;
        let Some(scaling) = self.get("rope_scaling").or_else(|| self.get("rope_parameters")) else {
            return Some(named);
        };
        let kind =
            scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(Value::as_str).unwrap_or("default");
        let factor = scaling.get("factor").and_then(Value::as_f64).filter(|factor| *factor > 0.0).unwrap_or(1.0);
        let trained = || scaling.get("original_max_position_embeddings").and_then(Value::as_u64);
        let base = match kind {
            "su" | "longrope" | "llama3" | "default" | "mrope" => return Some(named),
            "yarn" => trained().and_then(|length| u32::try_from(length).ok()).unwrap_or(named),
            // Gemma 3 names what scaling has made already.
            _ if self.is_gemma_3 => return Some(named),
            _ => named,
        };
        // A model that names a longer length than its scaling makes has it.
        Some(named.max((f64::from(base) * factor).min(f64::from(u32::MAX)) as u32))
    }

    /// What latent attention keeps of a token in a layer.
    pub fn latent_size(&self) -> u32 {
        let rank = self.number("kv_lora_rank", &[]);
        rank.map_or(0, |rank| rank + self.number("qk_rope_head_dim", &[]).unwrap_or(0))
    }

    /// The experts of so many layers.
    pub fn mixture(&self, layers: u32) -> Mixture {
        const EXPERTS: [&str; 3] = ["num_experts", "n_routed_experts", "moe_num_experts"];
        let Some(experts) = self.number("num_local_experts", &EXPERTS).filter(|experts| *experts > 1) else {
            return Mixture { experts: self.number("num_local_experts", &EXPERTS), ..Mixture::default() };
        };
        let expert_size = self.number("moe_intermediate_size", &["expert_ffn_hidden_size"]);
        let dense_size = expert_size.and_then(|_| self.number("intermediate_size", &[])).unwrap_or(0);
        let shared = || self.number("n_shared_experts", &["num_shared_experts", "moe_num_shared_experts"]);
        let shared_size = self
            .number("shared_expert_intermediate_size", &["shared_intermediate_size"])
            .or_else(|| Some(shared()?.saturating_mul(expert_size?)));
        Mixture {
            experts: Some(experts),
            expert_size,
            dense_layers: if dense_size > 0 { self.dense_layers(layers) } else { 0 },
            dense_size,
            shared_size: shared_size.unwrap_or(0),
        }
    }

    /// Layers that are not a mixture of experts: the first ones, those of a list, and all but every n-th.
    fn dense_layers(&self, layers: u32) -> u32 {
        let first = self.number("first_k_dense_replace", &["moe_layer_start_index"]).unwrap_or(0);
        let listed = self.get("mlp_only_layers").and_then(Value::as_array).map_or(0, Vec::len);
        let step = self.number("decoder_sparse_step", &["moe_layer_freq", "moe_layer_interval"]).unwrap_or(1);
        let between = layers - layers / step;
        (first + u32::try_from(listed).unwrap_or(0) + between).min(layers)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// config.json of Qwen/Qwen3-30B-A3B, as far as it is read.
    fn qwen3_30b_a3b() -> Value {
        json!({"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 6144,
            "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "num_hidden_layers": 48, "max_position_embeddings": 40960, "rope_scaling": null})
    }

    /// config.json of deepseek-ai/DeepSeek-V3.
    fn deepseek_v3() -> Value {
        json!({"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432,
            "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
            "first_k_dense_replace": 3, "moe_layer_freq": 1, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
            "num_hidden_layers": 61, "max_position_embeddings": 163_840,
            "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}})
    }

    #[test]
    fn experts_are_read_by_each_models_names() {
        let qwen =
            Mixture { experts: Some(128), expert_size: Some(768), dense_layers: 0, dense_size: 6144, shared_size: 0 };
        assert_eq!(Fields::of(&qwen3_30b_a3b()).mixture(48), qwen);
        let deepseek = Mixture {
            experts: Some(256),
            expert_size: Some(2048),
            dense_layers: 3,
            dense_size: 18_432,
            shared_size: 2048,
        };
        assert_eq!(Fields::of(&deepseek_v3()).mixture(61), deepseek);
        let mixtral = json!({"num_local_experts": 8, "intermediate_size": 14336});
        assert_eq!(Fields::of(&mixtral).mixture(32), Mixture { experts: Some(8), ..Mixture::default() });
        let qwen2 = json!({"num_experts": 60, "moe_intermediate_size": 1408, "intermediate_size": 5632,
            "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 2, "mlp_only_layers": [1]});
        let found = Fields::of(&qwen2).mixture(24);
        assert_eq!((found.dense_layers, found.shared_size), (13, 5632));
        assert_eq!(Fields::of(&json!({"intermediate_size": 14336})).mixture(32), Mixture::default());
    }

    #[test]
    fn latent_attention_keeps_rank_and_rotary_part() {
        assert_eq!(Fields::of(&deepseek_v3()).latent_size(), 576);
        assert_eq!(Fields::of(&qwen3_30b_a3b()).latent_size(), 0);
    }

    #[rstest]
    #[case::qwen25_as_its_card_says(
        json!({"max_position_embeddings": 32768,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}),
        131_072
    )]
    #[case::already_scaled(deepseek_v3(), 163_840)]
    #[case::llama3(
        json!({"max_position_embeddings": 131_072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}), 131_072
    )]
    #[case::longrope(
        json!({"max_position_embeddings": 131_072, "rope_scaling": {"type": "longrope", "long_factor": [1.0]}}), 131_072
    )]
    #[case::linear(json!({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 2.0}}), 8192)]
    #[case::none(qwen3_30b_a3b(), 40_960)]
    #[case::no_factor(json!({"max_position_embeddings": 64, "rope_scaling": {"type": "video", "factor": null}}), 64)]
    fn scaled_positions_are_those_that_vllm_derives(#[case] config: Value, #[case] positions: u32) {
        assert_eq!(Fields::of(&config).positions(), Some(positions));
    }

    #[test]
    fn gemma_3_has_its_defaults_where_its_config_says_nothing() {
        // config.json of google/gemma-3-4b-it.
        let config = json!({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
            "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}});
        let fields = Fields::of(&config);
        let names = ["hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"];
        assert_eq!(names.map(|name| fields.number(name, &[])), [2560, 8, 4, 256, 262_208].map(Some));
        assert_eq!(fields.positions(), Some(131_072));
        let other = json!({"model_type": "llama"});
        assert_eq!(Fields::of(&other).number("vocab_size", &[]), None);
    }
}
