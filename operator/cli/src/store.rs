//! The artifact store of a namespace as text: what it holds, what needs that, and how the last sweep ended. Pure.

use slipway_crds::store::{SweepEnd, SweepFigures};

use crate::{
    table::{api_name, indented, table},
    view::store::{Folder, StoreView},
};

/// Digits of a digest that are shown.
const DIGITS: usize = 12;

/// What is known of a store, as lines.
pub fn store(view: &StoreView) -> String {
    let StoreView { folders, sweep, last_sweep } = view;
    let (needed, kept): (Vec<_>, Vec<_>) = folders.iter().partition(|folder| folder.is_needed());
    let mut text = format!("Folders: {} needed, {} kept for a while\n", total(&needed), total(&kept));
    if let Some(sweep) = sweep {
        let state = sweep.waits_for.as_ref().map_or_else(String::new, |words| format!("; it waits: {words}"));
        text += &format!("Sweep {} is in progress since {}{state}\n", sweep.number, sweep.at.0);
    }
    text += &last_sweep.as_ref().map_or_else(String::new, ended);
    if folders.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = folders.iter().map(row).collect();
    text + &indented(&table(&["WHAT", "NAME", "SIZE", "UNNEEDED SINCE", "HELD BY"], &rows))
}

fn total(folders: &[&Folder]) -> String {
    let bytes = folders.iter().filter_map(|folder| folder.bytes).fold(0, i64::saturating_add);
    format!("{} ({})", folders.len(), size(bytes))
}

fn ended(last: &SweepEnd) -> String {
    let SweepEnd { number, at, failure, figures } = last;
    let begin = format!("Sweep {number} ended at {}", at.0);
    match (figures, failure) {
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
    let reasons = [(young, "changed lately"), (busy, "being written by a Job"), (foreign, "not of the store")];
    let reasons = reasons.into_iter().filter(|(number, _)| **number > 0);
    let reasons: Vec<String> = reasons.map(|(number, words)| format!("{number} {words}")).collect();
    if reasons.is_empty() { String::new() } else { format!("Left alone: {}\n", reasons.join(", ")) }
}

fn row(folder: &Folder) -> Vec<String> {
    let name = folder.path.split_once('/').map_or(folder.path.as_str(), |(_, name)| name);
    let name: Vec<&str> = name.split('/').map(short).collect();
    vec![
        api_name(&folder.content),
        name.join("/"),
        folder.bytes.map_or_else(|| "-".to_owned(), size),
        folder.unneeded_since.as_ref().map_or_else(|| "-".to_owned(), |since| since.0.to_string()),
        folder.held_by.join(", "),
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
