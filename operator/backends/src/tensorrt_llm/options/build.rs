//! `trtllm-build`.

use super::words::{GemmPlugin, KvCacheType, PluginDtype, SpeculativeMode, Toggle};
use super::{Arguments, OptionError, since};
use crate::tensorrt_llm::version::Version;

/// From here on the options beyond 0.16's are known to exist.
const TABLE_OF_021: Version = Version::new(0, 21, 0);

/// Adapters that the engine can load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lora {
    /// Data type of the plugin.
    pub plugin: PluginDtype,
    /// Folders whose adapters say which modules and ranks occur.
    pub dirs: Vec<String>,
    /// Their layout.
    pub source: Option<LoraSource>,
    /// Modules by upstream's names, such as `attn_q`.
    pub target_modules: Vec<String>,
    /// Largest rank.
    pub max_rank: Option<u32>,
}

/// Layout of adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoraSource {
    /// Hugging Face's.
    HuggingFace,
    /// NeMo's.
    Nemo,
}

/// Drafting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speculation {
    /// The scheme.
    pub mode: SpeculativeMode,
    /// Tokens drafted at most, where the scheme asks for it.
    pub max_draft_tokens: Option<u32>,
}

/// Options of `trtllm-build`. How the engine is split is the checkpoint's business, not an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// What `convert_checkpoint.py` or `quantize.py` wrote.
    pub checkpoint_dir: String,
    /// Where the engine is written.
    pub output_dir: String,
    /// Timings of kernels tried; without the option the file lands in the working folder.
    pub output_timing_cache: String,
    /// Timings of an earlier build.
    pub input_timing_cache: Option<String>,
    /// How the KV cache is kept.
    pub kv_cache_type: KvCacheType,
    /// Data type of matrix multiplications.
    pub gemm_plugin: GemmPlugin,
    /// Tokens of a KV block. 64 was the default up to some version before 0.21, then 32.
    pub tokens_per_block: u32,
    /// Needed by KV reuse and chunked context.
    pub paged_context_fmha: Toggle,
    /// Takes effect with FP8, W4A8 AWQ and NVFP4 only.
    pub fp8_context_fmha: Toggle,
    /// Sequences in flight.
    pub max_batch_size: Option<u32>,
    /// Prompt tokens of a request; ignored without padding.
    pub max_input_len: Option<u32>,
    /// Prompt and answer together.
    pub max_seq_len: Option<u32>,
    /// Tokens of an iteration.
    pub max_num_tokens: Option<u32>,
    /// Tokens of an iteration that kernels are tuned for.
    pub opt_num_tokens: Option<u32>,
    /// Beams.
    pub max_beam_width: Option<u32>,
    /// Ranks built at the same time, each on a GPU of its own.
    pub workers: Option<u32>,
    /// Data type of attention.
    pub gpt_attention_plugin: Option<PluginDtype>,
    /// Data type of mixtures of experts.
    pub moe_plugin: Option<PluginDtype>,
    /// Data type of communication.
    pub nccl_plugin: Option<PluginDtype>,
    /// Fused attention over prompts.
    pub context_fmha: Option<Toggle>,
    /// Batches without padding.
    pub remove_input_padding: Option<Toggle>,
    /// Profiles for several sizes: faster, and up to twice the weights.
    pub multiple_profiles: Option<Toggle>,
    /// Fuses all-reduce with what follows.
    pub reduce_fusion: Option<Toggle>,
    /// Buffers registered with the communicator; needs `reduce_fusion`.
    pub user_buffer: Option<Toggle>,
    /// Fuses gate and up projections.
    pub use_fused_mlp: Option<Toggle>,
    /// Communication of pipelines by scattering.
    pub pp_reduce_scatter: Option<Toggle>,
    /// FP8 kernels for small batches.
    pub low_latency_gemm: bool,
    /// Fused FP8 SwiGLU of Hopper.
    pub gemm_swiglu: bool,
    /// Fuses norms with FP4 quantization, from 0.21.
    pub norm_quant_fusion: Option<Toggle>,
    /// Weights stay on the host in part; needs `gemm_plugin` off.
    pub weight_streaming: bool,
    /// Leaves weights out of the plan.
    pub strip_plan: bool,
    /// Gathers logits of prompts.
    pub gather_context_logits: bool,
    /// Gathers logits of answers.
    pub gather_generation_logits: bool,
    /// Adapters.
    pub lora: Option<Lora>,
    /// Drafting.
    pub speculation: Option<Speculation>,
}

impl BuildOptions {
    /// An engine for batching in flight, with KV reuse and chunked context possible.
    #[must_use]
    pub fn new(checkpoint_dir: impl Into<String>, output_dir: impl Into<String>) -> Self {
        let output_dir = output_dir.into();
        Self {
            checkpoint_dir: checkpoint_dir.into(),
            output_timing_cache: format!("{output_dir}/model.cache"),
            output_dir,
            input_timing_cache: None,
            kv_cache_type: KvCacheType::Paged,
            gemm_plugin: GemmPlugin::Auto,
            tokens_per_block: 32,
            paged_context_fmha: Toggle::Enable,
            fp8_context_fmha: Toggle::Disable,
            max_batch_size: None,
            max_input_len: None,
            max_seq_len: None,
            max_num_tokens: None,
            opt_num_tokens: None,
            max_beam_width: None,
            workers: None,
            gpt_attention_plugin: None,
            moe_plugin: None,
            nccl_plugin: None,
            context_fmha: None,
            remove_input_padding: None,
            multiple_profiles: None,
            reduce_fusion: None,
            user_buffer: None,
            use_fused_mlp: None,
            pp_reduce_scatter: None,
            low_latency_gemm: false,
            gemm_swiglu: false,
            norm_quant_fusion: None,
            weight_streaming: false,
            strip_plan: false,
            gather_context_logits: false,
            gather_generation_logits: false,
            lora: None,
            speculation: None,
        }
    }

