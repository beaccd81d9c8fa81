//! Step 4: which configuration of which engine serves, as a campaign of measurements chose. Pure.
//!
//! The campaign itself is a Profile with a planner of its own. Here its inputs are frozen, and its answer is read.

pub mod build;
mod cost;
mod lengths;
mod prior;
pub(super) mod repetitions;
pub mod reprofiling;
pub mod schedule;

use slipway_crds::{
    identity::content_hash,
    v1alpha1::{
        ProfileSpec, ProfileStatus,
        agent_deployment::{ConfigMapSource, OnInfeasible, Profiling, ProfilingBudget, SearchSpace, SelectedCost},
        profile::{
            FrozenData, FrozenPrompts, NamedConfiguration, ProfileChoice, ProfileInputs, ProfilePhase,
            ProfilePlacement, ProfiledEngine,
        },
        shared::ServingConfiguration,
    },
    values::PositiveDecimal,
};

use super::{
    defaults,
    engines::{built::BuiltEngine, quality},
    parts::{Basis, Found, Halt, Parts, Planned, Planning},
    prepare::Prepared,
    resolve::Resolved,
    world::World,
};
use crate::{
    agent_deployment::{rollout::revision::PlanInputs, world::WorkloadView},
    plan::{AT_ONCE, Child, SOON},
    why::{Blocked, Step, Why},
};

/// Engines that are served without a campaign say so.
const NOT_PROFILED: &str =
    "the first engine of search.precision that passes; nothing is measured without spec.profiling";

/// Latest campaigns that are kept beside the current one, for their measurements and for their predictions of kept
/// revisions.
const MAX_EARLIER_CAMPAIGNS: usize = 9;

/// Most configurations of one engine, as the Profile's schema has it.
const MAX_CONFIGURATIONS: usize = 64;

/// What is to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) engine: BuiltEngine,
    pub(super) configuration: ServingConfiguration,
    /// Runs in flight on one replica.
    pub(super) level: i32,
    pub(super) why: String,
    /// What it is predicted to cost.
    pub(super) cost: Option<SelectedCost>,
    /// What it rests on.
    pub(super) basis: Basis,
}

/// A campaign: its name, the hash of its inputs, and the inputs as they would be frozen now.
#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) name: String,
    pub(super) input_hash: String,
    pub(super) inputs: ProfileInputs,
    /// Short hash of the model's source.
    pub(super) model_source: String,
}

/// A campaign that measures again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repetition<'a> {
    pub(super) number: i32,
    /// Its Profile, once it has one.
    pub(super) profile: Option<&'a str>,
    /// What it may cost in place of `budget.gpuHours`.
    pub(super) gpu_hours: Option<&'a PositiveDecimal>,
}

pub(super) fn decide(world: &World, prepared: &Prepared, made_from: &PlanInputs) -> Planning<Choice> {
    Planned::of(|parts| {
        if world.spec.profiling.is_none() {
            parts.add(resting_on(Basis::Unmeasured));
            return Ok(unmeasured(world, &prepared.engines, &configurations(&world.spec.search)?)?);
        }
        let repetition = repetitions::adopted(world, &made_from.spec).map(|adopted| Repetition {
            number: adopted.number,
            profile: Some(&adopted.profile),
            gpu_hours: None,
        });
        let campaign = parts.join(campaign_or_look_again(world, prepared, repetition))?;
        parts.add(resting_on(Basis::Campaign(campaign.name.clone())));
        let conducted = parts.join(conduct(world, &campaign));
        let is_named = world.status.profile.as_ref() == Some(&campaign.name);
        if !prepared.askable.is_empty() && !is_named && world.profiles.contains_key(&campaign.name) {
            // The engines that it asks for are among those of the spec once the status names it.
            parts.add(Parts::look_within(AT_ONCE));
            let state = "the campaign is taken up again".to_owned();
            return Err(Halt::waiting(Why::Profiling { profile: campaign.name, state }));
        }
        Ok(answer(world, &campaign, conducted, &prepared.engines)?)
    })
}

fn resting_on(basis: Basis) -> Parts {
    Parts::of_found(Found { basis: Some(basis), ..Found::default() })
}

/// The campaign. If it is blocked, it is read again soon: no watch reports the user's ConfigMaps.
fn campaign_or_look_again(
    world: &World,
    prepared: &Prepared,
    repetition: Option<Repetition<'_>>,
) -> Planning<Campaign> {
    let campaign = campaign(world, prepared, repetition);
    let parts = if campaign.is_err() { Parts::look_within(SOON) } else { Parts::default() };
    parts.with(campaign)
}

