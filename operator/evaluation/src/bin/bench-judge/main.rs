//! Simulates rollouts and measures the judge and fixed-threshold rules side by side. Prints a Markdown table and writes
//! it.
//!
//! `cargo run -p slipway-evaluation --bin bench-judge -- --rollouts 1000 --seed 1`

mod report;
mod rules;
mod scenarios;
mod simulate;
mod timing;

use std::{error::Error, fs, path::PathBuf, time::Instant};

use clap::Parser;

/// Simulates rollouts and measures who fires when.
#[derive(Parser)]
struct Arguments {
    /// Rollouts per scenario.
    #[arg(long, default_value_t = 1_000)]
    rollouts: u64,
    /// Seed; the same seed gives the same table.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only scenarios whose name contains this, a line each; no table is written.
    #[arg(long)]
    only: Option<String>,
    /// Where the table is written.
    #[arg(long, default_value = "docs/bench/judge.md")]
    out: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let began = Instant::now();
    let mut results = Vec::new();
    // Tuned on rollouts that no row has.
    let tuned = scenarios::tuned(arguments.rollouts, arguments.seed);
    let rivals = [rules::as_documented(), tuned].concat();
    for row in scenarios::rows() {
        if arguments.only.as_ref().is_some_and(|only| !row.name.contains(only.as_str())) {
            continue;
        }
        let result = scenarios::run(&row, &rivals, arguments.rollouts, arguments.seed);
        eprintln!("{:6.1} s  {}", began.elapsed().as_secs_f64(), report::line(&row, &result));
        results.push((row, result));
    }
    if arguments.only.is_some() {
        for (row, result) in &results {
            println!("{}", report::story(row, result));
        }
        return Ok(());
    }
    let timings = [20, 1_000].map(timing::measure);
    let text = report::markdown(&results, &timings, &rivals, (arguments.rollouts, arguments.seed));
    println!("{text}");
    if let Some(folder) = arguments.out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&arguments.out, text)?;
    Ok(())
}
