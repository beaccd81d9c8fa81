//! A Profile campaign with scripts where Model Analyzer and perf_analyzer stand, and a server where Triton does.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{self, State},
    http::StatusCode,
    routing::{get, post},
};
use clap::Parser;
use serde_json::{Value, json};
use slipway_analysis::pareto::{Direction, Front};
use slipway_worker::{
    cli::{Cli, Verb},
    entry,
    failure::{self, Classify},
    finish_build::{self, Folders},
    hash, http, materialize,
    profile::{
        self, ProfileError, Setup,
        analyzer::Tools,
        judge::{self, Rules},
        recompute,
        records::{Circumstances, Records},
        triton::{ServerKind, Triton},
    },
};
use slipway_worker_contract::{
    Arm, BuildTask, Campaign, Cell, DataFile, Driver, EngineEntry, EngineRef, FailureClass, LatencyMetric,
    LatencyObjective, MeasureSettings, MeasurementVerdict, ModelAnalyzerRow, OptimizeFor, Percentile, Phase,
    ProfileEnd, ProfileResult, ProfileTask, Progress, Row, ServeConfig, Task, WhyNotMeasured, Workload, paths,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// Like Model Analyzer: starts perf_analyzer in a session of its own, as it does, and writes its CSV.
const MODEL_ANALYZER: &str = r#"#!/bin/sh
field() { sed "s/.*\"$1\":\[*\"*\([^],\"}]*\).*/\1/" config.yaml; }
level=$(field concurrency)
setsid "$(field perf_analyzer_path)" -m agent -b 1 -u "$(field triton_grpc_endpoint)" -i grpc -f agent-results.csv \
  --verbose-csv --concurrency-range "$level" --measurement-mode count_windows --streaming || { echo "perf failed"; exit 0; }
mkdir -p export/results
echo "Model,Concurrency,Throughput (infer/sec),p99 Latency (ms)" > export/results/metrics-model-inference.csv
echo "agent,$level,99.5,20.1" >> export/results/metrics-model-inference.csv
"#;

/// Like perf_analyzer: as many requests as asked for, each of 20 ms x requests in flight over instances, evenly sent.
const PERF_ANALYZER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in
  -f) csv=$2;; --request-count) n=$2;; --profile-export-file) out=$2;; --concurrency-range) c=$2;; --input-data) data=$2;;
esac; shift; done
[ "$(tr , '\n' < "$data" | grep -c text_input)" = "$n" ] || { echo "error: $data has not $n requests"; exit 1; }
instances=$(sed -n 's/.*count: \([0-9]*\).*/\1/p' REPOSITORY/agent/config.pbtxt)
awk -v n="$n" -v c="$c" -v i="$instances" 'BEGIN {
  latency = 20000000 * c / i; if (latency < 20000000) latency = 20000000
  printf "{\"experiments\":[{\"requests\":["
  for (k = 0; k < n; k++) { sent = 1000 + k * latency / c
    printf "%s{\"timestamp\":%.0f,\"response_timestamps\":[%.0f]}", k ? "," : "", sent, sent + latency }
  printf "]}]}" }' > "$out"
echo "Concurrency" > "$csv"
"#;

struct FakeTriton {
    url: String,
    loaded: Arc<Mutex<bool>>,
    loads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for FakeTriton {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Loads whatever the repository's configuration does not call broken.
#[derive(Clone)]
struct Repository {
    config: PathBuf,
    loaded: Arc<Mutex<bool>>,
    /// The models, as they were loaded; a minus stands before those that were unloaded.
    loads: Arc<Mutex<Vec<String>>>,
    /// While it is there, Triton is just back from a crash, without its models.
    crashed: PathBuf,
}

impl FakeTriton {
    async fn start(dir: &Path) -> Self {
        let (config, crashed) = (dir.join("engine/model_repository/agent/config.pbtxt"), dir.join("crashed"));
        let repository = Repository { config, loaded: Arc::default(), loads: Arc::default(), crashed };
        let (loaded, loads) = (Arc::clone(&repository.loaded), Arc::clone(&repository.loads));
        let router = Router::new()
            .route("/v2/health/live", get(|| async {}))
            .route("/v2/models/{model}/ready", get(ready))
            .route("/v2/repository/models/{model}/load", post(load))
            .route("/v2/repository/models/{model}/unload", post(unload))
            .route("/v2/repository/index", post(index))
            .with_state(repository);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { url, loaded, loads, task: tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }) }
    }
}

