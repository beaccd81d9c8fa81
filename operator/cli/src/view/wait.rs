//! An AgentDeployment that somebody waits for, as a type. Pure.

use std::time::Duration;

use kube::ResourceExt;
use serde::Serialize;
use slipway_crds::v1alpha1::AgentDeployment;

use crate::{
    output::Shown,
    progress::News,
    tree::{Happening, ProgressView},
    view::status::Candidate,
};

/// How far an AgentDeployment is, and what is new since the document before.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitView {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Seconds since the wait began.
    pub elapsed_seconds: u64,
    /// How far it is, as kstatus reads the conditions.
    pub progress: ProgressView,
    /// New events, oldest first.
    pub events: Vec<Happening>,
    /// New measurements of the campaign, in the order of time.
    pub candidates: Vec<Candidate>,
}

impl Shown for WaitView {
    const KIND: &'static str = "Progress";
}

impl WaitView {
    /// What is new of an AgentDeployment, so long after the wait began.
    pub fn of(object: &AgentDeployment, elapsed: Duration, news: &News<'_>) -> Self {
        Self {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            elapsed_seconds: elapsed.as_secs(),
            progress: ProgressView::of(object),
            events: news.events.clone(),
            candidates: news.measured.iter().map(|row| Candidate::of(&row.study, row.position, row.row)).collect(),
        }
    }
}
