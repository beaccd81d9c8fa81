//! Upstream's command lines as typed options; the texts are in `data/upstream`.

use slipway_backends::formats::{Dtype, Parallelism};
use slipway_backends::tensorrt_llm::options::{
    BuildOptions, Calibration, ConvertOptions, GemmPlugin, Lora, LoraSource, PluginDtype, QuantFormat, QuantKvCache,
    QuantizeOptions, SmoothQuant, Speculation, SpeculativeMode, Toggle, WeightOnly,
};
use slipway_backends::tensorrt_llm::version::Version;

const VERSION: Version = Version::new(1, 0, 0);

/// Name of the case, tool, and our arguments for it.
type Reproduced = (&'static str, &'static str, Vec<String>);

pub fn reproduced() -> Vec<Reproduced> {
    let converted = conversions()
        .into_iter()
        .map(|(name, options)| (name, "convert", options.arguments().expect("upstream takes it")));
    let quantized = quantizations()
        .into_iter()
        .map(|(name, options)| (name, "quantize", options.arguments(VERSION).expect("upstream takes it")));
    let built = builds().into_iter().chain(builds_of_tests());
    let built = built.map(|(name, options)| (name, "build", options.arguments(VERSION).expect("upstream takes it")));
    converted.chain(quantized).chain(built).collect()
}

fn split(tensor: u32, pipeline: u32) -> Parallelism {
    Parallelism { tensor, pipeline }
}

fn conversions() -> Vec<(&'static str, ConvertOptions)> {
    let plain = |model: &str, output: &str| ConvertOptions::new(model, output, Dtype::Float16);
    let smooth = |is_fine| Some(SmoothQuant { alpha: 0.5, per_token: is_fine, per_channel: is_fine });
    let (seven, hf) = ("./tmp/llama/7B/", "./llama-models/llama-7b-hf");
    let (rooted, smoothed) = ("/llama-models/llama-7b-hf", "/tmp/tllm_checkpoint_1gpu_sq");
    let int8 = Some(WeightOnly::Int8);
    vec![
        ("convert-fp16", plain(seven, "./tllm_checkpoint_1gpu_fp16")),
        ("convert-bf16", ConvertOptions { dtype: Dtype::Bfloat16, ..plain(seven, "./tllm_checkpoint_1gpu_bf16") }),
        (
            "convert-int8-weight-only",
            ConvertOptions { weight_only: int8, ..plain(seven, "./tllm_checkpoint_1gpu_fp16_wq") },
        ),
        ("convert-tp2", ConvertOptions { parallelism: split(2, 1), ..plain(seven, "./tllm_checkpoint_2gpu_tp2") }),
        (
            "convert-tp2-pp2",
            ConvertOptions { parallelism: split(2, 2), ..plain(seven, "./tllm_checkpoint_4gpu_tp2_pp2") },
        ),
        (
            "convert-tp8-pp2",
            ConvertOptions {
                parallelism: split(8, 2),
                ..plain("./tmp/llama/70B/hf/", "./tllm_checkpoint_16gpu_tp8_pp2")
            },
        ),
        (
            "convert-int8-kv-cache",
            ConvertOptions { int8_kv_cache: true, ..plain(hf, "./llama-models/llama-7b-hf/int8_kv_cache/") },
        ),
        (
            "convert-int8-kv-cache-weight-only",
            ConvertOptions { int8_kv_cache: true, weight_only: int8, ..plain(hf, "./tllm_checkpoint_1gpu_int8_kv_wq") },
        ),
        ("convert-smoothquant", ConvertOptions { smooth_quant: smooth(false), ..plain(rooted, smoothed) }),
        (
            "convert-smoothquant-per-token-channel",
            ConvertOptions { smooth_quant: smooth(true), ..plain(rooted, smoothed) },
        ),
        (
            "convert-mistral-nemo-smoothquant",
            ConvertOptions {
                smooth_quant: smooth(true),
                dtype: Dtype::Bfloat16,
                ..plain("./Mistral-Nemo-Instruct-2407", "./tllm_checkpoint_1gpu_mistral_nemo")
            },
        ),
        (
            "convert-ci-llama3-8b",
            ConvertOptions { workers: Some(1), dtype: Dtype::Bfloat16, ..plain("llama3_v1_8b_model_root", "ckpt_dir") },
        ),
        (
            "convert-ci-llama3-70b",
            ConvertOptions {
                workers: Some(8),
                dtype: Dtype::Bfloat16,
                parallelism: split(8, 1),
                ..plain("llama_v3_70b_model_root", "ckpt_dir")
            },
        ),
    ]
}

