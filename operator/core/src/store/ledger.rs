//! Since when nothing needs a folder of the store, and what has been kept for long enough. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::store::{StoreItem, StoreRecord};

use super::{references::References, world::SeenJob};
use crate::settings::Retention;

/// Holders of a folder that are recorded.
const MAX_HOLDERS: usize = 8;
/// Characters of a holder where there are too many folders for all words.
const MAX_HOLDER_CHARACTERS: usize = 64;
/// Folders that are recorded. Those that are forgotten go with what nobody has ever named, once they are old.
const MAX_ITEMS: usize = 3_000;
/// Bytes of their text. A ConfigMap holds 1,048,576 in all.
const MAX_ITEM_BYTES: usize = 750_000;
/// Ended Jobs that are recorded, each with about a hundred bytes.
const MAX_JOBS: usize = 2_000;
/// Whatever else is said, what was held this lately stays: it outlasts every list that shows the past.
const SHORTEST: SignedDuration = SignedDuration::from_hours(1);

/// The record with what is needed now.
pub(super) fn seen(record: &StoreRecord, references: &References, now: Timestamp) -> StoreRecord {
    let mut record = record.clone();
    for folder in references.held.keys().chain(references.loose.keys()) {
        record.items.entry(folder.clone()).or_default();
    }
    for (folder, item) in &mut record.items {
        *item = seen_item(folder, item, (references, now));
    }
    forget(&mut record);
    record
}

fn seen_item(folder: &str, item: &StoreItem, (references, now): (&References, Timestamp)) -> StoreItem {
    let bytes = references.bytes.get(folder).copied().or(item.bytes);
    let item = StoreItem { bytes, ..item.clone() };
    if let Some(holders) = references.held.get(folder) {
        let held_by = holders.iter().take(MAX_HOLDERS).cloned().collect();
        return StoreItem { held_by, unreferenced_since: None, free_since: None, ..item };
    }
    let unreferenced_since = item.unreferenced_since.clone().or(Some(Time(now)));
    match references.loose_holder(folder) {
        Some(holder) => StoreItem { held_by: vec![holder.clone()], unreferenced_since, free_since: None, ..item },
        None => {
            let free_since = item.free_since.clone().or(Some(Time(now)));
            StoreItem { held_by: Vec::new(), unreferenced_since, free_since, ..item }
        }
    }
}

/// The record with the Jobs that have ended and that nothing reads now.
pub(super) fn with_unread(record: StoreRecord, unread: &[&SeenJob], now: Timestamp) -> StoreRecord {
    let since = |job: &SeenJob| record.jobs.get(&job.view.name).cloned().unwrap_or(Time(now));
    let jobs = unread.iter().take(MAX_JOBS).map(|job| (job.view.name.clone(), since(job))).collect();
    StoreRecord { jobs, ..record }
}

/// Whether a Job has ended long ago, and has been unread for long enough.
pub(super) fn is_over(record: &StoreRecord, job: &SeenJob, (retention, now): (&Retention, Timestamp)) -> bool {
    let since = record.jobs.get(&job.view.name).map(|since| since.0);
    let is_past = |at: Option<Timestamp>, by| at.is_some_and(|at| now.duration_since(at) >= by);
    is_past(job.view.ended_at, retention.time()) && is_past(since, SHORTEST)
}

/// Makes room: of too much text, holders but the first go, and then folders, first what has been unneeded longest. What
/// is held stays: once forgotten, it would count as what nobody has ever named.
fn forget(record: &mut StoreRecord) {
    let sum = |items: &BTreeMap<String, StoreItem>| -> usize {
        items.iter().map(|(folder, item)| text_bytes(folder, item)).sum()
    };
    let mut bytes = sum(&record.items);
    if bytes > MAX_ITEM_BYTES {
        record.items.values_mut().for_each(shorten);
        bytes = sum(&record.items);
    }
    let unheld = record.items.iter().filter(|(_, item)| item.held_by.is_empty());
    let mut oldest: Vec<(Option<Timestamp>, String)> =
        unheld.map(|(folder, item)| (item.unreferenced_since.as_ref().map(|since| since.0), folder.clone())).collect();
    oldest.sort();
    for (_, folder) in oldest {
        if bytes <= MAX_ITEM_BYTES && record.items.len() <= MAX_ITEMS {
            return;
        }
        let forgotten = record.items.remove(&folder);
        bytes = bytes.saturating_sub(forgotten.map_or(0, |item| text_bytes(&folder, &item)));
    }
}

/// One holder says that a folder is held.
fn shorten(item: &mut StoreItem) {
    item.held_by.truncate(1);
    for holder in item.held_by.iter_mut().filter(|holder| holder.chars().count() > MAX_HOLDER_CHARACTERS) {
        *holder = holder.chars().take(MAX_HOLDER_CHARACTERS).chain("...".chars()).collect();
    }
}

/// Bytes of a folder in the text of a record.
fn text_bytes(folder: &str, item: &StoreItem) -> usize {
    let text = serde_json::to_string(item).expect("an item holds only texts, numbers and times");
    // Two quotes, a colon and a comma.
    folder.len().saturating_add(text.len()).saturating_add(4)
}

/// A folder that nothing holds.
struct Unheld<'a> {
    unreferenced_since: Timestamp,
    folder: &'a String,
    free_since: Timestamp,
    bytes: i64,
}

impl Unheld<'_> {
    /// When it has been unneeded for as long as this, and unheld for long enough.
    fn expires(&self, after: SignedDuration) -> Timestamp {
        let later = |since: Timestamp, by| since.checked_add(by).unwrap_or(Timestamp::MAX);
        later(self.unreferenced_since, after).max(later(self.free_since, SHORTEST))
    }
}

/// What nothing holds, first what nothing has needed for longest.
fn unheld(record: &StoreRecord) -> Vec<Unheld<'_>> {
    let mut unheld: Vec<Unheld<'_>> = record
        .items
        .iter()
        .filter_map(|(folder, item)| {
            Some(Unheld {
                unreferenced_since: item.unreferenced_since.as_ref()?.0,
                folder,
                free_since: item.free_since.as_ref()?.0,
                bytes: item.bytes.unwrap_or(0),
            })
        })
        .collect();
    unheld.sort_by_key(|unheld| (unheld.unreferenced_since, unheld.folder));
    unheld
}

/// Folders that nothing has needed for long enough, or for longest of what is more than the store is to keep.
pub(super) fn expired(record: &StoreRecord, retention: &Retention, now: Timestamp) -> BTreeSet<String> {
    let unheld = unheld(record);
    let mut kept: i64 = unheld.iter().fold(0, |sum, unheld| sum.saturating_add(unheld.bytes));
    let most = retention.max_unreferenced_bytes();
    let mut expired = BTreeSet::new();
    for unheld in unheld {
        // What is not known to hold anything makes no room.
        let is_too_much = unheld.bytes > 0 && most.is_some_and(|most| kept > most);
        let after = if is_too_much { SHORTEST.min(retention.time()) } else { retention.time() };
        if unheld.expires(after) <= now {
            kept = kept.saturating_sub(unheld.bytes);
            expired.insert(unheld.folder.clone());
        }
    }
    expired
}

/// The first time at which something will have been kept for long enough.
pub(super) fn next_expiry(record: &StoreRecord, retention: &Retention) -> Option<Timestamp> {
    unheld(record).iter().map(|unheld| unheld.expires(retention.time())).min()
}
