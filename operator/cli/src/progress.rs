//! What changed between two looks at an AgentDeployment, and the lines that tell people so. Pure.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};
use slipway_crds::{
    conditions::ConditionType,
    v1alpha1::{
        AgentDeployment, Profile,
        profile::{Measurement, MeasurementPurpose},
    },
};

use crate::{candidates::news, study::Study, tree::Happening};

/// How long nothing may be said.
const SILENCE: Duration = Duration::from_secs(15);

/// Progress of an AgentDeployment, as kstatus reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Work is in progress, in words.
    InProgress(String),
    /// Ready, and nothing is under way.
    Ready,
    /// Work has stopped, and why.
    Stalled(String),
    /// It waits for a person, in words.
    Suspended(String),
}

/// Reads the conditions. Those of an earlier spec say nothing about this one.
pub fn progress(object: &AgentDeployment) -> Progress {
    let Some(status) = object.status.as_ref().filter(|status| status.observed_generation == object.metadata.generation)
    else {
        return Progress::InProgress("the operator has not processed it yet".to_owned());
    };
    let find = |kind: ConditionType| status.conditions.iter().find(|c| c.type_ == kind.as_str());
    let is = |kind| find(kind).filter(|condition| condition.status == "True");
    if let Some(stalled) = is(ConditionType::Stalled) {
        return Progress::Stalled(format!("{}: {}", stalled.reason, stalled.message));
    }
    if let Some(suspended) = is(ConditionType::Suspended) {
        return Progress::Suspended(format!("{}: {}", suspended.reason, suspended.message));
    }
    match (is(ConditionType::Reconciling), find(ConditionType::Ready)) {
        (Some(work), _) => Progress::InProgress(format!("{}: {}", work.reason, work.message)),
        (None, Some(ready)) if ready.status == "True" => Progress::Ready,
        (None, Some(ready)) => Progress::InProgress(format!("{}: {}", ready.reason, ready.message)),
        (None, None) => Progress::InProgress("no condition yet".to_owned()),
    }
}

/// Remembers what was said, so that everything is said once.
#[derive(Debug, Default)]
pub struct Narrator {
    told: BTreeSet<String>,
    rows: Option<Told>,
    /// Where it stood at the last look.
    progress: Option<Progress>,
    /// What was said to be under way, and when.
    under_way: Option<(String, Duration)>,
    last_line: Duration,
}

/// Measurements of a campaign that were told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    profile: String,
    rows: usize,
}

/// When something happened, as far as it is known.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Before the first look.
    Earlier,
    /// So long after it.
    At(Duration),
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

/// What a look adds to those before it.
#[derive(Debug)]
pub struct News<'a> {
    /// Measurements that finished, in the order of time.
    pub measured: Vec<Measured<'a>>,
    /// What happened, in the order of time.
    pub events: Vec<Happening>,
}

/// A measurement with its place in its campaign.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The campaign.
    pub study: Study<'a>,
    /// Its position among the measurements of the campaign.
    pub position: usize,
    /// The measurement.
    pub row: &'a Measurement,
}

