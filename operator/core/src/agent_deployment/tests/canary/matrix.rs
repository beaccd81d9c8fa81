//! Operators that die at every place of a rollout, whatever a person says at the same time. The successor ends where a
//! surviving operator ends. On the way nobody is sent to pods that are not ready, and stable keeps what it has.

mod places;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{AgentDeploymentStatus, agent_deployment::Stage};

use self::places::Place;
use super::{Trial, Users};
use crate::agent_deployment::{rollout::revision::RevisionPlan, world::ServingView};

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Nothing,
    AnotherPlan,
    BackToStable,
    Abort,
    Promote,
    Pause,
    Scale,
}

const WORDS: [Word; 7] =
    [Word::Nothing, Word::AnotherPlan, Word::BackToStable, Word::Abort, Word::Promote, Word::Pause, Word::Scale];

/// The fate of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    /// It dies before it looks, and another one comes after a window.
    DiesBeforeItLooks,
    /// It dies with what it has decided, and another one comes at once.
    DiesBeforeItRecords,
    /// The status is written, no object is, and another one comes at once.
    DiesBeforeItApplies,
    /// The same, and another one comes after a window.
    DiesBeforeItAppliesAndIsMissed,
}

const DEATHS: [Fate; 4] = [
    Fate::DiesBeforeItLooks,
    Fate::DiesBeforeItRecords,
    Fate::DiesBeforeItApplies,
    Fate::DiesBeforeItAppliesAndIsMissed,
];

impl Fate {
    /// Whether time passes without an operator.
    fn is_missed(self) -> bool {
        matches!(self, Self::DiesBeforeItLooks | Self::DiesBeforeItAppliesAndIsMissed)
    }
}

/// Reconciliations of which one may be the last of its operator: two after the word, two once pods are ready.
const STRIKES: usize = 4;
/// Windows that are served afterwards: longer than pods stay that have lost their traffic, shorter than the next step.
const WINDOWS: usize = 5;

/// A rollout, and the operators that follow each other.
struct Course {
    trial: Trial,
    users: Users,
    fate: Fate,
    /// Reconciliations before it strikes; none once it has.
    strikes_in: Option<usize>,
    missed_until: Option<Timestamp>,
    /// Who served and who was on trial when the course began.
    stable: String,
    canary: String,
    plan: RevisionPlan,
    pods: i32,
    is_edited: bool,
}

impl Course {
    fn new(place: &Place, (fate, strikes_in): (Fate, usize)) -> Self {
        let Place { trial, users, stable, canary } = place.clone();
        let plan = trial.cluster.world.revision(&canary).expect("its record is kept").plan.clone();
        let pods = trial.cluster.world.spec.serving.replicas;
        let strikes_in = Some(strikes_in);
        Self { trial, users, fate, strikes_in, missed_until: None, stable, canary, plan, pods, is_edited: false }
    }

    fn say(&mut self, word: Word) {
        let (canary, cluster) = (self.canary.clone(), self.trial.cluster.clone());
        self.is_edited = matches!(word, Word::AnotherPlan | Word::BackToStable);
        self.trial.cluster = match word {
            Word::Nothing => cluster,
            Word::AnotherPlan => cluster.edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned()),
            Word::BackToStable => cluster.edited(|spec| spec.agent.system_prompt = "Answer.".to_owned()),
            Word::Abort => cluster.edited(|spec| spec.rollout.abort = Some(canary)),
            Word::Promote => cluster.edited(|spec| spec.rollout.promote = Some(canary)),
            Word::Pause => cluster.edited(|spec| spec.rollout.paused = true),
            Word::Scale => cluster.edited(|spec| spec.serving.replicas = 6),
        };
    }

    /// One reconciliation, or the death of an operator.
    fn reconcile(&mut self) {
        if self.missed_until.is_some_and(|until| self.trial.cluster.world.now < until) {
            return;
        }
        let strikes = self.strikes_in == Some(0) && self.fate != Fate::Lives;
        self.strikes_in = self.strikes_in.and_then(|left| left.checked_sub(1));
        self.trial.look();
        if !strikes {
            self.trial.cluster.step();
        } else if matches!(self.fate, Fate::DiesBeforeItApplies | Fate::DiesBeforeItAppliesAndIsMissed) {
            let status = serde_json::to_value(self.trial.cluster.plan().status).expect("a status is JSON");
            self.trial.cluster.world.status = serde_json::from_value(status).expect("a status reads what it wrote");
        } else if self.fate == Fate::DiesBeforeItRecords {
            let _lost = self.trial.cluster.plan();
        }
        if strikes && self.fate.is_missed() {
            self.missed_until = Some(self.trial.cluster.world.now + SignedDuration::from_secs(10));
        }
        self.check();
    }

    fn come_to_rest(&mut self) {
        for _ in 0..20 {
            let before = self.trial.cluster.world.status.clone();
            self.reconcile();
            if self.trial.cluster.world.status == before && self.strikes_in.is_none() {
                return;
            }
        }
        panic!("no rest: {:?}", self.trial.rollout());
    }

    /// What holds after every reconciliation, and after every death.
    fn check(&self) {
        let Self { trial, stable, canary, plan, pods, is_edited, .. } = self;
        let world = &trial.cluster.world;
        let ready = |revision: &str| world.serving.get(revision).map_or(0, |view| view.ready);
        for (service, weight) in &trial.cluster.weights {
            let revision = service.trim_start_matches("support-");
            assert!(*weight == 0 || ready(revision) > 0, "{service} has {weight} %: {:?}", world.serving);
        }
        if trial.stable() == *stable {
            let view = &world.serving[stable];
            assert!(view.wanted >= *pods && view.ready >= *pods, "stable keeps its pods: {view:?}");
        } else {
            assert_eq!((&trial.stable(), *is_edited), (canary, false), "nobody else takes over");
            assert!(ready(canary) >= *pods, "it takes over with all its pods: {:?}", world.serving);
        }
        let on_trial = trial.canary();
        assert!(
            *is_edited || on_trial.as_ref().is_none_or(|on_trial| on_trial == canary),
            "{on_trial:?} was not asked for"
        );
        let kept = world.revision(canary).map(|revision| &revision.plan);
        assert_eq!(kept, Some(plan), "the plan is pinned");
    }

    /// From the word until everything that follows from it is done.
    fn run(mut self, word: Word, windows: usize) -> Self {
        self.say(word);
        for _ in 0..2 {
            (0..STRIKES / 2).for_each(|_| self.reconcile());
            self.trial.cluster.ready_pods();
        }
        self.strikes_in = None;
        for _ in 0..windows {
            self.trial.serve_unseen(10, self.users, false);
            self.come_to_rest();
            self.trial.cluster.ready_pods();
            self.come_to_rest();
        }
        self
    }

    fn end(&self) -> End {
        let cluster = &self.trial.cluster;
        End {
            status: cluster.world.status.clone(),
            weights: cluster.weights.clone(),
            routed_to: cluster.routed_to.clone(),
            serving: cluster.world.serving.clone(),
        }
    }

    /// The figures of the judge, written again.
    fn evidence(mut self) -> (Option<String>, BTreeMap<String, String>) {
        self.trial.cluster.pass(60);
        self.come_to_rest();
        let rollout = self.trial.rollout();
        let figures = rollout.evidence.into_iter().map(|evidence| (evidence.guard, evidence.log_evidence));
        (rollout.judge_state, figures.collect())
    }
}

