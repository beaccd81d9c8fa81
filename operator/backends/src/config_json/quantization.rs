//! Reads quantized weights from a config.json, in the API's terms for precisions. Pure.
//!
//! Methods and their fields: `quantization_config` of Hugging Face transformers (<https://huggingface.co/docs/transformers/quantization>),
//! of compressed-tensors (<https://github.com/neuralmagic/compressed-tensors>) and of NVIDIA's Model Optimizer. gpt-oss
//! says `mxfp4`.

use serde_json::Value;

use crate::formats::Precision;

/// How a model's weights are quantized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantization {
    /// The precision in the API's words, or else the method's own name.
    pub word: String,
    /// The method, where the word is a precision.
    pub method: Option<String>,
}

/// Reads `quantization_config` of config.json, else `hf_quant_config.json` of Model Optimizer, which older checkpoints
/// of NVIDIA's have alone (vllm-project/vllm, vllm/model_executor/layers/quantization/modelopt.py,
/// `get_config_filenames`).
pub fn of_model(config: &Value, quant_config: Option<&[u8]>) -> Option<Quantization> {
    let said = config.get("quantization_config").or_else(|| config.get("text_config")?.get("quantization_config"));
    if let Some(found) = said.and_then(of_config) {
        return Some(found);
    }
    let file: Value = serde_json::from_slice(quant_config?).ok()?;
    of_config(file.get("quantization")?)
}

/// Reads one `quantization_config`; `None` where it says nothing of a method.
fn of_config(config: &Value) -> Option<Quantization> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_ascii_lowercase);
    let method = text("quant_method").or_else(|| text("quant_algo").map(|_| "modelopt".to_owned()))?;
    let bits = config.get("bits").or_else(|| config.get("w_bit")).and_then(Value::as_u64);
    let precision = match (method.as_str(), bits) {
        ("fp8" | "fbgemm_fp8", _) => Some(Precision::Fp8),
        ("mxfp4", _) => Some(Precision::Mxfp4),
        ("awq", Some(4) | None) => Some(Precision::Int4Awq),
        ("gptq", Some(4)) => Some(Precision::Int4WeightOnly),
        ("gptq", Some(8)) => Some(Precision::Int8WeightOnly),
        ("modelopt" | "modelopt_fp4", _) => text("quant_algo").as_deref().and_then(of_model_optimizer),
        ("compressed-tensors", _) => of_compressed_tensors(config),
        ("bitsandbytes", _) => of_bitsandbytes(config),
        ("torchao", _) => of_torchao(config),
        ("quark", _) => of_quark(config),
        _ => None,
    };
    let method: String = match method.as_str() {
        "modelopt_fp4" => "modelopt".to_owned(),
        other => other.chars().take(64).collect(),
    };
    Some(match precision {
        Some(precision) => Quantization { word: precision.name().to_owned(), method: Some(method) },
        None => Quantization { word: method, method: None },
    })
}

/// Weights of 4 or 8 bits, whatever they stand for: the activations keep their type (huggingface/transformers,
/// src/transformers/utils/quantization_config.py, `BitsAndBytesConfig`).
fn of_bitsandbytes(config: &Value) -> Option<Precision> {
    let is_set = |names: [&str; 2]| names.iter().any(|name| config.get(*name).and_then(Value::as_bool) == Some(true));
    match (is_set(["load_in_4bit", "_load_in_4bit"]), is_set(["load_in_8bit", "_load_in_8bit"])) {
        (true, _) => Some(Precision::Int4WeightOnly),
        (false, true) => Some(Precision::Int8WeightOnly),
        (false, false) => None,
    }
}

/// `quant_type` names a configuration of torchao's, or is an older short name (huggingface/transformers,
/// src/transformers/utils/quantization_config.py, `TorchAoConfig`).
fn of_torchao(config: &Value) -> Option<Precision> {
    let kind = config.get("quant_type")?;
    let name = kind.as_str().or_else(|| kind.get("default")?.get("_type")?.as_str())?;
    match name {
        "int4_weight_only" | "Int4WeightOnlyConfig" => Some(Precision::Int4WeightOnly),
        "int8_weight_only" | "Int8WeightOnlyConfig" => Some(Precision::Int8WeightOnly),
        "int8_dynamic_activation_int8_weight" | "Int8DynamicActivationInt8WeightConfig" => {
            Some(Precision::Int8SmoothQuant)
        }
        "Float8DynamicActivationFloat8WeightConfig" | "Float8WeightOnlyConfig" => Some(Precision::Fp8),
        _ => None,
    }
}

/// AMD's Quark names the numbers of weights and inputs (vllm-project/vllm,
/// vllm/model_executor/layers/quantization/quark/quark.py).
fn of_quark(config: &Value) -> Option<Precision> {
    let global = config.get("global_quant_config")?;
    let number = |of: &str| global.get(of)?.get("dtype")?.as_str();
    match (number("weight")?, number("input_tensors")) {
        ("fp8_e4m3", Some("fp8_e4m3")) => Some(Precision::Fp8),
        ("int8", Some("int8")) => Some(Precision::Int8SmoothQuant),
        _ => None,
    }
}

