//! What is seen of the ConfigMaps that users write: workloads, expectations, calibrations, data sets. Pure.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use slipway_vocabulary::recording::{MOST_TOKENS, per_kilosecond};
use slipway_worker_contract::{Digest, QualityPrompt, QualitySample, RunLengths, TraceLine};

use crate::expectations::Table;

/// What is seen of the data of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadView {
    /// The ConfigMap, or the key in it, does not exist.
    Missing,
    /// A line is not what the workload needs.
    Invalid {
        /// What is wrong, with the line.
        problem: String,
    },
    /// Lines as they must be.
    Lines {
        /// Digest of the data as it stands.
        digest: Digest,
    },
    /// Recorded runs as they must be.
    Runs {
        /// Digest of the data as it stands.
        digest: Digest,
        /// What they are like.
        traffic: RecordedTraffic,
    },
}

/// What recorded runs are like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedTraffic {
    /// How many came in 1,000 seconds, where each says when it did.
    pub per_kilosecond: Option<u64>,
    /// The longest of them, where they are lengths.
    pub longest: Option<LongestRun>,
}

/// The longest of some runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestRun {
    /// Where it stands, from 1.
    pub line: usize,
    /// Its tokens, about.
    pub tokens: u64,
}

impl WorkloadView {
    /// Reads prompts.
    pub fn read_prompts(text: &str) -> Self {
        match parse::<QualityPrompt>(text, "prompt (id, prompt, maxTokens, stopWords)") {
            Ok(_) => Self::Lines { digest: digest(text) },
            Err(problem) => Self::Invalid { problem },
        }
    }

    /// Reads recorded runs.
    pub fn read_trace(text: &str) -> Self {
        let what = "recorded run (input, calls with tool, arguments, result, latencyMicros)";
        match parse::<TraceLine>(text, what) {
            Ok(lines) => {
                let per_kilosecond = per_kilosecond(lines.iter().map(|(_, line)| line.arrived_micros));
                let traffic = RecordedTraffic { per_kilosecond, longest: None };
                Self::Runs { digest: digest(text), traffic }
            }
            Err(problem) => Self::Invalid { problem },
        }
    }

    /// Reads the lengths of recorded runs.
    pub fn read_lengths(text: &str) -> Self {
        let lines = parse::<RunLengths>(text, "recorded run (inputTokens, turns with outputTokens and calls)");
        match lines.and_then(|lines| traffic(&lines)) {
            Ok(traffic) => Self::Runs { digest: digest(text), traffic },
            Err(problem) => Self::Invalid { problem },
        }
    }
}

/// The lines of a file, each with its number.
fn parse<Line: DeserializeOwned>(text: &str, what: &str) -> Result<Vec<(usize, Line)>, String> {
    let written = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let read = |(line, number): (&str, usize)| match serde_json::from_str(line) {
        Ok(line) => Ok((number, line)),
        Err(error) => Err(format!("line {number} is not a {what}: {error}")),
    };
    let lines: Vec<(usize, Line)> = written.map(read).collect::<Result<_, _>>()?;
    if lines.is_empty() { Err("it has no lines".to_owned()) } else { Ok(lines) }
}

fn digest(text: &str) -> Digest {
    Digest::from_bytes(&Sha256::digest(text.as_bytes()).into())
}

/// What the lengths of runs say, if a campaign can make runs of them.
fn traffic(lines: &[(usize, RunLengths)]) -> Result<RecordedTraffic, String> {
    if let Some((line, _)) = lines.iter().find(|(_, run)| run.turns.is_empty()) {
        return Err(format!("line {line} has no turns: a run has at least one model request"));
    }
    let lengths = || lines.iter().map(|(line, run)| LongestRun { line: *line, tokens: run.tokens() });
    let all = lengths().fold(0, |all: u64, run| all.saturating_add(run.tokens));
    if all > MOST_TOKENS {
        return Err(format!("its runs have {all} tokens, and a campaign takes {MOST_TOKENS}: remove lines"));
    }
    let per_kilosecond = per_kilosecond(lines.iter().map(|(_, run)| run.arrived_micros));
    Ok(RecordedTraffic { per_kilosecond, longest: lengths().max_by_key(|run| run.tokens) })
}

/// What is seen of the table of expectations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriorView {
    /// The ConfigMap, or the key in it, does not exist.
    Missing,
    /// It is not such a table.
    Invalid {
        /// What is wrong, with the line, and the remedy.
        problem: String,
    },
    /// A table.
    Table {
        /// Digest of the text as it stands.
        digest: Digest,
        /// Its rows.
        table: Arc<Table>,
    },
}

impl PriorView {
    /// Reads AIConfigurator's table.
    pub fn read(text: &str) -> Self {
        match Table::read(text) {
            Ok(table) => Self::Table { digest: digest(text), table: Arc::new(table) },
            Err(problem) => Self::Invalid { problem },
        }
    }
}

/// What is seen of the texts of a calibration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalibrationView {
    /// The ConfigMap, or the key in it, does not exist.
    Missing,
    /// A line has no text.
    Invalid {
        /// What is wrong, with the line.
        problem: String,
    },
    /// Texts.
    Texts {
        /// Digest of the bytes as they stand.
        digest: Digest,
    },
}

/// A line of a calibration's texts.
#[derive(serde::Deserialize)]
struct CalibrationLine {
    #[serde(rename = "text")]
    _text: String,
}

impl CalibrationView {
    /// Reads texts.
    pub fn read(text: &str) -> Self {
        match parse::<CalibrationLine>(text, "calibration text: an object with the member text") {
            Ok(_) => Self::Texts { digest: digest(text) },
            Err(problem) => Self::Invalid { problem },
        }
    }
}

/// What is seen of the data set of a quality objective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetView {
    /// The ConfigMap, or the key in it, does not exist.
    Missing,
    /// A line is not a sample.
    Invalid {
        /// What is wrong, with the line.
        problem: String,
    },
    /// Samples.
    Samples {
        /// Digest of the data set as it stands.
        digest: Digest,
        /// The samples without their answers, one JSON object a line.
        prompts: String,
    },
}

impl DatasetView {
    /// Reads a data set. The digest is that of its bytes, as the worker computes it.
    pub fn read(text: &str) -> Self {
        let mut prompts = String::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str::<QualitySample>(line) {
                Ok(sample) => {
                    prompts.push_str(
                        &serde_json::to_string(&sample.prompt()).expect("a prompt holds only texts and a number"),
                    );
                    prompts.push('\n');
                }
                Err(error) => return Self::Invalid { problem: format!("line {} is not a sample: {error}", index + 1) },
            }
        }
        if prompts.is_empty() {
            return Self::Invalid { problem: "it has no samples".to_owned() };
        }
        let digest = Digest::from_bytes(&Sha256::digest(text.as_bytes()).into());
        Self::Samples { digest, prompts }
    }
}
