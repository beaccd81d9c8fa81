//! Keeps the pod's readiness true: asks the engine, and warms it up before the first run. IO.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use slipway_runtime_config::WarmUp;
use tokio_util::sync::CancellationToken;

use crate::{
    api::admission::{Admission, Readiness},
    backend::{Backend, BackendError, Generation},
    failure::with_causes,
    tools::Registry,
};

/// What keeps a pod's readiness true.
pub struct ReadinessWatch {
    /// The engine.
    pub backend: Arc<dyn Backend>,
    /// The tools, which servers may still have to name.
    pub tools: Arc<Registry>,
    /// The admission that it opens and closes.
    pub admission: Arc<Admission>,
    /// The shapes to generate first.
    pub warm_up: WarmUp,
    /// The longest generation.
    pub max_tokens: u32,
    /// How long one warm-up generation may take.
    pub timeout: Duration,
    /// How often the engine is asked.
    pub pauses: Pauses,
}

/// How often the engine is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// While it is not ready.
    pub until_ready: Duration,
    /// Afterwards.
    pub when_ready: Duration,
}

impl Default for Pauses {
    /// Half a second delays no start. With two seconds a lost model is noticed before the kubelet's third failed probe.
    fn default() -> Self {
        Self { until_ready: Duration::from_millis(500), when_ready: Duration::from_secs(2) }
    }
}

/// Why the engine could not be warmed up.
#[derive(Debug, thiserror::Error)]
enum WarmUpError {
    #[error("the warm-up generation of the {shape} shape failed")]
    Generate {
        shape: &'static str,
        #[source]
        source: BackendError,
    },
    #[error("the warm-up generation of the {shape} shape took longer than {milliseconds} ms")]
    Timeout { shape: &'static str, milliseconds: u128 },
}

/// Questions in a row that an engine may leave unanswered before it counts as lost. One under load answers late; while
/// it generates, runs tell sooner than questions whether it does.
const UNANSWERED: u32 = 3;

/// What is known of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is new, or was lost: it is warmed up first.
    Cold,
    /// It is warm, and has left so many questions in a row unanswered.
    Warm { unanswered: u32 },
}

impl ReadinessWatch {
    /// Watches until `stop`. An engine that was lost is warmed up again before the pod is ready again.
    pub async fn watch(self, stop: CancellationToken) {
        let mut known = Known::Cold;
        loop {
            let readiness = self.find_out(&mut known).await;
            let Pauses { until_ready, when_ready } = self.pauses;
            let pause = if readiness == Readiness::Ready { when_ready } else { until_ready };
            if self.admission.readiness() != readiness {
                tracing::info!(?readiness, "readiness changed");
            }
            self.admission.set_readiness(readiness);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn find_out(&self, known: &mut Known) -> Readiness {
        match (self.backend.ready().await, *known) {
            (Ok(()), Known::Warm { .. }) => {}
            (Ok(()), Known::Cold) => {
                if let Err(error) = self.warm_up().await {
                    return Readiness::NotReady { why: with_causes(&error) };
                }
            }
            (Err(error @ BackendError::Unreachable { .. }), Known::Warm { unanswered })
                if unanswered + 1 < UNANSWERED =>
            {
                tracing::warn!(error = with_causes(&error), "the engine left a readiness question unanswered");
                *known = Known::Warm { unanswered: unanswered + 1 };
                return Readiness::Ready;
            }
            (Err(error), Known::Cold | Known::Warm { .. }) => {
                *known = Known::Cold;
                return Readiness::NotReady { why: with_causes(&error) };
            }
        }
        *known = Known::Warm { unanswered: 0 };
        // Without all its tools the agent would be another one.
        self.tools.missing().map_or(Readiness::Ready, |why| Readiness::NotReady { why })
    }

    /// Generates one token after the shortest prompt, then the most tokens after the longest. All shapes of later runs
    /// lie between them, so the engine builds here whatever it builds on first use.
    async fn warm_up(&self) -> Result<(), WarmUpError> {
        let longest = usize::try_from(self.warm_up.longest_prompt_characters).unwrap_or(usize::MAX);
        let shortest = Generation { prompt: "?".into(), max_tokens: 1, ..generation("warm-up-shortest") };
        let longest = Generation {
            prompt: "Question: ".chars().cycle().take(longest).collect(),
            max_tokens: self.max_tokens,
            ..generation("warm-up-longest")
        };
        self.generate("shortest", shortest).await?;
        self.generate("longest", longest).await
    }

    async fn generate(&self, shape: &'static str, generation: Generation) -> Result<(), WarmUpError> {
        let mut pieces = self.backend.generate(generation);
        let all = async {
            while let Some(piece) = pieces.next().await {
                if piece?.finish.is_some() {
                    return Ok(());
                }
            }
            Err(BackendError::EndedEarly)
        };
        let outcome = tokio::time::timeout(self.timeout, all).await;
        let milliseconds = self.timeout.as_millis();
        outcome
            .map_err(|_| WarmUpError::Timeout { shape, milliseconds })?
            .map_err(|source| WarmUpError::Generate { shape, source })
    }
}

fn generation(id: &str) -> Generation {
    Generation { id: id.into(), max_tokens: 1, ..Generation::default() }
}
