//! Engines as metrics: whether they are built, how long that took, and how often it failed.

use std::{collections::BTreeMap, fmt};

use kube::core::DeserializeGuard;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    registry::Unit,
};
use slipway_crds::{
    conditions::ConditionType,
    v1alpha1::{Engine, EngineStatus},
};

use super::gauges::{Family, Object, Watched};

/// Backends, precisions and states are closed vocabularies; there are as many names as Engines.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    namespace: String,
    name: String,
    backend: &'static str,
    precision: &'static str,
    state: &'static str,
}

/// Classes are a closed vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    namespace: String,
    name: String,
    class: &'static str,
}

/// Reads the Engines when metrics are asked for.
#[derive(Debug, Clone)]
pub struct EngineBuilds(pub Watched<DeserializeGuard<Engine>>);

impl Collector for EngineBuilds {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let engines = self.0.readable(Engine::clone);
        let states = engines.iter().map(|(object, engine)| (state_labels(object, engine), 1.0));
        let help = "1 for the state of an Engine: built, building, failed or lost";
        Family { name: "engine_state", help, unit: None }.encode(&mut encoder, states)?;
        let of = |figure: fn(&EngineStatus) -> Option<f64>| {
            engines
                .iter()
                .filter_map(move |(object, engine)| Some((object.clone(), engine.status.as_ref().and_then(figure)?)))
        };
        let help = "Duration of the build of an Engine's artifact";
        Family { name: "engine_build_duration", help, unit: Some(&Unit::Seconds) }
            .encode(&mut encoder, of(|status| Some(status.artifact.as_ref()?.build_milliseconds as f64 / 1e3)))?;
        Family { name: "engine_artifact_size", help: "Size of an Engine's artifact", unit: Some(&Unit::Bytes) }
            .encode(&mut encoder, of(|status| Some(status.artifact.as_ref()?.size_bytes as f64)))?;
        Family { name: "engine_build_attempts", help: "Number of the last attempt to build an Engine", unit: None }
            .encode(&mut encoder, of(|status| Some(f64::from(status.attempts.last()?.number))))?;
        let help = "Failed attempts of those that an Engine's status has, by class";
        Family { name: "engine_build_failures", help, unit: None }.encode(&mut encoder, failures(&engines))
    }
}

fn state_labels(object: &Object, engine: &Engine) -> StateLabels {
    let Object { namespace, name } = object.clone();
    let build = &engine.spec.build;
    StateLabels {
        namespace,
        name,
        backend: build.backend.as_str(),
        precision: build.precision.as_str(),
        state: state(engine.status.as_ref()),
    }
}

fn state(status: Option<&EngineStatus>) -> &'static str {
    let is_true = |condition: ConditionType| {
        let mut all = status.iter().flat_map(|status| &status.conditions);
        all.any(|found| found.type_ == condition.as_str() && found.status == "True")
    };
    if status.is_some_and(|status| status.lost.is_some()) {
        "lost"
    } else if is_true(ConditionType::Ready) {
        "built"
    } else if is_true(ConditionType::Stalled) {
        "failed"
    } else {
        "building"
    }
}

fn failures(engines: &[(Object, Engine)]) -> Vec<(FailureLabels, f64)> {
    let mut counts = BTreeMap::<(&Object, &'static str), u32>::new();
    for (object, engine) in engines {
        let attempts = engine.status.iter().flat_map(|status| &status.attempts);
        for failure in attempts.filter_map(|attempt| attempt.failure.as_ref()) {
            *counts.entry((object, failure.class.as_str())).or_default() += 1;
        }
    }
    let labelled = counts.into_iter().map(|((object, class), count)| {
        let Object { namespace, name } = object.clone();
        (FailureLabels { namespace, name, class }, f64::from(count))
    });
    labelled.collect()
}