async fn ready(State(repository): State<Repository>) -> StatusCode {
    if repository.crashed.exists() { StatusCode::BAD_REQUEST } else { StatusCode::OK }
}

async fn load(
    State(repository): State<Repository>,
    extract::Path(model): extract::Path<String>,
) -> (StatusCode, Json<Value>) {
    if fs::read_to_string(&repository.config).unwrap().contains("broken") {
        let words = "load failed for model 'agent': version 1 is at UNAVAILABLE state:\n  Internal: no such weights;\n";
        return (StatusCode::BAD_REQUEST, Json(json!({"error": words})));
    }
    *repository.loaded.lock().unwrap() = true;
    let _ = fs::remove_file(&repository.crashed);
    repository.loads.lock().unwrap().push(model);
    (StatusCode::OK, Json(json!({})))
}

/// A configuration that is stuck stays loaded for ever, as a model with a request that never ends does.
async fn unload(State(repository): State<Repository>, extract::Path(model): extract::Path<String>) {
    repository.loads.lock().unwrap().push(format!("-{model}"));
    let stuck = fs::read_to_string(&repository.config).is_ok_and(|config| config.contains("stuck"));
    *repository.loaded.lock().unwrap() &= stuck;
}

async fn index(State(repository): State<Repository>) -> Json<Value> {
    let state = if *repository.loaded.lock().unwrap() { "READY" } else { "UNAVAILABLE" };
    Json(json!([{"name": "agent", "version": "1", "state": state, "reason": "unloaded"}]))
}

pub struct Bench {
    dir: TempDir,
    engine: EngineRef,
    triton: FakeTriton,
    pub task: ProfileTask,
    /// Where recorded tools answer.
    pub replay: SocketAddr,
}

