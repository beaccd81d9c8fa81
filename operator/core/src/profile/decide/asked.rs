//! Engines that the search asks for one by one: asked, awaited, measured. Pure.
//!
//! The status names what was asked for before anything is built, and keeps the artifact of each engine that has a row:
//! all of its rows are of that one. What the search does not ask for has its reason in `status.notMeasured`.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        profile::{AskedEngine, MeasurementPurpose, ProfiledEngine},
    },
};

use super::{
    adopt,
    engine::{self, EngineStep},
    job,
    ledger::{self, Next},
};
use crate::{
    plan::{AT_ONCE, Note, SOON, UNWATCHED},
    profile::{
        build::shares,
        parts::{Found, Parts, Planned},
        status::{CampaignState, cut},
        world::{Offer, ProfileWorld},
    },
};

/// Why a campaign begins with its first engine.
const FIRST: &str = "the campaign begins with the first engine";
/// Why a campaign that its AgentDeployment has left asks for nothing more. It goes on once it is the current one again.
const SUPERSEDED: &str = "the AgentDeployment has left this campaign, which goes on if its spec is restored";

/// The world in which every engine that was asked for has its artifact.
pub fn with_artifacts(world: &ProfileWorld) -> ProfileWorld {
    let mut world = world.clone();
    for engine in world.spec.inputs.engines.iter_mut().filter(|engine| engine.manifest_digest.is_empty()) {
        let asked = world.status.asked.iter().find(|asked| asked.engine == engine.name);
        engine.manifest_digest = asked.and_then(|asked| asked.manifest_digest.clone()).unwrap_or_default();
    }
    world
}

/// Looks at the engines that were asked for, and asks for the next. What goes on by itself is added to `working`; a
/// campaign that cannot go on is returned.
pub(super) fn explore(
    world: &ProfileWorld,
    before: &ProfileStatus,
    working: &mut Vec<CampaignState>,
) -> Planned<Option<CampaignState>> {
    Planned::of(|parts| {
        for asked in &before.asked {
            let Some(engine) = world.spec.inputs.engines.iter().find(|engine| engine.name == asked.engine) else {
                continue;
            };
            match parts.join(look(world, &parts.found.seen_from(before), engine)) {
                EngineStep::Working(state) => working.push(state),
                EngineStep::Ended => {}
                EngineStep::CampaignFailed(state) => return Some(state),
            }
            if engine::creates_a_job(parts) {
                return None;
            }
        }
        if working.len() < world.agent.most_at_once() {
            let status = parts.found.seen_from(before);
            working.extend(parts.join(ask(world, &status)));
        }
        None
    })
}

/// Looks at one engine that was asked for.
fn look(world: &ProfileWorld, before: &ProfileStatus, engine: &ProfiledEngine) -> Planned<EngineStep> {
    if before.engines.iter().any(|ended| ended.engine == engine.name) {
        return Parts::default().with(EngineStep::Ended);
    }
    let is_known = !engine.manifest_digest.is_empty();
    // What has no row yet may be built again, if the store lost it.
    let has_begun =
        || before.measurements.iter().any(|row| row.engine == engine.name) || shares::has_job(world, before, engine);
    if is_known && has_begun() {
        return engine::measure(world, before, engine);
    }
    match world.agent.offers.get(&engine.name) {
        Some(Offer::Artifact(digest)) if *digest == engine.manifest_digest => engine::measure(world, before, engine),
        Some(Offer::Artifact(digest)) => arrived(world, before, (engine, digest)),
        Some(Offer::None(words)) => {
            let words = format!("it cannot be measured: {words}");
            engine::give_up_engine(engine, &words).with(EngineStep::Ended)
        }
        None if world.is_superseded() => {
            Parts::look_within(UNWATCHED).with(working(format!("{}: {SUPERSEDED}", engine.display_name)))
        }
        None => {
            let words = format!("waiting for engine {}, which the search asks for", engine.display_name);
            Parts::look_within(SOON).with(working(words))
        }
    }
}

