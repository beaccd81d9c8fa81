//! The pod that serves an agent: engine and GPUs are checked, Triton is the native sidecar, the agent runtime is the
//! main container, so that Triton outlives it at shutdown. Where another server has the model, the pod is the agent
//! runtime alone. Pure.

use k8s_openapi::{
    api::core::v1::{
        Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, HTTPGetAction, Lifecycle, LifecycleHandler,
        ObjectFieldSelector, PodSpec, Probe, SleepAction, Volume, VolumeMount,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use slipway_agent_config::{AUTHORITIES_FOLDER, HEADERS_FOLDER};
use slipway_backends::{no_build, tensorrt_llm::launch, triton};
use slipway_crds::v1alpha1::{agent_deployment::ServedBy, shared::ContainerResources};
use slipway_runtime_config::ChatTemplate;
use slipway_worker_contract::paths;

use super::{authentication, preflight, stdio, traces, upstream};
use crate::{
    agent_deployment::rollout::{
        layout::Layout,
        revision::{RevisionPlan, Served, ServedArtifact},
    },
    artifact_store,
    jobs::{
        template::{
            SHARED_MEMORY, SHARED_MEMORY_VOLUME, STORE_VOLUME, bounded_shared_memory_volume, claim_volume,
            complete_container, config_map_volume, empty_dir, mount, pod_defaults, read_only, secret_volume,
            shared_memory_volume,
        },
        triton::environment,
        view::USERS_CONFIG_MAP_VOLUME,
    },
    serving::serve_config,
    settings::Settings,
};

/// File of the agent runtime's configuration.
pub const CONFIG_FILE: &str = "config.json";
/// Name of the port that clients call.
pub const API_PORT_NAME: &str = "http";
/// Port that clients call.
pub(super) const API_PORT: i32 = 8080;
/// Name of the port for evidence, metrics and health.
const ADMIN_PORT_NAME: &str = "admin";
/// Port for evidence, metrics and health; in no Service.
pub(super) const ADMIN_PORT: i32 = 9464;
/// Triton's HTTP port.
const TRITON_HTTP_PORT: i32 = 8000;
/// Seconds between the removal of a pod from its Services and its SIGTERM, so that no request finds a closed port.
const PRE_STOP_SECONDS: i64 = 5;
/// Seconds that Triton has to finish what is in flight.
const TRITON_EXIT_SECONDS: i64 = 10;
/// Seconds beyond the longest run that the pod is given to end.
const GRACE_MARGIN_SECONDS: i64 = 10;
/// Seconds that a model may take to load.
const LOAD_SECONDS: i32 = 600;

const CONFIG_VOLUME: &str = "config";
const ENGINE_VOLUME: &str = "engine";

/// The pod of a revision whose objects have this name.
pub fn pod_spec(settings: &Settings, revision_name: &str, plan: &RevisionPlan) -> PodSpec {
    let mut init_containers = init_containers(plan);
    let mut agent_runtime = agent_runtime(plan);
    for container in init_containers.iter_mut().chain([&mut agent_runtime]) {
        complete_container(settings, container);
    }
    PodSpec {
        init_containers: Some(init_containers).filter(|containers| !containers.is_empty()),
        containers: vec![agent_runtime],
        volumes: Some(volumes(revision_name, plan)),
        node_selector: Some(plan.hardware.node_selector.clone()).filter(|selector| !selector.is_empty()),
        tolerations: Some(plan.hardware.tolerations.iter().map(|t| t.to_kubernetes()).collect::<Vec<_>>())
            .filter(|tolerations| !tolerations.is_empty()),
        termination_grace_period_seconds: Some(grace_seconds(plan)),
        restart_policy: Some("Always".to_owned()),
        ..pod_defaults()
    }
}

/// What starts before the agent runtime, in this order.
fn init_containers(plan: &RevisionPlan) -> Vec<Container> {
    let servers = stdio::containers(plan);
    match &plan.served {
        Served::Artifact(artifact) => {
            let preflight = preflight::container(plan, read_only(mount(ENGINE_VOLUME, paths::ENGINE_DIR)));
            let materialize = materialize(plan, artifact);
            std::iter::once(materialize).chain(preflight).chain(servers).chain([triton(plan, artifact)]).collect()
        }
        Served::Upstream(_) => servers,
    }
}

/// How long a pod may take to end: its longest run, and the way out.
pub fn grace_seconds(plan: &RevisionPlan) -> i64 {
    let longest_run_seconds = i64::try_from(plan.agent.run_timeout.seconds_rounded_up()).unwrap_or(i64::MAX);
    let server_seconds = match &plan.served {
        Served::Artifact(_) => TRITON_EXIT_SECONDS,
        Served::Upstream(_) => 0,
    };
    longest_run_seconds.saturating_add(PRE_STOP_SECONDS + server_seconds + GRACE_MARGIN_SECONDS)
}

/// Copies the engine out of the store and checks every byte; Triton starts only after it.
fn materialize(plan: &RevisionPlan, artifact: &ServedArtifact) -> Container {
    let ServedArtifact { engine, configuration, worker_image, .. } = artifact;
    let mut arguments = vec![
        "materialize".to_owned(),
        format!("--identity={}", engine.name),
        format!("--manifest-digest={}", engine.manifest_digest),
    ];
    if !configuration.is_default() {
        let served_by = engine.served_by;
        arguments.extend(served_by.ranks().map(|_| format!("--model={}", served_by.configured())));
        let settings = serde_json::to_string(&serve_config(configuration)).expect("settings hold only texts");
        arguments.push(format!("--serve-config={settings}"));
    }
    Container {
        name: "materialize".to_owned(),
        image: Some(worker_image.clone()),
        args: Some(arguments),
        resources: plan.worker_resources.as_ref().map(ContainerResources::to_requirements),
        volume_mounts: Some(vec![
            read_only(mount(STORE_VOLUME, paths::STORE_DIR)),
            mount(ENGINE_VOLUME, paths::ENGINE_DIR),
        ]),
        ..Default::default()
    }
}

/// Triton, or an engine's own server in its place and on its port. Both have the one name by which pods are compared.
fn triton(plan: &RevisionPlan, artifact: &ServedArtifact) -> Container {
    let served_by = artifact.engine.served_by;
    let own_server = served_by.no_build().and_then(|backend| no_build::of(backend).own_server());
    let (command, startup_probe) = match own_server {
        Some(server) => ((server.command)(paths::ENGINE_DIR, paths::CHECKPOINT), own_server_probe()),
        None => (triton_command(served_by, plan.layout), triton_probe(plan.layout)),
    };
    let mounts = [read_only(mount(ENGINE_VOLUME, paths::ENGINE_DIR)), mount(SHARED_MEMORY_VOLUME, SHARED_MEMORY)];
    Container {
        name: "triton".to_owned(),
        image: Some(artifact.triton_image.clone()),
        command: Some(preflight::watched(plan, command)),
        env: environment(served_by),
        restart_policy: Some("Always".to_owned()),
        startup_probe: Some(startup_probe),
        resources: Some(artifact.triton_resources.to_requirements()),
        volume_mounts: Some(mounts.into_iter().chain(preflight::watch_mount(plan)).collect()),
        ..Default::default()
    }
}

/// An engine's own server is probed from within. Each probe starts an interpreter under load, hence the long period.
fn own_server_probe() -> Probe {
    const PERIOD_SECONDS: i32 = 5;
    Probe {
        exec: Some(ExecAction { command: Some(no_build::health_command()) }),
        period_seconds: Some(PERIOD_SECONDS),
        timeout_seconds: Some(PERIOD_SECONDS),
        failure_threshold: Some(LOAD_SECONDS / PERIOD_SECONDS),
        ..Default::default()
    }
}

/// Whether Triton has loaded its models. Where only its pod reaches the API, the metrics say so: they are served from
/// then on.
fn triton_probe(layout: Layout) -> Probe {
    let probe = match layout {
        Layout::V1 => probe("/v2/health/ready", TRITON_HTTP_PORT),
        Layout::V2 | Layout::V3 | Layout::V4 | Layout::V5 | Layout::V6 => {
            probe(triton::METRICS_PATH, i32::from(triton::METRICS_PORT))
        }
    };
    Probe { failure_threshold: Some(LOAD_SECONDS), ..probe }
}

/// One server; of an engine that is split over GPUs one a GPU, of which the first answers.
fn triton_command(served_by: ServedBy, layout: Layout) -> Vec<String> {
    let repository = format!("{}/{}", paths::ENGINE_DIR, paths::MODEL_REPOSITORY);
    let exit_timeout = format!("--exit-timeout-secs={TRITON_EXIT_SECONDS}");
    let models = served_by.models();
    match served_by.ranks() {
        None => [
            vec![
                "tritonserver".to_owned(),
                format!("--model-repository={repository}"),
                "--model-control-mode=explicit".to_owned(),
            ],
            models.iter().map(|model| format!("--load-model={model}")).collect(),
            layout.triton_arguments(),
            vec![exit_timeout],
        ]
        .concat(),
        Some(ranks) => launch::Server {
            program: "tritonserver".to_owned(),
            repository,
            ranks,
            models: models.iter().map(|&model| model.to_owned()).collect(),
            arguments: vec![exit_timeout],
            leader_arguments: layout.triton_arguments(),
        }
        .command(),
    }
}

fn agent_runtime(plan: &RevisionPlan) -> Container {
    let header_mounts = header_secrets(plan)
        .map(|(index, tool, _)| read_only(mount(&header_volume(index), &format!("{HEADERS_FOLDER}/{tool}"))));
    let authority_mounts = authority_maps(plan)
        .map(|(index, tool, _)| read_only(mount(&authorities_volume(index), &format!("{AUTHORITIES_FOLDER}/{tool}"))));
    let artifact = plan.served.artifact();
    let takes_tokens = artifact.is_some_and(|artifact| artifact.engine.served_by.takes_tokens());
    let reads_checkpoint = takes_tokens || chat_template(plan).is_some();
    let tokenizer_mount = reads_checkpoint.then(|| read_only(mount(ENGINE_VOLUME, paths::ENGINE_DIR)));
    let mounts: Vec<VolumeMount> = std::iter::once(read_only(mount(CONFIG_VOLUME, "/etc/slipway/agent")))
        .chain(tokenizer_mount)
        .chain(header_mounts)
        .chain(authority_mounts)
        .chain(authentication::mounts(plan))
        .chain(traces::mounts(plan))
        .chain(upstream::mounts(plan))
        .chain(stdio::mounts(plan))
        .collect();
    Container {
        name: "agent-runtime".to_owned(),
        image: Some(plan.agent_runtime_image.clone()),
        ports: Some(vec![port(API_PORT_NAME, API_PORT), port(ADMIN_PORT_NAME, ADMIN_PORT)]),
        env: Some(vec![EnvVar {
            name: "POD_NAME".to_owned(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector { field_path: "metadata.name".to_owned(), ..Default::default() }),
                ..Default::default()
            }),
            ..Default::default()
        }]),
        startup_probe: Some(startup_probe(&plan.served)),
        readiness_probe: Some(Probe {
            period_seconds: Some(2),
            failure_threshold: Some(2),
            ..probe("/readyz", ADMIN_PORT)
        }),
        liveness_probe: Some(Probe {
            period_seconds: Some(10),
            failure_threshold: Some(6),
            ..probe("/livez", ADMIN_PORT)
        }),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction { seconds: PRE_STOP_SECONDS }),
                ..Default::default()
            }),
            ..Default::default()
        }),
        resources: Some(plan.layout.sidecar_resources(&plan.agent_resources)),
        volume_mounts: Some(mounts),
        ..Default::default()
    }
}

