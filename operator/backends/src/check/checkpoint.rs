//! How a checkpoint's weights are stored. Pure.

use crate::formats::Precision;

/// Methods whose files not every backend reads, though what they make of the weights has a name of the API.
const OWN_LAYOUT: [&str; 3] = ["bitsandbytes", "quark", "torchao"];

/// The first architecture that computes in BF16.
const FIRST_WITH_BF16: u32 = 80;

/// How weights are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkpoint {
    /// As numbers of 16 or 32 bits.
    Plain,
    /// Quantized in a format of the API.
    Quantized(Precision),
    /// Quantized in a format of the API by a method that lays its files out in its own way or has its own kernels.
    By {
        /// The method, as config.json has it: `modelopt`, `bitsandbytes`.
        method: String,
        /// What the weights are.
        precision: Precision,
    },
    /// Quantized by a method that has no name here.
    Unknown(String),
}

impl Checkpoint {
    /// Reads the word that resolve found: a precision of the API, or a method's own name. The method is known where
    /// this release resolved the model.
    #[must_use]
    pub fn of_word(word: Option<&str>, method: Option<&str>) -> Self {
        let Some(word) = word else { return Self::Plain };
        let known = Precision::ALL.into_iter().find(|precision| precision.name() == word);
        match (known, method) {
            (None, _) => Self::Unknown(word.to_owned()),
            (Some(precision), None) => Self::Quantized(precision),
            (Some(precision), Some(method)) => Self::By { method: method.to_owned(), precision },
        }
    }

    /// What the weights are, if they are quantized in a format of the API.
    #[must_use]
    pub const fn precision(&self) -> Option<Precision> {
        match self {
            Self::Quantized(precision) | Self::By { precision, .. } => Some(*precision),
            Self::Plain | Self::Unknown(_) => None,
        }
    }

    /// The precision in which it is served where none is asked for: its own. Weights that are not quantized are served
    /// in 16 bits. They are BF16 unless the checkpoint is FP16 or the GPU, of architecture `sm`, has no BF16.
    #[must_use]
    pub fn own_precision(&self, dtype: Option<&str>, sm: Option<u32>) -> Precision {
        let lacks_bf16 = sm.is_some_and(|sm| sm < FIRST_WITH_BF16);
        let plain = if dtype == Some("float16") || lacks_bf16 { Precision::Fp16 } else { Precision::Bf16 };
        self.precision().unwrap_or(plain)
    }

    /// Who quantized it, if that is known.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::By { method, .. } | Self::Unknown(method) => Some(method),
            Self::Plain | Self::Quantized(_) => None,
        }
    }

    /// The method, where only a backend that names it reads its files.
    #[must_use]
    pub fn own_layout(&self) -> Option<&str> {
        self.method().filter(|method| self.precision().is_some() && OWN_LAYOUT.contains(method))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::as_it_is(Checkpoint::Plain, Some("bfloat16"), Some(90), Precision::Bf16)]
    #[case::as_it_is(Checkpoint::Plain, Some("float16"), Some(90), Precision::Fp16)]
    #[case::nobody_serves_32_bits(Checkpoint::Plain, Some("float32"), Some(90), Precision::Bf16)]
    #[case::a_gpu_without_bf16(Checkpoint::Plain, Some("bfloat16"), Some(75), Precision::Fp16)]
    #[case::an_unknown_gpu(Checkpoint::Plain, None, None, Precision::Bf16)]
    #[case::quantized(Checkpoint::Quantized(Precision::Int4Awq), Some("float16"), Some(90), Precision::Int4Awq)]
    #[case::refused_for_its_files(Checkpoint::Unknown("hqq".to_owned()), None, Some(90), Precision::Bf16)]
    fn a_checkpoint_is_served_in_its_own_precision(
        #[case] checkpoint: Checkpoint,
        #[case] dtype: Option<&str>,
        #[case] sm: Option<u32>,
        #[case] expected: Precision,
    ) {
        assert_eq!(checkpoint.own_precision(dtype, sm), expected);
    }
}
