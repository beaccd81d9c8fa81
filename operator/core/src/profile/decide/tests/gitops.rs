use serde_json::{Value, json};
use slipway_worker_contract::{MeasurementVerdict, Phase};

use super::cluster::{Cluster, cluster};

fn seen(name: &str, cluster: &Cluster) -> Value {
    let status = &cluster.world.status;
    json!({
        "name": name,
        "object": {
            "apiVersion": "slipway.dev/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": cluster.world.name, "generation": cluster.world.generation},
            "status": {
                "observedGeneration": status.observed_generation,
                "phase": status.phase,
                "conditions": status.conditions,
            },
        },
    })
}

/// Input of the health check of Argo CD, which `e2e/tools/argocd-lua` runs.
#[test]
fn what_gitops_tools_see() {
    let mut measuring = cluster();
    measuring.settle();
    measuring.show(3, Phase::Measuring { arm: "instances-2".to_owned(), level: 4, count: 17 });
    measuring.settle();
    let mut chosen = cluster();
    chosen.finish();
    let mut failed = cluster();
    failed.broken = vec!["engine-a", "engine-b"];
    failed.finish();
    let mut infeasible = cluster().with_trace();
    infeasible.confirms.extend(["instances-1", "instances-2"].map(|arm| (arm, MeasurementVerdict::Infeasible)));
    infeasible.finish();
    insta::assert_json_snapshot!(
        "profiles",
        [
            seen("configurations are measured", &measuring),
            seen("a configuration is chosen", &chosen),
            seen("no configuration is feasible", &infeasible),
            seen("nothing could be measured", &failed),
        ]
    );
}
