//! The table. Pure.

use std::fmt::Write;

use slipway_analysis::slo::rate_bounds;

use crate::{
    rules::Rule,
    scenarios::{Gate, Outcome, Row},
    timing::Timing,
};

/// One row as a line of progress.
pub fn line(row: &Row, outcome: &Outcome) -> String {
    let met = row.gate.map_or("", |gate| if is_met(gate, outcome) { "ok" } else { "MISSED" });
    format!(
        "{:62} rolled back {:>14}  promoted {:>14}  {met} ({} B)",
        row.name,
        cell(&outcome.rolled_back, outcome.rollouts),
        cell(&outcome.promoted, outcome.rollouts),
        outcome.state_bytes
    )
}

/// A row in words.
pub fn story(row: &Row, outcome: &Outcome) -> String {
    let seconds = |minutes: Option<&f64>| minutes.map_or("-".to_owned(), |minutes| format!("{:.0} s", minutes * 60.0));
    let back = &outcome.rolled_back;
    format!(
        "{}: {} of {} simulated rollouts are rolled back, half of them within {}, all within {}; {} are promoted",
        row.name,
        back.len(),
        outcome.rollouts,
        seconds(back.get(back.len() / 2)),
        seconds(back.last()),
        outcome.promoted.len()
    )
}

/// All rows as Markdown.
pub fn markdown(
    results: &[(Row, Outcome)],
    timings: &[Timing],
    rivals: &[Rule],
    (rollouts, seed): (u64, u64),
) -> String {
    let mut text = format!(
        "## Rollout judge\n\n`make bench-judge`: {rollouts} simulated rollouts per row, seed {seed} and the row's name; 5/20/50 % for ten minutes each; \
         lognormal latencies (sigma 0.7), Poisson arrivals, 20 requests/s unless stated. All have shared drift (20 %) and 5 % \
         noise per pod, but for the rows named iid, bursts and `no difference, 2 requests/s`. Cells of the judge: share of \
         rollouts (its exact interval of 95 %), median minute, the last one where all are to be caught. Cells of rules: share \
         (median minute).\n\n\
         The first seven rivals have the thresholds of their projects' documentation. Those that are tuned have the most \
         sensitive threshold that rolled back at most 1 % of {rollouts} other rollouts of `no difference, drift + 5 % pod \
         noise`. Neither they nor the judge were tuned on any other row. All pairs of a rule and a factor between 1.1 and \
         3, or a share of errors between 1 and 10 %, were tried.\n\n\
         | scenario | gate | judge rolled back | judge promoted | met |"
    );
    rivals.iter().for_each(|rule| text.push_str(&format!(" {} |", rule.name)));
    text.push_str("\n|---|---|---|---|---|");
    rivals.iter().for_each(|_| text.push_str("---|"));
    for (row, outcome) in results {
        let (gate, met) = row.gate.map_or((String::from("-"), "-"), |gate| {
            (gate_text(gate), if is_met(gate, outcome) { "yes" } else { "**no**" })
        });
        let last = outcome.rolled_back.last().filter(|_| matches!(row.gate, Some(Gate::AllWithin(_))));
        let last = last.map_or_else(String::new, |last| format!(", last {last:.1}"));
        let back = bounded(&outcome.rolled_back, outcome.rollouts) + &last;
        let promoted = bounded(&outcome.promoted, outcome.rollouts);
        let _ = write!(text, "\n| {} | {gate} | {back} | {promoted} | {met} |", row.name);
        outcome.rules.iter().for_each(|rule| text.push_str(&format!(" {} |", cell(rule, outcome.rollouts))));
    }
    let bytes = results.iter().map(|(_, outcome)| outcome.state_bytes).max().unwrap_or(0);
    let _ = write!(
        text,
        "\n\nThe intervals are Clopper and Pearson's. The largest state of the judge has \
         {bytes} bytes with one metric. At 2 requests/s and 5 % the canary sees one request in ten seconds: a rollout \
         whose first two minutes happen to bring fewer than three cannot be decided in them.\n"
    );
    text.push_str(
        "\n| one window, 10 metrics, 6 strata, 5 pods | smallest | median | p99 | largest |\n|---|---|---|---|---|\n",
    );
    for Timing { requests_per_second, microseconds: [smallest, median, p99, largest] } in timings {
        let _ = writeln!(
            text,
            "| {requests_per_second} requests/s, microseconds (gate: 1,000) | {smallest:.0} | {median:.0} | {p99:.0} | {largest:.0} |"
        );
    }
    text
}

fn gate_text(gate: Gate) -> String {
    match gate {
        Gate::RollbacksPerThousand(most) => format!("rolled back <= {most} per 1,000"),
        Gate::Caught { share, minutes } => format!("caught >= {:.0} %, median <= {minutes} min", share * 100.0),
        Gate::AllWithin(minutes) => format!("all caught within {minutes} min"),
        Gate::PromotedAtMost(share) => format!("promoted <= {:.0} %", share * 100.0),
        Gate::PromotedAtLeast(share) => format!("promoted >= {:.0} %", share * 100.0),
    }
}

fn is_met(gate: Gate, outcome: &Outcome) -> bool {
    let share = |minutes: &[f64]| minutes.len() as f64 / outcome.rollouts as f64;
    match gate {
        Gate::RollbacksPerThousand(most) => share(&outcome.rolled_back) * 1_000.0 <= most,
        Gate::Caught { share: least, minutes } => {
            share(&outcome.rolled_back) >= least && median(&outcome.rolled_back).is_some_and(|median| median <= minutes)
        }
        Gate::AllWithin(minutes) => {
            outcome.rolled_back.iter().filter(|caught| **caught <= minutes).count() as u64 == outcome.rollouts
        }
        Gate::PromotedAtMost(most) => share(&outcome.promoted) <= most,
        Gate::PromotedAtLeast(least) => share(&outcome.promoted) >= least,
    }
}

/// A share with its interval, and the median minute.
fn bounded(minutes: &[f64], rollouts: u64) -> String {
    let (low, high) = rate_bounds(minutes.len() as u64, rollouts, 0.975);
    let share = minutes.len() as f64 / rollouts as f64;
    let median = median(minutes).map_or_else(String::new, |median| format!(", {median:.1}"));
    format!("{:.1} % ({:.1}-{:.1}){median}", 100.0 * share, 100.0 * low, 100.0 * high)
}

fn cell(minutes: &[f64], rollouts: u64) -> String {
    let share = minutes.len() as f64 / rollouts as f64 * 100.0;
    median(minutes).map_or_else(|| format!("{share:.1} %"), |median| format!("{share:.1} % ({median:.1})"))
}

fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}