/// How far a campaign is.
pub(super) enum Conducted<'a> {
    /// It goes on.
    UnderWay(Why),
    /// It could not be carried out, and why.
    Failed(&'a str),
    /// Nothing that was measured meets the objectives.
    Infeasible {
        /// What it found.
        status: &'a ProfileStatus,
        /// The binding objective, and what it would take.
        answer: &'a str,
    },
    /// What it found, and what it chose of that.
    Chosen(&'a ProfileStatus, &'a ProfileChoice),
}

/// Makes the Profile of a campaign where there is none yet, and says how far it is.
pub(super) fn conduct<'a>(world: &'a World, campaign: &Campaign) -> Planned<Conducted<'a>> {
    let Campaign { name, input_hash, inputs, model_source } = campaign;
    let under_way = |state: String| Conducted::UnderWay(Why::Profiling { profile: name.clone(), state });
    let Some(status) = world.profiles.get(name) else {
        let (agent_deployment, input_hash, inputs) = (world.name.clone(), input_hash.clone(), inputs.clone());
        let spec = ProfileSpec { agent_deployment, input_hash, inputs };
        let profile = Child::Profile(Box::new(build::profile::profile(world, name, (spec, model_source))));
        return Parts::of_children([profile]).with(under_way("the campaign is about to begin".to_owned()));
    };
    Parts::default().with(match (status.phase, &status.choice) {
        (Some(ProfilePhase::Chosen), Some(choice)) => Conducted::Chosen(status, choice),
        (None | Some(ProfilePhase::Exploring | ProfilePhase::Confirming | ProfilePhase::Chosen), _) => {
            under_way(status.message.clone())
        }
        (Some(ProfilePhase::Failed), _) => Conducted::Failed(&status.message),
        (Some(ProfilePhase::Infeasible), _) => {
            let answer = status.infeasible.as_ref().map_or(&status.message, |answer| &answer.what_it_would_take);
            Conducted::Infeasible { status, answer }
        }
    })
}

/// The campaign that the spec asks for, or a repetition of it. One that has begun is known by its name, for inputs such
/// as the replicas may have changed since.
pub(super) fn campaign(
    world: &World,
    prepared: &Prepared,
    repetition: Option<Repetition<'_>>,
) -> Result<Campaign, Halt> {
    let Some(profiling) = &world.spec.profiling else {
        let problem = "is required for a campaign: add it".to_owned();
        return Err(Halt::stopped(Why::SpecRefused { field: "spec.profiling", problem }));
    };
    let configurations = configurations(&world.spec.search)?;
    let mut inputs = freeze(world, &prepared.resolved, profiling, (measured(prepared), configurations))?;
    inputs.prior = prior::freeze(world, prepared, &mut inputs)?;
    inputs.model = prior::model(&prepared.resolved.model, &inputs);
    inputs.repetition = repetition.map(|repetition| repetition.number);
    if !prepared.askable.is_empty() {
        // Engines that were built beforehand are inputs only where they passed.
        inputs.quality = quality::gate_hash(world)?.map(|hash| hash.short().to_owned());
    }
    if let Some(hours) = repetition.and_then(|repetition| repetition.gpu_hours) {
        inputs.budget.gpu_hours = hours.clone();
    }
    // Who scales a Deployment whose campaign is under way gets no other campaign. The model's size only tells the
    // search where to begin, and releases that did not know it began the same campaign.
    let hash = content_hash(&ProfileInputs { recorded_replicas: None, model: None, ..inputs.clone() })?;
    let begun = repetition.and_then(|repetition| repetition.profile).filter(|name| world.profiles.contains_key(*name));
    let name = begun.map_or_else(|| format!("{}-{}", world.name, hash.short()), str::to_owned);
    let model_source = content_hash(&prepared.resolved.model.source_digest)?.short().to_owned();
    Ok(Campaign { name, input_hash: hash.as_str().to_owned(), inputs, model_source })
}

