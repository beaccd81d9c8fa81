//! Markdown tables and the statistics in them.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_analysis::slo::{quantile_bounds, rate_bounds};
use slipway_vocabulary::evidence::Quantile;

/// Confidence of each side of an interval of 95 %.
const CONFIDENCE: f64 = 0.975;
/// Resamples of a bootstrap.
const RESAMPLES: usize = 10_000;

/// A Markdown table.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let mut text = line(&header);
    text.push_str(&format!("|{}\n", "---|".repeat(header.len())));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Median by linear interpolation.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// Least value.
pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Share of values that are at least a threshold.
pub fn share(values: &[f64], threshold: f64) -> f64 {
    values.iter().filter(|v| **v >= threshold - 1e-12).count() as f64 / values.len() as f64
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A share of so many with its exact interval of 95 %.
pub fn interval(hits: usize, all: usize) -> String {
    let (low, high) = rate_bounds(hits as u64, all as u64, CONFIDENCE);
    format!("{} ({} to {})", percent(hits as f64 / all.max(1) as f64), percent(low), percent(high))
}

/// The share of values that are at least a threshold, with its interval.
pub fn share_interval(values: &[f64], threshold: f64) -> String {
    interval(values.iter().filter(|v| **v >= threshold - 1e-12).count(), values.len())
}

/// The median of some factors with its interval of 95 % by order statistics.
pub fn median_interval(factors: &[f64]) -> String {
    let mut sorted = factors.to_vec();
    sorted.sort_by(f64::total_cmp);
    let bounds = quantile_bounds(&sorted, Quantile::P50, CONFIDENCE);
    let bounds = bounds.and_then(|bounds| Some(format!(" ({:.1} to {:.1})", bounds.lower?, bounds.upper?)));
    format!("{:.1}x{}", median(factors), bounds.unwrap_or_default())
}

/// The mean of some factors with its interval of 95 %, by the normal law: these are more than a hundred.
pub fn mean_interval(factors: &[f64]) -> String {
    let average = mean(factors);
    let squares: Vec<f64> = factors.iter().map(|factor| (factor - average).powi(2)).collect();
    let error = 1.96 * (mean(&squares) / factors.len() as f64).sqrt();
    format!("{average:.3}x ({:.3} to {:.3})", average - error, average + error)
}

/// The mean of ratios, one of each problem, with its interval of 95 % by the percentile bootstrap over problems (Efron
/// and Tibshirani, 1993, chapter 13). Further seeds of a problem say nothing of other problems.
pub fn mean_ratio(of_problems: &[f64]) -> String {
    let average = mean(of_problems);
    if of_problems.len() < 2 {
        return format!("{average:.4}");
    }
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let draw = |rng: &mut Pcg64Mcg| of_problems[rng.random_range(0..of_problems.len())];
    let resample = |_| (0..of_problems.len()).map(|_| draw(&mut rng)).sum::<f64>() / of_problems.len() as f64;
    let mut means: Vec<f64> = (0..RESAMPLES).map(resample).collect();
    means.sort_by(f64::total_cmp);
    let rest = ((1.0 - CONFIDENCE) * RESAMPLES as f64) as usize;
    format!("{average:.4} ({:.4} to {:.4})", means[rest], means[RESAMPLES - 1 - rest])
}
