//! Runs that are made up from lengths, in place of recorded texts. Pure but for one read: the seed is part of the task.
//!
//! A question is common words, about one token each, and says behind them what the run's turns are; the sidecar of a
//! campaign reads it (`rehearsal` in the agent runtime). Lengths are those of recorded runs, or lognormal, by their
//! median and 95th percentile.

use std::{collections::BTreeMap, f64::consts::TAU};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_agent_runtime::agent::rehearsal;
use slipway_worker_contract::{DataFile, RecordedCall, RunLengths, Spread, SyntheticRuns, TraceLine};

use super::{data, replay::TraceError};

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

/// Reads the lengths of recorded runs, and makes runs of them. The operator has checked that memory holds their texts.
///
/// # Errors
/// [`TraceError`] names the line.
pub fn read(file: &DataFile, seed: u64) -> Result<Vec<TraceLine>, TraceError> {
    recorded(&data::read(file).map_err(TraceError::Data)?, seed)
}

/// Makes runs of the lengths of recorded ones. Of few it makes several rounds with other words, or a cache would have
/// them all: one round arrives after the other.
///
/// # Errors
/// [`TraceError`] names the line.
pub fn recorded(text: &str, seed: u64) -> Result<Vec<TraceLine>, TraceError> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let lines = text.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty());
    let read = |(text, line): (&str, usize)| {
        let lengths: RunLengths = serde_json::from_str(text).map_err(|source| TraceError::Lengths { line, source })?;
        if lengths.turns.is_empty() { Err(TraceError::NoTurn { line }) } else { Ok(lengths) }
    };
    let all: Vec<RunLengths> = lines.map(read).collect::<Result<_, _>>()?;
    let period = period(&all);
    let rounds = (0..rounds(&all)).flat_map(|round| all.iter().map(move |of| (round, of)));
    let run = |(number, (round, of)): (u64, (u64, &RunLengths))| TraceLine {
        arrived_micros: of.arrived_micros.map(|micros| micros.saturating_add(round.saturating_mul(period))),
        ..of_lengths(of, number, &mut rng)
    };
    Ok((0..).zip(rounds).map(run).collect())
}

/// How often runs of such lengths are made.
fn rounds(all: &[RunLengths]) -> u64 {
    let runs = all.len().max(1) as u64;
    let tokens: u64 = all.iter().map(RunLengths::tokens).sum();
    (ALL_TOKENS / tokens.max(1)).min(RUNS.1 / runs).max(1)
}

/// How long a round takes to arrive: its last run is followed by the next one as soon as another on average.
fn period(all: &[RunLengths]) -> u64 {
    let arrived = || all.iter().filter_map(|of| of.arrived_micros);
    let span = arrived().max().unwrap_or(0) - arrived().min().unwrap_or(0);
    span.saturating_add(span / (all.len() as u64).saturating_sub(1).max(1))
}

/// The run of some lengths. Calls that were made at once become one, as long as the longest, with the results of all.
fn of_lengths(of: &RunLengths, number: u64, rng: &mut Pcg64Mcg) -> TraceLine {
    let question = words(of.input_tokens, rng);
    let turns: Vec<u32> = of.turns.iter().map(|turn| turn.output_tokens.max(1)).collect();
    let before = &of.turns[..of.turns.len().saturating_sub(1)];
    let calls = before.iter().zip(1..).map(|(turn, index)| {
        let tokens = turn.calls.iter().fold(0, |sum: u32, call| sum.saturating_add(call.result_tokens));
        let latency_micros = turn.calls.iter().map(|call| call.latency_micros).max().unwrap_or(0);
        // A result has at least one word: an empty one would be no answer.
        call((number, index), words(tokens.max(1), rng), latency_micros)
    });
    let calls = calls.collect();
    TraceLine { input: rehearsal::question(&question, number, &turns), calls, arrived_micros: of.arrived_micros }
}

fn call((run, turn): (u64, usize), result: String, latency_micros: u64) -> RecordedCall {
    RecordedCall {
        tool: rehearsal::TOOL.to_owned(),
        arguments: BTreeMap::from([(rehearsal::ARGUMENT.to_owned(), rehearsal::argument(run, turn))]),
        result,
        latency_micros,
    }
}

