//! `GET /v1/models`: the agent is the one model.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;

use super::{error::ApiError, service::Service};

#[derive(Serialize)]
pub(super) struct ModelList {
    object: &'static str,
    data: Vec<Model>,
}

#[derive(Serialize)]
pub(super) struct Model {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

pub(super) async fn list(State(service): State<Arc<Service>>) -> Json<ModelList> {
    Json(ModelList { object: "list", data: vec![model(&service)] })
}

pub(super) async fn get(State(service): State<Arc<Service>>, Path(id): Path<String>) -> Result<Json<Model>, ApiError> {
    check(&service, &id)?;
    Ok(Json(model(&service)))
}

/// Refuses the name of a model that this pod does not serve.
pub(super) fn check(service: &Service, id: &str) -> Result<(), ApiError> {
    if id == service.agent_name {
        return Ok(());
    }
    let message = format!("model: {id:?} does not exist here; this pod serves {:?}", service.agent_name);
    Err(ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message))
}

fn model(service: &Service) -> Model {
    let created = service.started_at.as_seconds();
    Model { id: service.agent_name.clone(), object: "model", created, owned_by: "slipway" }
}
