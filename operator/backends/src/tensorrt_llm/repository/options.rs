//! What a repository is filled with.
//!
//! Names, words and defaults: `all_models/inflight_batcher_llm` and `src/model_instance_state.cc` of
//! triton-inference-server/tensorrtllm_backend at v0.15.0 to v0.19.0 and r25.05, and `triton_backend/all_models` of
//! NVIDIA/TensorRT-LLM at 0c8de69a from 0.20 on.

use std::collections::BTreeMap;

use slipway_vocabulary::serving::EngineEntry;

use super::RepositoryError;

/// How a full KV cache is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchSchedulerPolicy {
    /// A request that started is never paused.
    GuaranteedNoEvict,
    /// As many as fit now; some are paused and computed again.
    MaxUtilization,
}

/// Most sequences that BLS is offered for.
///
/// One of its copies serves one request at a time, so upstream recommends as many as the engine runs sequences
/// (docs/model_config.md of triton-inference-server/tensorrtllm_backend). Each is a Python process of its own.
pub const MAX_BLS_INSTANCES: u32 = 128;
/// Copies of a model that turns text into tokens, or back: a call takes about a millisecond.
const MAX_TEXT_INSTANCES: u32 = 4;

/// How an engine is served. Absent options keep the backend's default.
#[derive(Debug, Clone, PartialEq)]
pub struct Serving {
    /// Folder of the engine, readable by every rank.
    pub engine_dir: String,
    /// Folder of the tokenizer, for ensemble and BLS.
    pub tokenizer_dir: String,
    /// Whether BLS answers with the whole text so far instead of the new piece.
    pub accumulates: bool,
    /// Requests of one Triton batch at most, 1 or more; what runs together is the engine's limit, not this.
    pub max_batch_size: u32,
    /// Whether answers are streamed.
    pub is_decoupled: bool,
    /// Microseconds that Triton waits to batch requests.
    pub queue_delay_microseconds: u32,
    /// Requests waiting at most; 0 for no limit.
    pub queue_size: u32,
    /// Whether prompts share KV blocks. Always written: its default differs between releases.
    pub kv_cache_reuse: bool,
    /// Whether long prompts are read in pieces between decoding steps.
    pub chunked_context: bool,
    /// Whether the engine was built with paged context attention, which both need.
    pub has_paged_context: bool,
    /// How a full KV cache is met.
    pub scheduler: BatchSchedulerPolicy,
    /// Percent of the memory left after loading that the KV cache takes, 1 to 99.
    pub kv_cache_percent: u8,
    /// Tokens of the KV cache at most; the smaller of this and the share counts.
    pub max_tokens_in_kv_cache: Option<u64>,
    /// Host memory to which KV blocks are moved.
    pub kv_cache_host_bytes: Option<u64>,
    /// Tokens that attention looks back, per layer in turn.
    pub attention_windows: Vec<u32>,
    /// Tokens at the start that are always attended to.
    pub sink_tokens: Option<u32>,
    /// Beams.
    pub max_beam_width: u32,
    /// Whether kernels of a decoding step are replayed as a CUDA graph.
    pub cuda_graphs: bool,
    /// Graphs kept.
    pub cuda_graph_cache_size: Option<u32>,
    /// Whether attention of few long sequences is spread over the GPU.
    pub multi_block: Option<bool>,
    /// Whether attention over prompts adds up in FP32.
    pub context_fp32_accumulation: bool,
    /// Drafting or sampling scheme, by upstream's word.
    pub decoding_mode: Option<String>,
    /// GPUs by rank, where they are not the first ones.
    pub gpu_device_ids: Vec<u32>,
    /// Percent of the weights on the GPU, with a weight-streaming engine.
    pub gpu_weights_percent: Option<u8>,
    /// Milliseconds between looks for cancelled requests.
    pub cancellation_check_ms: Option<u32>,
    /// Milliseconds between statistics.
    pub stats_check_ms: Option<u32>,
    /// Host memory for adapters.
    pub lora_host_bytes: Option<u64>,
    /// Percent of the GPU memory left after loading for adapters.
    pub lora_gpu_percent: Option<u8>,
    /// Largest rank of an adapter.
    pub lora_max_rank: Option<u32>,
    /// Whether the engine gathers logits in FP16.
    pub has_half_logits: bool,
}

