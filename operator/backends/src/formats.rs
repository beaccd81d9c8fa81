//! Numeric formats, and how an engine is split: the words that all backends share. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Precision of weights and activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 16-bit floats.
    Fp16,
    /// 16-bit floats of FP32's range.
    Bf16,
    /// FP8 weights and activations.
    Fp8,
    /// INT8 weights.
    Int8WeightOnly,
    /// INT4 weights.
    Int4WeightOnly,
    /// INT8 weights and activations.
    Int8SmoothQuant,
    /// INT4 weights in groups.
    Int4Awq,
    /// INT4 weights in groups, FP8 activations.
    W4A8Awq,
    /// FP4 of Blackwell.
    Nvfp4,
    /// FP4 in groups of 32 that share a power of two, as gpt-oss has its experts.
    Mxfp4,
}

impl Precision {
    /// Every precision, cheapest to serve last.
    pub const ALL: [Self; 10] = [
        Self::Fp16,
        Self::Bf16,
        Self::Fp8,
        Self::Int8WeightOnly,
        Self::Int8SmoothQuant,
        Self::Int4WeightOnly,
        Self::Int4Awq,
        Self::W4A8Awq,
        Self::Nvfp4,
        Self::Mxfp4,
    ];

    /// The word of the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Fp8 => "FP8",
            Self::Int8WeightOnly => "INT8WeightOnly",
            Self::Int4WeightOnly => "INT4WeightOnly",
            Self::Int8SmoothQuant => "INT8SmoothQuant",
            Self::Int4Awq => "INT4AWQ",
            Self::W4A8Awq => "W4A8AWQ",
            Self::Nvfp4 => "NVFP4",
            Self::Mxfp4 => "MXFP4",
        }
    }

    /// Bits of a weight of the linear layers with its scales. Groups of 128 share 16 bits in AWQ, and groups of 16
    /// share 8 in NVFP4. Groups of 32 share 8 in MXFP4 (OCP Microscaling Formats 1.0, section 5).
    #[must_use]
    pub fn weight_bits(self) -> f64 {
        match self {
            Self::Fp16 | Self::Bf16 => 16.0,
            Self::Fp8 | Self::Int8WeightOnly | Self::Int8SmoothQuant => 8.0,
            Self::Int4WeightOnly => 4.0,
            Self::Int4Awq | Self::W4A8Awq => 4.0 + 16.0 / 128.0,
            Self::Nvfp4 => 4.0 + 8.0 / 16.0,
            Self::Mxfp4 => 4.0 + 8.0 / 32.0,
        }
    }

    /// Whether scales are calibrated on texts.
    #[must_use]
    pub fn needs_calibration(self) -> bool {
        match self {
            Self::Fp16 | Self::Bf16 | Self::Int8WeightOnly | Self::Int4WeightOnly | Self::Mxfp4 => false,
            Self::Fp8 | Self::Int8SmoothQuant | Self::Int4Awq | Self::W4A8Awq | Self::Nvfp4 => true,
        }
    }
}

/// Precision of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvCachePrecision {
    /// As activations: 16 bits.
    Auto,
    /// FP8.
    Fp8,
    /// INT8.
    Int8,
}

impl KvCachePrecision {
    /// Bits of an element.
    #[must_use]
    pub fn bits(self) -> f64 {
        match self {
            Self::Auto => 16.0,
            Self::Fp8 | Self::Int8 => 8.0,
        }
    }
}

/// Data type of weights and activations that are not quantized. Never `auto`: 2024's scripts lack that word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// `float16`.
    Float16,
    /// `bfloat16`.
    Bfloat16,
    /// `float32`.
    Float32,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Float32 => "float32",
        })
    }
}

/// How a checkpoint is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parallelism {
    /// GPUs that a layer is split over.
    pub tensor: u32,
    /// Groups that the layers are split into.
    pub pipeline: u32,
}

impl Parallelism {
    /// One GPU.
    pub const SINGLE: Self = Self { tensor: 1, pipeline: 1 };

    /// GPUs, and files of a checkpoint or an engine.
    #[must_use]
    pub fn ranks(self) -> u32 {
        self.tensor * self.pipeline
    }
}
