//! The objects of a campaign: the Profile, and the Jobs that compare configurations and confirm one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{
    Profile, ProfileSpec, ProfileStatus,
    agent_deployment::{ConfigMapSource, Profiling, ProfilingWorkload, ServedBy},
    profile::ProfileInputs,
};
use slipway_operator_core::{
    agent_deployment::{profiling, world::World},
    profile::{
        build::profile_job,
        scope::JobScope,
        world::{AgentView, ProfileWorld},
    },
};

use super::objects::{self, digest, entry, ranks, settings, value};

/// Everything that is written for the campaign of an AgentDeployment, if it asks for one.
pub fn objects(world: &World) -> Vec<Value> {
    let Some(profiling) = &world.spec.profiling else { return Vec::new() };
    let inputs = inputs(world, profiling);
    let spec = ProfileSpec { agent_deployment: world.name.clone(), input_hash: "0123456789".to_owned(), inputs };
    let profile =
        profiling::build::profile::profile(world, &format!("{}-0123456789", world.name), (spec, "abcdef0123"));
    let world = profile_world(&profile);
    let ProfileInputs { engines, configurations, .. } = &world.spec.inputs;
    let (engine, configuration) = (&engines[0], configurations.last().expect("inputs have a configuration"));
    let confirm = JobScope::Confirm { engine, configuration, level: 8, arrivals_per_kilosecond: 2_000 };
    let orders = [(JobScope::Explore { engine }, "profile-0123456789-1"), (confirm, "profile-9876543210-1")];
    let jobs = orders.into_iter().flat_map(|(scope, name)| {
        let (task, job) = profile_job(&world, &ProfileStatus::default(), &scope, name).expect("digests are digests");
        [value(&task), value(&job)]
    });
    [value(&profile)].into_iter().chain(jobs).collect()
}

fn profile_world(profile: &Profile) -> ProfileWorld {
    let mut profile = profile.clone();
    profile.metadata.uid = Some("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee".to_owned());
    ProfileWorld {
        now: Timestamp::UNIX_EPOCH,
        settings: settings(),
        name: profile.name_any(),
        namespace: profile.namespace().expect("a Profile has a namespace"),
        generation: 1,
        owner: profile.controller_owner_ref(&()).expect("a Profile has a name"),
        spec: profile.spec,
        status: ProfileStatus::default(),
        jobs: BTreeMap::new(),
        progress: BTreeMap::new(),
        earlier: Vec::new(),
        agent: AgentView::default(),
        created: None,
    }
}

/// Read from JSON, as the API server keeps it.
fn inputs(world: &World, profiling: &Profiling) -> ProfileInputs {
    let spec = &world.spec;
    let prompts = |workload: &ProfilingWorkload| {
        let data = data(workload.prompts.as_ref()?);
        Some(json!({"name": workload.name, "weight": workload.weight, "data": data}))
    };
    let mut engine = json!({"name": "engine-0123456789", "manifestDigest": digest("c"), "displayName": "fp32"});
    let mut configurations = json!([
        {"name": "instances-1,speculative_tokens-0",
         "settings": {"instances": 1, "parameters": {"speculative_tokens": "0"}}},
        {"name": "instances-2,speculative_tokens-4",
         "settings": {"instances": 2, "parameters": {"speculative_tokens": "4"}}},
    ]);
    if let Some(ranks) = ranks(world) {
        engine["tensorRTLLMRanks"] = json!(ranks);
        engine["tensorRTLLMEntry"] = json!(entry(world));
        configurations = json!([{"name": "default", "settings": {}}]);
    }
    if let ServedBy::NoBuild(backend) = objects::engine(world).served_by() {
        engine["noBuild"] = json!(backend);
        configurations = json!([{"name": "default", "settings": {}}]);
    }
    let inputs = json!({
        "engines": [engine],
        "configurations": configurations,
        "levels": spec.search.concurrency,
        "driver": spec.driver(),
        "prompts": profiling.workloads.iter().filter_map(prompts).collect::<Vec<_>>(),
        "agentTrace": profiling.workloads.iter().find_map(|workload| workload.agent_trace.as_ref()).map(data),
        "recordedLengths": profiling.workloads.iter().find_map(|workload| workload.recorded_lengths.as_ref()).map(data),
        "synthetic": profiling.workloads.iter().find_map(|workload| workload.synthetic.as_ref()),
        "objectives": spec.slo.objectives,
        "errorRate": spec.slo.error_rate,
        "throughput": spec.slo.throughput,
        "replicas": spec.serving.replicas,
        "optimizeFor": spec.slo.optimize_for,
        "budget": profiling.budget,
        "agent": spec.agent,
        "placement": {
            "tritonImage": "registry.example/triton:1",
            "nodeSelector": spec.hardware.node_selector,
            "tolerations": spec.hardware.tolerations,
            "tritonResources": spec.serving.triton_resources,
            "agentResources": spec.serving.agent_resources,
        },
    });
    serde_json::from_value(inputs).expect("valid inputs")
}

fn data(source: &ConfigMapSource) -> Value {
    json!({"configMap": source.config_map, "digest": digest("d")})
}
