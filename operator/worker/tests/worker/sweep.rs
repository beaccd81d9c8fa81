//! A sweep of a store in a temporary folder, beside writers and readers, and ended in the middle.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, UNIX_EPOCH},
};

use pretty_assertions::assert_eq;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use slipway_worker::{
    failure::Classify,
    fetch,
    finish_build::{self, Folders},
    lock,
    materialize::{self, MaterializeTask},
    sweep,
};
use slipway_worker_contract::{BuildTask, Digest, EngineRef, FailureClass, ServeConfig, SweepResult, SweepTask, paths};
use tempfile::TempDir;
use walkdir::WalkDir;

/// When lists are made: now, which is what the clock of a temporary folder says.
static NOW: LazyLock<u64> = LazyLock::new(|| UNIX_EPOCH.elapsed().unwrap().as_secs());
const DAY: u64 = 86_400;
/// The file with the claims that lead to a volume.
const CLAIMS: &str = ".slipway-store";

struct Store {
    dir: TempDir,
}

fn digest(number: usize) -> Digest {
    format!("{number:064x}").parse().unwrap()
}

fn artifact(engine: &str, number: usize) -> String {
    paths::engine(&EngineRef { identity: engine.to_owned(), manifest_digest: digest(number) })
}

fn task(keep: &[String], remove: &[String]) -> SweepTask {
    SweepTask {
        claim: "uid-1".to_owned(),
        as_of: *NOW,
        keep: keep.to_vec(),
        remove: remove.to_vec(),
        others_before: *NOW - 7 * DAY,
    }
}

impl Store {
    /// One that has been swept before.
    fn new() -> Self {
        Self::unswept().with_claim("uid-1")
    }

    fn unswept() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn with_claim(self, uid: &str) -> Self {
        fs::write(self.path(CLAIMS), format!("{uid}\n")).unwrap();
        self
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root().join(relative)
    }

    /// Files of ten bytes.
    fn with(self, files: &[String]) -> Self {
        for file in files {
            let path = self.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "0123456789").unwrap();
        }
        self
    }

    fn with_artifact(self, engine: &str, number: usize) -> Self {
        let folder = artifact(engine, number);
        let scores = folder.replace("engines/", "quality/");
        self.with(&[
            format!("{folder}/manifest.json"),
            format!("{folder}/model_repository/agent/1/weights"),
            format!("{scores}/aa.json"),
            format!("engines/{engine}/.lock"),
        ])
    }

    fn with_checkpoint(self, number: usize) -> Self {
        let folder = paths::checkpoint(&digest(number));
        self.with(&[
            format!("{folder}/checkpoint.json"),
            format!("{folder}/files/weights"),
            format!("checkpoints/.lock-{}", digest(number)),
        ])
    }

    /// Everything below a folder changed at a time.
    fn changed(self, folder: &str, at: u64) -> Self {
        for entry in WalkDir::new(self.path(folder)).contents_first(true) {
            let entry = entry.unwrap();
            if !entry.path_is_symlink() {
                File::open(entry.path()).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(at)).unwrap();
            }
        }
        self
    }

    fn sweep(&self, task: &SweepTask) -> SweepResult {
        let result = sweep::run(task, self.root()).unwrap();
        assert!(result.free_bytes <= result.capacity_bytes && result.capacity_bytes > 0);
        SweepResult { free_bytes: 0, capacity_bytes: 0, millis: 0, ..result }
    }

    /// Every file, but for locks and the claims.
    fn files(&self) -> BTreeSet<String> {
        let all = WalkDir::new(self.root()).into_iter().map(|entry| entry.unwrap());
        let files = all.filter(|entry| !entry.file_type().is_dir());
        let names = files.map(|entry| entry.path().strip_prefix(self.root()).unwrap().to_str().unwrap().to_owned());
        names.filter(|name| !name.contains(".lock") && name != CLAIMS).collect()
    }
}

