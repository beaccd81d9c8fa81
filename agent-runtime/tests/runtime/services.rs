//! What all tools that call a service have in common: where the service may be, and how often it is called.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    http::{
        StatusCode,
        header::{LOCATION, RETRY_AFTER},
    },
    response::IntoResponse,
    routing::get,
};
use futures::future::join_all;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_agent_runtime::{
    outbound::Lookup,
    tools::{Registry, Request, Sources},
};
use slipway_runtime_config::{CircuitBreaker, HttpTool, ResultPick, Tool, ToolKind};
use tokio::time::Instant;

use crate::fixture::{or_hang, serve};

type Answer = Result<String, (&'static str, String)>;

async fn call(tools: &Registry) -> Answer {
    or_hang(tools.call(Request::new("tool", ""))).await.map_err(|error| (error.kind(), error.observation()))
}

fn tool(http: HttpTool) -> [Tool; 1] {
    [Tool { name: "tool".into(), description: String::new(), input_schema: None, kind: ToolKind::Http(http) }]
}

fn with_lookup(http: HttpTool, lookup: &Lookup) -> Registry {
    let sources = Sources { tools: &tool(http), servers: &[], lookup };
    Registry::of(sources).expect("the tool can be set up")
}

/// A service that counts its calls, at a port of the loopback address.
struct Counted {
    port: String,
    calls: Arc<AtomicUsize>,
}

impl Counted {
    async fn new(answer: impl Fn(usize) -> StatusCode + Clone + Send + Sync + 'static) -> Self {
        let calls: Arc<AtomicUsize> = Arc::default();
        let counter = Arc::clone(&calls);
        let answered = async move || answer(counter.fetch_add(1, Ordering::SeqCst) + 1);
        let origin = serve(Router::new().route("/", get(answered))).await;
        let (_, port) = origin.rsplit_once(':').expect("an origin with a port");
        Self { port: port.to_owned(), calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// A tool at a name that has these addresses.
    fn named(&self, addresses: &[&str], allowed: &[&str]) -> Registry {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().expect("an address")).collect();
        let http = HttpTool {
            allowed_networks: allowed.iter().map(|network| (*network).to_owned()).collect(),
            ..HttpTool::new(&format!("http://facts.example:{}/", self.port))
        };
        let lookup = Lookup::of(move |name| if name == "facts.example" { addresses.clone() } else { Vec::new() });
        with_lookup(http, &lookup)
    }
}

fn forbidden() -> Answer {
    Err(("address", "the service is at an address that must not be called".into()))
}

#[rstest]
#[case::the_pod(&["127.0.0.1"])]
#[case::the_pod_as_ipv6(&["::1"])]
#[case::the_pod_in_disguise(&["::ffff:127.0.0.1"])]
#[case::behind_a_good_one(&["10.0.0.7", "127.0.0.1"])]
#[case::metadata(&["169.254.169.254"])]
#[case::nothing(&["0.0.0.0"])]
#[tokio::test]
async fn a_name_that_leads_to_a_special_address_is_not_called(#[case] addresses: &[&str]) {
    let service = Counted::new(|_| StatusCode::OK).await;
    assert_eq!(call(&service.named(addresses, &[])).await, forbidden());
    assert_eq!(service.calls(), 0);
}

#[tokio::test]
async fn a_name_must_lead_into_the_listed_networks() {
    let service = Counted::new(|_| StatusCode::OK).await;
    assert_eq!(call(&service.named(&["127.0.0.1"], &["Public"])).await, forbidden());
    assert_eq!(call(&service.named(&["127.0.0.1"], &["10.0.0.0/8"])).await, forbidden());
    assert_eq!(service.calls(), 0);
    assert_eq!(call(&service.named(&["127.0.0.1"], &["10.0.0.0/8", "127.0.0.0/8"])).await, Ok(String::new()));
    assert_eq!(service.calls(), 1);
}

/// A name server that says something else each time cannot lead a connection away from what was checked.
#[tokio::test]
async fn the_connection_goes_to_the_addresses_that_were_checked() {
    let service = Counted::new(|_| StatusCode::OK).await;
    let asked = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&asked);
    let lookup = Lookup::of(move |_| {
        let mut asked = counter.lock().expect("no test panics with the lock");
        *asked += 1;
        let address = if *asked == 1 { "127.0.0.2" } else { "127.0.0.1" };
        vec![address.parse().expect("an address")]
    });
    let http = HttpTool {
        allowed_networks: vec!["127.0.0.2/32".into()],
        ..HttpTool::new(&format!("http://facts.example:{}/", service.port))
    };
    let tools = with_lookup(http, &lookup);
    // Nobody listens at the address that was checked, and the other is not tried.
    assert_eq!(call(&tools).await, Err(("connect", "the service cannot be reached".into())));
    assert_eq!((service.calls(), *asked.lock().expect("no test panics with the lock")), (0, 1));
    assert_eq!(call(&tools).await, forbidden());
    assert_eq!(service.calls(), 0);
}

#[tokio::test]
async fn a_redirect_leads_nowhere() {
    let service = Counted::new(|_| StatusCode::OK).await;
    let target = format!("http://127.0.0.1:{}/", service.port);
    let redirect = async move || (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, target)]).into_response();
    let origin = serve(Router::new().route("/", get(redirect))).await;
    let tools = Registry::new(&tool(HttpTool::new(&origin))).expect("the tool can be set up");
    assert_eq!(call(&tools).await, Err(("status", "HTTP status 307".into())));
    assert_eq!(service.calls(), 0);
}