impl Serving {
    /// Streams, reuses KV blocks and reads prompts in chunks.
    #[must_use]
    pub fn new(engine_dir: impl Into<String>, tokenizer_dir: impl Into<String>, max_batch_size: u32) -> Self {
        Self {
            engine_dir: engine_dir.into(),
            tokenizer_dir: tokenizer_dir.into(),
            accumulates: false,
            max_batch_size,
            is_decoupled: true,
            queue_delay_microseconds: 0,
            queue_size: 0,
            kv_cache_reuse: true,
            chunked_context: true,
            has_paged_context: true,
            scheduler: BatchSchedulerPolicy::GuaranteedNoEvict,
            kv_cache_percent: 90,
            max_tokens_in_kv_cache: None,
            kv_cache_host_bytes: None,
            attention_windows: Vec::new(),
            sink_tokens: None,
            max_beam_width: 1,
            cuda_graphs: false,
            cuda_graph_cache_size: None,
            multi_block: None,
            context_fp32_accumulation: false,
            decoding_mode: None,
            gpu_device_ids: Vec::new(),
            gpu_weights_percent: None,
            cancellation_check_ms: None,
            stats_check_ms: None,
            lora_host_bytes: None,
            lora_gpu_percent: None,
            lora_max_rank: None,
            has_half_logits: false,
        }
    }

    pub(super) fn check(&self) -> Result<(), RepositoryError> {
        let refuse = |field, problem: &str| Err(RepositoryError::Option { field, problem: problem.to_owned() });
        let needs = "needs an engine with paged context attention; set engine.tensorRTLLM.pagedContextFMHA";
        if self.max_batch_size == 0 {
            return refuse("search.maxBatchSize", "these templates need a batch of 1 or more; use 1 or more");
        }
        if self.kv_cache_reuse && !self.has_paged_context {
            return refuse("search.kvCacheReuse", needs);
        }
        if self.chunked_context && !self.has_paged_context {
            return refuse("engine.tensorRTLLM.chunkedContext", needs);
        }
        if !(1..=99).contains(&self.kv_cache_percent) {
            return refuse("search.kvCacheFreeGpuMemory", "use 1% to 99% of the memory left after loading");
        }
        if self.is_decoupled && self.max_beam_width > 1 {
            return refuse("engine.tensorRTLLM.maxBeamWidth", "beams cannot be streamed; use 1");
        }
        Ok(())
    }

