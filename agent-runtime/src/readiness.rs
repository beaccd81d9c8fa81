//! Keeps the pod's readiness true: asks the engine, and warms it up before the first run. A server elsewhere is ready
//! once it answers and takes the key: nothing is generated there that nobody asked for. IO.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use slipway_runtime_config::{Sampling, WarmUp};
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
    /// How the agent wants tokens chosen.
    pub sampling: Sampling,
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

/// The longest pause between questions to a server elsewhere that fails. Its limits on requests are those of all runs.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

impl Pauses {
    /// After so many failures in a row of a server elsewhere: each pause is twice the one before.
    fn after_failures(self, failed: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failed.saturating_sub(1));
        self.until_ready.saturating_mul(doubled).min(LONGEST_PAUSE)
    }
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
/// Questions in a row that a server elsewhere may fail at, in about 15 s. All pods ask the same one: to close them all
/// helps nobody, and its list of models may fail while it generates.
const FAILED_ELSEWHERE: u32 = 6;

/// What is known of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Whether it serves. One that is new, or was lost, is warmed up first.
    is_warm: bool,
    /// Questions in a row that it failed at.
    failed: u32,
}

impl ReadinessWatch {
    /// Watches until `stop`. An engine that was lost is warmed up again before the pod is ready again.
    pub async fn watch(self, stop: CancellationToken) {
        let mut known = Known::default();
        loop {
            let readiness = self.find_out(&mut known).await;
            let pause = self.pause(&readiness, known);
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

    fn pause(&self, readiness: &Readiness, Known { is_warm: _, failed }: Known) -> Duration {
        match readiness {
            _ if failed > 0 && self.backend.is_elsewhere() => self.pauses.after_failures(failed),
            Readiness::Ready => self.pauses.when_ready,
            Readiness::NotReady { .. } | Readiness::Draining => self.pauses.until_ready,
        }
    }

    async fn find_out(&self, known: &mut Known) -> Readiness {
        match self.backend.ready().await {
            Ok(()) if let Some(why) = self.without_place() => {
                known.is_warm = false;
                return Readiness::NotReady { why };
            }
            // Others keep their model warm, and a generation there costs money.
            Ok(()) if known.is_warm || self.backend.is_elsewhere() => {}
            Ok(()) => {
                if let Err(error) = self.warm_up().await {
                    return Readiness::NotReady { why: with_causes(&error) };
                }
            }
            Err(error) => {
                known.failed = known.failed.saturating_add(1);
                let why = with_causes(&error);
                if known.is_warm && self.tolerates(&error, known.failed) {
                    tracing::warn!(error = why, "the engine failed at a readiness question");
                    return Readiness::Ready;
                }
                known.is_warm = false;
                return Readiness::NotReady { why };
            }
        }
        *known = Known { is_warm: true, failed: 0 };
        // Without all its tools the agent would be another one.
        self.tools.missing().map_or(Readiness::Ready, |why| Readiness::NotReady { why })
    }

    /// What of the agent's sampling the model has no place for, and what is to be done.
    fn without_place(&self) -> Option<String> {
        let lacking = self.backend.sampling().lacking(self.sampling);
        (!lacking.is_empty()).then(|| {
            let fields = lacking.join(", ");
            format!(
                "the model has no input for {fields} of agent.sampling, or its server does not tell: \
                 add such inputs to its configuration, or remove them from agent.sampling"
            )
        })
    }

    /// Whether an engine that served goes on after so many failures in a row.
    fn tolerates(&self, error: &BackendError, failed: u32) -> bool {
        if self.backend.is_elsewhere() {
            return failed < FAILED_ELSEWHERE;
        }
        matches!(error, BackendError::Unreachable { .. }) && failed < UNANSWERED
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_server_elsewhere_that_fails_is_asked_ever_more_seldom() {
        let pauses = [1, 2, 3, 6, 7, 100, u32::MAX].map(|failed| Pauses::default().after_failures(failed));
        assert_eq!(pauses.map(|pause| pause.as_millis()), [500, 1_000, 2_000, 15_000, 15_000, 15_000, 15_000]);
    }
}
