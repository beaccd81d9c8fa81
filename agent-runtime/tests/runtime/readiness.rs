//! Readiness follows the engine, after a warm-up.

use std::{sync::Arc, time::Duration};

use futures::{
    future::BoxFuture,
    stream::{BoxStream, StreamExt, iter},
};
use pretty_assertions::assert_eq;
use slipway_agent_runtime::{
    api::admission::{Admission, Readiness},
    backend::{Backend, BackendError, FinishReason, Generation, Piece, SamplingField, SamplingFields},
    readiness::{Pauses, ReadinessWatch},
    tools::Registry,
};
use slipway_runtime_config::{Sampling, WarmUp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fixture::or_hang;

/// An engine that is ready when it is told to be, and fails at prompts beyond its context.
struct Engine {
    is_ready: watch::Sender<bool>,
    /// Questions that it leaves unanswered from now on, and those that it was asked.
    questions: watch::Sender<(u32, u32)>,
    generations: watch::Sender<Vec<Generation>>,
    context: usize,
    is_elsewhere: bool,
    /// What its model takes of how tokens are chosen, and what the agent wants of that.
    takes: watch::Sender<SamplingFields>,
    wanted: Sampling,
}

impl Backend for Engine {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        let fits = generation.prompt.len() + generation.max_tokens as usize <= self.context;
        self.generations.send_modify(|generations| generations.push(generation));
        let done = Piece { output_tokens: 1, finish: Some(FinishReason::Length), ..Piece::default() };
        let too_long = BackendError::engine("the prompt does not fit the context".into());
        iter([if fits { Ok(done) } else { Err(too_long) }]).boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        let is_ready = *self.is_ready.borrow();
        let is_late = self.questions.borrow().0 > 0;
        self.questions.send_modify(|(late, asked)| {
            *late = late.saturating_sub(1);
            *asked += 1;
        });
        if is_late {
            let (endpoint, source) = ("http://127.0.0.1:8001".into(), "deadline has elapsed".into());
            return Box::pin(async { Err(BackendError::Unreachable { endpoint, source }) });
        }
        let not_ready = BackendError::NotReady { what: "Triton's model \"agent\"".into() };
        Box::pin(async move { if is_ready { Ok(()) } else { Err(not_ready) } })
    }

    fn sampling(&self) -> SamplingFields {
        *self.takes.borrow()
    }

    fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }
}

fn watched(engine: &Arc<Engine>) -> (Arc<Admission>, CancellationToken) {
    let admission = Admission::new(1);
    let watch = ReadinessWatch {
        backend: Arc::clone(engine) as _,
        tools: Arc::new(Registry::new(&[]).expect("no tools")),
        admission: Arc::clone(&admission),
        sampling: engine.wanted,
        warm_up: WarmUp { longest_prompt_characters: 24 },
        max_tokens: 8,
        timeout: Duration::from_secs(60),
        pauses: Pauses { until_ready: Duration::from_millis(1), when_ready: Duration::from_millis(1) },
    };
    let stop = CancellationToken::new();
    tokio::spawn(watch.watch(stop.clone()));
    (admission, stop)
}

async fn until(admission: &Admission, readiness: &Readiness) {
    or_hang(admission.until(|found| found == readiness)).await;
}

fn engine(context: usize) -> Arc<Engine> {
    Arc::new(new(context, false))
}

/// A server that serves from the start, of which no generation fits.
fn server_elsewhere() -> Arc<Engine> {
    let server = new(0, true);
    server.is_ready.send_replace(true);
    Arc::new(server)
}

fn new(context: usize, is_elsewhere: bool) -> Engine {
    let (is_ready, generations) = (watch::Sender::new(false), watch::Sender::default());
    let (takes, wanted) = (watch::Sender::new(SamplingFields::NONE), Sampling::default());
    Engine { is_ready, questions: watch::Sender::default(), generations, context, is_elsewhere, takes, wanted }
}

/// Leaves so many questions unanswered, and returns once the next was answered.
async fn is_late(engine: &Engine, questions: u32) {
    engine.questions.send_replace((questions, 0));
    or_hang(engine.questions.subscribe().wait_for(|(_, asked)| *asked > questions + 1))
        .await
        .expect("the engine lives");
}