/// Whether the pod has started. One that waits for a server elsewhere has nothing to load: to start it again helps
/// nobody, and the reason would be lost.
fn startup_probe(served: &Served) -> Probe {
    let path = match served {
        Served::Artifact(_) => "/readyz",
        Served::Upstream(_) => "/livez",
    };
    Probe { failure_threshold: Some(LOAD_SECONDS), ..probe(path, ADMIN_PORT) }
}

/// The checkpoint whose chat template writes the prompts of a plan's pods. An upstream has its own.
pub(super) fn chat_template(plan: &RevisionPlan) -> Option<ChatTemplate> {
    let is_default = plan.layout.prompts_by_chat_template();
    slipway_agent_config::chat_template(&plan.agent, plan.served.artifact()?.engine.served_by, is_default)
}

fn probe(path: &str, port: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(port),
            ..Default::default()
        }),
        period_seconds: Some(1),
        timeout_seconds: Some(2),
        ..Default::default()
    }
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..Default::default()
    }
}

fn volumes(revision_name: &str, plan: &RevisionPlan) -> Vec<Volume> {
    let config = config_map_volume(CONFIG_VOLUME, revision_name);
    let headers = header_secrets(plan).map(|(index, _, secret)| secret_volume(&header_volume(index), secret));
    let authorities =
        authority_maps(plan).map(|(index, _, config_map)| config_map_volume(&authorities_volume(index), config_map));
    let of_clients = authentication::volumes(plan);
    let of_others = of_clients.into_iter().chain(traces::volumes(plan)).chain(upstream::volumes(plan));
    let beside = of_others.chain(stdio::volumes(plan)).chain(preflight::watch_volume(plan));
    let own = std::iter::once(config).chain(engine_volumes(plan));
    own.chain(headers).chain(authorities).chain(beside).collect()
}

