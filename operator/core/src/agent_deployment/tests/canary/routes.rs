//! Routes that are not there, or that somebody else writes: nobody loses traffic, and no canary is given more.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{AgentDeploymentSpec, agent_deployment::Stage};

use super::{EQUAL, ROLLOUT, Trial, Users, trial, world};
use crate::{
    agent_deployment::world::{RouteRival, RouteView},
    plan::Child,
};

impl Trial {
    /// From now on this manager is seen to have written the route; nobody else is with `None`.
    fn contested_by(&mut self, manager: Option<&str>) {
        let RouteView::Present { rival, .. } = &mut self.cluster.world.route else { panic!("there is a route") };
        *rival = manager.map(|manager| RouteRival { manager: manager.to_owned(), fields: "spec.rules".to_owned() });
    }

    fn reconciling(&self) -> (String, String) {
        let conditions = self.cluster.world.status.conditions.iter();
        let mut found = conditions.filter(|c| c.type_ == "Reconciling").map(|c| (c.reason.clone(), c.message.clone()));
        found.next_back().expect("it has one")
    }

    /// Why nothing goes on: what stops the rollout, or else what it waits for.
    fn held_by(&self) -> String {
        let conditions = self.cluster.world.status.conditions.iter();
        let mut stopped = conditions.filter(|c| c.type_ == "Stalled" && c.status == "True").map(|c| c.reason.clone());
        stopped.next().unwrap_or_else(|| self.reconciling().0)
    }

    fn times_told(&self, reason: &str) -> usize {
        self.events.iter().filter(|event| event.starts_with(reason)).count()
    }
}

const CONTESTED: &str = "spec.rollout.traffic.gatewayAPI: argocd-controller has written spec.rules of HTTPRoute support, which the operator owns. The operator restores its own values. No canary gets more traffic until nobody else has written the route for 5 minutes: remove the route from what argocd-controller applies, and remove what it added";

#[test]
fn a_canary_whose_route_somebody_else_writes_keeps_its_share_and_the_condition_names_who_it_is() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.contested_by(Some("argocd-controller"));
    trial.serve(25 * 60, EQUAL);
    assert_eq!((trial.shares.clone(), trial.stable()), (vec![0, 20], stable.clone()));
    assert_eq!(trial.reconciling(), ("RouteContested".to_owned(), CONTESTED.to_owned()));
    assert_eq!(trial.times_told("RouteContested"), 1);
    let weights = BTreeMap::from([(format!("support-{stable}"), 80), (format!("support-{canary}"), 20)]);
    assert_eq!(trial.cluster.weights, weights, "the operator's own words are put back");
    assert_eq!(trial.cluster.world.serving[&stable].wanted, 4);
}

#[test]
fn a_contest_counts_until_nobody_else_has_written_for_five_minutes() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.contested_by(Some("argocd-controller"));
    trial.serve(120, EQUAL);
    trial.contested_by(None);
    trial.serve(230, EQUAL);
    assert_eq!((trial.share(), trial.reconciling().0.as_str()), (20, "RouteContested"));
    trial.serve(40 * 60, EQUAL);
    assert_eq!((trial.stable(), trial.shares), (canary, vec![0, 20, 50, 0]));
    assert_eq!(trial.cluster.world.status.rollout.expect("it serves").route_contest, None);
}

#[test]
fn harm_rolls_back_whoever_writes_the_route() {
    let mut trial = trial();
    let stable = trial.stable();
    trial.contested_by(Some("argocd-controller"));
    trial.serve(20 * 60, Users { slowdown: 2.0, ..EQUAL });
    assert_eq!((trial.rollout().rejected.len(), trial.canary()), (1, None));
    assert_eq!(trial.cluster.weights, BTreeMap::from([(format!("support-{stable}"), 100)]));
}

#[test]
fn a_canary_that_has_passed_does_not_take_over_while_others_send_users_to_the_pods_before() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.contested_by(Some("flagger"));
    trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.promote = Some(canary.clone()));
    trial.serve(60, EQUAL);
    assert_eq!((trial.stable(), trial.rollout().step), (stable.clone(), Some(3)));
    assert_eq!(trial.cluster.world.serving[&stable].wanted, 4);
    trial.contested_by(None);
    trial.serve(400, EQUAL);
    assert_eq!(trial.stable(), canary);
}

