//! Volumes that are full: the binary in a root of its own, with a small file system where it writes.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use pretty_assertions::assert_eq;
use slipway_worker::failure::{Classify, chain};
use slipway_worker_contract::{FailureClass, Message, Outcome};
use tempfile::TempDir;

use crate::campaign::Bench;

/// What a verb came to, first on a volume that is too small and then on one that is large enough.
struct Ended {
    first: Message,
    /// Files on the volume after the first attempt.
    left: Vec<String>,
    second: Message,
}

/// The script of a stage. `$ROOT` is the root that the worker sees.
struct Stage<'a> {
    /// The volume that is too small.
    volume: &'a str,
    /// What is there before, once the volumes are.
    before: &'a str,
    verb: &'a str,
}

/// Whether this machine lets a test have file systems of its own. CI must.
fn can_mount() -> bool {
    let can = Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success());
    assert!(can || std::env::var_os("CI").is_none(), "CI gives tests no file systems of their own");
    can
}

impl Stage<'_> {
    fn run(&self) -> Ended {
        let (root, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let Self { volume, before, verb } = self;
        let script = format!(
            r#"mount -t tmpfs none "$ROOT"
            cd "$ROOT"
            mkdir -p slipway/store slipway/output slipway/engine slipway/source slipway/task
            touch worker
            mount --bind "$WORKER" worker
            mount -t tmpfs -o size=128k none "$ROOT{volume}"
            worker() {{ env -i "$(command -v chroot)" "$ROOT" /worker --termination-log "$1" "${{@:2}}" || true; }}
            found() {{ sed -n "s/.*\"$2\":\"\([0-9a-f]*\)\".*/\1/p" "$1"; }}
            touch first second other
            {before}
            worker /first {verb}
            (cd "$ROOT{volume}" && find . -type f) > left
            mount -o remount,size=64m "$ROOT{volume}"
            worker /second {verb}
            cp first left second "$OUT""#
        );
        let ended = Command::new("unshare")
            .args(["-rm", "bash", "-ec", &script])
            .env("ROOT", root.path())
            .env("OUT", out.path())
            .env("WORKER", env!("CARGO_BIN_EXE_slipway-worker"))
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let read = |name: &str| fs::read_to_string(out.path().join(name)).unwrap();
        let message = |name: &str| Message::parse(&read(name)).unwrap();
        let left = read("left").lines().map(str::to_owned).collect();
        Ended { first: message("first"), left, second: message("second") }
    }

    /// The first attempt fails with figures and leaves nothing that looks whole; the second ends well.
    fn assert_told_and_clean(&self, whole: &str) {
        let Ended { first, left, second } = self.run();
        let Message::Failed { class, text, .. } = first else { panic!("{first:?}") };
        assert_eq!(class, FailureClass::Infrastructure, "{text}");
        assert!(text.starts_with("a volume is full: enlarge it, or remove what it need not hold ("), "{text}");
        assert!(text.contains(&format!("{} has 0.", self.volume)) && text.contains("of 0.1 MB free"), "{text}");
        let looks_whole = |file: &&String| file.ends_with(whole) && !file.contains("/.");
        assert_eq!(left.iter().filter(looks_whole).collect::<Vec<_>>(), Vec::<&String>::new());
        assert!(matches!(second, Message::Succeeded { .. }), "{second:?}");
    }
}

/// An artifact of a megabyte, as a builder leaves it.
const OUTPUT: &str = r#"mkdir -p slipway/output/model_repository/agent/1
    printf 'name: "agent"\nbackend: "python"\nmax_batch_size: 0\n' > slipway/output/model_repository/agent/config.pbtxt
    touch slipway/output/model_repository/agent/1/model.py
    head -c 1000000 /dev/zero > slipway/output/model_repository/agent/1/weights
    echo '{"kind": "Build", "identity": "engine-1", "model": "agent"}' > slipway/task/task.json"#;

#[test]
fn a_fetch_into_a_full_store_says_so_with_figures_and_leaves_no_checkpoint() {
    if !can_mount() {
        return;
    }
    let before = r#"mkdir slipway/source/model
        echo '{}' > slipway/source/model/config.json
        head -c 1000000 /dev/zero > slipway/source/model/weights.bin
        echo '{"kind": "Resolve", "uri": "pvc://models/model", "shape": "Optional"}' > slipway/task/task.json
        worker /other resolve
        digest=$(found other sourceDigest)
        echo '{"kind": "Fetch", "uri": "pvc://models/model", "sourceDigest": "'$digest'"}' > slipway/task/task.json"#;
    let stage = Stage { volume: "/slipway/store", before, verb: "fetch" };
    stage.assert_told_and_clean("checkpoint.json");
}

