//! Markdown tables and the statistics in them.

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
