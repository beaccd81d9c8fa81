//! `examples/quantization/quantize.py`.

use super::words::{Calibration, QuantFormat, QuantKvCache};
use super::{Arguments, OptionError, since};
use crate::formats::{Dtype, Parallelism};
use crate::tensorrt_llm::version::Version;

/// Options of `quantize.py`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantizeOptions {
    /// The checkpoint, in Hugging Face's layout.
    pub model_dir: String,
    /// Where the quantized one is written.
    pub output_dir: String,
    /// Data type of what is not quantized.
    pub dtype: Dtype,
    /// What the weights become.
    pub format: QuantFormat,
    /// A quantized KV cache.
    pub kv_cache: Option<QuantKvCache>,
    /// How the written checkpoint is split.
    pub parallelism: Parallelism,
    /// Calibration texts; upstream's default set needs egress.
    pub calibration: Option<Calibration>,
    /// Samples calibrated at the same time.
    pub batch_size: Option<u32>,
    /// Weights that share a scale, for AWQ.
    pub awq_block_size: Option<u32>,
    /// Whether the output layer is quantized too, from 0.19.
    pub quantize_lm_head: bool,
}

impl QuantizeOptions {
    /// A quantization for one GPU.
    #[must_use]
    pub fn new(model_dir: impl Into<String>, output_dir: impl Into<String>, format: QuantFormat) -> Self {
        Self {
            model_dir: model_dir.into(),
            output_dir: output_dir.into(),
            dtype: Dtype::Float16,
            format,
            kv_cache: None,
            parallelism: Parallelism::SINGLE,
            calibration: None,
            batch_size: None,
            awq_block_size: None,
            quantize_lm_head: false,
        }
    }

    /// The arguments behind the script's path.
    ///
    /// # Errors
    /// The version lacks the format or an option.
    pub fn arguments(&self, version: Version) -> Result<Vec<String>, OptionError> {
        if self.format == QuantFormat::Nvfp4 {
            since("--qformat=nvfp4", version, Version::new(0, 17, 0))?;
        }
        if self.quantize_lm_head {
            since("--quantize_lm_head", version, Version::new(0, 19, 0))?;
        }
        let mut arguments = Arguments::default();
        arguments.value("--model_dir", &self.model_dir).value("--output_dir", &self.output_dir);
        arguments.value("--dtype", self.dtype).value("--qformat", self.format);
        arguments.optional("--kv_cache_dtype", self.kv_cache);
        arguments.value("--tp_size", self.parallelism.tensor).value("--pp_size", self.parallelism.pipeline);
        if let Some(Calibration { dataset, samples, max_tokens }) = &self.calibration {
            arguments.value("--calib_dataset", dataset).value("--calib_size", samples);
            arguments.value("--calib_max_seq_length", max_tokens);
        }
        arguments.optional("--batch_size", self.batch_size).optional("--awq_block_size", self.awq_block_size);
        arguments.flags([("--quantize_lm_head", self.quantize_lm_head)]);
        Ok(arguments.0)
    }
}