#[test]
fn a_build_into_a_full_store_says_so_with_figures_and_leaves_no_artifact() {
    if can_mount() {
        let stage = Stage { volume: "/slipway/store", before: OUTPUT, verb: "finish-build" };
        stage.assert_told_and_clean("manifest.json");
    }
}

#[test]
fn a_pod_whose_own_volume_is_full_says_so_with_figures() {
    if can_mount() {
        let before = format!("{OUTPUT}\nworker /other finish-build\ndigest=$(found other manifestDigest)");
        let verb = "materialize --identity=engine-1 --manifest-digest=$digest";
        let stage = Stage { volume: "/slipway/engine", before: &before, verb };
        stage.assert_told_and_clean("manifest.json");
    }
}

#[test]
fn scores_that_a_full_store_cannot_keep_say_so_with_figures() {
    if can_mount() {
        let before = r#"mkdir -p slipway/dataset slipway/output/quality
            echo '{"id":"1","prompt":"1+1","expected":"2","maxTokens":8,"stopWords":[]}' > slipway/dataset/dataset.jsonl
            echo '{"id":"1","output":"2"}' > slipway/output/quality/outputs.jsonl
            engine='{"identity": "engine-1", "manifestDigest": "'$(printf '%064d' 0)'"}'
            echo '{"kind": "Quality", "metric": "ExactMatch", "confidencePpm": 950000, "engine": '$engine'}' \
                > slipway/task/task.json
            head -c 1000000 /dev/zero > slipway/store/of-others || true"#;
        let stage = Stage { volume: "/slipway/store", before, verb: "quality" };
        assert_eq!(stage.run().left, ["./of-others"]);
        stage.assert_told_and_clean(".json");
    }
}

/// A file system of 256 KiB in namespaces of a shell's, which this process reaches through the shell's root.
struct SmallVolume {
    shell: Child,
    folder: TempDir,
}

impl SmallVolume {
    fn mount() -> Self {
        let folder = TempDir::new().unwrap();
        let shell = Command::new("unshare")
            .args(["-rm", "bash", "-e"])
            .env("VOLUME", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut volume = Self { shell, folder };
        volume.say("mount -t tmpfs -o size=256k none \"$VOLUME\"");
        volume
    }

    /// The shell does something, and has done it.
    fn say(&mut self, command: &str) {
        writeln!(self.shell.stdin.as_mut().unwrap(), "{command}; echo done").unwrap();
        let mut line = String::new();
        BufReader::new(self.shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n", "{command}");
    }

    fn path(&self) -> PathBuf {
        let own = self.folder.path().strip_prefix("/").unwrap();
        PathBuf::from(format!("/proc/{}/root", self.shell.id())).join(own)
    }
}

impl Drop for SmallVolume {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// The Profile's Job ends as one that another attempt may help. Of its records nothing stays that is not whole.
#[tokio::test]
async fn records_that_a_full_store_cannot_keep_end_the_campaign_and_leave_nothing() {
    if !can_mount() {
        return;
    }
    let mut volume = SmallVolume::mount();
    let bench = Bench::with_store(&volume.path()).await;
    volume.say("head -c 1000000 /dev/zero >\"$VOLUME/of-others\" 2>/dev/null || true");
    let error = bench.run().await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Infrastructure);
    let text = chain(&error);
    assert!(text.starts_with("failed to keep records at "), "{text}");
    assert!(text.ends_with(": No space left on device (os error 28)"), "{text}");
    let kept = || fs::read_dir(bench.records()).map_or(0, Iterator::count);
    assert_eq!(kept(), 0);
    volume.say("mount -o remount,size=64m \"$VOLUME\"");
    let rows = bench.run().await.unwrap().rows;
    assert_eq!((rows.len(), kept()), (4, 4));
}

#[test]
fn a_sweep_makes_room_in_a_full_store() {
    if can_mount() {
        let before = r#"folder=checkpoints/$(printf '%064d' 0)
            mkdir -p slipway/store/$folder
            head -c 1000000 /dev/zero > slipway/store/$folder/weights || true
            touch -d '1 day ago' slipway/store/$folder/weights slipway/store/$folder
            now=$(date +%s)
            lists='"keep": [], "remove": ["'$folder'"], "othersBefore": '$((now - 864000))
            echo '{"kind": "Sweep", "claim": "uid-1", "asOf": '$now', '$lists'}' > slipway/task/task.json"#;
        let Ended { first, left, .. } = Stage { volume: "/slipway/store", before, verb: "sweep" }.run();
        let Message::Succeeded { result: Outcome::Sweep(swept) } = first else { panic!("{first:?}") };
        assert_eq!((swept.removed, left.iter().any(|file| file.ends_with("/weights"))), (1, false), "{left:?}");
    }
}