impl Narrator {
    /// Gives what a look adds, unless all is as it was. Findings of an earlier spec are left out.
    pub fn news<'a>(&mut self, look: Look<'a>) -> Option<News<'a>> {
        let news = self.found(look);
        let progress = progress(look.object);
        let is_as_it_was = news.is_empty() && self.progress.as_ref() == Some(&progress);
        self.progress = Some(progress);
        (!is_as_it_was).then_some(news)
    }

    /// Gives the lines that a look adds; each begins with the time elapsed. Findings of the first look are marked as
    /// earlier ones, and those of an earlier spec are left out.
    pub fn tell(&mut self, elapsed: Duration, look: Look<'_>) -> Vec<String> {
        let at = if self.progress.is_none() { Moment::Earlier } else { Moment::At(elapsed) };
        let mut lines = self.found(look).lines(at);
        let progress = progress(look.object);
        let is_silent = lines.is_empty() && elapsed.saturating_sub(self.last_line) >= SILENCE;
        // A condition's message may count seconds, so it is shown only when nothing else is.
        if let Progress::InProgress(text) = &progress
            && (is_silent || self.progress.is_none())
        {
            lines.push(self.under_way(elapsed, text));
        }
        self.progress = Some(progress);
        if !lines.is_empty() {
            self.last_line = elapsed;
        }
        lines
    }

    /// What is under way in full where it is news, else how long it has been so.
    fn under_way(&mut self, elapsed: Duration, text: &str) -> String {
        let at = Moment::At(elapsed);
        if let Some((said, since)) = &self.under_way
            && said == text
        {
            return line(at, "...", &format!("unchanged after {} s", elapsed.saturating_sub(*since).as_secs()));
        }
        self.under_way = Some((text.to_owned(), elapsed));
        line(at, "...", text)
    }

    /// Gives the events and measurements that are new.
    fn found<'a>(&mut self, look: Look<'a>) -> News<'a> {
        let Look { object, events, profile } = look;
        let since = changed_at(object);
        let mut fresh: Vec<&Event> = events.iter().filter(|event| self.told.insert(key(event))).collect();
        fresh.retain(|event| time_of(event).is_none_or(|time| since.is_none_or(|since| time >= since)));
        fresh.sort_by_key(|event| time_of(event));
        // Until the operator has seen a spec, the status names the campaign of the one before.
        let profile = profile.filter(|_| is_seen(object));
        let measured = profile.map_or(Vec::new(), |profile| self.measured(profile));
        News { measured, events: fresh.into_iter().map(Happening::of).collect() }
    }

    /// Gives the measurements that finished since the last look. It leaves out those of a campaign that had already
    /// ended, because an earlier call may have shown them.
    fn measured<'a>(&mut self, profile: &'a Profile) -> Vec<Measured<'a>> {
        let Some(study) = Study::of(profile) else { return Vec::new() };
        let name = profile.metadata.name.clone().unwrap_or_default();
        let rows = study.status().measurements.len();
        let before = match &self.rows {
            Some(told) if told.profile == name => told.rows,
            Some(_) | None if study.status().choice.is_some() => rows,
            Some(_) | None => 0,
        };
        self.rows = Some(Told { profile: name, rows });
        study.rows().skip(before).map(|(position, row)| Measured { study, position, row }).collect()
    }
}

impl News<'_> {
    fn is_empty(&self) -> bool {
        self.measured.is_empty() && self.events.is_empty()
    }

    /// A line for each. A measurement ends before the event about it.
    fn lines(&self, at: Moment) -> Vec<String> {
        let measured = self.measured.iter().map(|measured| measured.line(at));
        measured.chain(self.events.iter().map(|event| happened(at, event))).collect()
    }
}

impl Measured<'_> {
    fn line(&self, at: Moment) -> String {
        let Self { study, position: _, row } = self;
        let word = match (row.purpose, &row.measured_in) {
            (_, Some(_)) => "known before",
            (MeasurementPurpose::Explore, None) => "measured",
            (MeasurementPurpose::Repeat, None) => "measured again",
            (MeasurementPurpose::Confirm, None) => "confirm run",
        };
        line(at, word, &news(study, row))
    }
}

fn key(event: &Event) -> String {
    event.metadata.uid.clone().or_else(|| event.metadata.name.clone()).unwrap_or_default()
}

fn time_of(event: &Event) -> Option<Timestamp> {
    let time = event.event_time.as_ref().map(|time| time.0);
    time.or_else(|| event.first_timestamp.as_ref().map(|time| time.0))
}

/// When the spec was last written, to the second.
fn changed_at(object: &AgentDeployment) -> Option<Timestamp> {
    let writes = object.metadata.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    let of_spec =
        writes.filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:spec").is_some()));
    of_spec.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max()
}

/// Whether the status describes the current spec.
fn is_seen(object: &AgentDeployment) -> bool {
    object.status.as_ref().is_some_and(|status| status.observed_generation == object.metadata.generation)
}

fn happened(at: Moment, event: &Happening) -> String {
    let warning = if event.is_warning { "warning: " } else { "" };
    line(at, &event.reason, &format!("{warning}{}", event.message))
}

fn line(at: Moment, what: &str, text: &str) -> String {
    let at = match at {
        Moment::Earlier => "earlier".to_owned(),
        Moment::At(elapsed) => format!("{:>5} s", elapsed.as_secs()),
    };
    format!("{at}  {what:<20} {text}")
}
