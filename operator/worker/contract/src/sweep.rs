//! What a sweep of the artifact store is told, and what it reports.

use serde::{Deserialize, Serialize};

/// Asks to remove from the store what nothing needs any more. Folders are named as in [`crate::paths`], relative to the
/// root of the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SweepTask {
    /// UID of the claim whose volume is swept.
    pub claim: String,
    /// The second since 1970 at which the lists were made. What was written or found again later stays.
    pub as_of: u64,
    /// Folders that stay, with all that is below them.
    pub keep: Vec<String>,
    /// Folders that go.
    pub remove: Vec<String>,
    /// A folder of neither list goes if nothing in it has changed since this second.
    pub others_before: u64,
}

impl SweepTask {
    /// Whether a folder or one that holds it is to stay.
    pub fn keeps(&self, folder: &str) -> bool {
        let holds = |kept: &String| {
            folder.strip_prefix(kept.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.keep.iter().any(holds)
    }
}

/// What a sweep did, and what the store holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepResult {
    /// Folders that went.
    pub removed: u32,
    /// Their bytes.
    pub removed_bytes: u64,
    /// Folders that stay because the task says so.
    pub kept: u32,
    /// Folders that stay because they changed lately.
    pub young: u32,
    /// Folders that stay because a Job works on them.
    pub busy: u32,
    /// Bytes of everything that stays.
    pub kept_bytes: u64,
    /// Entries that are none of the store's, and are left alone.
    pub foreign: u32,
    /// Bytes that the volume has left.
    pub free_bytes: u64,
    /// Bytes of the volume.
    pub capacity_bytes: u64,
    /// Milliseconds.
    pub millis: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_folder_keeps_what_is_below_it_and_no_namesake() {
        let task = SweepTask {
            claim: String::new(),
            as_of: 0,
            keep: vec!["engines/engine-1".into()],
            remove: vec![],
            others_before: 0,
        };
        let kept =
            ["engines/engine-1", "engines/engine-1/aa", "engines/engine-12/aa", "engines"].map(|of| task.keeps(of));
        assert_eq!(kept, [true, true, false, false]);
    }
}
