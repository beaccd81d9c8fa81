//! Another writer of the route, such as a tool that restores its own version of it. Pure.
//!
//! The operator writes its weights again at every look, because a rollback must be able to withdraw traffic whatever
//! others write. But no canary gets more traffic while others set weights too, and for a while after: conflicting tools
//! write in turns.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::v1alpha1::agent_deployment::RouteContest;

use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::{RouteRival, RouteView, World},
    },
    plan::Note,
    why::{CONTEST_REMEMBERED, Contested, Why},
};

/// A contest that continues is recorded again after this time, rather than with every look.
const WRITTEN_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// The contest as it stands: seen now, or a little before.
fn contest(world: &World) -> Option<RouteContest> {
    world.spec.rollout.traffic.gateway_api.as_ref()?;
    let known = world.status.rollout.as_ref().and_then(|rollout| rollout.route_contest.clone());
    let is_younger = |known: &RouteContest, age: SignedDuration| world.now.duration_since(known.at.0) < age;
    let RouteView::Present { rival: Some(RouteRival { manager, fields }), .. } = &world.route else {
        return known.filter(|known| is_younger(known, CONTEST_REMEMBERED));
    };
    let same = |known: &RouteContest| known.manager == *manager && known.fields == *fields;
    let seen = || RouteContest { manager: manager.clone(), fields: fields.clone(), at: Time(world.now) };
    Some(known.filter(|known| same(known) && is_younger(known, WRITTEN_EVERY)).unwrap_or_else(seen))
}

/// What keeps a canary from being given more traffic.
pub(super) fn why(world: &World) -> Option<Why> {
    let RouteContest { manager, fields, at: _ } = contest(world)?;
    Some(Why::RouteContested(Contested { route: world.name.clone(), manager, fields }))
}

/// The contest as it is recorded. It is announced once.
pub(super) fn recorded(world: &World) -> Planned<Option<RouteContest>> {
    let contest = contest(world);
    let known = world.status.rollout.as_ref().and_then(|rollout| rollout.route_contest.as_ref());
    let is_told = known.map(|known| &known.manager) == contest.as_ref().map(|contest| &contest.manager);
    let news = why(world).filter(|_| !is_told);
    Parts::of_notes(news.map(|why| Note::warning(why.reason(), why.to_string()))).with(contest)
}
