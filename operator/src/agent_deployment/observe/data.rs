//! The ConfigMaps that users write: workloads, expectations, a data set, texts of a calibration. Reads IO.

use std::collections::BTreeMap;

use slipway_crds::v1alpha1::AgentDeployment;
use slipway_operator_core::agent_deployment::world::{CalibrationView, DatasetView, PriorView, WorkloadView};

use crate::kube_io::read::{ReadError, Reader};

/// The data of the workloads.
pub(super) async fn workloads(
    reader: &Reader,
    namespace: &str,
    object: &AgentDeployment,
) -> Result<BTreeMap<(String, String), WorkloadView>, ReadError> {
    let mut views = BTreeMap::new();
    for workload in object.spec.profiling.iter().flat_map(|profiling| &profiling.workloads) {
        let prompts = workload.prompts.iter().map(|source| (source, WorkloadView::read_prompts as fn(&str) -> _));
        let trace = workload.agent_trace.iter().map(|source| (source, WorkloadView::read_trace as fn(&str) -> _));
        let lengths = workload.recorded_lengths.iter();
        let lengths = lengths.map(|source| (source, WorkloadView::read_lengths as fn(&str) -> _));
        for (source, read) in prompts.chain(trace).chain(lengths) {
            let reference = &source.config_map;
            let view = reader.meaning((namespace, &reference.name, &reference.key), read).await?;
            let view = view.unwrap_or(WorkloadView::Missing);
            views.insert((reference.name.clone(), reference.key.clone()), view);
        }
    }
    Ok(views)
}

/// The table of expectations.
pub(super) async fn prior(
    reader: &Reader,
    namespace: &str,
    object: &AgentDeployment,
) -> Result<Option<PriorView>, ReadError> {
    let Some(source) = object.spec.profiling.as_ref().and_then(|profiling| profiling.prior.as_ref()) else {
        return Ok(None);
    };
    let reference = &source.config_map;
    let view = reader.meaning((namespace, &reference.name, &reference.key), PriorView::read).await?;
    Ok(Some(view.unwrap_or(PriorView::Missing)))
}

/// The data set of the quality objective.
pub(super) async fn dataset(
    reader: &Reader,
    namespace: &str,
    object: &AgentDeployment,
) -> Result<Option<DatasetView>, ReadError> {
    let Some(quality) = &object.spec.slo.quality else { return Ok(None) };
    let reference = &quality.dataset.config_map;
    let view = reader.meaning((namespace, &reference.name, &reference.key), DatasetView::read).await?;
    Ok(Some(view.unwrap_or(DatasetView::Missing)))
}

/// The texts of a calibration.
pub(super) async fn calibration(
    reader: &Reader,
    namespace: &str,
    object: &AgentDeployment,
) -> Result<Option<CalibrationView>, ReadError> {
    let engine = object.spec.engine.as_ref().and_then(|engine| engine.tensorrt_llm.as_ref());
    let Some(calibration) = engine.and_then(|engine| engine.calibration.as_ref()) else { return Ok(None) };
    let reference = &calibration.config_map;
    let view = reader.meaning((namespace, &reference.name, &reference.key), CalibrationView::read).await?;
    Ok(Some(view.unwrap_or(CalibrationView::Missing)))
}
