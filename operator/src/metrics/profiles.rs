//! Campaigns as metrics: how far they are, what they measured, and what of their budget they used.

use std::fmt;

use kube::core::DeserializeGuard;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    registry::Unit,
};
use slipway_crds::v1alpha1::{
    Profile, ProfileStatus,
    profile::{MeasurementVerdict, ProfilePhase},
};

use super::gauges::{Family, Object, Watched};

/// There are as many names as Profiles, each with one AgentDeployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    name: String,
    agent_deployment: String,
}

/// Phases are a closed vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    namespace: String,
    name: String,
    agent_deployment: String,
    phase: &'static str,
}

/// Verdicts are a closed vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    namespace: String,
    name: String,
    agent_deployment: String,
    verdict: &'static str,
}

const VERDICTS: [MeasurementVerdict; 4] = [
    MeasurementVerdict::Feasible,
    MeasurementVerdict::Infeasible,
    MeasurementVerdict::Unbounded,
    MeasurementVerdict::Failed,
];

/// A figure of a campaign: its name, its help, its unit, and its value.
type Figure = (&'static str, &'static str, Option<Unit>, fn(&Profile, &ProfileStatus) -> f64);

const FIGURES: [Figure; 5] = [
    (
        "profile_candidates",
        "Candidates of a campaign: engines times configurations times levels",
        None,
        |profile, _| {
            let inputs = &profile.spec.inputs;
            (inputs.engines.len() * inputs.configurations.len() * inputs.levels.len()) as f64
        },
    ),
    ("profile_front_points", "Measurements on the Pareto front of a campaign", None, |_, status| {
        status.front.len() as f64
    }),
    ("profile_measurements_budget", "Largest number of measurements of a campaign", None, |profile, _| {
        f64::from(profile.spec.inputs.budget.measurements)
    }),
    ("profile_gpu_time", "GPU time that a campaign used", Some(Unit::Seconds), |_, status| {
        status.gpu_milliseconds as f64 / 1e3
    }),
    ("profile_gpu_time_budget", "Most GPU time that a campaign may use", Some(Unit::Seconds), |profile, _| {
        profile.spec.inputs.budget.gpu_hours.value() * 3_600.0
    }),
];

/// Reads the Profiles when metrics are asked for. Measurements are counted and not exported one by one: a campaign has
/// up to 300.
#[derive(Debug, Clone)]
pub struct Campaigns(pub Watched<DeserializeGuard<Profile>>);

impl Collector for Campaigns {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let profiles = self.0.readable(Profile::clone);
        let profiles = campaigns(&profiles);
        let phases = profiles.iter().filter_map(|(labels, _, status)| {
            let Labels { namespace, name, agent_deployment } = labels.clone();
            let phase = phase(status.phase?);
            Some((PhaseLabels { namespace, name, agent_deployment, phase }, 1.0))
        });
        Family { name: "profile_phase", help: "1 for the phase of a campaign", unit: None }
            .encode(&mut encoder, phases)?;
        let verdicts = profiles.iter().flat_map(|(labels, _, status)| by_verdict(labels, status));
        Family { name: "profile_measurements", help: "Finished measurements of a campaign, by verdict", unit: None }
            .encode(&mut encoder, verdicts)?;
        for (name, help, unit, figure) in FIGURES {
            let series = profiles.iter().map(|(labels, profile, status)| (labels.clone(), figure(profile, status)));
            Family { name, help, unit: unit.as_ref() }.encode(&mut encoder, series)?;
        }
        Ok(())
    }
}

/// Profiles that have a status.
fn campaigns(profiles: &[(Object, Profile)]) -> Vec<(Labels, &Profile, &ProfileStatus)> {
    let labelled = profiles.iter().filter_map(|(object, profile)| {
        let Object { namespace, name } = object.clone();
        let agent_deployment = profile.spec.agent_deployment.clone();
        Some((Labels { namespace, name, agent_deployment }, profile, profile.status.as_ref()?))
    });
    labelled.collect()
}

fn by_verdict(labels: &Labels, status: &ProfileStatus) -> Vec<(VerdictLabels, f64)> {
    let count = |verdict: MeasurementVerdict| {
        let Labels { namespace, name, agent_deployment } = labels.clone();
        let count = status.measurements.iter().filter(|row| row.verdict == verdict).count();
        let verdict = match verdict {
            MeasurementVerdict::Feasible => "Feasible",
            MeasurementVerdict::Infeasible => "Infeasible",
            MeasurementVerdict::Unbounded => "Unbounded",
            MeasurementVerdict::Failed => "Failed",
        };
        (VerdictLabels { namespace, name, agent_deployment, verdict }, count as f64)
    };
    VERDICTS.map(count).to_vec()
}

const fn phase(phase: ProfilePhase) -> &'static str {
    match phase {
        ProfilePhase::Exploring => "Exploring",
        ProfilePhase::Confirming => "Confirming",
        ProfilePhase::Chosen => "Chosen",
        ProfilePhase::Infeasible => "Infeasible",
        ProfilePhase::Failed => "Failed",
    }
}