fn quantizations() -> Vec<(&'static str, QuantizeOptions)> {
    let samples = |samples| Some(Calibration { dataset: "cnn_dailymail".into(), samples, max_tokens: 512 });
    let fp8 = |model: &str, output: &str| QuantizeOptions {
        kv_cache: Some(QuantKvCache::Fp8),
        ..QuantizeOptions::new(model, output, QuantFormat::Fp8)
    };
    let awq = |model: &str, output: &str| QuantizeOptions {
        awq_block_size: Some(128),
        calibration: samples(32),
        ..QuantizeOptions::new(model, output, QuantFormat::Int4Awq)
    };
    vec![
        (
            "quantize-fp8-tp2",
            QuantizeOptions {
                parallelism: split(2, 1),
                calibration: samples(512),
                ..fp8("./tmp/llama/70B", "./tllm_checkpoint_2gpu_fp8")
            },
        ),
        ("quantize-fp8", fp8("/tmp/llama-7b-hf", "./tllm_checkpoint_1gpu_fp8")),
        ("quantize-int4-awq", awq("./tmp/llama-7b-hf", "./quantized_int4-awq")),
        (
            "quantize-int4-awq-int8-kv",
            QuantizeOptions {
                kv_cache: Some(QuantKvCache::Int8),
                ..awq("/tmp/llama-7b-hf", "./tllm_checkpoint_1gpu_awq_int8_kv_cache")
            },
        ),
        (
            "quantize-nvfp4",
            QuantizeOptions { format: QuantFormat::Nvfp4, ..fp8("path/to/huggingface/ckpt/", "path/to/trtllm/ckpt/") },
        ),
        (
            "quantize-ci-llama3-70b-fp8",
            QuantizeOptions { parallelism: split(8, 1), ..fp8("llama_v3_70b_model_root", "ckpt_dir") },
        ),
    ]
}

/// 1.0's defaults, where upstream's line leaves them out.
fn build(checkpoint: &str, output: &str) -> BuildOptions {
    BuildOptions { fp8_context_fmha: Toggle::Enable, ..BuildOptions::new(checkpoint, output) }
}

fn builds() -> Vec<(&'static str, BuildOptions)> {
    let long = || BuildOptions {
        gemm_plugin: GemmPlugin::Float16,
        max_num_tokens: Some(4096),
        max_input_len: Some(16384),
        max_seq_len: Some(16394),
        ..build("/tmp/llama-3-8B-1048k/trt_ckpts", "/tmp/llama-3-8B-1048k/trt_engines")
    };
    vec![
        ("build-fp16", build("./tllm_checkpoint_1gpu_fp16", "./tmp/llama/7B/trt_engines/fp16/1-gpu")),
        (
            "build-fp8-workers",
            BuildOptions { workers: Some(2), ..build("./tllm_checkpoint_2gpu_fp8", "./engine_outputs") },
        ),
        (
            "build-fp8-gemm",
            BuildOptions { gemm_plugin: GemmPlugin::Fp8, ..build("./tllm_checkpoint_1gpu_fp8", "./engine_outputs") },
        ),
        ("build-long-context-logits", BuildOptions { gather_context_logits: true, ..long() }),
        ("build-long-context", BuildOptions { max_input_len: Some(131_072), max_seq_len: Some(131_082), ..long() }),
        (
            "build-one-million",
            BuildOptions {
                checkpoint_dir: "/tmp/llama-3-70B-1048k/trt_ckpts".into(),
                output_dir: "/tmp/llama-3-70B-1048k/trt_engines".into(),
                max_input_len: None,
                max_batch_size: Some(1),
                max_seq_len: Some(1_048_576),
                workers: Some(8),
                ..long()
            },
        ),
        (
            "build-mistral",
            BuildOptions {
                max_input_len: Some(32256),
                ..build("./tllm_checkpoint_1gpu_mistral", "./tmp/mistral/7B/trt_engines/fp16/1-gpu/")
            },
        ),
    ]
}

