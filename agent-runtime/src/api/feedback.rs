//! `POST /v1/feedback`: whether a run did what it was for, as only its client can tell. It counts for the revision that
//! ran it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{State as Shared, rejection::JsonRejection},
    http::StatusCode,
};
use serde::Deserialize;

use crate::telemetry::TaskJudgement;

use super::{error::ApiError, service::Service};

/// What the ids of runs begin with, by the endpoint that gave them.
const PREFIXES: [&str; 2] = ["run-", "chatcmpl-"];
/// The least score of a success.
const LEAST_SUCCESS: f64 = 0.5;

/// The body: a run, and one of `success` and `score`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FeedbackBody {
    run: String,
    success: Option<bool>,
    score: Option<f64>,
}

pub(super) async fn give(
    Shared(service): Shared<Arc<Service>>,
    body: Result<Json<FeedbackBody>, JsonRejection>,
) -> Result<StatusCode, ApiError> {
    let Json(body) = body?;
    let judgement = body.judgement()?;
    let revision = body.revision()?;
    if revision != service.revision {
        let message = format!(
            "the run belongs to revision {revision}, but this pod serves {}: send the feedback with the header x-slipway-revision: {revision}; it cannot be counted if no route reads the header or that revision is gone",
            service.revision
        );
        return Err(ApiError::new(StatusCode::CONFLICT, "other_revision", message));
    }
    service.judge(judgement);
    Ok(StatusCode::NO_CONTENT)
}

impl FeedbackBody {
    fn judgement(&self) -> Result<TaskJudgement, ApiError> {
        let score = match (self.success, self.score) {
            (Some(success), None) => f64::from(u8::from(success)),
            (None, Some(score)) if (0.0..=1.0).contains(&score) => score,
            (None, Some(score)) => {
                return Err(ApiError::invalid("score", format!("is {score}; must be from 0 to 1")));
            }
            (None, None) => return Err(ApiError::invalid("success", "is missing; send success or score")),
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("success", "is sent with score; send one of the two"));
            }
        };
        if score < LEAST_SUCCESS {
            return Ok(TaskJudgement::Failed);
        }
        Ok(TaskJudgement::Done { score_millionths: (score * 1e6).round() as u64 })
    }

    /// The revision that the run was one of: what stands before the last two parts of its id.
    fn revision(&self) -> Result<&str, ApiError> {
        let id = PREFIXES.iter().find_map(|prefix| self.run.strip_prefix(prefix));
        let revision = id.and_then(|id| id.rsplit_once('-')?.0.rsplit_once('-')).map(|(revision, _)| revision);
        revision.filter(|revision| !revision.is_empty()).ok_or_else(|| {
            let problem = format!(
                "{:?} is not the id of a run; send the id of the answer, as in run-... or chatcmpl-...",
                self.run
            );
            ApiError::invalid("run", problem)
        })
    }
}