    /// Quoted parameters of `tensorrt_llm` that are set.
    pub(super) fn parameters(&self) -> BTreeMap<&'static str, String> {
        let mut parameters = self.optional_parameters();
        let scheduler = match self.scheduler {
            BatchSchedulerPolicy::GuaranteedNoEvict => "guaranteed_no_evict",
            BatchSchedulerPolicy::MaxUtilization => "max_utilization",
        };
        parameters.extend([
            ("triton_backend", "tensorrtllm".to_owned()),
            ("engine_dir", self.engine_dir.clone()),
            ("batching_strategy", "inflight_fused_batching".to_owned()),
            ("batch_scheduler_policy", scheduler.to_owned()),
            ("max_beam_width", self.max_beam_width.to_string()),
            ("kv_cache_free_gpu_mem_fraction", share(self.kv_cache_percent)),
            ("enable_kv_cache_reuse", self.kv_cache_reuse.to_string()),
            ("enable_chunked_context", self.chunked_context.to_string()),
            // An answer begins with itself, not with its prompt.
            ("exclude_input_in_output", "true".to_owned()),
        ]);
        parameters
    }

    fn optional_parameters(&self) -> BTreeMap<&'static str, String> {
        let list = |numbers: &[u32]| {
            (!numbers.is_empty()).then(|| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
        };
        let text = |value: Option<u64>| value.map(|value| value.to_string());
        let number = |value: Option<u32>| text(value.map(u64::from));
        let flag = |value: bool| value.then(|| "true".to_owned());
        let all = [
            ("max_tokens_in_paged_kv_cache", text(self.max_tokens_in_kv_cache)),
            ("kv_cache_host_memory_bytes", text(self.kv_cache_host_bytes)),
            ("max_attention_window_size", list(&self.attention_windows)),
            ("sink_token_length", number(self.sink_tokens)),
            ("cuda_graph_mode", flag(self.cuda_graphs)),
            ("cuda_graph_cache_size", number(self.cuda_graph_cache_size)),
            ("multi_block_mode", self.multi_block.map(|is_on| is_on.to_string())),
            ("enable_context_fmha_fp32_acc", flag(self.context_fp32_accumulation)),
            ("decoding_mode", self.decoding_mode.clone()),
            ("gpu_device_ids", list(&self.gpu_device_ids)),
            ("gpu_weights_percent", self.gpu_weights_percent.map(share)),
            ("cancellation_check_period_ms", number(self.cancellation_check_ms)),
            ("stats_check_period_ms", number(self.stats_check_ms)),
            ("lora_cache_host_memory_bytes", text(self.lora_host_bytes)),
            ("lora_cache_gpu_memory_fraction", self.lora_gpu_percent.map(share)),
            ("lora_cache_max_adapter_size", number(self.lora_max_rank)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Everything that a model's template is filled with.
    pub(super) fn values(&self, model: &str, entry: EngineEntry) -> BTreeMap<&'static str, String> {
        let mut values = if model == "tensorrt_llm" { self.parameters() } else { self.of_text_models(entry) };
        let logits = if self.has_half_logits { "TYPE_FP16" } else { "TYPE_FP32" };
        values.extend([
            ("triton_max_batch_size", self.max_batch_size.to_string()),
            ("decoupled_mode", self.is_decoupled.to_string()),
            ("max_queue_delay_microseconds", self.queue_delay_microseconds.to_string()),
            ("max_queue_size", self.queue_size.to_string()),
            ("logits_datatype", logits.to_owned()),
            ("encoder_input_features_data_type", "TYPE_FP16".to_owned()),
            ("prompt_embedding_table_data_type", "TYPE_FP16".to_owned()),
        ]);
        values
    }

    fn of_text_models(&self, entry: EngineEntry) -> BTreeMap<&'static str, String> {
        let several = self.max_batch_size.min(MAX_TEXT_INSTANCES);
        let postprocessing = match entry {
            // Several copies answer out of order, and an ensemble passes pieces of one answer on as they come: with
            // four, Triton 2.51 gave 27 of 200 answers in order (triton-inference-server/tensorrtllm_backend#614). BLS
            // waits for each.
            EngineEntry::Engine | EngineEntry::Ensemble => 1,
            EngineEntry::BLS => several,
        };
        let is_on = |is_on: bool| if is_on { "True" } else { "False" }.to_owned();
        BTreeMap::from([
            ("tokenizer_dir", self.tokenizer_dir.clone()),
            ("preprocessing_instance_count", several.to_string()),
            ("postprocessing_instance_count", postprocessing.to_string()),
            ("bls_instance_count", self.max_batch_size.to_string()),
            ("add_special_tokens", is_on(true)),
            ("skip_special_tokens", is_on(true)),
            ("accumulate_tokens", self.accumulates.to_string()),
            ("tensorrt_llm_model_name", "tensorrt_llm".to_owned()),
        ])
    }
}

/// A percentage as upstream's fraction.
fn share(percent: u8) -> String {
    format!("{:.2}", f64::from(percent) / 100.0)
}
