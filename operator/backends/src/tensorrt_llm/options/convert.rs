//! `convert_checkpoint.py` of each family.

use slipway_vocabulary::serving::ModelFamily;

use super::words::Calibration;
use super::{Arguments, OptionError};
use crate::formats::{Dtype, Parallelism};

/// Weights alone are quantized, without calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightOnly {
    /// `int8`.
    Int8,
    /// `int4`.
    Int4,
}

/// SmoothQuant (Xiao et al., 2023): INT8 weights and activations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmoothQuant {
    /// Migration strength, 0 to 1; the paper and upstream's examples use 0.5.
    pub alpha: f64,
    /// A scale per token of the activations.
    pub per_token: bool,
    /// A scale per channel of the weights.
    pub per_channel: bool,
}

/// Options of `convert_checkpoint.py`: what its 2024 and its 1.x text share.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertOptions {
    /// The checkpoint, in Hugging Face's layout.
    pub model_dir: String,
    /// Where the converted one is written.
    pub output_dir: String,
    /// The family, whose script differs.
    pub family: ModelFamily,
    /// Data type of what is not quantized.
    pub dtype: Dtype,
    /// How the checkpoint is split.
    pub parallelism: Parallelism,
    /// Ranks converted at the same time.
    pub workers: Option<u32>,
    /// Weight-only quantization.
    pub weight_only: Option<WeightOnly>,
    /// SmoothQuant.
    pub smooth_quant: Option<SmoothQuant>,
    /// Whether scales for an INT8 KV cache are calibrated.
    pub int8_kv_cache: bool,
    /// Calibration texts; upstream's default set needs egress.
    pub calibration: Option<Calibration>,
    /// Whether weights are loaded to the host only.
    pub load_model_on_cpu: bool,
    /// Whether the embedding is split over GPUs.
    pub use_parallel_embedding: bool,
}

impl ConvertOptions {
    /// A conversion on one GPU without quantization.
    #[must_use]
    pub fn new(model_dir: impl Into<String>, output_dir: impl Into<String>, dtype: Dtype) -> Self {
        Self {
            model_dir: model_dir.into(),
            output_dir: output_dir.into(),
            family: ModelFamily::Llama,
            dtype,
            parallelism: Parallelism::SINGLE,
            workers: None,
            weight_only: None,
            smooth_quant: None,
            int8_kv_cache: false,
            calibration: None,
            load_model_on_cpu: false,
            use_parallel_embedding: false,
        }
    }

    /// The arguments behind the script's path. Every version from 0.15 takes them.
    ///
    /// # Errors
    /// Weight-only quantization together with SmoothQuant: the script would silently take one of them.
    pub fn arguments(&self) -> Result<Vec<String>, OptionError> {
        if self.weight_only.is_some() && self.smooth_quant.is_some() {
            let why = "the script takes the first it finds";
            return Err(OptionError::Conflict { first: "--use_weight_only", second: "--smoothquant", why });
        }
        let mut arguments = Arguments::default();
        self.places(&mut arguments);
        arguments.optional("--workers", self.workers);
        if let Some(weight_only) = self.weight_only {
            let word = match weight_only {
                WeightOnly::Int8 => "int8",
                WeightOnly::Int4 => "int4",
            };
            arguments.flags([("--use_weight_only", true)]).value("--weight_only_precision", word);
        }
        if let Some(SmoothQuant { alpha, per_token, per_channel }) = self.smooth_quant {
            arguments.value("--smoothquant", alpha);
            arguments.flags([("--per_token", per_token), ("--per_channel", per_channel)]);
        }
        if let Some(Calibration { dataset, samples, max_tokens }) = &self.calibration {
            arguments.value("--calib_dataset", dataset);
            // Qwen's script takes as many texts, of such a length, as it likes.
            if self.family == ModelFamily::Llama {
                arguments.value("--calib_size", samples).value("--calib_max_seq_length", max_tokens);
            }
        }
        arguments.flags([
            ("--int8_kv_cache", self.int8_kv_cache),
            ("--load_model_on_cpu", self.load_model_on_cpu),
            ("--use_parallel_embedding", self.use_parallel_embedding),
        ]);
        Ok(arguments.0)
    }

    /// Folders, data type and split. Gemma's script reads checkpoints of several libraries, and knows no pipelines.
    fn places(&self, arguments: &mut Arguments) {
        let Parallelism { tensor, pipeline } = self.parallelism;
        match self.family {
            ModelFamily::Gemma => {
                arguments.value("--ckpt-type", "hf").value("--model-dir", &self.model_dir);
                arguments.value("--output-model-dir", &self.output_dir);
                arguments.value("--dtype", self.dtype).value("--world-size", tensor);
            }
            ModelFamily::Llama | ModelFamily::Qwen2 | ModelFamily::Phi | ModelFamily::Phi3 | ModelFamily::Nemotron => {
                arguments.value("--model_dir", &self.model_dir).value("--output_dir", &self.output_dir);
                arguments.value("--dtype", self.dtype);
                arguments.value("--tp_size", tensor).value("--pp_size", pipeline);
            }
        }
    }
}
