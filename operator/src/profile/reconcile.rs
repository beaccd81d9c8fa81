//! One reconciliation of a Profile: observe and the table of contents.

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, ResourceExt, runtime::controller::Action};
use slipway_crds::{
    labels,
    v1alpha1::{AgentDeployment, Profile},
};
use slipway_operator_core::profile::{
    decide, rows, status,
    world::{AgentView, Earlier, ProfileWorld},
};

use super::observe;
use crate::{
    kube_io::{
        apply::Ground,
        jobs::job_views,
        read::{ReadError, Reader},
    },
    reconcile::{Context, ReconcileError, carry_out},
};

/// Glances at what watches have shown. Where that leaves something to be done: observes, decides and carries out.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(object: Arc<Profile>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    if let Some((action, glanced)) = glance(&object, &context).await {
        acknowledge(&context, &glanced).await?;
        return Ok(action);
    }
    let (reader, looked) = context.reader.looking();
    let observed = observe_profile(&context, &reader, (&namespace, &object.name_any())).await;
    let Some(observed) = observed.map_err(ReconcileError::Observe)? else { return Ok(Action::await_change()) };
    let plan = decide::decide(&observed.world);
    let before = (&observed.object, observed.object.status.as_ref());
    let action = carry_out(&context, before, plan, Ground::Looked(&looked)).await?.action;
    acknowledge(&context, &observed).await?;
    Ok(action)
}

/// When to look again, if caches show that there is nothing to do; and what they show.
async fn glance(object: &Profile, context: &Context) -> Option<(Action, Observed)> {
    let (reader, namespace) = (context.glance()?, object.namespace().unwrap_or_default());
    let observed = observe_profile(context, &reader, (&namespace, &object.name_any())).await.ok()??;
    let plan = decide::decide(&observed.world);
    let is_at_rest = context.is_at_rest(&observed.object, observed.object.status.as_ref(), &plan);
    is_at_rest.then(|| (Action::requeue(plan.requeue), observed))
}

/// Tells Jobs that their rows are recorded.
async fn acknowledge(context: &Context, observed: &Observed) -> Result<(), ReconcileError> {
    for job in acknowledged(&observed.world) {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        observe::acknowledge(&context.http, &observed.pods, job).await;
    }
    Ok(())
}

struct Observed {
    object: Profile,
    world: ProfileWorld,
    pods: Vec<Pod>,
}

async fn observe_profile(
    context: &Context,
    reader: &Reader,
    (namespace, name): (&str, &str),
) -> Result<Option<Observed>, ReadError> {
    let Some(object) = reader.get::<Profile>(namespace, name).await? else { return Ok(None) };
    let Some(owner) = object.controller_owner_ref(&()).filter(|_| object.metadata.deletion_timestamp.is_none()) else {
        return Ok(None);
    };
    let mine = format!("{}={name}", labels::PROFILE);
    let jobs = reader.list::<Job>(namespace, &mine).await?;
    let pods = reader.list::<Pod>(namespace, &mine).await?;
    let status = object.status.clone().unwrap_or_default();
    // Only a campaign that has not begun takes anything over, or one that still asks for engines.
    let takes_over = status.phase.is_none() || (object.spec.inputs.is_asking() && status::ended(&status).is_none());
    let earlier = match takes_over {
        false => Vec::new(),
        true => earlier(reader, &object, (namespace, name)).await?,
    };
    let agent = match status::ended(&status) {
        Some(_) => None,
        // Rows are polled whatever the AgentDeployment is.
        None => reader.get_readable::<AgentDeployment>(namespace, &object.spec.agent_deployment).await?,
    };
    let agent = AgentView::of(agent.as_ref());
    // Nobody waits for what is measured after the end of a campaign.
    let progress = match status::ended(&status) {
        Some(_) => Default::default(),
        None => observe::progress(&context.http, &pods).await,
    };
    let world = ProfileWorld {
        now: (context.clock)(),
        settings: context.settings.clone(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        generation: object.metadata.generation.unwrap_or_default(),
        owner,
        spec: object.spec.clone(),
        status,
        jobs: job_views(reader, namespace, (&jobs, &pods), |_| true).await?,
        progress,
        earlier,
        agent,
        created: object.creation_timestamp().map(|created| created.0),
    };
    Ok(Some(Observed { object, world, pods }))
}

/// Campaigns of other agents that are read at most: their rows take memory.
const OTHER_CAMPAIGNS: usize = 3;

fn of_agent(object: &Profile) -> String {
    format!("{}={}", labels::AGENT_DEPLOYMENT, object.spec.agent_deployment)
}

/// The other campaigns of the same agent and, until it has begun, the latest ones of other agents of the same model.
/// The latest come first.
async fn earlier(
    reader: &Reader,
    object: &Profile,
    (namespace, name): (&str, &str),
) -> Result<Vec<Earlier>, ReadError> {
    let mut profiles = reader.list_readable::<Profile>(namespace, &of_agent(object)).await?;
    let has_begun = object.status.as_ref().is_some_and(|status| status.phase.is_some());
    if let Some(model) = object.labels().get(labels::MODEL_SOURCE).filter(|_| !has_begun) {
        let agent = &object.spec.agent_deployment;
        let others = format!("{}={model},{}!={agent}", labels::MODEL_SOURCE, labels::AGENT_DEPLOYMENT);
        profiles.extend(reader.latest_readable::<Profile>((namespace, &others), OTHER_CAMPAIGNS, has_rows).await?);
    }
    Ok(views(profiles, name))
}

fn has_rows(profile: &Profile) -> bool {
    profile.status.as_ref().is_some_and(|status| !status.measurements.is_empty())
}

fn views(mut profiles: Vec<Profile>, name: &str) -> Vec<Earlier> {
    profiles.retain(|profile| profile.name_any() != name);
    profiles.sort_by_key(|profile| Reverse(profile.creation_timestamp().map(|created| created.0)));
    let view = |profile: Profile| Earlier {
        name: profile.name_any(),
        inputs: profile.spec.inputs,
        status: profile.status.unwrap_or_default(),
    };
    profiles.into_iter().map(view).collect()
}

/// Jobs whose rows the *observed* status holds: what this look has just written may be overruled by a conflict.
fn acknowledged(world: &ProfileWorld) -> Vec<&str> {
    let is_recorded = |job: &str, progress| {
        rows::purpose(&world.status, job).is_some_and(|of| rows::is_recorded(&world.status, of, progress))
    };
    world.progress.iter().filter(|(job, progress)| is_recorded(job, progress)).map(|(job, _)| job.as_str()).collect()
}