/// Without a campaign there is nothing to choose by.
fn unmeasured(world: &World, engines: &[BuiltEngine], configurations: &[NamedConfiguration]) -> Step<Choice> {
    if configurations.len() > 1 {
        let problem = "choosing among several serving configurations requires measurements: add spec.profiling, \
                       or keep one value each in search.instances, search.queueDelayMicroseconds and search.parameters";
        return Err(Blocked::Stopped(Why::SpecRefused { field: "spec.search", problem: problem.to_owned() }));
    }
    let (Some(engine), Some(configuration)) = (engines.first(), configurations.first()) else {
        let failure = "the quality gate refuses all of them".to_owned();
        return Err(Blocked::Stopped(Why::NoEngine { total: world.status.engines.len(), failure }));
    };
    Ok(Choice {
        engine: engine.clone(),
        configuration: configuration.settings.clone(),
        level: world.spec.search.concurrency.iter().copied().max().unwrap_or(1),
        why: NOT_PROFILED.to_owned(),
        cost: None,
        basis: Basis::Unmeasured,
    })
}

/// The inputs of the campaign, with the digests of the data as it is now.
fn freeze(
    world: &World,
    resolved: &Resolved,
    profiling: &Profiling,
    (engines, configurations): (Vec<ProfiledEngine>, Vec<NamedConfiguration>),
) -> Step<ProfileInputs> {
    let (price, prices) = cost::prices(world)?;
    let mut levels = world.spec.search.concurrency.clone();
    levels.sort_unstable();
    let mut prompts = Vec::new();
    let (mut agent_trace, mut recorded_lengths, mut recorded_runs_per_second) = (None, None, None);
    let synthetic = profiling.workloads.iter().find_map(|workload| workload.synthetic.clone());
    synthetic.iter().try_for_each(|runs| lengths::fit(world, resolved, runs))?;
    for workload in &profiling.workloads {
        if let Some(source) = &workload.prompts {
            let data = frozen(world, source)?;
            prompts.push(FrozenPrompts { name: workload.name.clone(), weight: workload.weight, data });
        }
        if let Some(source) = &workload.agent_trace {
            agent_trace = Some(frozen(world, source)?);
            recorded_runs_per_second = lengths::runs_per_second(world, source);
        }
        if let Some(source) = &workload.recorded_lengths {
            recorded_lengths = Some(frozen(world, source)?);
            lengths::fit_recorded(world, resolved, source)?;
            recorded_runs_per_second = lengths::runs_per_second(world, source);
        }
    }
    let slo = &world.spec.slo;
    let has_rate =
        slo.throughput.is_some() || synthetic.as_ref().is_some_and(|runs| runs.arrival.runs_per_second.is_some());
    Ok(ProfileInputs {
        engines,
        configurations,
        levels,
        driver: defaults::driver(world).unwrap_or_default(),
        prompts,
        agent_trace,
        recorded_lengths,
        recorded_replicas: recorded_runs_per_second.is_some().then(|| world.least_replicas().max(1)),
        recorded_runs_per_second,
        synthetic,
        prior: None,
        model: None,
        objectives: slo.objectives.clone(),
        error_rate: slo.error_rate.clone(),
        throughput: slo.throughput.clone(),
        cost: slo.cost.clone(),
        gpu: slo.gpu.clone(),
        quality: None,
        price,
        prices,
        // A deployment scaled to 0 is profiled for one replica, one that scales itself for its maximum. Without a
        // throughput, replicas change nothing.
        replicas: if has_rate { world.most_replicas().max(1) } else { 1 },
        optimize_for: slo.optimize_for,
        // The limit of a month's campaigns is not part of one campaign's inputs.
        budget: ProfilingBudget { per_month: None, ..profiling.budget.clone() },
        repetition: None,
        agent: world.spec.agent.clone(),
        placement: ProfilePlacement {
            triton_image: resolved.measured_image(),
            node_selector: world.spec.hardware.node_selector.clone(),
            tolerations: world.spec.hardware.tolerations.clone(),
            triton_resources: world.spec.serving.triton_resources.clone(),
            agent_resources: world.spec.serving.agent_resources.clone(),
        },
    })
}

/// The engines of a campaign: those that were built and accepted, or all that it may ask for.
fn measured(prepared: &Prepared) -> Vec<ProfiledEngine> {
    match prepared.askable.as_slice() {
        [] => prepared.engines.iter().map(profiled).collect(),
        askable => askable.to_vec(),
    }
}

fn profiled(engine: &BuiltEngine) -> ProfiledEngine {
    let served_by = engine.served_by;
    ProfiledEngine {
        name: engine.reference.identity.clone(),
        manifest_digest: engine.reference.manifest_digest.to_string(),
        axes: None,
        display_name: engine.display_name.clone(),
        tensorrt_llm_ranks: served_by.ranks().map(|ranks| i32::try_from(ranks).unwrap_or(i32::MAX)),
        tensorrt_llm_entry: served_by.entry(),
        no_build: served_by.no_build(),
        gpu_product: engine.gpu_product.clone(),
        expected: Vec::new(),
    }
}

