//! Measures the search on recorded grids and writes the tables of docs/bench/search.md.
//!
//! `cargo run -p slipway-evaluation --bin bench-search -- [--data DIR] [--seeds N] [--only SUITE,...] [--write FILE]`

#![allow(clippy::unwrap_used)] // a bench without its data has nothing to say

mod calibration;
mod device;
mod early;
mod gates;
mod loads;
mod methods;
mod priors;
mod roofline;
mod speed;
mod tables;

use std::path::PathBuf;

use clap::Parser;
use slipway_evaluation::method::MethodName;

use gates::Section;

#[derive(Debug, Parser)]
struct Args {
    /// Folder with resnet50/*.json and llm_pilot/*.json, as tests/data/make_problems.py writes them
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))]
    data: PathBuf,
    /// Seeds per problem of the grid
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Seeds per problem of the other suites
    #[arg(long, default_value_t = 10)]
    other_seeds: u64,
    /// Suites to run: grid, llm, device, calibration, noise, prior, roofline, loads, early, speed; all without it
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
    let grids = methods::Grids::read(&args.data, &args.methods);
    let (seeds, few) = (args.seeds, args.other_seeds);
    let suites: [(&str, &dyn Fn() -> Section); 10] = [
        ("grid", &|| methods::grid(&grids, seeds)),
        ("llm", &|| methods::language_models(&grids, few)),
        ("device", &|| device::device(&grids, seeds.min(10))),
        ("calibration", &|| calibration::calibration(&grids, seeds.min(10))),
        ("noise", &|| methods::noise(&grids, few)),
        ("prior", &|| priors::priors(&grids, few)),
        ("roofline", &|| roofline::roofline(&grids, seeds)),
        ("loads", &|| loads::loads(&grids, few)),
        ("early", &|| early::early(&args.data)),
        ("speed", &speed::speed),
    ];
    let mut gates = Vec::new();
    let mut tables = String::new();
    for (name, suite) in suites {
        if wanted(name) {
            let section = suite();
            println!("{}", section.text);
            tables.push_str(&section.text);
            tables.push('\n');
            gates.extend(section.gates);
        }
    }
    let summary = gates::summary(&gates);
    println!("{summary}");
    if let Some(path) = args.write {
        let text = format!(
            "# Configuration search\n\nWritten by `make bench-search`: {seeds} seeds on the grid, {few} elsewhere. Ratios are the \
             true objective of the answer over the true optimum, 0 when the answer violates a constraint; GPU-seconds include \
             engine starts and the confirm run; every method is charged alike. Intervals are of 95 %: exact \
             for shares, by order statistics over problems for medians, by the bootstrap over problems for means (problems of one \
             model share a table, so these are narrow). **The search's constants were tuned** on resnet50, \
             llama-7b, flan-t5-xl and starcoder, which are all of the grid and of the language models here; vgg19 is not. \
             The rule for limits on sampled figures was chosen on resnet50 and vgg19. \
             [Sets that no constant was tuned on](search-held-out.md) have a page of their own. What falls short and why: \
             [Benchmarks](../benchmarks.md#configuration-search).\n\n{summary}\n{tables}"
        );
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.trim_end().to_owned() + "\n").unwrap();
    }
}
