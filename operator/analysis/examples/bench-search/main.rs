//! Measures the search on recorded grids and writes the tables of docs/bench/search.md.
//!
//! `cargo run -p slipway-analysis --example bench-search -- [--data DIR] [--seeds N] [--only SUITE,...] [--write FILE]`

#![allow(clippy::unwrap_used)] // a bench without its data has nothing to say

mod early;
mod methods;
mod speed;
mod tables;

use std::path::PathBuf;

use clap::Parser;
use slipway_analysis::cli::replay::MethodName;

#[derive(Debug, Parser)]
struct Args {
    /// Folder with resnet50/*.json and llm_pilot/*.json, as tests/data/make_problems.py writes them
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))]
    data: PathBuf,
    /// Seeds per problem
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Suites to run: grid, llm, noise, prior, early, speed; all without it
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Methods to run beside brute and bisection; all without it
    #[arg(long, value_delimiter = ',', value_enum)]
    methods: Vec<MethodName>,
    /// Also write the Markdown to this file
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() {
    let args = Args::parse();
    let wanted = |suite: &str| args.only.is_empty() || args.only.iter().any(|only| only == suite);
    let mut text = String::from("# Configuration search\n\n");
    text.push_str(&format!(
        "Written by `cargo run -p slipway-analysis --example bench-search -- --seeds {}`. Ratios are the true objective of \
         the answer over the true optimum, 0 when the answer violates a constraint; GPU-seconds include engine starts and \
         the confirm run; every method is charged alike.\n\n",
        args.seeds
    ));
    let grids = methods::Grids::read(&args.data, &args.methods);
    let suites: [(&str, &dyn Fn() -> String); 6] = [
        ("grid", &|| methods::grid(&grids, args.seeds)),
        ("llm", &|| methods::language_models(&grids, args.seeds)),
        ("noise", &|| methods::noise(&grids, args.seeds)),
        ("prior", &|| methods::priors(&grids, args.seeds)),
        ("early", &|| early::early(&args.data)),
        ("speed", &speed::speed),
    ];
    for (name, suite) in suites {
        if wanted(name) {
            let section = suite();
            println!("{section}");
            text.push_str(&section);
            text.push('\n');
        }
    }
    if let Some(path) = args.write {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.trim_end().to_owned() + "\n").unwrap();
    }
}