/// Takes over the artifact of an engine. Its Job is created once the status has the artifact.
fn arrived(
    world: &ProfileWorld,
    before: &ProfileStatus,
    (engine, digest): (&ProfiledEngine, &str),
) -> Planned<EngineStep> {
    let manifest_digest = Some(digest.to_owned());
    let asked = AskedEngine { engine: engine.name.clone(), why: String::new(), manifest_digest };
    let jobs = job::attempt_after_failed(world, before, engine).into_iter().collect();
    let known = Found { asked: vec![asked], jobs, ..Found::default() };
    let with = ProfiledEngine { manifest_digest: digest.to_owned(), ..engine.clone() };
    let parts = Parts::of_found(known).and(adopt::adopt_engine(world, before, &with));
    parts.and(Parts::look_within(AT_ONCE)).with(working(format!("{}: it is built", engine.display_name)))
}

fn working(message: String) -> EngineStep {
    EngineStep::Working(state(message))
}

fn state(message: String) -> CampaignState {
    CampaignState::Working { purpose: MeasurementPurpose::Explore, reason: Reason::Profiling, message }
}

/// Asks for the next engine, if one is left that is worth it, and gives the reason for every other one.
fn ask(world: &ProfileWorld, before: &ProfileStatus) -> Planned<Option<CampaignState>> {
    let inputs = &world.spec.inputs;
    let is_open = |engine: &&ProfiledEngine| {
        let is_asked = before.asked.iter().any(|asked| asked.engine == engine.name);
        !is_asked && !before.engines.iter().any(|ended| ended.engine == engine.name)
    };
    let open: Vec<&ProfiledEngine> = inputs.engines.iter().filter(is_open).collect();
    if open.is_empty() {
        return Parts::default().with(None);
    }
    if world.is_superseded() {
        return Parts::look_within(UNWATCHED).with(Some(state(SUPERSEDED.to_owned())));
    }
    let is_busy = before.asked.iter().any(|asked| !before.engines.iter().any(|ended| ended.engine == asked.engine));
    let done = |words: &str| Next::Done { reasons: open.iter().map(|_| words.to_owned()).collect() };
    // What is promised to the Jobs that run is asked about again when they have ended.
    let over = shares::left_beside(world, before, None).used_up().or_else(|| ledger::unknown_figure(inputs, before));
    let next = match (before.asked.is_empty(), over) {
        // Without expectations a campaign begins with the engine of its warm start, or with the first, which is built.
        (true, _) if inputs.prior.is_none() => first(before, &open),
        (_, Some(words)) => done(&words),
        (_, None) => ledger::next(inputs, before, &open),
    };
    match next {
        Next::Ask { engine, why } => asked(open[engine], &why),
        // What runs may still change what the search asks for.
        Next::Done { reasons: _ } if is_busy => Parts::default().with(None),
        Next::Done { reasons } => {
            let left_out = open.iter().zip(reasons).map(|(engine, why)| left_out(world, engine, &why));
            left_out.fold(Parts::default(), Parts::and).with(None)
        }
    }
}

/// The engine with which a campaign begins.
fn first(before: &ProfileStatus, open: &[&ProfiledEngine]) -> Next {
    let known = before.warm_start.as_ref().and_then(|warm_start| {
        let engine = open.iter().position(|engine| engine.name == warm_start.engine)?;
        Some((engine, format!("Profile {} chose it before", warm_start.profile)))
    });
    let (engine, why) = known.unwrap_or_else(|| (0, FIRST.to_owned()));
    Next::Ask { engine, why }
}

fn asked(engine: &ProfiledEngine, why: &str) -> Planned<Option<CampaignState>> {
    let entry = AskedEngine { engine: engine.name.clone(), why: cut(why, 256), manifest_digest: None };
    let line = format!("engine {} is asked for: {why}", engine.display_name);
    let note = Note::normal(Reason::Profiling, line.clone());
    let found = Found { asked: vec![entry], ..Found::default() };
    let parts = Parts::of_notes([note]).and(Parts::of_found(found)).and(Parts::look_within(SOON));
    parts.with(Some(state(line)))
}

/// An engine that is never measured: nothing is wrong with it. The first of the spec is built in any case.
fn left_out(world: &ProfileWorld, engine: &ProfiledEngine, why: &str) -> Parts {
    let is_built = world.agent.offers.contains_key(&engine.name);
    let what = if is_built { "not measured" } else { "not built" };
    let note = Note::normal(Reason::ConfigurationMeasured, format!("{} is {what}: {why}", engine.display_name));
    Parts::of_notes([note]).and(Parts::of_found(engine::without_rows(engine, &format!("{what}: {why}"))))
}