#[test]
fn at_rest_a_contest_is_told_and_changes_nothing() {
    let mut trial = trial();
    trial.serve(40 * 60, EQUAL);
    trial.contested_by(Some("kubectl-edit"));
    trial.settle();
    assert_eq!(trial.reconciling().0, "RouteContested");
    assert_eq!((trial.cluster.world.status.stage, trial.times_told("RouteContested")), (Some(Stage::Serving), 1));
    trial.contested_by(None);
    trial.cluster.pass(301);
    trial.settle();
    assert_eq!(trial.reconciling().0, "UpToDate");
}

const UNKNOWN: &str = "spec.rollout.traffic.gatewayAPI: the cluster has no HTTPRoute: install the CRDs of the Gateway \
                       API and a gateway, or set spec.rollout.traffic.type to ReplicaRatio";

#[test]
fn without_the_kind_of_routes_stable_serves_through_its_service_and_the_condition_says_what_to_install() {
    let mut cluster = world();
    cluster.world.route = RouteView::UnknownKind;
    let cluster = cluster.edited(|spec| {
        spec.serving.replicas = 4;
        spec.rollout = serde_norway::from_str(ROLLOUT).expect("a valid rollout");
    });
    let mut trial = Trial::on(cluster.serving());
    let stable = trial.stable();
    trial.settle();
    assert_eq!(trial.reconciling(), ("RouteUnavailable".to_owned(), UNKNOWN.to_owned()));
    trial.cluster = trial.cluster.clone().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    trial.settle();
    trial.cluster.ready_pods();
    trial.serve(20 * 60, EQUAL);
    assert_eq!(trial.reconciling(), ("RouteUnavailable".to_owned(), UNKNOWN.to_owned()));
    assert_eq!((trial.share(), trial.stable()), (0, stable.clone()));
    assert_eq!(trial.cluster.routed_to, Some(stable.clone()));
    assert_eq!((trial.cluster.world.serving[&stable].wanted, trial.cluster.world.serving[&stable].ready), (4, 4));
    let routes = trial.cluster.plan().children.into_iter().filter(|child| matches!(child, Child::HttpRoute(_)));
    assert_eq!(routes.count(), 0, "the API server would refuse it");
}

/// An agent whose gateway is gone for a hundred seconds.
fn without_gateway() -> (Trial, Option<Time>) {
    let mut trial = trial();
    trial.serve(40 * 60, EQUAL);
    trial.cluster.world.route = RouteView::UnknownKind;
    trial.settle();
    let since = Some(Time(trial.cluster.world.now));
    assert_eq!(trial.rollout().route_unavailable_since, since);
    trial.cluster.pass(100);
    (trial, since)
}

/// Else each wait for something else would let the operator look at the route every five seconds again.
#[rstest]
#[case::before_there_is_a_plan(|spec: &mut AgentDeploymentSpec| spec.agent.max_steps = 1_000, "SpecRefused")]
#[case::while_pods_start(
    |spec: &mut AgentDeploymentSpec| spec.agent.system_prompt = "Be brief.".to_owned(),
    "RevisionStarting"
)]
fn since_when_no_gateway_serves_is_remembered_whatever_is_waited_for(
    #[case] edit: fn(&mut AgentDeploymentSpec),
    #[case] held_by: &str,
) {
    let (mut trial, since) = without_gateway();
    trial.cluster = trial.cluster.clone().edited(edit);
    trial.settle();
    assert_eq!(trial.held_by(), held_by);
    assert_eq!(trial.rollout().route_unavailable_since, since);
    let look = trial.cluster.plan().requeue;
    assert!(look <= Duration::from_secs(125), "{look:?}");
}

/// Tools that fight for a route do so in rounds, and a plan may be missing meanwhile.
#[test]
fn a_contest_is_remembered_while_there_is_no_plan() {
    let mut trial = trial();
    trial.serve(40 * 60, EQUAL);
    trial.contested_by(Some("flagger"));
    trial.settle();
    trial.contested_by(None);
    trial.cluster = trial.cluster.clone().edited(|spec| spec.agent.max_steps = 1_000);
    trial.settle();
    let contest = trial.rollout().route_contest.map(|contest| contest.manager);
    assert_eq!((trial.held_by().as_str(), contest), ("SpecRefused", Some("flagger".to_owned())));
    trial.cluster.pass(301);
    trial.settle();
    assert_eq!(trial.rollout().route_contest, None);
}