#[test]
fn what_the_lists_say_stays_and_goes_with_its_scores() {
    let records = |campaign: &str| format!("profiles/{campaign}/aa/rows.csv");
    let store = Store::new()
        .with_artifact("engine-1", 1)
        .with_artifact("engine-1", 2)
        .with_checkpoint(3)
        .with_checkpoint(4)
        .with(&[records("kept"), records("over")])
        .changed("", *NOW - 8 * DAY);
    let keep = [artifact("engine-1", 1), paths::checkpoint(&digest(3)), "profiles/kept".to_owned()];
    let remove = [artifact("engine-1", 2), paths::checkpoint(&digest(4)), "profiles/over".to_owned()];
    let result = store.sweep(&task(&keep, &remove));
    let expected = SweepResult { removed: 3, removed_bytes: 60, kept: 3, kept_bytes: 60, ..SweepResult::default() };
    assert_eq!(result, expected);
    let left = [
        format!("{}/manifest.json", keep[0]),
        format!("{}/model_repository/agent/1/weights", keep[0]),
        format!("{}/aa.json", keep[0].replace("engines/", "quality/")),
        format!("{}/checkpoint.json", keep[1]),
        format!("{}/files/weights", keep[1]),
        records("kept"),
    ];
    assert_eq!(store.files(), BTreeSet::from(left));
}

#[test]
fn what_nobody_has_ever_named_goes_once_it_is_old() {
    let store = Store::new()
        .with_artifact("engine-1", 1)
        .with_artifact("engine-2", 2)
        .changed("", *NOW - 8 * DAY)
        .changed(&artifact("engine-2", 2), *NOW - 6 * DAY);
    let result = store.sweep(&task(&[], &[]));
    let young = SweepResult { removed: 1, removed_bytes: 30, young: 1, kept_bytes: 30, ..SweepResult::default() };
    assert_eq!(result, young);
    assert!(store.path(&artifact("engine-2", 2)).join("manifest.json").exists());
}

#[test]
fn the_first_sweep_of_a_volume_removes_what_its_lists_name_and_no_more() {
    let store = Store::unswept()
        .with_artifact("engine-1", 1)
        .with_artifact("engine-2", 2)
        .with(&["engines/engine-3/.partial/weights".to_owned()])
        .changed("", *NOW - 8 * DAY);
    let task = task(&[], &[artifact("engine-1", 1)]);
    let first = store.sweep(&task);
    assert_eq!((first.removed, first.young, first.foreign), (1, 2, 0));
    assert_eq!((store.sweep(&task).removed, store.files().len()), (2, 0));
}

#[test]
fn lists_that_show_the_past_or_the_future_remove_nothing() {
    let store = Store::new().with_artifact("engine-1", 1).changed("", *NOW - 8 * DAY);
    let named = task(&[], &[artifact("engine-1", 1)]);
    for (as_of, words) in [(*NOW + DAY, "more than 600 s after"), (*NOW - DAY, "more than 3600 s before")] {
        let error = sweep::run(&SweepTask { as_of, ..named.clone() }, store.root()).unwrap_err();
        let text = slipway_worker::failure::chain(&error);
        assert!(text.contains(words), "{text}");
        assert_eq!(store.files().len(), 3);
    }
    assert_eq!(store.sweep(&named).removed, 1);
}

#[test]
fn a_volume_of_another_claim_is_left_as_it_is() {
    let store = Store::unswept()
        .with_claim("uid-2")
        .with_artifact("engine-1", 1)
        .with_artifact("engine-2", 2)
        .changed("", *NOW - 8 * DAY);
    let error = sweep::run(&task(&[], &[artifact("engine-1", 1)]), store.root()).unwrap_err();
    let text = slipway_worker::failure::chain(&error);
    assert!(text.contains("names claim uid-2, and this sweep is of claim uid-1"), "{text}");
    assert_eq!((error.class(), store.files().len()), (FailureClass::Infrastructure, 6));
}

