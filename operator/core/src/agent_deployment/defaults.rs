//! What is taken for fields that a spec leaves out. Pure.
//!
//! Some defaults are known from the spec and the operator's configuration: the block and the version of a backend, the
//! precision of Custom, the driver. [`completed`] writes them into the spec before its hash is made, so a spec that
//! names them has the same hash. The others are the checkpoint's own: they are known once its shape is, and belong to
//! the identity of engines alone. So a reverted spec is recognized without its checkpoint.
//!
//! A version that was taken stays in the status until the platform team pins another one. A later release of the
//! operator may have a newer default, and changes nothing that serves. The same goes for the driver, until other
//! latencies are bounded.

use std::collections::BTreeSet;

use slipway_backends::{check, gpu, no_build, tensorrt_llm::version};
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{
        Backend, Checkpoint, EngineConfiguration, Precision, ProfilingDriver, ResolvedModel, ResolvedShape,
        SearchSpace, TakenDefaults, TakenVersion, VersionedBackend,
    },
};

use super::{rollout::revision, world::World};

/// Precision with Custom, whose builder reads the checkpoint itself.
const OF_CUSTOM: Precision = Precision::FP32;

/// The spec with every default that needs no checkpoint.
pub fn completed(world: &World) -> AgentDeploymentSpec {
    let mut spec = world.spec.clone();
    spec.engine = spec.engine.as_ref().map(|of| engine(world, of));
    if is_custom(&spec) && spec.search.precision.is_empty() {
        spec.search.precision = vec![OF_CUSTOM];
    }
    let driver = driver_of(world, &spec);
    with_driver(spec, driver)
}

fn with_driver(mut spec: AgentDeploymentSpec, driver: Option<ProfilingDriver>) -> AgentDeploymentSpec {
    if let Some(profiling) = &mut spec.profiling {
        profiling.driver = driver;
    }
    spec
}

/// What sends the load of a campaign; absent where nothing is measured.
pub(super) fn driver(world: &World) -> Option<ProfilingDriver> {
    // Only the identity of what serves needs the other defaults.
    if world.spec.driver() == world.spec.former_driver() { world.spec.driver() } else { completed(world).driver() }
}

/// The driver of a spec with all other defaults. One that an earlier release took stays: for as long as the objectives
/// bound the same latencies, and wherever it led to a revision that is kept. So an upgrade measures nothing again.
fn driver_of(world: &World, spec: &AgentDeploymentSpec) -> Option<ProfilingDriver> {
    let (driver, former) = (spec.driver()?, spec.former_driver()?);
    let stays = || is_taken_for_these_objectives(world, former) || has_revision(world, spec, former);
    Some(if driver != former && stays() { former } else { driver })
}

fn is_taken_for_these_objectives(world: &World, driver: ProfilingDriver) -> bool {
    let known: BTreeSet<&str> =
        world.status.slo.iter().filter_map(|known| known.latency.as_ref()).map(|known| known.metric.as_str()).collect();
    let asked: BTreeSet<&str> = world.spec.slo.objectives.iter().map(|asked| asked.metric.as_str()).collect();
    world.status.defaults.driver == Some(driver) && known == asked
}

fn has_revision(world: &World, spec: &AgentDeploymentSpec, driver: ProfilingDriver) -> bool {
    let hash = revision::input_hash(&with_driver(spec.clone(), Some(driver)));
    hash.is_ok_and(|hash| world.revisions.iter().any(|kept| kept.inputs().spec == hash.as_str()))
}

/// An engine with the block of its backend, and a version.
pub(super) fn engine(world: &World, engine: &EngineConfiguration) -> EngineConfiguration {
    engine.completed(|of| version_of(world, of))
}

fn is_custom(spec: &AgentDeploymentSpec) -> bool {
    spec.engine.as_ref().is_some_and(|engine| engine.backend == Backend::Custom)
}

/// The version of a backend that the spec leaves out: the pinned one, else the one that was taken before, else the
/// newest that this release serves.
fn version_of(world: &World, of: VersionedBackend) -> String {
    let pinned = world.settings.backends.version(of);
    let known = pinned.or_else(|| world.status.defaults.version(of)).map(str::to_owned);
    known.unwrap_or_else(|| match of {
        VersionedBackend::NoBuild(backend) => no_build::default_version(backend),
        VersionedBackend::TensorRtLlm => version::default().to_string(),
    })
}

/// The precisions of engines of a checkpoint.
pub(super) fn precisions(world: &World, shape: Option<&ResolvedShape>) -> Vec<Precision> {
    let SearchSpace { precision: named, .. } = &world.spec.search;
    if named.is_empty() { vec![own_precision(world, shape).unwrap_or(OF_CUSTOM)] } else { named.clone() }
}

/// The precision of a checkpoint; none of Custom, which has no shape.
fn own_precision(world: &World, shape: Option<&ResolvedShape>) -> Option<Precision> {
    let shape = shape.filter(|_| !is_custom(&world.spec))?;
    let checkpoint = check::Checkpoint::of_word(shape.quantization.as_deref(), shape.quantization_method.as_deref());
    // What the oldest of several GPU models computes in, all of them do.
    let known = world.spec.gpu_products().into_iter().filter_map(|product| gpu::by_label(product).ok());
    let sm = known.map(|gpu| gpu.sm).min();
    Precision::named(checkpoint.own_precision(shape.dtype.as_deref(), sm).name())
}

/// The length of a sequence: as the spec has it, else the checkpoint's positions. Zero where neither says.
pub(super) fn max_seq_len(asked: Option<i32>, shape: &ResolvedShape) -> i32 {
    asked.unwrap_or_else(|| positions(shape).unwrap_or(0))
}

fn positions(shape: &ResolvedShape) -> Option<i32> {
    i32::try_from(shape.max_positions).ok().filter(|positions| *positions > 0)
}

/// What was taken, for the status. Versions of other backends stay, so that a reverted spec means what it meant.
pub(super) fn taken(world: &World, model: Option<&ResolvedModel>) -> TakenDefaults {
    let spec = &world.spec;
    let Some(Checkpoint { uri, engine, .. }) = spec.checkpoint() else {
        return TakenDefaults { versions: world.status.defaults.versions.clone(), ..TakenDefaults::default() };
    };
    let shape = model.filter(|model| model.uri == uri).and_then(|model| model.shape.as_ref());
    let leaves_out_precision = spec.search.precision.is_empty();
    let leaves_out_length = engine.backend != Backend::Custom && engine.max_seq_len().is_none();
    let of_custom = Some(OF_CUSTOM).filter(|_| engine.backend == Backend::Custom);
    TakenDefaults {
        versions: versions(world, engine),
        precision: own_precision(world, shape).or(of_custom).filter(|_| leaves_out_precision),
        max_seq_len: shape.filter(|_| leaves_out_length).and_then(positions),
        driver: driver(world).filter(|_| spec.profiling.as_ref().is_some_and(|profiling| profiling.driver.is_none())),
    }
}

fn versions(world: &World, engine: &EngineConfiguration) -> Vec<TakenVersion> {
    let mut versions = world.status.defaults.versions.clone();
    if let Some(backend) = VersionedBackend::of(engine).filter(|_| engine.version().is_none()) {
        let version = version_of(world, backend);
        versions.retain(|taken| !taken.is_of(backend));
        versions.push(TakenVersion::new(backend, version));
    }
    versions
}
