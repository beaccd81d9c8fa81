//! `quality`: scores raw outputs, and bounds how much worse than its reference an engine can be.
//!
//! A vendor's container writes texts; the scores and the bound are computed here, from a data set whose answers that
//! container never sees. Scores are kept in the store by data set, so that later engines compare with them sample by
//! sample.

pub mod bound;
pub mod evaluate;
pub mod score;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use slipway_worker_contract::{
    Digest, EngineRef, FailureClass, QualityMetric, QualityResult, QualitySample, QualityTask, ReferenceScores, paths,
};

use crate::{failure::Classify, hash, whole_file};

/// Where the texts lie.
#[derive(Clone, Debug)]
pub struct Files {
    /// The data set with its answers.
    pub dataset: PathBuf,
    /// What the engine wrote.
    pub outputs: PathBuf,
    /// Root of the store's volume.
    pub store: PathBuf,
}

/// Says why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum QualityError {
    /// A file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A line is not a JSON object of the documented shape.
    #[error("line {line} of {} is not understood", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A data set without samples bounds nothing.
    #[error("{} has no samples", path.display())]
    NoSamples {
        /// The file.
        path: PathBuf,
    },
    /// One id twice.
    #[error("{} has the id {id:?} twice", path.display())]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// The id.
        id: String,
    },
    /// The evaluation stopped early.
    #[error("the evaluation wrote no output for {missing} of {samples} samples, first {id:?}: it must answer each")]
    Unanswered {
        /// Samples without output.
        missing: usize,
        /// All samples.
        samples: usize,
        /// The first of them.
        id: String,
    },
    /// The store has no scores of the reference, or cannot be read.
    #[error("the reference engine {} has no scores under this data set; score it first", engine.identity)]
    NoReference {
        /// The reference.
        engine: EngineRef,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The reference's scores are damaged.
    #[error("the reference's scores in {} are damaged: delete the file and score the reference again", path.display())]
    DamagedReference {
        /// The file.
        path: PathBuf,
    },
    /// The task lacks the engine.
    #[error("the task names no engine: set quality.engine")]
    NoEngine,
    /// A confidence that bounds nothing.
    #[error("confidencePpm is {0}; it must lie between 500000 (50 %) and 999999")]
    Confidence(u32),
    /// The scores cannot be kept.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Classify for QualityError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Line { .. }
            | Self::NoSamples { .. }
            | Self::Duplicate { .. }
            | Self::Unanswered { .. }
            | Self::NoEngine
            | Self::Confidence(_) => FailureClass::BadModel,
            // The operator has the reference scored again.
            Self::NoReference { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                FailureClass::MissingArtifact
            }
            Self::Read { .. } | Self::NoReference { .. } | Self::DamagedReference { .. } | Self::Write { .. } => {
                FailureClass::Infrastructure
            }
        }
    }
}

/// One line of what an evaluation writes.
#[derive(Serialize, Deserialize)]
struct OutputLine {
    id: String,
    output: String,
}

/// An engine's score per sample, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scores {
    metric: QualityMetric,
    scores: BTreeMap<String, f64>,
}

/// Scores the outputs of `engine`, compares them with the task's reference and keeps the scores.
///
/// # Errors
/// [`QualityError`] names the file, line or sample.
pub fn run(task: &QualityTask, engine: &EngineRef, files: &Files) -> Result<QualityResult, QualityError> {
    if !(500_000..1_000_000).contains(&task.confidence_ppm) {
        return Err(QualityError::Confidence(task.confidence_ppm));
    }
    let (dataset_digest, samples) = read_dataset(&files.dataset)?;
    let scores = Scores { metric: task.metric, scores: score_all(task.metric, &samples, &files.outputs)? };
    let reference = match &task.reference {
        None => None,
        Some(reference) => {
            let kept = read_scores(reference, &dataset_digest, &files.store, &scores)?;
            Some(compare(reference, &kept, &scores, task.confidence_ppm))
        }
    };
    keep_scores(engine, &dataset_digest, &files.store, &scores)?;
    let (metric, count) = (task.metric, samples.len() as u32);
    Ok(QualityResult { metric, dataset_digest, samples: count, score_ppm: ppm(mean(&scores)) as u32, reference })
}

