//! What an engine's own server says of its queue and its KV cache, on the port where pickers look.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    http::StatusCode,
    routing::{get as on_get, post as on_post},
};
use futures::future::join_all;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_agent_runtime::{
    api::{admission::Readiness, run_names::Seal},
    app::{App, Parts},
    backend::{Backend, Entry, OpenAi, OpenAiServer, Triton},
    clock::Clock,
    outbound::Lookup,
};
use slipway_runtime_config::{RuntimeConfig, TextDialect, Upstream};
use tokio::net::TcpListener;

use crate::fixture::{START, get, or_hang, serve};

/// With two engines of one server, as data parallelism has them.
const VLLM: &str = "# HELP vllm:num_requests_waiting Number of requests waiting to be processed.\n\
    # TYPE vllm:num_requests_waiting gauge\n\
    vllm:num_requests_waiting{engine=\"0\",model_name=\"a } b\"} 3.0\n\
    vllm:num_requests_waiting{engine=\"1\",model_name=\"a } b\"} 4.0\n\
    vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 9.0\n\
    vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n\
    vllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n";
const EARLIER_VLLM: &str = "vllm:num_requests_waiting 0.0\nvllm:gpu_cache_usage_perc{model_name=\"a\"} 0.5\n";
const SGLANG: &str = "sglang:num_queue_reqs{model_name=\"a\"} 2.0\nsglang:token_usage{model_name=\"a\"} 0.28\n";

/// A server with such metrics, and how often it was asked for them.
async fn server(status: StatusCode, metrics: &'static str) -> (String, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let answer = async move || {
        counter.fetch_add(1, Ordering::SeqCst);
        (status, metrics)
    };
    let router = Router::new().route("/metrics", on_get(answer)).route("/v1/completions", on_post(async || "no"));
    (serve(router).await, asked)
}

fn api<B: Backend + 'static>(of: impl FnOnce(&str) -> B, endpoint: &str) -> Router {
    let mut config = RuntimeConfig::new("support", "support-1", endpoint);
    config.engine.dialect = TextDialect::OpenAi;
    let backend: Arc<dyn Backend> = Arc::new(of(endpoint));
    let (clock, _time) = Clock::manual(START);
    let app = App::new(Parts { config, pod: "support-1-x".into(), backend, clock, seal: Seal::new(|number| number) });
    let app = app.expect("the configuration can be set up");
    app.admission().set_readiness(Readiness::Ready);
    app.api()
}

fn beside(server: OpenAiServer) -> impl FnOnce(&str) -> OpenAi {
    move |endpoint| OpenAi::new(server, endpoint, "agent").expect("the endpoint is a URL")
}

/// What the pod says about its engine, a line each.
async fn told(api: &Router) -> Vec<String> {
    let body = or_hang(get(api, "/metrics")).await.body;
    assert!(body.contains("slipway_ready 1\n") && body.ends_with("# EOF\n"), "{body}");
    body.lines().filter(|line| line.starts_with("slipway_engine_")).map(str::to_owned).collect()
}

#[rstest]
#[case::vllm(OpenAiServer::Vllm, VLLM, &["slipway_engine_requests_waiting 7.0", "slipway_engine_kv_cache_usage_ratio 0.75"])]
#[case::earlier_vllm(OpenAiServer::Vllm, EARLIER_VLLM, &["slipway_engine_requests_waiting 0.0", "slipway_engine_kv_cache_usage_ratio 0.5"])]
#[case::sglang(OpenAiServer::SgLang, SGLANG, &["slipway_engine_requests_waiting 2.0", "slipway_engine_kv_cache_usage_ratio 0.28"])]
#[case::one_of_them(OpenAiServer::Vllm, "vllm:num_requests_waiting 1.0\nvllm:kv_cache_usage_perc NaN\n",
    &["slipway_engine_requests_waiting 1.0"])]