fn frozen(world: &World, source: &ConfigMapSource) -> Step<FrozenData> {
    let reference = &source.config_map;
    let config_map = reference.name.clone();
    match world.workloads.get(&(reference.name.clone(), reference.key.clone())) {
        Some(WorkloadView::Lines { digest } | WorkloadView::Runs { digest, traffic: _ }) => {
            Ok(FrozenData { config_map: reference.clone(), digest: digest.to_string() })
        }
        Some(WorkloadView::Invalid { problem }) => {
            Err(Blocked::Stopped(Why::WorkloadUnusable { config_map, problem: problem.clone() }))
        }
        Some(WorkloadView::Missing) | None => {
            let problem = format!("it does not exist or has no key {}: create it", reference.key);
            Err(Blocked::Waiting(Why::WorkloadUnusable { config_map, problem }))
        }
    }
}

/// The product of the serving axes, each configuration named by what it sets.
fn configurations(search: &SearchSpace) -> Step<Vec<NamedConfiguration>> {
    let mut all = vec![ServingConfiguration::default()];
    if !search.instances.is_empty() {
        all = search.instances.iter().map(|&count| with_instances(count)).collect();
    }
    if !search.queue_delay_microseconds.is_empty() {
        let delays = &search.queue_delay_microseconds;
        all = all.iter().flat_map(|base| delays.iter().map(|delay| with_queue_delay(base, *delay))).collect();
    }
    for parameter in &search.parameters {
        all = all
            .iter()
            .flat_map(|base| parameter.values.iter().map(|value| with_parameter(base, &parameter.name, value)))
            .collect();
    }
    if all.len() > MAX_CONFIGURATIONS {
        let problem = format!(
            "{} serving configurations exceed the limit of {MAX_CONFIGURATIONS}: remove values from search.instances, \
             search.queueDelayMicroseconds or search.parameters",
            all.len()
        );
        return Err(Blocked::Stopped(Why::SpecRefused { field: "spec.search", problem }));
    }
    let named = |(index, settings)| NamedConfiguration { name: name(&settings, index), settings };
    Ok(all.into_iter().enumerate().map(named).collect())
}

fn with_instances(count: i32) -> ServingConfiguration {
    ServingConfiguration { instances: Some(count), ..ServingConfiguration::default() }
}

fn with_queue_delay(base: &ServingConfiguration, microseconds: i32) -> ServingConfiguration {
    ServingConfiguration { queue_delay_microseconds: Some(microseconds), ..base.clone() }
}

fn with_parameter(base: &ServingConfiguration, name: &str, value: &str) -> ServingConfiguration {
    let mut configuration = base.clone();
    configuration.parameters.insert(name.to_owned(), value.to_owned());
    configuration
}

/// `instances-2,delay-100us,speculative_tokens-4`; a number where that would be longer than a name may be.
pub(super) fn name(settings: &ServingConfiguration, index: usize) -> String {
    let instances = settings.instances.map(|count| format!("instances-{count}"));
    let parameters = settings.parameters.iter().map(|(name, value)| format!("{name}-{value}"));
    let delay = settings.queue_delay_microseconds.map(|delay| format!("delay-{delay}us"));
    let name = instances.into_iter().chain(delay).chain(parameters).collect::<Vec<_>>().join(",");
    match name.len() {
        0 => "default".to_owned(),
        1..=40 => name,
        _ => format!("configuration-{}", index.saturating_add(1)),
    }
}

/// What the campaign says.
fn answer(world: &World, campaign: &Campaign, conducted: Conducted<'_>, engines: &[BuiltEngine]) -> Step<Choice> {
    let profile = campaign.name.clone();
    match conducted {
        Conducted::UnderWay(why) => Err(Blocked::Waiting(why)),
        Conducted::Failed(failure) => {
            Err(Blocked::Stopped(Why::ProfilingFailed { profile, failure: failure.to_owned() }))
        }
        Conducted::Infeasible { status, answer } => nearest(world, campaign, (status, answer), engines),
        Conducted::Chosen(status, choice) => {
            let point = (choice.engine.as_str(), choice.configuration.as_str(), choice.level);
            measured_is_built(campaign, status, &choice.engine, engines)?;
            let refused = || {
                let failure = "it chose an engine that failed or is refused since: see status.engines".to_owned();
                Blocked::Stopped(Why::ProfilingFailed { profile, failure })
            };
            let cost = cost::predicted(&campaign.inputs, status, choice.predicted_by);
            let chosen = chosen(campaign, engines, point, &choice.why).ok_or_else(refused)?;
            Ok(Choice { cost, ..chosen })
        }
    }
}