fn read_dataset(path: &Path) -> Result<(Digest, Vec<QualitySample>), QualityError> {
    let bytes = fs::read(path).map_err(|source| QualityError::Read { path: path.to_owned(), source })?;
    let samples: Vec<QualitySample> = lines(path, &bytes)?;
    let mut seen = std::collections::BTreeSet::new();
    match samples.iter().find(|sample| !seen.insert(&sample.id)) {
        Some(sample) => Err(QualityError::Duplicate { path: path.to_owned(), id: sample.id.clone() }),
        None if samples.is_empty() => Err(QualityError::NoSamples { path: path.to_owned() }),
        None => Ok((hash::bytes(&bytes), samples)),
    }
}

fn score_all(
    metric: QualityMetric,
    samples: &[QualitySample],
    outputs: &Path,
) -> Result<BTreeMap<String, f64>, QualityError> {
    let bytes = fs::read(outputs).map_err(|source| QualityError::Read { path: outputs.to_owned(), source })?;
    let mut written = BTreeMap::new();
    for OutputLine { id, output } in lines(outputs, &bytes)? {
        if let Some(_earlier) = written.insert(id.clone(), output) {
            return Err(QualityError::Duplicate { path: outputs.to_owned(), id });
        }
    }
    let unanswered: Vec<&QualitySample> = samples.iter().filter(|s| !written.contains_key(&s.id)).collect();
    if let Some(first) = unanswered.first() {
        let (missing, id) = (unanswered.len(), first.id.clone());
        return Err(QualityError::Unanswered { missing, samples: samples.len(), id });
    }
    Ok(samples.iter().map(|s| (s.id.clone(), score::score(metric, &written[&s.id], &s.expected))).collect())
}

fn lines<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<Vec<T>, QualityError> {
    let text = String::from_utf8_lossy(bytes);
    let full = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    full.map(|(index, line)| {
        serde_json::from_str(line).map_err(|source| QualityError::Line {
            path: path.to_owned(),
            line: index + 1,
            source,
        })
    })
    .collect()
}

fn read_scores(reference: &EngineRef, dataset: &Digest, store: &Path, own: &Scores) -> Result<Scores, QualityError> {
    let path = store.join(paths::scores(reference, dataset));
    let bytes = fs::read(&path).map_err(|source| QualityError::NoReference { engine: reference.clone(), source })?;
    let kept: Option<Scores> = serde_json::from_slice(&bytes).ok();
    kept.filter(|kept| kept.metric == own.metric && kept.scores.keys().eq(own.scores.keys()))
        .ok_or(QualityError::DamagedReference { path })
}

fn compare(reference: &EngineRef, kept: &Scores, own: &Scores, confidence_ppm: u32) -> ReferenceScores {
    let pairs = kept.scores.values().zip(own.scores.values());
    let differences: Vec<f64> = pairs.map(|(reference, own)| reference - own).collect();
    let worse = differences.iter().filter(|d| **d > 0.0).count() as u32;
    let better = differences.iter().filter(|d| **d < 0.0).count() as u32;
    let alpha = 1.0 - f64::from(confidence_ppm) / 1e6;
    let upper = match own.metric {
        QualityMetric::ExactMatch => bound::accuracy_drop(differences.len() as u32, worse, better, alpha),
        QualityMetric::RougeL => bound::mean_drop(&differences, alpha),
    };
    ReferenceScores {
        engine: reference.clone(),
        score_ppm: ppm(mean(kept)) as u32,
        drop_ppm: ppm(differences.iter().sum::<f64>() / differences.len() as f64),
        drop_upper_ppm: ppm(upper),
        confidence_ppm,
        worse,
        better,
    }
}

fn keep_scores(engine: &EngineRef, dataset: &Digest, store: &Path, scores: &Scores) -> Result<(), QualityError> {
    let path = store.join(paths::scores(engine, dataset));
    let bytes = serde_json::to_vec(scores).expect("scores are finite numbers by id");
    whole_file::write(&path, &bytes).map_err(|source| QualityError::Write { path, source })
}

fn mean(scores: &Scores) -> f64 {
    scores.scores.values().sum::<f64>() / scores.scores.len() as f64
}

/// Rounds a share to parts per million; shares lie in [-1, 1].
fn ppm(share: f64) -> i32 {
    (share * 1e6).round() as i32
}

#[cfg(test)]
mod tests;
