//! The artifact store of a namespace: what it holds, what needs that, and how the last sweep ended. Pure.

use slipway_crds::store::{StoreItem, StoreRecord, SweepEnd, SweepFigures};

use crate::table::{indented, table};

/// Digits of a digest that are shown.
const DIGITS: usize = 12;

/// What is known of a store, as lines.
pub fn store(record: &StoreRecord) -> String {
    let (needed, kept): (Vec<_>, Vec<_>) = record.items.values().partition(|item| item.unreferenced_since.is_none());
    let total = |items: &[&StoreItem]| {
        let bytes = items.iter().filter_map(|item| item.bytes).fold(0, i64::saturating_add);
        format!("{} ({})", items.len(), size(bytes))
    };
    let mut text = format!("Folders: {} needed, {} kept for a while\n", total(&needed), total(&kept));
    if let Some(sweep) = &record.sweep {
        let state = sweep.waits_for.as_ref().map_or_else(String::new, |words| format!("; it waits: {words}"));
        text += &format!("Sweep {} is in progress since {}{state}\n", sweep.number, sweep.at.0);
    }
    if let Some(last) = &record.last {
        text += &ended(last);
    }
    if record.items.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = record.items.iter().map(|(folder, item)| row(folder, item)).collect();
    text + &indented(&table(&["WHAT", "NAME", "SIZE", "UNNEEDED SINCE", "HELD BY"], &rows))
}

fn ended(last: &SweepEnd) -> String {
    let begin = format!("Sweep {} ended at {}", last.number, last.at.0);
    match (&last.figures, &last.failure) {
        (_, Some(failure)) => format!("{begin} with a failure: {failure}\n"),
        (Some(figures), None) => {
            let SweepFigures { removed, removed_bytes, kept_bytes, free_bytes, capacity_bytes, .. } = figures;
            format!(
                "{begin}: {removed} folders ({}) removed, {} left, {} of {} free\n{}",
                size(*removed_bytes),
                size(*kept_bytes),
                size(*free_bytes),
                size(*capacity_bytes),
                left_alone(figures),
            )
        }
        (None, None) => format!("{begin}\n"),
    }
}

/// What stayed though nothing is known to need it.
fn left_alone(figures: &SweepFigures) -> String {
    let SweepFigures { young, busy, foreign, .. } = figures;
    let reasons =
        [(young, "changed lately"), (busy, "being written by a Job"), (foreign, "not of the store")].into_iter();
    let reasons: Vec<String> =
        reasons.filter(|(number, _)| **number > 0).map(|(number, words)| format!("{number} {words}")).collect();
    if reasons.is_empty() { String::new() } else { format!("Left alone: {}\n", reasons.join(", ")) }
}

fn row(folder: &str, item: &StoreItem) -> Vec<String> {
    let (kind, name) = match folder.split_once('/') {
        Some(("engines", rest)) => ("Engine", rest),
        Some(("checkpoints", rest)) => ("Checkpoint", rest),
        Some(("profiles", rest)) => ("Records", rest),
        Some(_) | None => ("Folder", folder),
    };
    let name: Vec<&str> = name.split('/').map(short).collect();
    vec![
        kind.to_owned(),
        name.join("/"),
        item.bytes.map_or_else(|| "-".to_owned(), size),
        item.unreferenced_since.as_ref().map_or_else(|| "-".to_owned(), |since| since.0.to_string()),
        item.held_by.join(", "),
    ]
}

/// A digest in short; another name as it is.
fn short(part: &str) -> &str {
    let is_digest = part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { &part[..DIGITS] } else { part }
}

fn size(bytes: i64) -> String {
    let bytes = bytes as f64;
    match bytes {
        _ if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        _ if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} kB", bytes / 1e3),
    }
}
