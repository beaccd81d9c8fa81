//! Runs that are made up from lengths, in place of recorded ones. Pure: the seed is part of the task.
//!
//! A question is common words, about one token each, and says behind them what the run's turns are; the sidecar of a
//! campaign reads it (`rehearsal` in the agent runtime). Lengths are lognormal, by their median and 95th percentile.

use std::{collections::BTreeMap, f64::consts::TAU};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_agent_runtime::agent::rehearsal;
use slipway_worker_contract::{RecordedCall, Spread, SyntheticRuns, TraceLine};

/// Words that are one token in nearly every vocabulary.
#[rustfmt::skip]
const WORDS: [&str; 64] = [
    "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state", "family",
    "student", "group", "country", "problem", "hand", "part", "place", "case", "week", "company", "system", "program",
    "question", "work", "government", "number", "night", "point", "home", "water", "room", "mother", "area", "money", "story",
    "fact", "month", "lot", "right", "study", "book", "eye", "job", "word", "business", "issue", "side", "kind", "head",
    "house", "service", "friend", "father", "power", "hour", "game", "line", "end", "member", "law",
];
/// Tokens of all runs together, about: enough that no cache holds them all, and few enough to keep in memory.
const ALL_TOKENS: u64 = 4_000_000;
/// The least and the most runs.
const RUNS: (u64, u64) = (64, 1_000);
/// The 95th percentile of the normal distribution.
const P95: f64 = 1.644_853_626_951_472_7;

/// Makes the runs.
pub fn runs(of: &SyntheticRuns) -> Vec<TraceLine> {
    let mut rng = Pcg64Mcg::seed_from_u64(of.seed);
    let of_a_run = u64::from(of.input_tokens.median) + u64::from(of.tool_calls) * u64::from(of.tool_result_tokens);
    let number = (ALL_TOKENS / of_a_run.max(1)).clamp(RUNS.0, RUNS.1);
    (0..number).map(|number| run(of, number, &mut rng)).collect()
}

fn run(of: &SyntheticRuns, number: u64, rng: &mut Pcg64Mcg) -> TraceLine {
    let question = words(length(of.input_tokens, rng), rng);
    let turns: Vec<u32> = (0..=of.tool_calls).map(|_| length(of.output_tokens, rng)).collect();
    let calls = (1..turns.len()).map(|turn| RecordedCall {
        tool: rehearsal::TOOL.to_owned(),
        arguments: BTreeMap::from([(rehearsal::ARGUMENT.to_owned(), rehearsal::argument(number, turn))]),
        result: words(of.tool_result_tokens, rng),
        latency_micros: of.tool_latency_micros,
    });
    let calls = calls.collect();
    TraceLine { input: rehearsal::question(&question, number, &turns), calls }
}

/// Draws a length.
fn length(Spread { median, p95, longest }: Spread, rng: &mut Pcg64Mcg) -> u32 {
    let (median, p95) = (f64::from(median.max(1)), f64::from(p95.max(median).max(1)));
    let sigma = (p95 / median).ln() / P95;
    // Box and Muller; the first number is not 0.
    let (radius, angle): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    let normal = (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos();
    (median * (sigma * normal).exp()).round().clamp(1.0, f64::from(longest.max(1))) as u32
}

fn words(number: u32, rng: &mut Pcg64Mcg) -> String {
    let words: Vec<&str> = (0..number).map(|_| WORDS[rng.random_range(0..WORDS.len())]).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const FIXED: SyntheticRuns = SyntheticRuns {
        input_tokens: Spread { median: 5, p95: 5, longest: 5 },
        output_tokens: Spread { median: 20, p95: 20, longest: 20 },
        tool_calls: 2,
        tool_result_tokens: 3,
        tool_latency_micros: 40_000,
        burst: 1,
        seed: 1,
    };

    #[test]
    fn a_run_is_a_question_with_its_turns_and_the_calls_that_they_make() {
        let TraceLine { input, calls } = runs(&FIXED).swap_remove(17);
        assert_eq!(input.split_once(" [[").map(|(words, _)| words.split(' ').count()), Some(5));
        assert!(input.ends_with(" [[run 17: 20 20 20]]"), "{input}");
        let named: Vec<_> = calls.iter().map(|call| (call.tool.as_str(), call.arguments["call"].as_str())).collect();
        assert_eq!(named, [("synthetic", "17-1"), ("synthetic", "17-2")]);
        assert!(calls.iter().all(|call| call.latency_micros == 40_000 && call.result.split(' ').count() == 3));
    }

    #[test]
    fn equal_seeds_make_equal_runs_and_no_two_are_alike() {
        let made = runs(&FIXED);
        assert_eq!(runs(&FIXED), made);
        assert_ne!(runs(&SyntheticRuns { seed: 2, ..FIXED }), made);
        let mut inputs: Vec<_> = made.iter().map(|run| run.input.split(" [[").next()).collect();
        let all = inputs.len();
        inputs.sort_unstable();
        inputs.dedup();
        assert_eq!((all, inputs.len()), (1_000, 1_000));
    }

    #[test]
    fn lengths_have_the_median_and_the_percentile_that_they_are_asked_for() {
        let spread = Spread { median: 800, p95: 2_000, longest: 4_000 };
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let mut lengths: Vec<u32> = (0..20_000).map(|_| length(spread, &mut rng)).collect();
        lengths.sort_unstable();
        let (median, p95) = (lengths[10_000], lengths[19_000]);
        assert!((760..840).contains(&median) && (1_880..2_120).contains(&p95), "{median} {p95}");
        assert_eq!(lengths[19_999], 4_000, "the tail ends");
    }

    #[test]
    fn long_questions_are_few_so_that_they_fit_into_memory() {
        let long = SyntheticRuns { input_tokens: Spread { median: 100_000, p95: 100_000, longest: 100_000 }, ..FIXED };
        assert_eq!(runs(&long).len(), 64);
    }
}