/// No configuration meets the objectives: nothing, or what comes nearest.
fn nearest(
    world: &World,
    campaign: &Campaign,
    (status, answer): (&ProfileStatus, &str),
    engines: &[BuiltEngine],
) -> Step<Choice> {
    let (profile, found) = (campaign.name.clone(), answer.to_owned());
    let stopped = Blocked::Stopped(Why::NoFeasibleConfiguration { profile, answer: found });
    match world.spec.slo.on_infeasible {
        OnInfeasible::KeepRunning => Err(stopped),
        OnInfeasible::ServeNearest => {
            let position = status.infeasible.as_ref().and_then(|infeasible| infeasible.nearest);
            let row = position.and_then(|at| status.measurements.get(usize::try_from(at).ok()?));
            if let Some(row) = row {
                measured_is_built(campaign, status, &row.engine, engines)?;
            }
            let why = format!("nothing meets the objectives, and this is the nearest: {answer}");
            let cost = position.and_then(|at| cost::predicted(&campaign.inputs, status, at));
            row.and_then(|row| chosen(campaign, engines, (&row.engine, &row.configuration, row.level), &why))
                .map(|chosen| Choice { cost, ..chosen })
                .ok_or(stopped)
        }
    }
}

/// Refuses an artifact that was built after the campaign had measured another of the same engine. Where all engines are
/// built beforehand, their digests are inputs of the campaign.
fn measured_is_built(
    campaign: &Campaign,
    status: &ProfileStatus,
    engine: &str,
    engines: &[BuiltEngine],
) -> Result<(), Blocked> {
    let asked = status.asked.iter().find(|asked| asked.engine == engine);
    let measured = asked.and_then(|asked| asked.manifest_digest.as_deref());
    let built = engines.iter().find(|built| built.reference.identity == engine);
    match (measured, built) {
        (Some(measured), Some(built)) if built.reference.manifest_digest.as_str() != measured => {
            let profile = campaign.name.clone();
            let state = format!(
                "engine {} was built again after it had been measured: delete Profile {profile} to measure it again",
                built.display_name
            );
            Err(Blocked::Waiting(Why::Profiling { profile, state }))
        }
        _ => Ok(()),
    }
}

fn chosen(
    campaign: &Campaign,
    engines: &[BuiltEngine],
    (engine, configuration, level): (&str, &str, i32),
    why: &str,
) -> Option<Choice> {
    let engine = engines.iter().find(|candidate| candidate.reference.identity == engine)?;
    let named = campaign.inputs.configurations.iter().find(|candidate| candidate.name == configuration)?;
    let (engine, configuration) = (engine.clone(), named.settings.clone());
    let basis = Basis::Campaign(campaign.name.clone());
    Some(Choice { engine, configuration, level, why: why.to_owned(), cost: None, basis })
}

/// Leaves a campaign that still asks for engines, where the spec has its answer already: nobody builds them.
pub(super) fn leave_asking(world: &World) -> Parts {
    let named = world.status.profile.as_ref().and_then(|name| world.profiles.get(name));
    named
        .filter(|status| !status.asked.is_empty() && goes_on(status))
        .map_or_else(Parts::default, |_| resting_on(Basis::Unmeasured))
}

/// Removes superseded campaigns: their measurements were adopted where they still count. Where another server has the
/// model, those that go on go as well: they would use GPUs for nobody.
pub(super) fn forget_unneeded(world: &World, current: Option<&String>) -> Parts {
    let others = world.campaigns.iter().filter(|campaign| Some(&campaign.name) != current).enumerate();
    let unneeded = others.filter(|(age, campaign)| {
        *age >= MAX_EARLIER_CAMPAIGNS
            || world.spec.upstream().is_some() && world.profiles.get(&campaign.name).is_some_and(goes_on)
    });
    Parts::of_removals(unneeded.map(|(_, campaign)| campaign.removal()))
}

/// Whether a campaign measures on, or is about to begin.
fn goes_on(status: &ProfileStatus) -> bool {
    !status.phase.is_some_and(ProfilePhase::has_ended)
}
