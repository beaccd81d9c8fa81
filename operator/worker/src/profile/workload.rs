//! Request bodies from a workload: prompts, drawn by weight, unique where they have placeholders. Pure but for one
//! read.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_worker_contract::{QualityPrompt, Workload};

use super::data::{self, DataError};

/// Says why a workload cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No traffic at all.
    #[error("the task has no workload with a weight above 0")]
    None,
    /// There are no prompts, or others.
    #[error("failed to load the prompts of workload {workload:?}")]
    Data {
        /// The workload's name.
        workload: String,
        /// Why.
        #[source]
        source: DataError,
    },
    /// A line is not a prompt.
    #[error("line {line} of the prompts of workload {workload:?} is not understood")]
    Line {
        /// The workload's name.
        workload: String,
        /// Counted from 1.
        line: usize,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A file without prompts.
    #[error("workload {workload:?} has no prompts")]
    Empty {
        /// The workload's name.
        workload: String,
    },
}

/// The traffic of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    kinds: Vec<(u32, Vec<QualityPrompt>)>,
    total_weight: u32,
}

impl Traffic {
    /// Reads the prompts of all workloads.
    ///
    /// # Errors
    /// [`WorkloadError`] names the workload and the line.
    pub fn read(workloads: &[Workload]) -> Result<Self, WorkloadError> {
        let kinds = workloads.iter().map(|w| Ok((w.weight, read_prompts(w)?))).collect::<Result<Vec<_>, _>>()?;
        Self::new(kinds)
    }

    fn new(kinds: Vec<(u32, Vec<QualityPrompt>)>) -> Result<Self, WorkloadError> {
        match kinds.iter().map(|(weight, _)| weight).sum() {
            0 => Err(WorkloadError::None),
            total_weight => Ok(Self { kinds, total_weight }),
        }
    }

    /// Draws `count` requests; equal seeds give equal requests.
    pub fn draw(&self, count: u64, seed: u64) -> Vec<QualityPrompt> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        (0..count).map(|_| self.draw_one(&mut rng)).collect()
    }

    fn draw_one(&self, rng: &mut Pcg64Mcg) -> QualityPrompt {
        let mut ticket = rng.random_range(0..self.total_weight);
        let kind = self.kinds.iter().find(|(weight, _)| match ticket.checked_sub(*weight) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        });
        let prompts = kind.map_or(&self.kinds[0].1, |(_, prompts)| prompts);
        let prompt = &prompts[rng.random_range(0..prompts.len())];
        QualityPrompt { prompt: fill(&prompt.prompt, rng), ..prompt.clone() }
    }
}

fn read_prompts(workload: &Workload) -> Result<Vec<QualityPrompt>, WorkloadError> {
    let name = || workload.name.clone();
    let text = data::read(&workload.prompts).map_err(|source| WorkloadError::Data { workload: name(), source })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let prompts: Vec<QualityPrompt> = lines
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| WorkloadError::Line {
                workload: name(),
                line: index + 1,
                source,
            })
        })
        .collect::<Result<_, _>>()?;
    if prompts.is_empty() { Err(WorkloadError::Empty { workload: name() }) } else { Ok(prompts) }
}

/// Replaces each placeholder by a draw of its own.
fn fill(prompt: &str, rng: &mut Pcg64Mcg) -> String {
    let mut text = String::with_capacity(prompt.len());
    let mut rest = prompt;
    while let Some(start) = rest.find("{{") {
        let (before, placeholder) = rest.split_at(start);
        text.push_str(before);
        let drawn = [("{{number}}", number as fn(&mut Pcg64Mcg) -> String), ("{{word}}", word)]
            .into_iter()
            .find_map(|(name, draw)| Some((placeholder.strip_prefix(name)?, draw)));
        rest = match drawn {
            Some((after, draw)) => {
                text.push_str(&draw(rng));
                after
            }
            None => {
                text.push_str("{{");
                &placeholder[2..]
            }
        };
    }
    text + rest
}

fn number(rng: &mut Pcg64Mcg) -> String {
    rng.random_range(1..100_000_u32).to_string()
}

/// A pronounceable name of three or four syllables: 80 syllables, so 41 million names.
fn word(rng: &mut Pcg64Mcg) -> String {
    const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
    const VOWELS: &[u8; 5] = b"aeiou";
    let syllables = rng.random_range(3..5);
    let mut name = String::new();
    for _ in 0..syllables {
        name.push(char::from(CONSONANTS[rng.random_range(0..CONSONANTS.len())]));
        name.push(char::from(VOWELS[rng.random_range(0..VOWELS.len())]));
    }
    name[..1].to_uppercase() + &name[1..]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn prompt(text: &str) -> QualityPrompt {
        QualityPrompt { id: "1".into(), prompt: text.into(), max_tokens: 8, stop_words: vec!["\n\n".into()] }
    }

    fn traffic(kinds: &[(u32, &str)]) -> Traffic {
        Traffic::new(kinds.iter().map(|(weight, text)| (*weight, vec![prompt(text)])).collect()).unwrap()
    }

    #[test]
    fn placeholders_make_bodies_unique_and_seeds_make_them_repeatable() {
        let traffic = traffic(&[(1, "Question: {{number}} of {{word}}? {{other}}")]);
        let drawn = traffic.draw(500, 3);
        let distinct: BTreeSet<&str> = drawn.iter().map(|p| p.prompt.as_str()).collect();
        assert_eq!(distinct.len(), 500);
        assert!(distinct.iter().all(|p| p.starts_with("Question: ") && p.ends_with("? {{other}}")));
        assert_eq!(traffic.draw(500, 3), drawn);
        assert_ne!(traffic.draw(500, 4), drawn);
    }

    #[test]
    fn workloads_are_mixed_by_weight() {
        let drawn = traffic(&[(3, "a"), (1, "b"), (0, "c")]).draw(4_000, 1);
        let share = |text: &str| drawn.iter().filter(|p| p.prompt == text).count();
        assert!((2_850..3_150).contains(&share("a")), "{}", share("a"));
        assert_eq!(share("c"), 0);
    }

    #[test]
    fn a_bad_prompts_file_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.jsonl");
        let refused = |text: &str| {
            let prompts = data::written(&path, text);
            Traffic::read(&[Workload { name: "chat".into(), weight: 1, prompts }]).unwrap_err()
        };
        let error = refused("{\"id\":\"1\",\"prompt\":\"p\",\"maxTokens\":1}\n{\"id\":\"2\"}\n");
        assert_eq!(error.to_string(), "line 2 of the prompts of workload \"chat\" is not understood");
        assert_eq!(refused("\n").to_string(), "workload \"chat\" has no prompts");
        assert_eq!(Traffic::read(&[]).unwrap_err().to_string(), "the task has no workload with a weight above 0");
    }
}
