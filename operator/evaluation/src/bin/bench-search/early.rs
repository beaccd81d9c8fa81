//! The early verdict on recorded request streams.

use std::collections::BTreeMap;
use std::path::Path;

use slipway_evaluation::early_verdict;
use slipway_evaluation::requests::{RequestSlo, Signal};
use slipway_vocabulary::evidence::Quantile;

use super::gates::{Gate, Section};
use super::tables::{mean, median, percent, table};

const DISCARD_MS: f64 = 10_000.0;
const FAR_INFEASIBLE: &str = "1 far infeasible";
const NEAR_FEASIBLE: &str = "3 near feasible";

#[derive(Default)]
struct Class {
    runs: usize,
    aborted: usize,
    accepted: usize,
    seconds: Vec<f64>,
    requests: Vec<f64>,
}

pub fn early(data: &Path) -> Section {
    let mut classes: BTreeMap<&str, Class> = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(data.join("llm_pilot")) else { return Section::default() };
    let mut streams: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    streams.retain(|path| path.to_string_lossy().contains("-requests.csv"));
    for stream in &streams {
        let runs = early_verdict::runs(stream).unwrap();
        for (ttft, tpot) in [(500.0, 60.0), (1000.0, 100.0), (2000.0, 150.0), (3000.0, 300.0)] {
            let slo = |signal, max_ms| RequestSlo { signal, quantile: Quantile::P95, max_ms };
            let slos = [slo(Signal::Ttft, ttft), slo(Signal::Tpot, tpot)];
            for requests in &runs {
                let decision = early_verdict::decide(requests, &slos, DISCARD_MS);
                // A run without a request past the warm-up has no verdict to compare with.
                let Some(worst) = decision.worst_excess else { continue };
                let class = classes.entry(class(worst)).or_default();
                class.runs += 1;
                match decision.verdict {
                    "Infeasible" => {
                        class.aborted += 1;
                        class.seconds.push((decision.decided_at_ms.unwrap() - DISCARD_MS) / 1000.0);
                        class.requests.push(decision.requests as f64);
                    }
                    "Feasible" => class.accepted += 1,
                    _ => {}
                }
            }
        }
    }
    let rows: Vec<Vec<String>> = classes
        .iter()
        .map(|(name, c)| {
            let of = |values: &[f64], f: fn(&[f64]) -> f64| match values.is_empty() {
                true => "-".to_owned(),
                false => format!("{:.1}", f(values)),
            };
            vec![
                (*name).to_owned(),
                c.runs.to_string(),
                percent(c.aborted as f64 / c.runs as f64),
                percent(c.accepted as f64 / c.runs as f64),
                of(&c.seconds, median),
                of(&c.seconds, mean),
                of(&c.requests, median),
            ]
        })
        .collect();
    let header = [
        "run",
        "runs",
        "ended as infeasible",
        "ended as feasible",
        "seconds beyond the discard, median",
        "mean",
        "requests beyond the discard, median",
    ];
    let text = format!(
        "## Early verdict on {} recorded streams, four pairs of p95 limits, discard 10 s\n\n\"Far\" is a worst percentile beyond 1.3 \
         or below 0.77 of its limit, over all kept requests.\n\n{}",
        streams.len(),
        table(&header, &rows)
    );
    Section { text, gates: gates(&classes) }
}

fn gates(classes: &BTreeMap<&str, Class>) -> Vec<Gate> {
    let (Some(far), Some(near)) = (classes.get(FAR_INFEASIBLE), classes.get(NEAR_FEASIBLE)) else { return Vec::new() };
    if far.seconds.is_empty() {
        return Vec::new();
    }
    let (middle, average) = (median(&far.seconds), mean(&far.seconds));
    vec![
        Gate::new(
            "far infeasible runs end within 4 s of the discard",
            format!("{middle:.1} s median, {average:.1} s mean, {:.0} requests median", median(&far.requests)),
            middle <= 4.0 && average <= 4.0,
        ),
        Gate::new(
            "feasible runs near a limit that are ended as infeasible: at most 5 %",
            format!("{} of {}", near.aborted, near.runs),
            near.aborted as f64 <= 0.05 * near.runs as f64,
        ),
    ]
}

fn class(worst: f64) -> &'static str {
    match worst {
        w if w > 1.3 => FAR_INFEASIBLE,
        w if w > 1.0 => "2 near infeasible",
        w if w > 0.77 => NEAR_FEASIBLE,
        _ => "4 far feasible",
    }
}
