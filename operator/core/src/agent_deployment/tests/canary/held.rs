//! Canaries that something keeps at their step: people are told once the longest soak is over, and nothing is decided.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_vocabulary::evidence::Implausible;

use super::{EQUAL, ROLLOUT, Trial, Users, trial_with};
use crate::agent_deployment::world::RouteView;

/// What keeps it.
#[derive(Debug, Clone, Copy)]
enum Cause {
    NobodySends,
    NobodyAnswers,
    NoGateway,
    NoValue,
}

impl Cause {
    fn begin(self, trial: &mut Trial) {
        match self {
            Self::NobodySends | Self::NoValue => {}
            Self::NobodyAnswers => trial.silent = trial.canary(),
            Self::NoGateway => {
                Self::say(trial, Some("Gateway agents does not serve HTTPRoute support: Accepted NoMatchingParent"))
            }
        }
    }

    fn end(self, trial: &mut Trial) {
        match self {
            Self::NobodySends => {}
            Self::NoValue => {
                trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.guardrails.clear());
            }
            Self::NobodyAnswers => trial.silent = None,
            Self::NoGateway => Self::say(trial, None),
        }
    }

    fn say(trial: &mut Trial, said: Option<&str>) {
        let RouteView::Present { problem, .. } = &mut trial.cluster.world.route else { panic!("there is a route") };
        *problem = said.map(str::to_owned);
    }

    fn users(self) -> Users {
        let runs = if matches!(self, Self::NobodySends) { 0 } else { EQUAL.runs };
        Users { runs, ..EQUAL }
    }
}

const GUARDRAIL: &str = "guardrails: [{name: heat, query: 'max(heat{pod=~\"$pods\"})', max: '85'}]\n";

#[rstest]
#[case::no_traffic(Cause::NobodySends, 180, "NoTraffic: nothing started on the canary for ")]
#[case::no_answer(Cause::NobodyAnswers, 180, "EvidenceUnreachable: no pod of the canary has reported for ")]
#[case::no_gateway(
    Cause::NoGateway,
    // It has passed its first step, and waits for the share of the second one.
    1_800,
    "RouteUnavailable: spec.rollout.traffic.gatewayAPI: Gateway agents does not serve HTTPRoute support: Accepted NoMatchingParent. "
)]
#[case::no_value(
    Cause::NoValue,
    180,
    "GuardrailBlocking: guardrail heat: its query has no value for the canary's pods. "
)]
fn whoever_is_to_decide_is_told_once_the_longest_soak_is_over_and_the_canary_keeps_its_share(
    #[case] cause: Cause,
    #[case] max_seconds: u32,
    #[case] words: &str,
    #[values("Pause", "Rollback", "Promote")] on_inconclusive: &str,
) {
    let guardrail = if matches!(cause, Cause::NoValue) { GUARDRAIL } else { "" };
    let rollout = ROLLOUT.replace("maxSoak: 30m", "maxSoak: 3m").replace("maxSoak: 60m", "maxSoak: 30m");
    let mut trial = trial_with(&format!("{rollout}onInconclusive: {on_inconclusive}\n{guardrail}"));
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.cluster = trial.cluster.clone().alerting();
    cause.begin(&mut trial);
    trial.serve(170, cause.users());
    assert_eq!((trial.cluster.news(), suspended(&trial)), (vec![], None), "the soak is not over");
    trial.serve(40 * 60, cause.users());
    assert_eq!(trial.cluster.news(), ["VerdictUnreachable warning"], "once");
    let start = format!(
        "revision {canary} has had 20 % of the traffic for longer than the {max_seconds} s of its maxSoak, and no verdict is possible: {words}"
    );
    let (reason, message) = suspended(&trial).expect("it is told");
    assert!(reason == "VerdictUnreachable" && message.starts_with(&start), "{reason}: {message}");
    assert!(message.ends_with(DECIDED), "{message}");
    assert_eq!((trial.share(), trial.stable(), trial.rollout().rejected), (20, stable, vec![]));
    cause.end(&mut trial);
    trial.serve(40 * 60, EQUAL);
    assert_eq!((trial.stable(), suspended(&trial)), (canary, None), "it goes on by itself");
    assert_eq!(trial.cluster.news(), ["Recovered info", "RolloutPromoted info"]);
}

#[test]
fn a_canary_whose_evidence_is_of_a_later_version_says_so_with_what_helps() {
    let mut trial = trial_with(ROLLOUT);
    trial.silent = trial.canary();
    trial.refused = Some(Implausible::Version { version: 9 });
    trial.serve(120, EQUAL);
    let canary = trial.cluster.canary();
    let message = format!(
        "what pod {canary}-0 says is refused: version 9 of the evidence is later than 2, the latest that is known here: \
         upgrade the operator and kubectl-slipway"
    );
    let (reason, told) = trial.condition("Reconciling");
    assert_eq!(reason, "EvidenceUnreachable");
    assert!(told.contains("no pod of the canary has reported for ") && told.ends_with(&message), "{told}");
}

#[test]
fn a_pod_that_says_other_nonsense_at_each_look_is_written_down_no_more_often_than_a_silent_one() {
    let writes = |says: fn(u32) -> Option<Implausible>| {
        let mut trial = trial_with(ROLLOUT);
        trial.silent = trial.canary();
        for look in 0..60 {
            trial.refused = says(look);
            trial.serve(10, EQUAL);
        }
        trial.writes
    };
    let silent = writes(|_| None);
    assert_eq!(writes(|look| Some(Implausible::Version { version: 3 + look })), silent);
}

#[test]
fn what_no_verdict_lets_go_on_is_told_too() {
    let rollout = ROLLOUT.replace("maxSoak: 30m", "maxSoak: 3m");
    let mut trial = trial_with(&format!("{rollout}onInconclusive: Promote\n"));
    trial.cluster = trial.cluster.clone().alerting().edited(|spec| {
        spec.slo = serde_norway::from_str("{errorRate: {max: 1%}}").expect("a valid objective");
    });
    // Both revisions miss the objective: that is no harm of the canary's, and no reason to give it more.
    trial.serve(10 * 60, Users { failures: 3, fails_alike: true, ..EQUAL });
    let (reason, message) = suspended(&trial).unwrap_or_else(|| panic!("{:?}", trial.rollout()));
    let words = "no verdict is possible: VerdictUnreachable: ";
    assert!(reason == "VerdictUnreachable" && message.contains(words), "{reason}: {message}");
    assert!(message.contains("ErrorRateExceeded"), "{message}");
    assert_eq!((trial.share(), trial.rollout().rejected), (20, vec![]));
}

/// What is said last to a person who is to decide.
const DECIDED: &str = "`kubectl slipway promote support -n team` and `kubectl slipway abort support -n team` decide \
                       without a verdict. The fields spec.rollout.promote and spec.rollout.abort do the same";

#[test]
fn who_asked_to_decide_where_the_evidence_is_weak_is_told_how() {
    let mut trial = trial_with(&ROLLOUT.replace("maxSoak: 30m", "maxSoak: 2m"));
    trial.serve(200, Users { runs: 10, ..EQUAL });
    let (reason, message) = suspended(&trial).unwrap_or_else(|| panic!("{:?}", trial.rollout()));
    assert!(reason == "VerdictUnreachable" && message.ends_with(DECIDED), "{reason}: {message}");
}

fn suspended(trial: &Trial) -> Option<(String, String)> {
    let conditions = &trial.cluster.world.status.conditions;
    conditions
        .iter()
        .find(|c| c.type_ == "Suspended" && c.status == "True")
        .map(|c| (c.reason.clone(), c.message.clone()))
}