#[test]
fn a_folder_of_which_everything_stays_keeps_what_is_named_below_it() {
    let store = Store::new().with_artifact("engine-1", 1).changed("", *NOW - 8 * DAY);
    let result = store.sweep(&task(&["engines/engine-1".to_owned()], &[artifact("engine-1", 1)]));
    assert_eq!((result.kept, result.removed), (1, 0));
}

#[test]
fn what_was_found_again_after_the_lists_were_made_stays() {
    let store = Store::new().with_artifact("engine-1", 1).with_checkpoint(2).changed("", *NOW - 8 * DAY);
    let remove = [artifact("engine-1", 1), paths::checkpoint(&digest(2))];
    lock::found_again(&store.path(&remove[0]).join("manifest.json")).unwrap();
    lock::found_again(&store.path(&remove[1]).join("checkpoint.json")).unwrap();
    assert_eq!((store.sweep(&task(&[], &remove)).young, store.files().len()), (2, 5));
}

#[test]
fn what_a_job_works_on_stays() {
    let store = Store::new().with_artifact("engine-1", 1).with_checkpoint(2).changed("", *NOW - 8 * DAY);
    let _build = lock::exclusive(&store.path("engines/engine-1/.lock")).unwrap();
    let _fetch = lock::exclusive(&store.path(&format!("checkpoints/.lock-{}", digest(2)))).unwrap();
    let result = store.sweep(&task(&[], &[artifact("engine-1", 1), paths::checkpoint(&digest(2))]));
    assert_eq!((result.busy, result.removed, store.files().len()), (2, 0, 5));
}

#[test]
fn what_jobs_left_goes_once_it_is_old_and_nobody_works_on_it() {
    let partial = |number: usize| format!("checkpoints/.partial-{}/files/weights", digest(number));
    let store = Store::new()
        .with(&["engines/engine-1/.partial/weights".to_owned(), partial(1), partial(2), partial(3)])
        .changed("", *NOW - 8 * DAY)
        .changed(&format!("checkpoints/.partial-{}", digest(2)), *NOW - DAY);
    let _fetch = lock::exclusive(&store.path(&format!("checkpoints/.lock-{}", digest(3)))).unwrap();
    let result = store.sweep(&task(&[], &[]));
    assert_eq!((result.removed, result.young, result.busy), (2, 1, 1));
    assert_eq!(store.files(), BTreeSet::from([partial(2), partial(3)]));
}

#[test]
fn a_sweep_that_was_ended_leaves_nothing_that_looks_whole_and_the_next_one_goes_on() {
    let remove = [artifact("engine-1", 1), artifact("engine-2", 2), artifact("engine-3", 3)];
    let store = remove
        .iter()
        .enumerate()
        .fold(Store::new(), |store, (at, _)| store.with_artifact(&format!("engine-{}", at + 1), at + 1));
    // Ended after the manifest of one, and while another was being removed.
    fs::remove_file(store.path(&remove[0]).join("manifest.json")).unwrap();
    fs::remove_file(store.path(&remove[1]).join("manifest.json")).unwrap();
    let hidden = store.path(&format!("engines/engine-2/.swept-{}", digest(2)));
    fs::rename(store.path(&remove[1]), &hidden).unwrap();
    let store = store.changed("", *NOW - 8 * DAY);
    let reader = |number: usize| MaterializeTask {
        engine: EngineRef { identity: format!("engine-{number}"), manifest_digest: digest(number) },
        store: store.root().to_owned(),
        target: store.path("pod"),
        model: "agent".into(),
        serve: ServeConfig::default(),
        threads: 1,
    };
    for number in [1, 2] {
        assert_eq!(materialize::run(&reader(number)).unwrap_err().class(), FailureClass::MissingArtifact);
    }
    let result = store.sweep(&task(&[], &remove));
    assert_eq!((result.removed, result.kept_bytes, store.files().len()), (4, 0, 0));
    assert_eq!(store.sweep(&task(&[], &remove)), SweepResult::default());
}

