//! The artifact store of a namespace: what is recorded of it, and a sweep that need not be waited for.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use slipway_crds::{
    store::{KEY, NAME, StoreRecord, SweepEnd},
    v1alpha1::{AgentDeployment, Engine},
};

use crate::namespace::{Namespace, Outcome, ScenarioError, refused};

/// Values of the chart: the shortest retention, and engines that go a minute after their last user.
pub const RETENTION: &str = "store.retention.seconds=3600,store.keepUnusedEnginesSeconds=60";
/// Longest time until an Engine that nobody names is gone, and until a sweep has ended.
const LIMIT: Duration = Duration::from_secs(240);
/// How long an Engine stays unneeded before it is looked at again.
const NEXT_LOOK: Duration = Duration::from_secs(15);
/// By how much a record is made older: longer than the retention.
const AGE: Duration = Duration::from_hours(2);

impl Namespace {
    /// What is recorded of the store.
    ///
    /// # Errors
    /// When the record is missing or unreadable.
    pub async fn store_record(&self) -> Outcome<StoreRecord> {
        let object = self.api::<ConfigMap>().get(NAME).await;
        let object = object.map_err(|source| refused(format!("get ConfigMap {NAME}"), source))?;
        record_of(&object)
            .map_err(|text| ScenarioError::Refused { what: "the record of a store".to_owned(), failure: text })
    }

    /// Deletes an agent, lets its engine go, and makes the record two hours older. The operator then sweeps as it
    /// would after these hours. Gives the engine's folder, and how the sweep ended.
    ///
    /// # Errors
    /// When the cluster refuses, the Engine stays, or no sweep ends.
    pub async fn sweep_after(&self, agent: &str) -> Outcome<(String, SweepEnd)> {
        let served =
            self.api::<AgentDeployment>().get(agent).await.map_err(|source| refused(format!("get {agent}"), source))?;
        let selected = served.status.and_then(|status| status.selected).and_then(|selected| selected.engine().cloned());
        let engine = selected.unwrap_or_default();
        let folder = format!("engines/{engine}");
        let deleted = self.api::<AgentDeployment>().delete(agent, &DeleteParams::default()).await;
        deleted.map_err(|source| refused(format!("delete {agent}"), source))?;
        self.wait_until_gone::<AgentDeployment>(agent, LIMIT).await?;
        self.wait_until_collected(&engine).await?;
        self.look_at::<PersistentVolumeClaim>(NAME, "freed").await?;
        let is_free = |record: &StoreRecord| {
            let freed: Vec<_> = record.items.iter().filter(|(_, item)| item.free_since.is_some()).collect();
            let is_there = freed.iter().any(|(name, _)| name.starts_with(&folder));
            if is_there { Ok(()) } else { Err(format!("{freed:?}")) }
        };
        self.wait_for_record("with a free folder", is_free).await?;
        // A folder that changed after it was unneeded stays: a Job may have found it again.
        let older =
            format!("find /store/{folder} -exec touch -d \"@$(($(date +%s) - {}))\" {{}} +", AGE.as_secs() + 60);
        self.run_in_store("older", &older).await?;
        self.make_the_record_older().await?;
        self.look_at::<PersistentVolumeClaim>(NAME, "older").await?;
        let ended = |record: &StoreRecord| record.last.clone().ok_or_else(|| format!("{:?}", record.sweep));
        Ok((folder.clone(), self.wait_for_record("with a sweep that ended", ended).await?))
    }

    /// The agent's revisions name the engine until the garbage collector comes to them, so it is looked at repeatedly.
    async fn wait_until_collected(&self, engine: &str) -> Outcome<()> {
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            match self.wait_until_gone::<Engine>(engine, left.min(NEXT_LOOK)).await {
                Err(ScenarioError::TimedOut { .. }) if left > NEXT_LOOK => {
                    self.look_at::<Engine>(engine, &left.as_secs().to_string()).await?;
                }
                result => return result,
            }
        }
    }

    async fn wait_for_record<T: Debug>(
        &self,
        what: &str,
        look: impl Fn(&StoreRecord) -> Result<T, String>,
    ) -> Outcome<T> {
        self.wait(NAME, what, LIMIT, |object: &ConfigMap| record_of(object).and_then(|record| look(&record))).await
    }

    /// Engines and stores are looked at when they change, and every few minutes.
    async fn look_at<K>(&self, name: &str, why: &str) -> Outcome<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let annotated = json!({"metadata": {"annotations": {"e2e.slipway.dev/look": why}}});
        self.merge::<K>(name, annotated).await
    }

    async fn merge<K>(&self, name: &str, patch: Value) -> Outcome<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(|_| ()).map_err(|source| refused(format!("patch {name}"), source))
    }

    async fn make_the_record_older(&self) -> Outcome<()> {
        let mut record = self.store_record().await?;
        let older = |time: &mut Time| {
            time.0 = time.0.checked_sub(AGE).unwrap_or(time.0);
        };
        for item in record.items.values_mut() {
            item.unreferenced_since.iter_mut().chain(&mut item.free_since).for_each(older);
        }
        let text = serde_json::to_string(&record)
            .map_err(|source| ScenarioError::Answer { text: format!("{record:?}"), source })?;
        self.merge::<ConfigMap>(NAME, json!({"data": {KEY: text}})).await
    }

    /// Runs a command in a pod that mounts the store, as the worker's user, and gives what it prints.
    ///
    /// # Errors
    /// When the cluster refuses, or the command fails.
    pub async fn run_in_store(&self, name: &str, script: &str) -> Outcome<String> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": name, "image": "slipway.dev/slipway-busybox:dev", "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-c", script],
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "store", "mountPath": "/store"}],
                }],
                "volumes": [{"name": "store", "persistentVolumeClaim": {"claimName": NAME}}],
            },
        });
        let text = pod.to_string();
        let pod: Pod = serde_json::from_value(pod).map_err(|source| ScenarioError::Answer { text, source })?;
        self.run_to_end(&pod).await
    }
}

fn record_of(object: &ConfigMap) -> Result<StoreRecord, String> {
    let text = object.data.iter().find_map(|data| data.get(KEY)).ok_or_else(|| format!("no key {KEY}"))?;
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}