impl Bench {
    pub async fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap()).await
    }

    /// With its store in another folder.
    pub async fn with_store(store: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        symlink(store, dir.path().join("store")).unwrap();
        Self::in_folder(dir).await
    }

    async fn in_folder(dir: TempDir) -> Self {
        let engine = publish(dir.path());
        let triton = FakeTriton::start(dir.path()).await;
        let prompts = dir.path().join("prompts.jsonl");
        fs::write(&prompts, r#"{"id":"1","prompt":"Question: {{word}} {{number}}?\n","maxTokens":4}"#).unwrap();
        let task = task(engine.clone(), &prompts);
        let replay = SocketAddr::from(([127, 0, 0, 1], 0));
        let bench = Self { dir, engine, triton, task, replay };
        bench.script("model-analyzer", MODEL_ANALYZER);
        bench.script("perf_analyzer", &bench.perf_analyzer());
        bench
    }

    fn perf_analyzer(&self) -> String {
        PERF_ANALYZER.replace("REPOSITORY", self.path("engine/model_repository").to_str().unwrap())
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// The folder of its records.
    pub fn records(&self) -> PathBuf {
        self.path("store").join(paths::records(&self.task.input_hash, &self.engine))
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn setup(&self) -> Setup {
        Setup {
            engine: materialize::MaterializeTask {
                engine: self.engine.clone(),
                store: self.path("store"),
                target: self.path("engine"),
                model: "agent".into(),
                serve: ServeConfig::default(),
                threads: 1,
            },
            tools: Tools {
                model_analyzer: self.path("model-analyzer"),
                worker: env!("CARGO_BIN_EXE_slipway-worker").into(),
                http: "-".into(),
                grpc: "127.0.0.1:9".into(),
                metrics: "-".into(),
                repository: self.path("engine/model_repository"),
            },
            perf_analyzer: self.path("perf_analyzer"),
            triton: Triton {
                client: http::local_client().unwrap(),
                url: self.triton.url.clone(),
                patience: Duration::from_secs(20),
                kind: ServerKind::Triton,
            },
            work: self.path("work"),
            progress: SocketAddr::from(([127, 0, 0, 1], 0)),
            replay: self.replay,
            hold: Duration::ZERO,
        }
    }

    /// perf_analyzer whose requests crash the server where the shell's condition holds.
    fn crashes_where(&self, condition: &str) {
        let (sound, crashed) = (self.perf_analyzer(), self.path("crashed"));
        let crash = format!(
            "#!/bin/sh\nif {condition}; then touch {}; echo 'error: Socket closed'; exit 99; fi\n",
            crashed.display()
        );
        self.script("perf_analyzer", &sound.replacen("#!/bin/sh\n", &crash, 1));
    }

    pub async fn run(&self) -> Result<ProfileResult, ProfileError> {
        let (_running, stop) = watch::channel(false);
        profile::run(&self.task, &self.setup(), stop).await
    }

    fn arms(&mut self, new: &[(&str, ServeConfig)]) {
        let Campaign::Explore { arms, .. } = &mut self.task.campaign else { panic!("the bench explores") };
        *arms = new.iter().map(|(id, config)| Arm { id: (*id).to_owned(), config: config.clone() }).collect();
    }
}

fn publish(dir: &Path) -> EngineRef {
    let model = dir.join("output/model_repository/agent");
    fs::create_dir_all(model.join("1")).unwrap();
    fs::write(model.join("config.pbtxt"), "name: \"agent\" backend: \"python\" instance_group { count: 1 }").unwrap();
    fs::write(model.join("1/model.py"), "").unwrap();
    let task =
        BuildTask { identity: "e".into(), model: "agent".into(), quality: None, tensorrt_llm: None, no_build: None };
    let (output, store, dataset) = (dir.join("output"), dir.join("store"), dir.join("none"));
    let built = finish_build::run(&task, &Folders { output, store, dataset, threads: 1 }).unwrap();
    EngineRef { identity: "e".into(), manifest_digest: built.manifest_digest }
}

/// A file as a campaign names it.
pub fn data_file(path: &Path) -> DataFile {
    DataFile { path: path.to_str().unwrap().to_owned(), digest: hash::file(path).unwrap() }
}

fn task(engine: EngineRef, prompts: &Path) -> ProfileTask {
    ProfileTask {
        input_hash: "campaign-1".into(),
        engine,
        model: "agent".into(),
        entry: EngineEntry::Engine,
        tokenizer: None,
        no_build: None,
        loaded_at_start: false,
        gpus: 0,
        campaign: Campaign::Explore {
            arms: vec![instances(1), instances(2)],
            levels: vec![1, 4],
            max_measurements: 8,
            max_gpu_millis: 600_000,
            driver: Driver::ModelAnalyzer,
        },
        workloads: vec![Workload { name: "chat".into(), weight: 1, prompts: data_file(prompts) }],
        objectives: vec![LatencyObjective {
            name: "fast".into(),
            metric: LatencyMetric::RequestLatency,
            percentile: Percentile::P95,
            max_microseconds: 50_000,
        }],
        error_rate_max_ppm: None,
        optimize_for: OptimizeFor::Throughput,
        measure: MeasureSettings::default(),
        measured: Vec::new(),
        other_engines: Vec::new(),
        costs: None,
        first: None,
        target_per_kilosecond: None,
        gpu_limits: Vec::new(),
        expected: Vec::new(),
    }
}

fn instances(count: u32) -> Arm {
    Arm { id: format!("instances-{count}"), config: ServeConfig { instances: Some(count), ..ServeConfig::default() } }
}

fn summary(rows: &[Row]) -> Vec<(&str, u32, MeasurementVerdict, u64)> {
    rows.iter().map(|r| (r.arm.as_str(), r.level, r.verdict, r.latencies.first().map_or(0, |l| l.micros))).collect()
}

#[tokio::test]
async fn a_campaign_measures_each_arm_as_it_is_served_and_keeps_its_records() {
    let bench = Bench::new().await;

    let result = bench.run().await.unwrap();

    let expected = [
        ("instances-1", 1, MeasurementVerdict::Feasible, 20_000),
        ("instances-2", 1, MeasurementVerdict::Feasible, 20_000),
        ("instances-1", 4, MeasurementVerdict::Infeasible, 80_000),
        ("instances-2", 4, MeasurementVerdict::Feasible, 40_000),
    ];
    assert_eq!(summary(&result.rows), expected);
    assert_eq!(result.reason, "every arm was measured up to its limit");
    let missed = &result.rows[2];
    // At 50 requests a second the first chunk is 3 s long, and enough to see that nothing meets the limit.
    assert_eq!((missed.count, missed.per_kilosecond), (150, 50_000));
    assert_eq!(missed.reason, "fast is missed: 100.0 % of 150 are above its limit; stopped early");
    let own = ModelAnalyzerRow { per_kilosecond: 99_500, p99_micros: 20_100 };
    assert_eq!(missed.model_analyzer, Some(own));

    let kept = fs::read(bench.records().join(format!("{}.json", missed.records.as_ref().unwrap()))).unwrap();
    let recomputed = recompute::run(&bench.task, &kept).unwrap();
    assert_eq!(&recomputed, missed, "a row follows from its records");
}

#[tokio::test]
async fn close_points_are_measured_again_in_the_order_that_is_asked_for() {
    let mut bench = Bench::new().await;
    let points = [(2, 4), (1, 1), (2, 1)].map(|(count, level)| Cell { arm: instances(count), level }).to_vec();
    bench.task.campaign = Campaign::Repeat { points, max_gpu_millis: 600_000, driver: Driver::ModelAnalyzer };

    let result = bench.run().await.unwrap();

    let expected = [
        ("instances-2", 4, MeasurementVerdict::Feasible, 40_000),
        ("instances-1", 1, MeasurementVerdict::Feasible, 20_000),
        ("instances-2", 1, MeasurementVerdict::Feasible, 20_000),
    ];
    assert_eq!(summary(&result.rows), expected);
    assert_eq!((result.reason.as_str(), result.not_measured.len()), ("every point was measured once more", 0));
}

/// Of 20 requests one takes four times as long: too near to a p95 to be decided.
#[tokio::test]
async fn a_point_at_its_limit_that_is_measured_again_ends_with_its_throughput() {
    let mut bench = Bench::new().await;
    let at_its_limit = bench.perf_analyzer().replace("sent + latency }", "sent + latency * (k % 20 == 7 ? 4 : 1) }");
    bench.script("perf_analyzer", &at_its_limit);
    let (arm, level) = (instances(1), 1);
    bench.task.campaign =
        Campaign::Repeat { points: vec![Cell { arm, level }], max_gpu_millis: 600_000, driver: Driver::ModelAnalyzer };

    let row = bench.run().await.unwrap().rows.remove(0);

    let reason = "fast lies within the bounds of 300 requests; compared by 300 requests";
    assert_eq!((row.verdict, row.reason.as_str()), (MeasurementVerdict::Unbounded, reason));
}

/// An engine that is split over GPUs is in processes that Triton's API does not reach.
#[tokio::test]
async fn a_model_that_is_loaded_at_the_start_stays_and_keeps_its_configuration() {
    let mut bench = Bench::new().await;
    bench.task.loaded_at_start = true;
    *bench.triton.loaded.lock().unwrap() = true;
    materialize::run(&bench.setup().engine).unwrap();
    bench.arms(&[("a", ServeConfig::default()), ("b", instances(2).config)]);
    let rows = bench.run().await.unwrap().rows;
    assert!(rows.iter().filter(|row| row.arm == "a").all(|row| row.verdict != MeasurementVerdict::Failed), "{rows:?}");
    let refused: Vec<_> = rows.iter().filter(|row| row.arm == "b").map(|row| row.reason.as_str()).collect();
    let words = "an engine that is split over GPUs is loaded once, with the configuration that it was built with: remove \
                 search.parameters";
    assert_eq!(refused, [words]);
    assert_eq!(*bench.triton.loads.lock().unwrap(), Vec::<String>::new());
}

/// What perf_analyzer is given are the tokens that the sidecar would send.
#[tokio::test]
async fn a_model_that_takes_tokens_is_measured_with_tokens() {
    let mut bench = Bench::new().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/model/checkpoints/react-512");
    bench.task.tokenizer = Some(folder.to_str().unwrap().to_owned());
    bench.script("perf_analyzer", &bench.perf_analyzer().replace("grep -c text_input", "grep -c input_ids"));
    bench.arms(&[("a", ServeConfig::default())]);
    let rows = bench.run().await.unwrap().rows;
    assert!(!rows.is_empty() && rows.iter().all(|row| row.verdict != MeasurementVerdict::Failed), "{rows:?}");
}

/// The settings are the engine's, whichever model is asked.
#[tokio::test]
async fn an_engine_behind_models_of_text_is_loaded_with_them_and_gets_the_settings() {
    let mut bench = Bench::new().await;
    bench.task.model = "tensorrt_llm_bls".into();
    bench.task.entry = EngineEntry::BLS;
    bench.arms(&[("a", ServeConfig { parameters: [("mode".into(), "fast".into())].into(), ..Default::default() })]);
    assert_eq!(entry::configured(&bench.task.model, bench.task.entry), "tensorrt_llm");
    let rows = bench.run().await.unwrap().rows;
    assert!(!rows.is_empty() && rows.iter().all(|row| row.verdict != MeasurementVerdict::Failed), "{rows:?}");
    let expected = [
        "-tensorrt_llm_bls",
        "-postprocessing",
        "-tensorrt_llm",
        "-preprocessing",
        "preprocessing",
        "tensorrt_llm",
        "postprocessing",
        "tensorrt_llm_bls",
    ];
    assert_eq!(*bench.triton.loads.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_campaign_resumes_without_measuring_a_row_again() {
    let mut bench = Bench::new().await;
    let whole = bench.run().await.unwrap().rows;
    bench.task.measured = whole[..3].to_vec();
    assert_eq!(summary(&bench.run().await.unwrap().rows), summary(&whole[3..]));
}

#[tokio::test]
async fn model_analyzer_that_ends_well_without_its_row_is_a_failed_row_with_its_log() {
    let mut bench = Bench::new().await;
    bench.arms(&[("a", ServeConfig::default())]);
    bench.script("model-analyzer", &MODEL_ANALYZER.replace("\"agent,$level", "\"agent,77"));
    let error = bench.run().await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Infrastructure);
    let text = failure::chain(&error);
    assert!(text.contains("Model Analyzer ended with exit status 0 and without a row for concurrency 1"), "{text}");
}

#[tokio::test]
async fn an_error_of_perf_analyzer_reaches_the_row_in_its_own_words() {
    let bench = Bench::new().await;
    bench.script("perf_analyzer", "#!/bin/sh\necho starting; echo 'error: failed to parse input data'; exit 99\n");
    let text = failure::chain(&bench.run().await.unwrap_err());
    assert_eq!(
        text,
        "no configuration could be measured; the first: perf_analyzer ended with exit status: 99: error: failed to \
         parse input data"
    );
}

#[tokio::test]
async fn an_arm_that_triton_cannot_load_is_a_failed_row_and_the_others_go_on() {
    let mut bench = Bench::new().await;
    let parameters = [("weights".to_owned(), "broken".to_owned())].into();
    let broken = ServeConfig { parameters, ..ServeConfig::default() };
    bench.arms(&[("broken", broken.clone()), ("sound", ServeConfig::default())]);
    let rows = bench.run().await.unwrap().rows;
    assert_eq!(rows[0].verdict, MeasurementVerdict::Failed);
    let words = "Triton cannot load \"agent\": load failed for model 'agent': version 1 is at UNAVAILABLE state: \
                 Internal: no such weights";
    assert_eq!(rows[0].reason, words);
    assert_eq!(summary(&rows[1..2]), [("sound", 1, MeasurementVerdict::Feasible, 20_000)]);

    bench.arms(&[("broken", broken)]);
    let error = bench.run().await.unwrap_err();
    assert_eq!(error.class(), FailureClass::BadModel);
    assert_eq!(failure::chain(&error), format!("no configuration could be measured; the first: {words}"));
}

#[tokio::test]
async fn a_level_at_which_the_server_died_is_measured_once_more() {
    let bench = Bench::new().await;
    let undisturbed = bench.run().await.unwrap().rows;
    bench.triton.loads.lock().unwrap().clear();
    bench.crashes_where(&format!("mkdir {} 2>/dev/null", bench.path("once").display()));
    let rows = bench.run().await.unwrap().rows;
    assert_eq!(summary(&rows), summary(&undisturbed));
    assert_eq!(bench.triton.loads.lock().unwrap()[..4], ["-agent", "agent", "-agent", "agent"], "loaded again");
}

#[tokio::test]
async fn a_level_that_no_server_survives_is_a_failed_row_and_the_others_go_on() {
    let bench = Bench::new().await;
    bench.crashes_where("[ \"$(echo \"$*\" | grep -c 'concurrency-range 4')\" = 1 ]");
    let rows = bench.run().await.unwrap().rows;
    let expected = [
        ("instances-1", 1, MeasurementVerdict::Feasible, 20_000),
        ("instances-2", 1, MeasurementVerdict::Feasible, 20_000),
        ("instances-1", 4, MeasurementVerdict::Failed, 0),
        ("instances-2", 4, MeasurementVerdict::Failed, 0),
    ];
    assert_eq!(summary(&rows), expected);
    let words = "the server failed while arm \"instances-1\" was measured at level 4 (perf_analyzer ended with exit \
                 status: 99: error: Socket closed): Triton no longer serves \"agent\", as after a restart: see its \
                 container's log";
    assert_eq!(rows[2].reason, words);
}

/// The Job's attempts bound it.
#[tokio::test]
async fn a_server_that_dies_at_every_level_is_worth_another_attempt() {
    let bench = Bench::new().await;
    bench.crashes_where("true");
    let error = bench.run().await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Infrastructure);
    let start = "no configuration could be measured; the first: the server failed while arm \"instances-1\" was \
                 measured at level 1 (perf_analyzer ended";
    assert!(failure::chain(&error).starts_with(start), "{error}");
}

#[tokio::test]
async fn an_image_without_perf_analyzer_is_an_image_mismatch() {
    let bench = Bench::new().await;
    fs::remove_file(bench.path("perf_analyzer")).unwrap();
    let error = bench.run().await.unwrap_err();
    assert_eq!(error.class(), FailureClass::ImageMismatch);
    assert!(error.to_string().ends_with("perf_analyzer: use an image with Model Analyzer and perf_analyzer"));
}

#[tokio::test]
async fn progress_is_read_while_it_grows_and_acknowledged_only_at_the_end() {
    let bench = Bench::new().await;
    let board = profile::progress::Board::new(&bench.task);
    let (address, server) = board.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let client = http::local_client().unwrap();
    let acknowledge = || client.post(format!("http://{address}{}", paths::PROGRESS_ACKNOWLEDGE_PATH)).send();
    assert_eq!(acknowledge().await.unwrap().status(), StatusCode::CONFLICT);

    let row = judge::row(
        &Records {
            format_version: 1,
            metric: LatencyMetric::RequestLatency,
            arm: "a".into(),
            level: 1,
            circumstances: Circumstances { gpu_millis: 5, ..Circumstances::default() },
            chunks: Vec::new(),
        },
        &Rules::default(),
    );
    board.add(row.clone());
    board.enter(Phase::Finished { end: ProfileEnd::Complete, reason: "done".into() });
    let read: Progress =
        client.get(format!("http://{address}{}", paths::PROGRESS_PATH)).send().await.unwrap().json().await.unwrap();
    assert_eq!(
        (read.rows, read.gpu_millis, read.phase),
        (vec![row], 5, Phase::Finished { end: ProfileEnd::Complete, reason: "done".into() })
    );

    assert_eq!(acknowledge().await.unwrap().status(), StatusCode::OK);
    board.hold(Duration::from_secs(600)).await;
    server.abort();
}

#[tokio::test]
async fn a_job_that_is_asked_to_end_ends_between_levels_and_reports_its_rows() {
    let bench = Bench::new().await;
    let (sender, stop) = watch::channel(false);
    sender.send(true).unwrap();
    let result = profile::run(&bench.task, &bench.setup(), stop).await.unwrap();
    assert_eq!((result.rows.len(), result.end), (0, ProfileEnd::Interrupted));
}

#[tokio::test]
async fn a_budget_too_small_for_one_measurement_ends_without_rows_and_says_what_one_takes() {
    let mut bench = Bench::new().await;
    let mut ended = async |measurements, gpu_millis| {
        let Campaign::Explore { max_measurements, max_gpu_millis, .. } = &mut bench.task.campaign else {
            panic!("the bench explores")
        };
        (*max_measurements, *max_gpu_millis) = (measurements, gpu_millis);
        let result = bench.run().await.unwrap();
        let whys: Vec<_> = result.not_measured.iter().map(|entry| (entry.arm.clone(), entry.why)).collect();
        let both = ["instances-1", "instances-2"].map(|arm| (arm.to_owned(), WhyNotMeasured::Budget));
        assert_eq!((result.rows.len(), result.end, whys), (0, ProfileEnd::BudgetUsed, both.to_vec()));
        result.reason
    };
    assert_eq!(
        ended(9, 2_000).await,
        "the budget is too small for one measurement: 2 s of GPU time are left and one takes at least 3 s; raise \
         profiling.budget.gpuHours"
    );
    assert_eq!(ended(0, 90_000).await, "no measurement is left of the budget: raise profiling.budget.measurements");
}

#[tokio::test]
async fn what_is_profiled_is_what_is_served_byte_for_byte() {
    let bench = Bench::new().await;
    bench.run().await.unwrap();
    let profiled = fs::read(bench.path("engine/model_repository/agent/config.pbtxt")).unwrap();

    // The last arm that was measured, as the operator orders it for serving.
    let arguments = ["slipway-worker", "materialize", "--identity", "e", "--serve-config", r#"{"instances":2}"#];
    let (store, target) = (bench.path("store"), bench.path("served"));
    let folders = ["--store", store.to_str().unwrap(), "--target", target.to_str().unwrap()];
    let digest = ["--manifest-digest", bench.engine.manifest_digest.as_str()];
    let cli = Cli::try_parse_from(arguments.into_iter().chain(folders).chain(digest)).unwrap();
    let Verb::Materialize(arguments) = cli.verb else { panic!("it is the verb that was given") };
    materialize::run(&arguments.order()).unwrap();

    let served = fs::read(target.join("model_repository/agent/config.pbtxt")).unwrap();
    assert_eq!(String::from_utf8(served).unwrap(), String::from_utf8(profiled).unwrap());
}

/// Runs the verb as a person would, and reads what it prints.
fn recompute(bench: &Bench, records: &Path) -> Result<Row, String> {
    let task = bench.path("task.json");
    fs::write(&task, serde_json::to_vec(&Task::Profile(Box::new(bench.task.clone()))).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_slipway-worker"));
    command.arg("recompute").arg("--task").arg(task).arg("--records").arg(records);
    let output = command.arg("--termination-log").arg(bench.path("message")).output().unwrap();
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// The choice among rows: the feasible one on the front of throughput and p99 with the most throughput.
fn chosen(rows: &[Row]) -> &Row {
    let feasible: Vec<&Row> = rows.iter().filter(|row| row.verdict == MeasurementVerdict::Feasible).collect();
    let p99 = |row: &Row| row.latencies.iter().find(|l| l.percentile == Percentile::P99).unwrap().micros as f64;
    let points: Vec<Vec<f64>> = feasible.iter().map(|row| vec![row.per_kilosecond as f64, p99(row)]).collect();
    let front = Front::of(&points, &[Direction::Maximize, Direction::Minimize]).unwrap();
    let members = front.members().iter().map(|member| feasible[*member]);
    members.max_by_key(|row| row.per_kilosecond).unwrap()
}

#[tokio::test]
async fn anyone_can_compute_a_row_again_and_an_altered_record_changes_row_and_choice() {
    let bench = Bench::new().await;
    let rows = bench.run().await.unwrap().rows;
    let folder = bench.path("store").join(paths::records("campaign-1", &bench.engine));
    let file = |row: &Row| folder.join(format!("{}.json", row.records.as_ref().unwrap()));
    let audited: Vec<Row> = rows.iter().map(|row| recompute(&bench, &file(row)).unwrap()).collect();
    assert_eq!(audited, rows);
    assert_eq!((chosen(&audited).arm.as_str(), chosen(&audited).level), ("instances-2", 4));

    // A window ten times as long makes the best point the slowest.
    let best = rows.iter().position(|row| row == chosen(&rows)).unwrap();
    let text = fs::read_to_string(file(&rows[best])).unwrap();
    let altered = text.replacen("\"windowNanos\":", "\"windowNanos\":9", 1);
    fs::write(bench.path("altered.json"), altered).unwrap();
    let mut forged = audited.clone();
    forged[best] = recompute(&bench, &bench.path("altered.json")).unwrap();
    assert_ne!(forged[best].records, rows[best].records, "the digest gives it away");
    assert!(forged[best].per_kilosecond < rows[best].per_kilosecond);
    assert_eq!(chosen(&forged).level, 1, "the choice is another one");
}

#[tokio::test]
async fn records_that_cannot_be_read_are_named() {
    let bench = Bench::new().await;
    fs::write(bench.path("odd.json"), r#"{"formatVersion":1}"#).unwrap();
    let message = recompute(&bench, &bench.path("odd.json")).unwrap_err();
    assert!(message.contains("odd.json: the stored records cannot be read"), "{message}");
    let message = recompute(&bench, &bench.path("none.json")).unwrap_err();
    assert!(message.contains("failed to read the records ") && message.contains("none.json"), "{message}");
}

#[tokio::test]
async fn a_job_that_is_asked_to_end_does_not_wait_for_a_model_that_does_not_unload() {
    let mut bench = Bench::new().await;
    let parameters = [("unload".to_owned(), "stuck".to_owned())].into();
    let stuck = ServeConfig { parameters, ..ServeConfig::default() };
    bench.arms(&[("stuck", stuck), ("other", ServeConfig::default())]);
    let (sender, stop) = watch::channel(false);
    // On a loopback address of its own: other tests take free ports of 127.0.0.1.
    let progress = std::net::TcpListener::bind("127.0.0.3:0").unwrap().local_addr().unwrap();
    let setup = Setup { progress, ..bench.setup() };
    let asks = async {
        let client = http::local_client().unwrap();
        let url = format!("http://{progress}{}", paths::PROGRESS_PATH);
        loop {
            let read = async { client.get(&url).send().await.ok()?.json::<Progress>().await.ok() };
            let loads = |p: &Progress| p.phase == Phase::Loading { arm: Some("other".into()) };
            if read.await.as_ref().is_some_and(loads) {
                return sender.send(true).unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let (result, ()) = tokio::join!(profile::run(&bench.task, &setup, stop), asks);
    let result = result.unwrap();
    assert_eq!((result.rows.len(), result.end), (1, ProfileEnd::Interrupted));
    assert_eq!(result.not_measured[1].why, WhyNotMeasured::Interrupted);
}