    /// The arguments behind `trtllm-build`.
    ///
    /// # Errors
    /// The version lacks an option, or upstream refuses the combination.
    pub fn arguments(&self, version: Version) -> Result<Vec<String>, OptionError> {
        self.known_to(version)?;
        self.consistent()?;
        let mut arguments = Arguments::default();
        arguments.value("--checkpoint_dir", &self.checkpoint_dir).value("--output_dir", &self.output_dir);
        self.limits(&mut arguments);
        self.plugins(&mut arguments);
        self.extensions(&mut arguments);
        Ok(arguments.0)
    }

    fn known_to(&self, version: Version) -> Result<(), OptionError> {
        if self.gemm_plugin == GemmPlugin::Nvfp4 {
            since("--gemm_plugin=nvfp4", version, TABLE_OF_021)?;
        }
        if self.norm_quant_fusion.is_some() {
            since("--norm_quant_fusion", version, TABLE_OF_021)?;
        }
        let modules = self.lora.iter().flat_map(|lora| &lora.target_modules);
        for module in modules.filter(|module| *module == "mlp_gate_up") {
            since(&format!("--lora_target_modules {module}"), version, TABLE_OF_021)?;
        }
        Ok(())
    }

    /// Upstream's own refusals (`tensorrt_llm/commands/build.py`), which come after the checkpoint was loaded.
    fn consistent(&self) -> Result<(), OptionError> {
        let conflict = |first, second, why| Err(OptionError::Conflict { first, second, why });
        let drafts = self.speculation.is_some_and(|speculation| speculation.max_draft_tokens.is_some_and(|n| n > 0));
        if self.multiple_profiles == Some(Toggle::Enable) && self.opt_num_tokens.is_some() {
            return conflict("--multiple_profiles=enable", "--opt_num_tokens", "profiles choose their own sizes");
        }
        if self.gather_context_logits && drafts {
            return conflict("--gather_context_logits", "--max_draft_len", "upstream's builder refuses it");
        }
        if self.weight_streaming && self.gemm_plugin != GemmPlugin::Disable {
            return conflict("--weight_streaming", "--gemm_plugin", "streamed weights need --gemm_plugin=disable");
        }
        if self.user_buffer == Some(Toggle::Enable) && self.reduce_fusion != Some(Toggle::Enable) {
            return conflict("--user_buffer", "--reduce_fusion", "user buffers need --reduce_fusion=enable");
        }
        Ok(())
    }

    fn limits(&self, arguments: &mut Arguments) {
        arguments
            .optional("--max_batch_size", self.max_batch_size)
            .optional("--max_input_len", self.max_input_len)
            .optional("--max_seq_len", self.max_seq_len)
            .optional("--max_num_tokens", self.max_num_tokens)
            .optional("--opt_num_tokens", self.opt_num_tokens)
            .optional("--max_beam_width", self.max_beam_width)
            .optional("--workers", self.workers)
            .optional("--input_timing_cache", self.input_timing_cache.as_ref())
            .value("--output_timing_cache", &self.output_timing_cache);
    }

    fn plugins(&self, arguments: &mut Arguments) {
        arguments
            .value("--kv_cache_type", self.kv_cache_type)
            .value("--gemm_plugin", self.gemm_plugin)
            .value("--tokens_per_block", self.tokens_per_block)
            .value("--use_paged_context_fmha", self.paged_context_fmha)
            .value("--use_fp8_context_fmha", self.fp8_context_fmha)
            .optional("--gpt_attention_plugin", self.gpt_attention_plugin)
            .optional("--moe_plugin", self.moe_plugin)
            .optional("--nccl_plugin", self.nccl_plugin)
            .optional("--context_fmha", self.context_fmha)
            .optional("--remove_input_padding", self.remove_input_padding)
            .optional("--multiple_profiles", self.multiple_profiles)
            .optional("--reduce_fusion", self.reduce_fusion)
            .optional("--user_buffer", self.user_buffer)
            .optional("--use_fused_mlp", self.use_fused_mlp)
            .optional("--pp_reduce_scatter", self.pp_reduce_scatter)
            .optional("--low_latency_gemm_plugin", self.low_latency_gemm.then_some("fp8"))
            .optional("--gemm_swiglu_plugin", self.gemm_swiglu.then_some("fp8"))
            .optional("--norm_quant_fusion", self.norm_quant_fusion);
    }

    fn extensions(&self, arguments: &mut Arguments) {
        arguments.flags([
            ("--weight_streaming", self.weight_streaming),
            ("--strip_plan", self.strip_plan),
            ("--gather_context_logits", self.gather_context_logits),
            ("--gather_generation_logits", self.gather_generation_logits),
        ]);
        if let Some(Speculation { mode, max_draft_tokens }) = self.speculation {
            arguments.value("--speculative_decoding_mode", mode).optional("--max_draft_len", max_draft_tokens);
        }
        if let Some(Lora { plugin, dirs, source, target_modules, max_rank }) = &self.lora {
            let source = source.map(|source| match source {
                LoraSource::HuggingFace => "hf",
                LoraSource::Nemo => "nemo",
            });
            arguments.value("--lora_plugin", plugin).optional("--lora_ckpt_source", source);
            arguments.optional("--max_lora_rank", *max_rank);
            arguments.list("--lora_dir", dirs).list("--lora_target_modules", target_modules);
        }
    }
}