fn builds_of_tests() -> Vec<(&'static str, BuildOptions)> {
    let ci = || build("ckpt_dir", "engine_dir");
    let half = || BuildOptions {
        gemm_plugin: GemmPlugin::Float16,
        gpt_attention_plugin: Some(PluginDtype::Float16),
        remove_input_padding: Some(Toggle::Enable),
        context_fmha: Some(Toggle::Enable),
        ..ci()
    };
    let brain = || BuildOptions {
        gemm_plugin: GemmPlugin::Bfloat16,
        gpt_attention_plugin: Some(PluginDtype::Bfloat16),
        ..half()
    };
    let drafts = |mode, max_draft_tokens| Some(Speculation { mode, max_draft_tokens });
    let lora = Lora {
        plugin: PluginDtype::Float16,
        dirs: vec!["gpt_2b_lora_900_nemo_model".into()],
        source: Some(LoraSource::Nemo),
        target_modules: vec!["attn_qkv".into()],
        max_rank: None,
    };
    vec![
        (
            "build-ci-llama3-8b",
            BuildOptions {
                workers: Some(1),
                max_batch_size: Some(2048),
                max_input_len: Some(2048),
                max_seq_len: Some(4096),
                max_beam_width: Some(1),
                reduce_fusion: Some(Toggle::Disable),
                max_num_tokens: Some(16384),
                paged_context_fmha: Toggle::Disable,
                multiple_profiles: Some(Toggle::Disable),
                ..brain()
            },
        ),
        ("build-ci-llama2-7b-ifb", brain()),
        (
            "build-ci-llama3-70b-fp8-target",
            BuildOptions {
                moe_plugin: Some(PluginDtype::Auto),
                nccl_plugin: Some(PluginDtype::Auto),
                gpt_attention_plugin: Some(PluginDtype::Auto),
                use_fused_mlp: Some(Toggle::Enable),
                multiple_profiles: Some(Toggle::Enable),
                max_seq_len: Some(4096),
                max_batch_size: Some(96),
                workers: Some(8),
                gather_generation_logits: true,
                speculation: drafts(SpeculativeMode::DraftTokensExternal, Some(10)),
                ..ci()
            },
        ),
        (
            "build-ci-llama2-70b-lookahead",
            BuildOptions { speculation: drafts(SpeculativeMode::Lookahead, Some(83)), ..brain() },
        ),
        (
            "build-ci-mistral-beams",
            BuildOptions { max_input_len: Some(8192), max_batch_size: Some(32), max_beam_width: Some(10), ..half() },
        ),
        (
            "build-ci-medusa",
            BuildOptions {
                gemm_plugin: GemmPlugin::Float16,
                max_batch_size: Some(8),
                max_seq_len: Some(600),
                speculation: drafts(SpeculativeMode::Medusa, None),
                ..ci()
            },
        ),
        (
            "build-ci-lora-weight-streaming",
            BuildOptions {
                gemm_plugin: GemmPlugin::Disable,
                weight_streaming: true,
                max_batch_size: Some(8),
                max_seq_len: Some(1052),
                lora: Some(lora),
                ..half()
            },
        ),
        (
            "build-ci-timing-cache",
            BuildOptions {
                max_batch_size: Some(8),
                max_num_tokens: Some(7392),
                gather_generation_logits: true,
                input_timing_cache: Some("/cache/model.cache".into()),
                output_timing_cache: "/cache/model.cache".into(),
                ..half()
            },
        ),
    ]
}