#[rstest]
#[case::latin_1(b"caf\xe9".to_vec(), ResultPick::Text, "the answer is not text in UTF-8: byte 3 is wrong")]
#[case::cut_off(b"\xe2\x82".to_vec(), ResultPick::Text, "the answer is not text in UTF-8: byte 0 is wrong")]
#[case::in_json(b"{\"a\": \"caf\xe9\"}".to_vec(), ResultPick::JsonPointer("/a".into()), "the answer is not JSON")]
#[tokio::test]
async fn an_answer_that_is_no_text_is_refused(
    #[case] body: Vec<u8>,
    #[case] result: ResultPick,
    #[case] message: &str,
) {
    let origin = serve(Router::new().route("/", get(async move || body))).await;
    let http = HttpTool { result, ..HttpTool::new(&origin) };
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    assert_eq!(call(&tools).await, Err(("answer", message.into())));
}

#[tokio::test]
async fn a_call_waits_for_a_place_only_as_long_as_a_call_may_take() {
    let origin = serve(Router::new().route("/", get(std::future::pending::<&str>))).await;
    let http = HttpTool { max_in_flight: Some(1), timeout_milliseconds: 100, ..HttpTool::new(&origin) };
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    // The first call leaves its place to the second when its time is up, and then so is that of the third.
    let answers = or_hang(join_all((0..3).map(|_| call(&tools)))).await;
    let timeout = || Err(("timeout", "no answer within 100 ms".to_owned()));
    let busy = Err(("busy", "too many calls of the tool are under way; none ended within 100 ms".to_owned()));
    assert_eq!(answers, [timeout(), timeout(), busy]);
}

fn breaker() -> Option<CircuitBreaker> {
    Some(CircuitBreaker { failures: 2, pause_milliseconds: 3_600_000 })
}

#[tokio::test]
async fn a_service_that_keeps_failing_is_left_alone() {
    let service = Counted::new(|_| StatusCode::BAD_GATEWAY).await;
    let http = HttpTool {
        circuit_breaker: breaker(),
        idempotent: true,
        retries: 5,
        ..HttpTool::new(&format!("http://127.0.0.1:{}/", service.port))
    };
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    for _ in 0..3 {
        let (kind, message) = call(&tools).await.expect_err("it is left alone");
        assert_eq!(kind, "circuit_open");
        assert!(message.starts_with("the service keeps failing; it is not called for another "), "{message}");
    }
    assert_eq!(service.calls(), 2);
}

#[tokio::test]
async fn answers_of_any_kind_keep_a_service_in_use() {
    let service = Counted::new(|call| match call % 4 {
        0 => StatusCode::BAD_GATEWAY,
        1 => StatusCode::NOT_FOUND,
        2 => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    })
    .await;
    let url = format!("http://127.0.0.1:{}/", service.port);
    let http = HttpTool { circuit_breaker: breaker(), ..HttpTool::new(&url) };
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    for _ in 0..12 {
        assert_eq!(call(&tools).await.map_err(|(kind, _)| kind), Err("status"));
    }
    assert_eq!(service.calls(), 12);
}

#[tokio::test]
async fn after_the_pause_a_service_is_tried_and_used_again() {
    let service = Counted::new(|call| if call <= 2 { StatusCode::BAD_GATEWAY } else { StatusCode::OK }).await;
    let http = HttpTool {
        circuit_breaker: Some(CircuitBreaker { failures: 2, pause_milliseconds: 1 }),
        ..HttpTool::new(&format!("http://127.0.0.1:{}/", service.port))
    };
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    let back = async { while call(&tools).await != Ok(String::new()) {} };
    or_hang(back).await;
    assert_eq!(service.calls(), 3);
}

/// A service that is busy once and names a pause, and is there afterwards.
async fn busy_once(retry_after: &'static str) -> (Arc<AtomicUsize>, HttpTool) {
    let calls: Arc<AtomicUsize> = Arc::default();
    let counter = Arc::clone(&calls);
    let answer = async move || match counter.fetch_add(1, Ordering::SeqCst) {
        0 => (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, retry_after)]).into_response(),
        _ => "42".into_response(),
    };
    let origin = serve(Router::new().route("/", get(answer))).await;
    let http = HttpTool { idempotent: true, retries: 2, timeout_milliseconds: 60_000, ..HttpTool::new(&origin) };
    (calls, http)
}

#[rstest]
#[case::none_that_can_be_read("soon")]
#[case::a_second("1")]
#[case::a_date_that_is_over("Sun, 06 Nov 1994 08:49:37 GMT")]
#[tokio::test]
async fn a_service_is_called_again_after_the_pause_that_it_asks_for(#[case] retry_after: &'static str) {
    let (calls, http) = busy_once(retry_after).await;
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    assert_eq!((call(&tools).await, calls.load(Ordering::SeqCst)), (Ok("42".into()), 2));
}

#[tokio::test]
async fn a_pause_that_is_longer_than_a_call_may_take_is_left_to_the_model() {
    let (calls, http) = busy_once("61").await;
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    let expected = "HTTP status 429; the service wants to be called again in 61 s";
    assert_eq!(call(&tools).await, Err(("status", expected.into())));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_pause_that_is_longer_than_the_run_has_left_is_not_waited_for() {
    let (calls, http) = busy_once("30").await;
    let tools = Registry::new(&tool(http)).expect("the tool can be set up");
    let until = Some(Instant::now() + Duration::from_secs(29));
    let result = or_hang(tools.call(Request { until, ..Request::new("tool", "") })).await;
    assert_eq!(result.map_err(|error| error.kind()), Err("status"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