#[tokio::test]
async fn the_pod_is_ready_after_generations_of_the_shortest_and_the_longest_shape() {
    let engine = engine(32);
    let (admission, stop) = watched(&engine);
    until(&admission, &Readiness::NotReady { why: "Triton's model \"agent\" is not ready".into() }).await;
    assert_eq!(engine.generations.borrow().len(), 0);
    engine.is_ready.send_replace(true);
    until(&admission, &Readiness::Ready).await;
    let shape = |generation: &Generation| (generation.prompt.clone(), generation.max_tokens);
    let shapes: Vec<_> = engine.generations.borrow().iter().map(shape).collect();
    assert_eq!(shapes, [("?".into(), 1), ("Question: Question: Ques".into(), 8)]);
    stop.cancel();
}

#[tokio::test]
async fn an_engine_that_was_lost_is_warmed_up_again() {
    let engine = engine(32);
    engine.is_ready.send_replace(true);
    let (admission, stop) = watched(&engine);
    until(&admission, &Readiness::Ready).await;
    engine.is_ready.send_replace(false);
    until(&admission, &Readiness::NotReady { why: "Triton's model \"agent\" is not ready".into() }).await;
    engine.is_ready.send_replace(true);
    until(&admission, &Readiness::Ready).await;
    assert_eq!(engine.generations.borrow().len(), 4);
    stop.cancel();
}

#[tokio::test]
async fn an_engine_that_answers_late_under_load_serves_on_and_is_not_warmed_up_again() {
    let engine = engine(32);
    engine.is_ready.send_replace(true);
    let (admission, stop) = watched(&engine);
    until(&admission, &Readiness::Ready).await;
    let unready = tokio::spawn({
        let admission = Arc::clone(&admission);
        async move { admission.until(|readiness| *readiness != Readiness::Ready).await }
    });
    is_late(&engine, 2).await;
    assert_eq!((unready.is_finished(), engine.generations.borrow().len()), (false, 2));
    is_late(&engine, 3).await;
    or_hang(unready).await.expect("no panic");
    until(&admission, &Readiness::Ready).await;
    assert_eq!(engine.generations.borrow().len(), 4);
    stop.cancel();
}

#[tokio::test]
async fn a_shape_that_does_not_fit_keeps_the_pod_unready_and_is_named() {
    let engine = engine(31);
    engine.is_ready.send_replace(true);
    let (admission, stop) = watched(&engine);
    let why = "the warm-up generation of the longest shape failed: the engine failed: \
               the prompt does not fit the context";
    until(&admission, &Readiness::NotReady { why: why.into() }).await;
    stop.cancel();
}

#[tokio::test]
async fn a_model_without_an_input_for_the_agents_sampling_keeps_the_pod_unready_until_it_has_one() {
    let wanted = Sampling { temperature_thousandths: Some(700), seed: Some(5), ..Sampling::default() };
    let engine = Arc::new(Engine { wanted, ..new(32, false) });
    engine.is_ready.send_replace(true);
    let temperature = SamplingFields::which(|field| field == SamplingField::Temperature);
    engine.takes.send_replace(temperature);
    let (admission, stop) = watched(&engine);
    let why = "the model has no input for seed of agent.sampling, or its server does not tell: \
               add such inputs to its configuration, or remove them from agent.sampling";
    until(&admission, &Readiness::NotReady { why: why.into() }).await;
    assert_eq!(engine.generations.borrow().len(), 0);
    engine.takes.send_replace(SamplingFields::which(|_| true));
    until(&admission, &Readiness::Ready).await;
    assert_eq!(engine.generations.borrow().len(), 2);
    stop.cancel();
}

#[tokio::test]
async fn a_server_elsewhere_is_ready_without_a_generation_that_it_could_refuse_or_bill() {
    let server = server_elsewhere();
    let (admission, stop) = watched(&server);
    until(&admission, &Readiness::Ready).await;
    assert_eq!(server.generations.borrow().len(), 0);
    stop.cancel();
}

#[tokio::test]
async fn a_server_elsewhere_that_fails_at_some_questions_takes_no_pod_out() {
    let server = server_elsewhere();
    let (admission, stop) = watched(&server);
    until(&admission, &Readiness::Ready).await;
    let unready = tokio::spawn({
        let admission = Arc::clone(&admission);
        async move { admission.until(|readiness| *readiness != Readiness::Ready).await }
    });
    is_late(&server, 5).await;
    assert!(!unready.is_finished());
    // What it answers itself counts like silence.
    server.questions.send_replace((0, 0));
    server.is_ready.send_replace(false);
    or_hang(unready).await.expect("no panic");
    assert!(server.questions.borrow().1 >= 6, "{:?}", server.questions.borrow());
    server.is_ready.send_replace(true);
    until(&admission, &Readiness::Ready).await;
    assert_eq!(server.generations.borrow().len(), 0);
    stop.cancel();
}
