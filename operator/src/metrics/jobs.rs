//! Jobs of the operator as metrics: how many wait for a pod, and since when.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::Time};
use kube::ResourceExt;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    registry::Unit,
};
use slipway_crds::labels::{self, Component};

use super::gauges::{Family, Watched};

/// Parts that Jobs play. Jobs with another label are not counted: tenants may write labels too.
const KINDS: [Component; 6] =
    [Component::Resolve, Component::Fetch, Component::Build, Component::Quality, Component::Profile, Component::Sweep];

/// Kinds and states are closed vocabularies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    kind: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct KindLabels {
    namespace: String,
    kind: &'static str,
}

const WAITING: &str = "waiting";

/// Reads the Jobs when metrics are asked for.
#[derive(Debug, Clone)]
pub struct Jobs(pub Watched<Job>);

impl Collector for Jobs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let jobs = self.0.rows(|job| Some((labels(job)?, job.metadata.creation_timestamp.clone())));
        let mut counts = BTreeMap::<Labels, u32>::new();
        let mut waiting = BTreeMap::<KindLabels, f64>::new();
        for (labels, created) in jobs {
            if let (WAITING, Some(Time(created))) = (labels.state, created) {
                let kind = KindLabels { namespace: labels.namespace.clone(), kind: labels.kind };
                let since = waiting.entry(kind).or_insert(f64::INFINITY);
                *since = since.min(created.as_second() as f64);
            }
            *counts.entry(labels).or_default() += 1;
        }
        let help = "Jobs of the operator by state; one waits until its pod runs";
        Family { name: "jobs", help, unit: None }
            .encode(&mut encoder, counts.into_iter().map(|(labels, count)| (labels, f64::from(count))))?;
        let help = "When the Job was created that has waited longest";
        Family { name: "jobs_waiting_since_timestamp", help, unit: Some(&Unit::Seconds) }.encode(&mut encoder, waiting)
    }
}

fn labels(job: &Job) -> Option<Labels> {
    let component = job.labels().get(labels::APP_COMPONENT)?;
    let kind = KINDS.into_iter().map(Component::as_str).find(|kind| kind == component)?;
    Some(Labels { namespace: job.namespace().unwrap_or_default(), kind, state: state(job) })
}

fn state(job: &Job) -> &'static str {
    let status = job.status.as_ref();
    let conditions = || status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_true = |type_: &str| conditions().any(|found| found.type_ == type_ && found.status == "True");
    if is_true("Complete") {
        "succeeded"
    } else if is_true("Failed") {
        "failed"
    } else if status.and_then(|status| status.ready).unwrap_or(0) > 0 {
        "running"
    } else {
        WAITING
    }
}
