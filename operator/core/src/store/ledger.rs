//! Since when nothing needs a folder of the store, and what has been kept for long enough. Pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::store::{StoreItem, StoreRecord};

use super::references::References;
use crate::settings::Store;

/// Holders of a folder that are recorded.
const MAX_HOLDERS: usize = 8;
/// Folders that are recorded. Those that are forgotten go with what nobody has ever named, once they are old.
const MAX_ITEMS: usize = 3_000;
/// However full a store is, what was needed this lately stays.
const SHORTEST: SignedDuration = SignedDuration::from_hours(1);

/// The record with what is needed now.
pub(super) fn seen(record: &StoreRecord, references: &References, now: Timestamp) -> StoreRecord {
    let mut record = record.clone();
    for folder in references.held.keys().chain(references.loose.keys()) {
        record.items.entry(folder.clone()).or_default();
    }
    for (folder, item) in &mut record.items {
        item.bytes = references.bytes.get(folder).copied().or(item.bytes);
        (item.held_by, item.unreferenced_since) = holders(folder, item, (references, now));
    }
    forget_oldest(&mut record);
    record
}

fn holders(folder: &str, item: &StoreItem, (references, now): (&References, Timestamp)) -> (Vec<String>, Option<Time>) {
    if let Some(holders) = references.held.get(folder) {
        return (holders.iter().take(MAX_HOLDERS).cloned().collect(), None);
    }
    let since = Some(item.unreferenced_since.clone().unwrap_or(Time(now)));
    (references.loose.get(folder).into_iter().cloned().collect(), since)
}

fn forget_oldest(record: &mut StoreRecord) {
    while record.items.len() > MAX_ITEMS {
        let unheld = record.items.iter().filter(|(_, item)| item.held_by.is_empty());
        let oldest = unheld.min_by_key(|(_, item)| item.unreferenced_since.as_ref().map(|since| since.0));
        let Some(oldest) = oldest.map(|(folder, _)| folder.clone()) else { return };
        record.items.remove(&oldest);
    }
}

/// Folders that nothing has needed for long enough, or for longest of what is more than the store is to keep.
pub(super) fn expired(record: &StoreRecord, store: &Store, now: Timestamp) -> BTreeSet<String> {
    let retention = SignedDuration::from_secs(store.retention_seconds);
    let mut unneeded: Vec<(Timestamp, &String, i64)> = record
        .items
        .iter()
        .filter(|(_, item)| item.held_by.is_empty())
        .filter_map(|(folder, item)| Some((item.unreferenced_since.as_ref()?.0, folder, item.bytes.unwrap_or(0))))
        .collect();
    unneeded.sort();
    let mut kept: i64 = unneeded.iter().fold(0, |sum, (_, _, bytes)| sum.saturating_add(*bytes));
    let mut expired = BTreeSet::new();
    for (since, folder, bytes) in unneeded {
        let age = now.duration_since(since);
        let is_too_much = store.max_unreferenced_bytes().is_some_and(|most| kept > most) && age >= SHORTEST;
        if age >= retention || is_too_much {
            kept = kept.saturating_sub(bytes);
            expired.insert(folder.clone());
        }
    }
    expired
}

/// The first time at which something will have been kept for long enough.
pub(super) fn next_expiry(record: &StoreRecord, store: &Store) -> Option<Timestamp> {
    let retention = SignedDuration::from_secs(store.retention_seconds);
    let unneeded = record.items.values().filter(|item| item.held_by.is_empty());
    let since = unneeded.filter_map(|item| item.unreferenced_since.as_ref()).map(|since| since.0).min()?;
    since.checked_add(retention).ok()
}