/// Everything that there is at the end.
#[derive(Debug, PartialEq)]
struct End {
    status: AgentDeploymentStatus,
    weights: BTreeMap<String, i32>,
    routed_to: Option<String>,
    serving: BTreeMap<String, ServingView>,
}

/// What of it does not depend on when it was done.
#[derive(Debug, PartialEq)]
struct Outcome {
    stage: Option<Stage>,
    stable: Option<String>,
    canary: Option<String>,
    step: Option<i32>,
    weight: Option<i32>,
    rejected: Vec<String>,
    weights: BTreeMap<String, i32>,
    serving: BTreeMap<String, ServingView>,
}

impl From<&End> for Outcome {
    fn from(end: &End) -> Self {
        let rollout = end.status.rollout.clone().unwrap_or_default();
        Self {
            stage: end.status.stage,
            stable: rollout.stable,
            canary: rollout.canary,
            step: rollout.step,
            weight: rollout.weight,
            rejected: rollout.rejected.into_iter().map(|rejected| rejected.plan).collect(),
            weights: end.weights.clone(),
            serving: end.serving.clone(),
        }
    }
}

#[rstest]
#[case::before_its_pods_are_ready(places::starting())]
#[case::before_it_is_given_a_share(places::about_to_be_given_a_share())]
#[case::at_20_percent(places::at_20_percent())]
#[case::before_it_passes_20_percent(places::about_to_pass_20_percent())]
#[case::at_50_percent(places::at_50_percent())]
#[case::before_all_its_pods_are_ready(places::taking_over())]
#[case::before_it_takes_over(places::about_to_take_over())]
#[case::before_it_is_rolled_back(places::about_to_be_rolled_back())]
#[case::after_it_was_rolled_back(places::rolled_back())]
fn operators_that_die_come_to_the_same_end_whatever_is_said(#[case] place: Place) {
    for word in WORDS {
        let lived = Course::new(&place, (Fate::Lives, 0)).run(word, WINDOWS).end();
        for (fate, strike) in DEATHS.into_iter().flat_map(|fate| (0..STRIKES).map(move |strike| (fate, strike))) {
            let course = Course::new(&place, (fate, strike)).run(word, WINDOWS).end();
            let told = format!("{word:?}, {fate:?} at reconciliation {strike}");
            if fate.is_missed() {
                assert_eq!(Outcome::from(&course), Outcome::from(&lived), "{told}");
            } else {
                assert_eq!(course, lived, "{told}");
            }
        }
    }
}

#[rstest]
#[case::at_20_percent(places::at_20_percent())]
#[case::at_50_percent(places::at_50_percent())]
fn evidence_is_the_same_to_the_bit_where_the_plan_is_not_edited(#[case] place: Place) {
    for word in [Word::Nothing, Word::Pause] {
        let evidence = |fate| Course::new(&place, (fate, 1)).run(word, 2).evidence();
        let lived = evidence(Fate::Lives);
        assert!(!lived.1.is_empty());
        for fate in DEATHS {
            assert_eq!(evidence(fate), lived, "{word:?}, {fate:?}");
        }
    }
}

#[rstest]
#[case::before_its_pods_are_ready(places::starting())]
#[case::before_it_passes_20_percent(places::about_to_pass_20_percent())]
#[case::before_it_takes_over(places::about_to_take_over())]
fn a_good_canary_takes_over_whenever_operators_die(#[case] place: Place) {
    for fate in [Fate::DiesBeforeItLooks, Fate::DiesBeforeItApplies, Fate::DiesBeforeItAppliesAndIsMissed] {
        let course = Course::new(&place, (fate, 0)).run(Word::Nothing, 60);
        assert_eq!((course.trial.stable(), course.trial.canary()), (course.canary.clone(), None), "{fate:?}");
        let serving: Vec<_> = course.trial.cluster.world.serving.keys().cloned().collect();
        assert_eq!((serving, course.trial.rollout().rejected), (vec![course.canary], vec![]), "{fate:?}");
    }
}
