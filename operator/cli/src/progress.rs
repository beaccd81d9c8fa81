//! What changed between two looks at an AgentDeployment, as lines for people. Pure.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Event;
use slipway_crds::{
    conditions::ConditionType,
    v1alpha1::{AgentDeployment, Profile, profile::MeasurementPurpose},
};

use crate::{candidates::news, study::Study};

/// How long nothing may be said.
const SILENCE: Duration = Duration::from_secs(15);

/// Where an AgentDeployment stands on its way, as kstatus reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Something is under way, in words.
    UnderWay(String),
    /// Ready, and nothing is under way.
    AtRest,
    /// Work has stopped, and why.
    Stalled(String),
}

/// Reads the conditions. Those of an earlier spec say nothing about this one.
pub fn standing(object: &AgentDeployment) -> Standing {
    let Some(status) = object.status.as_ref().filter(|status| status.observed_generation == object.metadata.generation)
    else {
        return Standing::UnderWay("the operator has yet to see it".to_owned());
    };
    let find = |kind: ConditionType| status.conditions.iter().find(|c| c.type_ == kind.as_str());
    let is = |kind| find(kind).filter(|condition| condition.status == "True");
    if let Some(stalled) = is(ConditionType::Stalled) {
        return Standing::Stalled(format!("{}: {}", stalled.reason, stalled.message));
    }
    match (is(ConditionType::Reconciling), find(ConditionType::Ready)) {
        (Some(work), _) => Standing::UnderWay(format!("{}: {}", work.reason, work.message)),
        (None, Some(ready)) if ready.status == "True" => Standing::AtRest,
        (None, Some(ready)) => Standing::UnderWay(format!("{}: {}", ready.reason, ready.message)),
        (None, None) => Standing::UnderWay("no condition yet".to_owned()),
    }
}

/// Remembers what was said, so that everything is said once.
#[derive(Debug, Default)]
pub struct Narrator {
    told: BTreeSet<String>,
    rows: Option<Told>,
    last_standing: Option<Standing>,
    last_line: Duration,
}

/// Measurements of a campaign that were told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    profile: String,
    rows: usize,
}

/// What was seen at one look.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The AgentDeployment.
    pub object: &'a AgentDeployment,
    /// Its events.
    pub events: &'a [Event],
    /// The campaign that its status names.
    pub profile: Option<&'a Profile>,
}

impl Narrator {
    /// The lines that a look adds; each begins with the time elapsed.
    pub fn tell(&mut self, elapsed: Duration, look: Look<'_>) -> Vec<String> {
        let Look { object, events, profile } = look;
        let mut fresh: Vec<&Event> = events.iter().filter(|event| self.told.insert(key(event))).collect();
        fresh.sort_by_key(|event| time_of(event));
        // A measurement ends before the event that speaks of it.
        let measured = profile.map_or(Vec::new(), |profile| self.measured(elapsed, profile));
        let mut lines: Vec<String> =
            measured.into_iter().chain(fresh.into_iter().map(|event| happened(elapsed, event))).collect();
        let standing = standing(object);
        let is_new = self.last_standing.as_ref() != Some(&standing);
        let is_silent = lines.is_empty() && elapsed.saturating_sub(self.last_line) >= SILENCE;
        // A condition's message may count seconds; its news is told when nothing else is.
        if let Standing::UnderWay(text) = &standing
            && (is_silent || (is_new && self.last_standing.is_none()))
        {
            lines.push(line(elapsed, "...", text));
        }
        self.last_standing = Some(standing);
        if !lines.is_empty() {
            self.last_line = elapsed;
        }
        lines
    }

    /// Measurements that finished since the last look. Those that an earlier call may have told are passed over: a campaign that had
    /// ended is no news.
    fn measured(&mut self, elapsed: Duration, profile: &Profile) -> Vec<String> {
        let Some(study) = Study::of(profile) else { return Vec::new() };
        let name = profile.metadata.name.clone().unwrap_or_default();
        let rows = study.status().measurements.len();
        let before = match &self.rows {
            Some(told) if told.profile == name => told.rows,
            Some(_) | None if study.status().choice.is_some() => rows,
            Some(_) | None => 0,
        };
        self.rows = Some(Told { profile: name, rows });
        let word = |purpose| match purpose {
            MeasurementPurpose::Explore => "measured",
            MeasurementPurpose::Confirm => "confirm run",
        };
        let fresh = study.rows().skip(before);
        fresh.map(|(_, row)| line(elapsed, word(row.purpose), &news(&study, row))).collect()
    }
}

fn key(event: &Event) -> String {
    event.metadata.uid.clone().or_else(|| event.metadata.name.clone()).unwrap_or_default()
}

fn time_of(event: &Event) -> Option<String> {
    let time = event.event_time.as_ref().map(|time| time.0);
    time.or_else(|| event.first_timestamp.as_ref().map(|time| time.0)).map(|time| time.to_string())
}

fn happened(elapsed: Duration, event: &Event) -> String {
    let reason = event.reason.as_deref().unwrap_or_default();
    let warning = if event.type_.as_deref() == Some("Warning") { "warning: " } else { "" };
    line(elapsed, reason, &format!("{warning}{}", event.message.as_deref().unwrap_or_default()))
}

fn line(elapsed: Duration, what: &str, text: &str) -> String {
    format!("{:>5} s  {what:<20} {text}", elapsed.as_secs())
}