#[test]
fn links_are_never_followed_and_what_is_not_of_the_store_is_left_alone() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "0123456789").unwrap();
    let store = Store::new().with_artifact("engine-1", 1).with(&["lost+found/x".to_owned(), "notes.txt".to_owned()]);
    let link = store.path(&artifact("engine-1", 1)).join("link");
    symlink(outside.path(), &link).unwrap();
    symlink(outside.path(), store.path(&artifact("engine-1", 2))).unwrap();
    symlink(outside.path(), store.path("engines/engine-2")).unwrap();
    symlink(outside.path(), store.path("checkpoints")).unwrap();
    let store = store.changed("", *NOW - 8 * DAY);
    let old = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Timestamps { last_access: old, last_modification: old };
    utimensat(CWD, &link, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    let task = task(&[], &[artifact("engine-1", 1), artifact("engine-1", 2)]);
    let result = store.sweep(&task);
    assert_eq!((result.removed, result.foreign), (1, 5));
    assert!(outside.path().join("precious").exists() && store.path("lost+found/x").exists());
    assert!(store.path(&artifact("engine-1", 2)).symlink_metadata().is_ok());
}

#[test]
fn a_folder_that_stays_need_not_be_readable() {
    let store = Store::new().with_artifact("engine-1", 1).with_artifact("engine-2", 2).changed("", *NOW - 8 * DAY);
    let sealed = store.path(&artifact("engine-1", 1)).join("model_repository");
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&sealed).is_ok() {
        return;
    }
    let result = store.sweep(&task(&[artifact("engine-1", 1)], &[artifact("engine-2", 2)]));
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!((result.kept, result.removed), (1, 1));
}

#[test]
fn one_folder_that_cannot_be_removed_keeps_no_other_from_going() {
    let store = Store::new().with_artifact("engine-1", 1).with_artifact("engine-2", 2).changed("", *NOW - 8 * DAY);
    let family = store.path("engines/engine-1");
    fs::set_permissions(&family, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(family.join("probe"), "").is_ok() {
        return;
    }
    let error = sweep::run(&task(&[], &[artifact("engine-1", 1), artifact("engine-2", 2)]), store.root()).unwrap_err();
    fs::set_permissions(&family, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(error.class(), FailureClass::Infrastructure);
    assert_eq!(error.to_string(), "1 of the store's folders could not be swept; the first problem");
    assert!(!store.path(&artifact("engine-2", 2)).exists());
}

#[test]
fn a_build_and_a_fetch_that_find_their_work_done_keep_it_from_a_sweep_that_does_not_know_them() {
    let output = tempfile::tempdir().unwrap();
    let repository = output.path().join("model_repository/agent");
    fs::create_dir_all(repository.join("1")).unwrap();
    fs::write(repository.join("config.pbtxt"), "name: \"agent\"\nbackend: \"python\"\nmax_batch_size: 0\n").unwrap();
    fs::write(repository.join("1/model.py"), "").unwrap();
    let store = Store::new();
    let folders = Folders {
        output: output.path().to_owned(),
        store: store.root().to_owned(),
        dataset: output.path().join("none"),
        threads: 1,
    };
    let order = BuildTask {
        identity: "engine-1".into(),
        model: "agent".into(),
        quality: None,
        tensorrt_llm: None,
        no_build: None,
    };
    let built = finish_build::run(&order, &folders).unwrap();
    let engine = EngineRef { identity: "engine-1".into(), manifest_digest: built.manifest_digest.clone() };
    let store = store.changed("", 0);
    let lists = task(&[], &[paths::engine(&engine)]);
    // Somebody asks for the engine again after the lists were made.
    assert_eq!(finish_build::run(&order, &folders).unwrap().manifest_digest, built.manifest_digest);
    assert_eq!(store.sweep(&lists).young, 1);
    let store = store.changed("", 0);
    assert_eq!((store.sweep(&lists).removed, store.files().len()), (1, 0));
    assert!(fetch::check(&digest(1), store.root()).is_err());
}
