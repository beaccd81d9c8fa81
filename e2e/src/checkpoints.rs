//! What engines of vendors' backends are made of in scenarios: small checkpoints in a claim, and a node that says that
//! it has GPUs.
//!
//! They have the tokenizer of the demo's model and not its weights: a ConfigMap brings the files into the claim, and
//! holds a megabyte. Stand-ins load none. Rehearsals of `e2e/gpu` give them the demo's model whole.

use std::{collections::BTreeMap, fs};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine};

use crate::{
    agents::{parsed, path},
    namespace::{Namespace, Outcome, ScenarioError, refused},
};

/// The claim that [`Namespace::give_checkpoints`] makes: `pvc://models/<name>`.
const CLAIM: &str = "models";
/// The ConfigMap by which the files come there.
const FILES: &str = "files";
/// The resource that NVIDIA's device plugin offers.
pub const GPU: &str = "nvidia.com/gpu";
/// How many GPUs the node says it has.
const GPUS: &str = "8";

/// A folder of the claim: config.json, weights and a tokenizer.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Name of the folder.
    pub name: String,
    /// What stands beside them for a stand-in's tools, as `stand-in.json`.
    pub order: Option<Value>,
    /// A folder of it with an adapter of LoRA.
    pub adapter: Option<String>,
}

/// Llama in small: what its configuration says is what is converted, and what memory is planned for.
fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 4, "intermediate_size": 512, "vocab_size": 768, "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16", "eos_token_id": 258,
    })
}

/// A file of weights with one tensor: eight bytes of length, the header, the data.
fn weights() -> Vec<u8> {
    let header = r#"{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat()
}

/// What a checkpoint's folder takes in bytes, without a stand-in's order.
///
/// # Errors
/// When the tokenizer cannot be read.
pub fn checkpoint_bytes() -> Outcome<usize> {
    Ok(config().to_string().len() + weights().len() + tokenizer()?.len())
}

fn tokenizer() -> Outcome<Vec<u8>> {
    let path = path("model/checkpoints/react-512/tokenizer.json");
    fs::read(&path).map_err(|source| ScenarioError::Read { path, source })
}

impl Namespace {
    /// Gives the only node a GPU model and GPUs, as NVIDIA's device plugin and GPU feature discovery would.
    ///
    /// # Errors
    /// When the API server refuses, or there is no node.
    pub async fn advertise_gpus(&self, product: &str) -> Outcome<()> {
        let nodes: Api<Node> = Api::all(self.client());
        let found = nodes.list(&ListParams::default()).await;
        let found = found.map_err(|source| refused("list nodes".to_owned(), source))?;
        let name = found.items.first().map(ResourceExt::name_any).unwrap_or_default();
        let because = |source| refused(format!("give node {name} GPUs"), source);
        let labels = json!({"metadata": {"labels": {"nvidia.com/gpu.product": product}}});
        nodes.patch(&name, &PatchParams::default(), &Patch::Merge(labels)).await.map_err(because)?;
        let capacity = json!({"status": {"capacity": {GPU: GPUS}, "allocatable": {GPU: GPUS}}});
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(capacity)).await.map_err(because)?;
        Ok(())
    }

    /// Puts one folder a checkpoint into a claim.
    ///
    /// # Errors
    /// When the API server refuses, or the files do not get there.
    pub async fn give_checkpoints(&self, checkpoints: &[Checkpoint]) -> Outcome<()> {
        self.create_object::<PersistentVolumeClaim>(&parsed(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Mi"}}},
        }))?)
        .await?;
        let mut files = BTreeMap::from([
            ("tokenizer.json".to_owned(), ByteString(tokenizer()?)),
            ("model.safetensors".to_owned(), ByteString(weights())),
            ("config.json".to_owned(), ByteString(config().to_string().into_bytes())),
        ]);
        let mut script = String::from("set -e\n");
        for Checkpoint { name, order, adapter } in checkpoints {
            script += &format!(
                "mkdir /models/{name}; cp /files/tokenizer.json /files/model.safetensors /files/config.json /models/{name}/\n"
            );
            if let Some(order) = order {
                files.insert(format!("{name}.order"), ByteString(order.to_string().into_bytes()));
                script += &format!("cp /files/{name}.order /models/{name}/stand-in.json\n");
            }
            if let Some(adapter) = adapter {
                let folder = format!("/models/{name}/{adapter}");
                script += &format!(
                    "mkdir -p {folder}; echo '{{\"peft_type\": \"LORA\", \"r\": 9}}' >{folder}/adapter_config.json; cp \
                     /files/model.safetensors {folder}/adapter_model.safetensors\n"
                );
            }
        }
        let metadata = ObjectMeta { name: Some(FILES.to_owned()), ..Default::default() };
        self.create_object(&ConfigMap { metadata, binary_data: Some(files), ..Default::default() }).await?;
        self.run_to_end(&parsed::<Pod>(filler(&script))?).await?;
        Ok(())
    }

    /// Puts lines of JSON into a key of a ConfigMap.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn give_lines(&self, name: &str, key: &str, lines: impl Iterator<Item = Value>) -> Outcome<()> {
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: text}});
        self.create_object::<ConfigMap>(&parsed(object)?).await?;
        Ok(())
    }

    /// The first engine that an agent asks for.
    ///
    /// # Errors
    /// When it asks for none, or the API server refuses.
    pub async fn first_engine_of(&self, agent: &str) -> Outcome<Engine> {
        let because = |source| refused(format!("get the engine of {agent}"), source);
        let agent: AgentDeployment = self.api().get(agent).await.map_err(because)?;
        let engines = agent.status.map(|status| status.engines).unwrap_or_default();
        let name = engines.first().map(|engine| engine.name.clone()).unwrap_or_default();
        self.api().get(&name).await.map_err(because)
    }
}

/// A pod that runs a script with the files and the claim.
fn filler(script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fill"},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "fill", "image": "slipway.dev/slipway-busybox:dev", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "files", "mountPath": "/files"}],
            }],
            "volumes": [
                {"name": "models", "persistentVolumeClaim": {"claimName": CLAIM}},
                {"name": "files", "configMap": {"name": FILES}},
            ],
        },
    })
}