#[case::of_another_make(OpenAiServer::Vllm, SGLANG, &[])]
#[tokio::test]
async fn pickers_find_the_queue_and_the_cache_of_the_engine(
    #[case] of: OpenAiServer,
    #[case] metrics: &'static str,
    #[case] expected: &[&str],
) {
    let (endpoint, _) = server(StatusCode::OK, metrics).await;
    assert_eq!(told(&api(beside(of), &endpoint)).await, expected);
}

/// As Triton 25.10 has them with a model of TensorRT-LLM and the one before it.
const TRITON: &str = "nv_inference_pending_request_count{model=\"pre\",version=\"1\"} 2\n\
    nv_inference_pending_request_count{model=\"agent\",version=\"1\"} 1\n\
    nv_trt_llm_request_metrics{model=\"agent\",request_type=\"waiting\",version=\"1\"} 4\n\
    nv_trt_llm_request_metrics{model=\"agent\",request_type=\"active\",version=\"1\"} 90\n\
    nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\",model=\"agent\",version=\"1\"} 160\n\
    nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\",model=\"agent\",version=\"1\"} 0.625\n";
const TRITON_WITH_VLLM: &str = "nv_inference_pending_request_count{model=\"agent\",version=\"1\"} 0\n\
    vllm:num_requests_waiting{model=\"agent\",version=\"1\"} 3\n\
    vllm:gpu_cache_usage_perc{model=\"agent\",version=\"1\"} 0.5\n";
const TRITON_ALONE: &str = "nv_inference_pending_request_count{model=\"agent\",version=\"1\"} 6\n";

/// Triton's port is fixed, so each case has a loopback address of its own.
#[rstest]
#[case::tensorrt_llm("127.0.1.1", TRITON, &["slipway_engine_requests_waiting 7.0", "slipway_engine_kv_cache_usage_ratio 0.625"])]
#[case::vllm("127.0.1.2", TRITON_WITH_VLLM, &["slipway_engine_requests_waiting 3.0", "slipway_engine_kv_cache_usage_ratio 0.5"])]
#[case::a_model_without_a_cache("127.0.1.3", TRITON_ALONE, &["slipway_engine_requests_waiting 6.0"])]
#[tokio::test]
async fn pickers_find_the_queues_and_the_cache_behind_triton(
    #[case] host: &str,
    #[case] metrics: &'static str,
    #[case] expected: &[&str],
) {
    let listener = TcpListener::bind((host, 8002)).await.expect("nobody else uses the address");
    let router = Router::new().route("/metrics", on_get(async move || metrics));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let triton = |endpoint: &str| Triton::new(endpoint, "agent", Entry::Text).expect("the endpoint is a URL");
    assert_eq!(told(&api(triton, &format!("http://{host}:8001"))).await, expected);
}

#[tokio::test]
async fn a_figure_that_is_not_known_has_no_series() {
    let (endpoint, asked) = server(StatusCode::NOT_FOUND, VLLM).await;
    assert_eq!(told(&api(beside(OpenAiServer::Vllm), &endpoint)).await, [""; 0]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(told(&api(beside(OpenAiServer::Vllm), "http://127.0.0.1:9")).await, [""; 0]);
}

#[tokio::test]
async fn a_server_elsewhere_is_not_asked_for_its_metrics() {
    let (endpoint, asked) = server(StatusCode::OK, VLLM).await;
    let elsewhere = |endpoint: &str| {
        let upstream = Upstream::default();
        OpenAi::elsewhere(OpenAiServer::Vllm, endpoint, "agent", (&upstream, Lookup::of_system())).expect("it is a way")
    };
    assert_eq!(told(&api(elsewhere, &endpoint)).await, [""; 0]);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn pickers_that_ask_at_once_cost_the_engine_one_answer() {
    let (endpoint, asked) = server(StatusCode::OK, VLLM).await;
    let api = api(beside(OpenAiServer::Vllm), &endpoint);
    let answers = join_all((0..50).map(|_| told(&api))).await;
    assert!(answers.iter().all(|answer| answer.len() == 2), "{answers:?}");
    // One, but for a machine that stands still meanwhile.
    assert!(asked.load(Ordering::SeqCst) < 10, "{asked:?}");
}
