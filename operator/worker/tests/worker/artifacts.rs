//! From a builder's output to the files before Triton.

use std::{
    fs,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
};

use slipway_worker::{
    failure::{self, Classify},
    finish_build::{self, Folders},
    materialize::{self, MaterializeTask},
};
use slipway_worker_contract::{
    BuildResult, BuildTask, CHUNK_BYTES, Digest, EngineRef, FailureClass, Manifest, QualityMetric, QualityTask,
    ServeConfig, paths,
};
use tempfile::TempDir;

const CONFIG: &str = "name: \"agent\"\nbackend: \"python\"\nmax_batch_size: 0\ninstance_group { count: 1 }\n";

/// A builder's output and a store, in one temporary folder.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        bench.write("output/model_repository/agent/config.pbtxt", CONFIG);
        bench.write("output/model_repository/agent/1/model.py", "import weights");
        bench.write("output/model_repository/agent/1/weights.bin", "w");
        bench.write("output/builder.json", r#"{"versions":{"onnxruntime":"1.20"},"durationsMillis":{"convert":7}}"#);
        bench.write("output/quality/outputs.jsonl", "{}");
        // Three chunks, the last of one byte.
        let weights = fs::File::options().write(true).open(bench.weights()).unwrap();
        weights.set_len(2 * CHUNK_BYTES + 1).unwrap();
        fs::set_permissions(bench.weights(), fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    fn weights(&self) -> PathBuf {
        self.path("output/model_repository/agent/1/weights.bin")
    }

    fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn finish(&self) -> Result<BuildResult, finish_build::FinishError> {
        let task = BuildTask {
            identity: "eng-1".into(),
            model: "agent".into(),
            quality: None,
            tensorrt_llm: None,
            no_build: None,
        };
        finish_build::run(&task, &self.folders())
    }

    fn folders(&self) -> Folders {
        Folders {
            output: self.path("output"),
            store: self.path("store"),
            dataset: self.path("dataset.jsonl"),
            threads: 2,
        }
    }

    fn order(&self, manifest_digest: Digest) -> MaterializeTask {
        MaterializeTask {
            engine: EngineRef { identity: "eng-1".into(), manifest_digest },
            store: self.path("store"),
            target: self.path("engine"),
            model: "agent".into(),
            serve: ServeConfig::default(),
            threads: 2,
        }
    }

    fn artifact(&self, digest: &Digest) -> PathBuf {
        self.path("store/engines/eng-1").join(digest.as_str())
    }

    fn served(&self, relative: &str) -> String {
        fs::read_to_string(self.path("engine/model_repository").join(relative)).unwrap()
    }
}

fn flip_byte(path: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_build_is_published_under_its_manifests_digest_and_served_as_it_was_built() {
    let bench = Bench::new();

    let built = bench.finish().unwrap();

    assert_eq!((built.files, built.bytes), (3, CONFIG.len() as u64 + 14 + 2 * CHUNK_BYTES + 1));
    assert_eq!(built.versions["onnxruntime"], "1.20");
    assert_eq!(built.durations_millis.keys().collect::<Vec<_>>(), ["check", "convert", "hash", "publish", "score"]);
    let manifest = Manifest::parse(&fs::read(bench.artifact(&built.manifest_digest).join("manifest.json")).unwrap());
    let paths: Vec<String> = manifest.unwrap().files.into_iter().map(|f| f.path).collect();
    assert_eq!(
        paths,
        [
            "model_repository/agent/1/model.py",
            "model_repository/agent/1/weights.bin",
            "model_repository/agent/config.pbtxt"
        ]
    );

    let order = bench.order(built.manifest_digest.clone());
    let first = materialize::run(&order).unwrap();
    assert_eq!((first.bytes, first.verified_bytes), (built.bytes, built.bytes));
    assert_eq!(bench.served("agent/config.pbtxt"), CONFIG);
    let mode = fs::metadata(bench.path("engine/model_repository/agent/1/weights.bin")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "helper programs stay executable");
}

#[test]
fn a_second_build_of_the_same_bytes_is_the_same_artifact() {
    let bench = Bench::new();
    let first = bench.finish().unwrap();
    assert_eq!(bench.finish().unwrap().manifest_digest, first.manifest_digest);
}

#[test]
fn a_flipped_byte_keeps_triton_from_starting_and_is_named_by_file_and_chunk() {
    let bench = Bench::new();
    let built = bench.finish().unwrap();
    let weights = bench.artifact(&built.manifest_digest).join("model_repository/agent/1/weights.bin");
    flip_byte(&weights, CHUNK_BYTES + 5);

    let error = materialize::run(&bench.order(built.manifest_digest)).unwrap_err();

    assert_eq!(error.class(), FailureClass::BadModel);
    let text = failure::chain(&error);
    let expected = format!(
        "failed to copy the engine: {} is damaged: chunk 1 (bytes 67108864 to 134217728) has digest ",
        weights.display()
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.ends_with("; delete this artifact so that it is built again"), "{text}");
    assert!(!bench.path("engine/.slipway-verified").exists());
}

#[test]
fn a_damaged_manifest_or_one_of_another_build_is_refused() {
    let bench = Bench::new();
    let built = bench.finish().unwrap();
    flip_byte(&bench.artifact(&built.manifest_digest).join("manifest.json"), 40);
    let text = materialize::run(&bench.order(built.manifest_digest.clone())).unwrap_err().to_string();
    assert!(text.contains(&format!("the plan says {}", built.manifest_digest)), "{text}");

    let never: Digest = "0".repeat(64).parse().unwrap();
    let text = materialize::run(&bench.order(never)).unwrap_err().to_string();
    assert!(text.ends_with("it was collected or never published"), "{text}");
}

#[test]
fn a_second_start_reads_the_manifest_and_sizes_only_but_takes_the_configuration_anew() {
    let bench = Bench::new();
    let built = bench.finish().unwrap();
    let mut order = bench.order(built.manifest_digest.clone());
    materialize::run(&order).unwrap();

    order.serve.instances = Some(3);
    let second = materialize::run(&order).unwrap();

    assert_eq!(second.verified_bytes, 0);
    assert!(bench.served("agent/config.pbtxt").contains("count: 3"));
    // The pristine text is configured each time, not the text of the start before.
    order.serve = ServeConfig::default();
    materialize::run(&order).unwrap();
    assert_eq!(bench.served("agent/config.pbtxt"), CONFIG);
}

#[test]
fn a_shortened_file_in_the_cache_is_copied_again() {
    let bench = Bench::new();
    let built = bench.finish().unwrap();
    let order = bench.order(built.manifest_digest.clone());
    materialize::run(&order).unwrap();
    bench.write("engine/model_repository/agent/1/weights.bin", "short");
    bench.write("engine/model_repository/agent/2/model.py", "left by somebody");

    assert_eq!(materialize::run(&order).unwrap().verified_bytes, built.bytes);
    assert!(!bench.path("engine/model_repository/agent/2").exists());
}

#[test]
fn a_target_with_somebody_elses_files_is_left_alone() {
    let bench = Bench::new();
    let built = bench.finish().unwrap();
    bench.write("engine/precious.txt", "mine");
    let text = materialize::run(&bench.order(built.manifest_digest)).unwrap_err().to_string();
    assert!(text.ends_with("holds files of another owner (precious.txt); give an empty folder"), "{text}");
    assert!(bench.path("engine/precious.txt").exists());
}

#[test]
fn half_a_repository_is_not_published() {
    let bench = Bench::new();
    fs::remove_file(bench.path("output/model_repository/agent/1/model.py")).unwrap();

    let error = bench.finish().unwrap_err();

    assert_eq!(error.class(), FailureClass::BadModel);
    assert_eq!(
        failure::chain(&error),
        "the builder's output is not usable: version 1 of model \"agent\" has no model.py: the builder wrote half a \
         repository"
    );
    assert!(!bench.path("store/engines").exists());
}

#[test]
fn a_publication_that_was_cut_short_is_done_again() {
    let bench = Bench::new();
    bench.write("store/engines/eng-1/.partial/model_repository/agent/config.pbtxt", "half");
    let built = bench.finish().unwrap();
    materialize::run(&bench.order(built.manifest_digest)).unwrap();
    assert!(!bench.path("store/engines/eng-1/.partial").exists());
}

#[test]
fn bad_reports_identities_and_links_are_refused_by_name() {
    let bench = Bench::new();
    bench.write("output/builder.json", "{\"versions\": 3}");
    assert!(failure::chain(&bench.finish().unwrap_err()).contains("builder.json is not JSON of the documented shape"));
    fs::remove_file(bench.path("output/builder.json")).unwrap();

    std::os::unix::fs::symlink("/etc/hostname", bench.path("output/model_repository/agent/1/link")).unwrap();
    assert!(failure::chain(&bench.finish().unwrap_err()).contains("link is not a plain file"));

    let task =
        BuildTask { identity: "../x".into(), model: "agent".into(), quality: None, tensorrt_llm: None, no_build: None };
    let text = finish_build::run(&task, &bench.folders()).unwrap_err().to_string();
    assert!(text.starts_with("the identity \"../x\" has characters other than"), "{text}");
}

#[test]
fn a_build_that_was_evaluated_carries_its_score() {
    let bench = Bench::new();
    bench.write("dataset.jsonl", r#"{"id":"q","prompt":"2+2","expected":"4","maxTokens":4}"#);
    bench.write("output/quality/outputs.jsonl", r#"{"id":"q","output":"4\n"}"#);
    let (metric, confidence_ppm) = (QualityMetric::ExactMatch, 950_000);
    let quality = QualityTask { metric, confidence_ppm, reference: None, engine: None };
    let task = BuildTask {
        identity: "eng-1".into(),
        model: "agent".into(),
        quality: Some(quality),
        tensorrt_llm: None,
        no_build: None,
    };

    let built = finish_build::run(&task, &bench.folders()).unwrap();

    let score = built.quality.unwrap();
    assert_eq!((score.samples, score.score_ppm, score.reference), (1, 1_000_000, None));
    let engine = EngineRef { identity: "eng-1".into(), manifest_digest: built.manifest_digest };
    assert!(bench.path("store").join(paths::scores(&engine, &score.dataset_digest)).exists());
}