/// What only an engine in the pod needs.
fn engine_volumes(plan: &RevisionPlan) -> Vec<Volume> {
    match &plan.served {
        Served::Artifact(_) => vec![
            claim_volume(STORE_VOLUME, artifact_store::CLAIM, true),
            empty_dir(ENGINE_VOLUME),
            shared_memory(plan.layout),
        ],
        Served::Upstream(_) => Vec::new(),
    }
}

fn shared_memory(layout: Layout) -> Volume {
    match layout {
        Layout::V1 => shared_memory_volume(),
        Layout::V2 | Layout::V3 | Layout::V4 | Layout::V5 | Layout::V6 => bounded_shared_memory_volume(),
    }
}

/// Tools with a Secret of headers: place and name of the tool, and the Secret's name.
fn header_secrets(plan: &RevisionPlan) -> impl Iterator<Item = (usize, &str, &str)> {
    plan.agent.tools.iter().enumerate().filter_map(|(index, tool)| {
        let of_http = tool.http.as_ref().and_then(|http| http.headers_from.as_ref());
        let secret = of_http.or_else(|| tool.mcp.as_ref()?.headers_from.as_ref())?;
        Some((index, tool.name.as_str(), secret.name.as_str()))
    })
}

/// Tools with certificate authorities of their own: place and name of the tool, and the ConfigMap's name.
fn authority_maps(plan: &RevisionPlan) -> impl Iterator<Item = (usize, &str, &str)> {
    plan.agent.tools.iter().enumerate().filter_map(|(index, tool)| {
        let of_http = tool.http.as_ref().and_then(|http| http.authorities_from.as_ref());
        let config_map = of_http.or_else(|| tool.mcp.as_ref()?.authorities_from.as_ref())?;
        Some((index, tool.name.as_str(), config_map.name.as_str()))
    })
}

fn authorities_volume(index: usize) -> String {
    format!("{USERS_CONFIG_MAP_VOLUME}{index}")
}

/// The name of a tool would not do: volume names know no underscore and are as short as the longest name of a tool.
fn header_volume(index: usize) -> String {
    format!("headers-{index}")
}