fn of_model_optimizer(algorithm: &str) -> Option<Precision> {
    match algorithm {
        "fp8" => Some(Precision::Fp8),
        "nvfp4" => Some(Precision::Nvfp4),
        "w4a16_awq" => Some(Precision::Int4Awq),
        "w4a8_awq" => Some(Precision::W4A8Awq),
        "w8a8_sq_per_channel" => Some(Precision::Int8SmoothQuant),
        _ => None,
    }
}

/// Known only where all groups of layers are of one kind.
fn of_compressed_tensors(config: &Value) -> Option<Precision> {
    let groups = config.get("config_groups")?.as_object()?;
    let mut found = groups.values().map(of_group);
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

fn of_group(group: &Value) -> Option<Precision> {
    let numbers = |of: &str| {
        let arguments = group.get(of)?;
        Some((arguments.get("type")?.as_str()?, arguments.get("num_bits")?.as_u64()?))
    };
    match (numbers("weights")?, numbers("input_activations")) {
        (("float", 8), Some(("float", 8))) => Some(Precision::Fp8),
        (("int", 8), Some(("int", 8))) => Some(Precision::Int8SmoothQuant),
        (("int", 8), None) => Some(Precision::Int8WeightOnly),
        (("int", 4), None) => Some(Precision::Int4WeightOnly),
        (("float", 4), Some(("float", 4))) => Some(Precision::Nvfp4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn compressed(weights: Value, activations: Value) -> Value {
        json!({"quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": weights, "input_activations": activations}}})
    }

    #[rstest]
    #[case(json!({"quant_method": "fp8", "activation_scheme": "dynamic"}), "FP8")]
    #[case(json!({"quant_method": "awq", "bits": 4, "group_size": 128}), "INT4AWQ")]
    #[case(json!({"quant_method": "gptq", "bits": 8}), "INT8WeightOnly")]
    #[case(json!({"quant_method": "modelopt", "quant_algo": "NVFP4"}), "NVFP4")]
    #[case(json!({"quant_algo": "FP8"}), "FP8")]
    #[case(compressed(json!({"num_bits": 8, "type": "float"}), json!({"num_bits": 8, "type": "float"})), "FP8")]
    #[case(compressed(json!({"num_bits": 8, "type": "int"}), json!({"num_bits": 8, "type": "int"})), "INT8SmoothQuant")]
    #[case(compressed(json!({"num_bits": 4, "type": "int"}), Value::Null), "INT4WeightOnly")]
    #[case(json!({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}), "MXFP4")]
    #[case(json!({"quant_method": "BitsAndBytes", "load_in_4bit": true}), "INT4WeightOnly")]
    #[case(json!({"quant_method": "bitsandbytes", "load_in_8bit": true}), "INT8WeightOnly")]
    #[case(json!({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}), "INT4WeightOnly")]
    #[case(json!({"quant_method": "torchao", "quant_type": "int8_weight_only"}), "INT8WeightOnly")]
    #[case(
        json!({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"},
            "input_tensors": {"dtype": "fp8_e4m3"}}}),
        "FP8"
    )]
    fn a_method_is_a_precision_of_the_api(#[case] config: Value, #[case] expected: &str) {
        assert_eq!(of_config(&config).unwrap().word, expected);
    }

    #[rstest]
    #[case(json!({"quant_method": "BitsAndBytes", "load_in_4bit": true}), "bitsandbytes")]
    #[case(json!({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}), "modelopt")]
    #[case(json!({"quant_algo": "FP8"}), "modelopt")]
    fn who_quantized_is_told_beside_the_precision(#[case] config: Value, #[case] method: &str) {
        assert_eq!(of_config(&config).unwrap().method.as_deref(), Some(method));
    }

    #[test]
    fn model_optimizers_own_file_is_read_where_config_json_says_nothing() {
        // hf_quant_config.json of nvidia/Llama-3.1-8B-Instruct-FP8.
        let file = br#"{"producer": {"name": "modelopt", "version": "0.19.0"}, "quantization": {"quant_algo": "FP8",
            "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}"#;
        let found = Some(Quantization { word: "FP8".into(), method: Some("modelopt".into()) });
        assert_eq!(of_model(&json!({}), Some(file)), found);
        let awq = json!({"quantization_config": {"quant_method": "awq", "bits": 4}});
        assert_eq!(of_model(&awq, Some(file)).unwrap().word, "INT4AWQ");
        assert_eq!(of_model(&json!({}), None), None);
    }

    #[rstest]
    #[case(json!({"quant_method": "BitsAndBytes"}), Some("bitsandbytes"))]
    #[case(json!({"quant_method": "torchao", "quant_type": "int3"}), Some("torchao"))]
    #[case(json!({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "uint4"}}}), Some("quark"))]
    #[case(json!({"quant_method": "gptq", "bits": 3}), Some("gptq"))]
    #[case(compressed(json!({"num_bits": 2, "type": "int"}), Value::Null), Some("compressed-tensors"))]
    #[case(json!({}), None)]
    fn another_method_keeps_its_name(#[case] config: Value, #[case] expected: Option<&str>) {
        assert_eq!(of_config(&config).map(|found| found.word).as_deref(), expected);
    }
}
