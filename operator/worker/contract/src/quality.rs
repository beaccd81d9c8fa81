//! The quality gate: data sets, scores, bounds.

use serde::{Deserialize, Serialize};

use crate::{Digest, EngineRef};

/// Scores one output against its expected text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QualityMetric {
    /// 1 if the texts are equal after trimming white space at both ends, else 0.
    ExactMatch,
    /// The F1 of the longest common subsequence of words (Lin 2004, "ROUGE: A Package for Automatic Evaluation of
    /// Summaries", section 3).
    RougeL,
}

/// One line of the data set, with the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QualitySample {
    /// Unique in the data set.
    pub id: String,
    /// The text sent to the model.
    pub prompt: String,
    /// The text that the model should write.
    pub expected: String,
    /// Most tokens to generate.
    pub max_tokens: u32,
    /// Texts that end the generation.
    #[serde(default)]
    pub stop_words: Vec<String>,
}

/// One line of what `evaluate` reads: a sample without its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QualityPrompt {
    /// Unique in the data set.
    pub id: String,
    /// The text sent to the model.
    pub prompt: String,
    /// Most tokens to generate.
    pub max_tokens: u32,
    /// Texts that end the generation.
    #[serde(default)]
    pub stop_words: Vec<String>,
}

/// Reports how good an engine is, and how much worse than its reference it can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QualityResult {
    /// How outputs were scored.
    pub metric: QualityMetric,
    /// SHA-256 of the data set's bytes: scores of two data sets are never compared.
    pub dataset_digest: Digest,
    /// Samples scored.
    pub samples: u32,
    /// Mean score in parts per million.
    pub score_ppm: u32,
    /// The comparison with the reference; absent for the reference itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ReferenceScores>,
}

/// Compares an engine with its reference, sample by sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceScores {
    /// The reference.
    pub engine: EngineRef,
    /// Its mean score in parts per million.
    pub score_ppm: u32,
    /// Reference minus engine, in parts per million; negative if the engine is better.
    pub drop_ppm: i32,
    /// The one-sided upper confidence bound on the true drop, in parts per million: what the gate compares.
    pub drop_upper_ppm: i32,
    /// The bound's confidence in parts per million.
    pub confidence_ppm: u32,
    /// Samples on which the engine scored lower.
    pub worse: u32,
    /// Samples on which the engine scored higher.
    pub better: u32,
}

impl QualitySample {
    /// Drops the answer, for the file that a vendor container sees.
    pub fn prompt(&self) -> QualityPrompt {
        QualityPrompt {
            id: self.id.clone(),
            prompt: self.prompt.clone(),
            max_tokens: self.max_tokens,
            stop_words: self.stop_words.clone(),
        }
    }
}