fn run(of: &SyntheticRuns, number: u64, rng: &mut Pcg64Mcg) -> TraceLine {
    let question = words(length(of.input_tokens, rng), rng);
    let turns: Vec<u32> = (0..=of.tool_calls).map(|_| length(of.output_tokens, rng)).collect();
    let calls = (1..turns.len())
        .map(|turn| call((number, turn), words(of.tool_result_tokens, rng), of.tool_latency_micros))
        .collect();
    TraceLine { input: rehearsal::question(&question, number, &turns), calls, arrived_micros: None }
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
    use std::collections::BTreeSet;

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
        let TraceLine { input, calls, .. } = runs(&FIXED).swap_remove(17);
        assert_eq!(input.split_once(" [[").map(|(words, _)| words.split(' ').count()), Some(5));
        assert!(input.ends_with(" [[run 17: 20 20 20]]"), "{input}");
        let named: Vec<_> = calls.iter().map(|call| (call.tool.as_str(), call.arguments["call"].as_str())).collect();
        assert_eq!(named, [("synthetic", "17-1"), ("synthetic", "17-2")]);
        assert!(calls.iter().all(|call| call.latency_micros == 40_000 && call.result.split(' ').count() == 3));
    }

    #[test]
    fn a_recorded_run_keeps_its_lengths_and_times() {
        let text = concat!(
            r#"{"arrivedMicros":5,"inputTokens":4,"turns":[{"outputTokens":40,"calls":["#,
            r#"{"tool":"lookup","resultTokens":2,"latencyMicros":900},{"tool":"calc","resultTokens":1,"latencyMicros":30}]},"#,
            r#"{"outputTokens":0}]}"#,
        );
        let made = recorded(&format!("\n{text}\n"), 1).unwrap();
        let TraceLine { input, calls, arrived_micros } = &made[0];
        assert_eq!(*arrived_micros, Some(5));
        assert_eq!(input.split_once(" [[").map(|(words, _)| words.split(' ').count()), Some(4));
        assert!(input.ends_with(" [[run 0: 40 1]]"), "{input}");
        let [call] = calls.as_slice() else { panic!("calls that were made at once are one: {calls:?}") };
        assert_eq!((call.arguments["call"].as_str(), call.latency_micros), ("0-1", 900));
        assert_eq!(call.result.split(' ').count(), 3);
        assert_eq!(recorded(text, 1).unwrap(), recorded(text, 1).unwrap(), "equal seeds make equal texts");
    }

    #[test]
    fn few_recorded_runs_come_in_rounds_of_other_words() {
        let line = |second: u64| {
            format!(r#"{{"arrivedMicros":{},"inputTokens":900,"turns":[{{"outputTokens":100}}]}}"#, second * 1_000_000)
        };
        let made = recorded(&[0, 1, 6].map(line).join("\n"), 1).unwrap();
        let words: BTreeSet<_> = made.iter().map(|run| run.input.split(" [[").next()).collect();
        assert_eq!((made.len(), words.len()), (999, 999));
        let arrived = |run: usize| made[run].arrived_micros.map(|micros| micros / 1_000_000);
        assert_eq!([1, 2, 3, 4, 998].map(arrived), [1, 6, 9, 10, 332 * 9 + 6].map(Some));
        let long = line(0).replace("900", "3000000");
        assert_eq!(recorded(&long, 1).unwrap().len(), 1, "memory holds no second round");
    }

    #[test]
    fn lengths_that_are_none_are_named_by_their_line() {
        let refused = |text: &str| recorded(text, 1).unwrap_err().to_string();
        let whole = r#"{"inputTokens":4,"turns":[{"outputTokens":4}]}"#;
        assert_eq!(
            refused(&format!("{whole}\n{{\"input\":\"Bela?\"}}")),
            "line 2 of the lengths is not a recorded run (inputTokens, and turns with outputTokens and calls)"
        );
        assert_eq!(
            refused(r#"{"inputTokens":4,"turns":[]}"#),
            "line 1 of the lengths has no turns: a run has at least one model request"
        );
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
