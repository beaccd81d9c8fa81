//! Reads quantized weights from a config.json, in the API's terms for precisions. Pure.
//!
//! Methods and their fields: `quantization_config` of Hugging Face transformers (<https://huggingface.co/docs/transformers/quantization>),
//! of compressed-tensors (<https://github.com/neuralmagic/compressed-tensors>) and of NVIDIA's Model Optimizer.

use serde_json::Value;
use slipway_backends::formats::Precision;

/// Names the precision of a `quantization_config`, or else its method; `None` where it says nothing of a method.
pub fn word(config: &Value) -> Option<String> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_ascii_lowercase);
    let method = text("quant_method").or_else(|| text("quant_algo").map(|_| "modelopt".to_owned()))?;
    let bits = config.get("bits").or_else(|| config.get("w_bit")).and_then(Value::as_u64);
    let precision = match (method.as_str(), bits) {
        ("fp8" | "fbgemm_fp8", _) => Some(Precision::Fp8),
        ("awq", Some(4) | None) => Some(Precision::Int4Awq),
        ("gptq", Some(4)) => Some(Precision::Int4WeightOnly),
        ("gptq", Some(8)) => Some(Precision::Int8WeightOnly),
        ("modelopt" | "modelopt_fp4", _) => text("quant_algo").as_deref().and_then(of_model_optimizer),
        ("compressed-tensors", _) => of_compressed_tensors(config),
        _ => None,
    };
    Some(precision.map_or_else(|| method.chars().take(64).collect(), |precision| precision.name().to_owned()))
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
    fn a_method_is_a_precision_of_the_api(#[case] config: Value, #[case] expected: &str) {
        assert_eq!(word(&config).as_deref(), Some(expected));
    }

    #[rstest]
    #[case(json!({"quant_method": "BitsAndBytes", "load_in_4bit": true}), Some("bitsandbytes"))]
    #[case(json!({"quant_method": "gptq", "bits": 3}), Some("gptq"))]
    #[case(compressed(json!({"num_bits": 2, "type": "int"}), Value::Null), Some("compressed-tensors"))]
    #[case(json!({}), None)]
    fn another_method_keeps_its_name(#[case] config: Value, #[case] expected: Option<&str>) {
        assert_eq!(word(&config).as_deref(), expected);
    }
}
