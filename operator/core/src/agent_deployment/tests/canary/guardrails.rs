//! Guardrails of the user's own beside the judge.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::Stage;

use super::{EQUAL, Trial, trial_with};
use crate::agent_deployment::rollout::guardrails::{GuardrailView, is_due};

const GUARDED: &str = "
traffic: {type: GatewayAPI, gatewayAPI: {parentRefs: [{name: agents}]}}
steps: [{weight: 20, minSoak: 1m, maxSoak: 30m}, {weight: 50, minSoak: 1m, maxSoak: 60m}]
judge: {warmUp: 0s}
guardrails: [{name: heat, query: 'max(heat{pod=~\"$pods\"})', max: '85'}]
";

impl Trial {
    /// What the operator sees of Prometheus, where it is time to ask.
    pub(in crate::agent_deployment::tests) fn look_at_guardrails(&mut self, is_compared: bool) {
        let declared = &self.cluster.world.spec.rollout.guardrails;
        let rollout = self.cluster.world.status.rollout.clone().unwrap_or_default();
        let is_asked = is_compared && is_due(declared, &rollout, self.cluster.world.now);
        let said = declared.iter().filter(|_| is_asked).map(|guardrail| (guardrail.name.clone(), self.said.clone()));
        self.cluster.world.guardrails = said.collect();
    }

    fn hot(mut self, degrees: f64) -> Self {
        self.said = GuardrailView::Values { canary: Some(degrees), stable: None };
        self
    }

    fn message(&self) -> String {
        let conditions = self.cluster.world.status.conditions.iter();
        conditions.filter(|c| c.type_ == "Reconciling").map(|c| format!("{}: {}", c.reason, c.message)).collect()
    }
}

#[test]
fn a_canary_within_its_guardrails_is_promoted() {
    let mut trial = trial_with(GUARDED).hot(80.0);
    let canary = trial.canary();
    trial.serve(3_000, EQUAL);
    assert_eq!((Some(trial.stable()), trial.shares), (canary, vec![0, 20, 50, 0]));
}

#[test]
fn a_canary_beyond_one_is_rolled_back_at_the_third_look() {
    let mut trial = trial_with(GUARDED).hot(91.0);
    // The first look was at pods that had no value yet.
    trial.serve(120, EQUAL);
    let canary = trial.canary().expect("it is on trial");
    let expected = format!(
        "GuardrailBlocking: revision {canary} has 20 % of the traffic; guardrail heat is 91, at most 85 is allowed"
    );
    assert_eq!(trial.message(), expected);
    trial.serve(180, EQUAL);
    let rejected = trial.rollout().rejected.remove(0);
    let reason = "at 20 % of the traffic: guardrail heat is 91, at most 85 is allowed, 3 times in a row";
    assert_eq!((rejected.reason.as_str(), trial.cluster.world.status.stage), (reason, Some(Stage::RolledBack)));
}

#[test]
fn a_query_without_a_value_holds_a_canary_however_good_it_is() {
    let mut trial = trial_with(GUARDED);
    trial.serve(1_500, EQUAL);
    assert_eq!(trial.shares, [0, 20]);
    assert!(
        trial.message().ends_with("guardrail heat: its query has no value for the canary's pods"),
        "{}",
        trial.message()
    );
    // Once it has one, the canary goes on.
    let mut trial = trial.hot(80.0);
    trial.serve(3_000, EQUAL);
    assert_eq!(trial.shares, [0, 20, 50, 0]);
}

#[test]
fn looks_cost_one_write_a_share() {
    let writes = |rollout: &str| {
        let mut trial = trial_with(rollout).hot(80.0);
        // The first look was at pods that had no value yet, which would hold the canary until the next one.
        trial.cluster.world.status.rollout.as_mut().expect("it is on trial").guardrails.clear();
        trial.writes = 0;
        trial.serve(600, EQUAL);
        (trial.writes, trial.shares)
    };
    let without = GUARDED.lines().filter(|line| !line.starts_with("guardrails")).collect::<Vec<_>>().join("\n");
    let ((guarded, shares), (unguarded, same)) = (writes(GUARDED), writes(&without));
    assert_eq!(shares, same);
    // One more for a look that falls between two writes of the judge's.
    assert!(guarded <= unguarded + 3, "{guarded} against {unguarded}");
}
