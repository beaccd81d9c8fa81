//! `POST /v1/feedback`: whether a run did what it was for, as only its client can tell. It counts where it ran, and
//! once.

use std::sync::Arc;

use axum::{
    Json,
    extract::{State as Shared, rejection::JsonRejection},
    http::StatusCode,
};
use serde::Deserialize;

use crate::telemetry::TaskJudgement;

use super::{
    callers::Caller,
    error::ApiError,
    run_names::{KEPT_RUNS, NotCounted},
    service::Service,
};

/// What the ids of runs begin with, by the endpoint that gave them.
const PREFIXES: [&str; 3] = ["run-", "chatcmpl-", "resp_"];
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
    Caller(tenant): Caller,
    body: Result<Json<FeedbackBody>, JsonRejection>,
) -> Result<StatusCode, ApiError> {
    let Json(body) = body?;
    let judgement = body.judgement()?;
    let Some(name) = PREFIXES.iter().find_map(|prefix| body.run.strip_prefix(prefix)) else {
        return Err(no_name(&body.run));
    };
    service.judge(name, tenant.as_ref(), judgement).map_err(|why| not_counted(why, &body.run, &service.revision))?;
    Ok(StatusCode::NO_CONTENT)
}

fn not_counted(why: NotCounted, run: &str, serves: &str) -> ApiError {
    let (status, code, message) = match why {
        NotCounted::NoName => return no_name(run),
        NotCounted::OtherRevision { revision } => {
            let message = format!(
                "the run belongs to revision {revision}, but this pod serves {serves}: send the feedback with the header \
                 x-slipway-revision: {revision}. It cannot be counted if no route reads the header or that revision is \
                 gone"
            );
            (StatusCode::CONFLICT, "other_revision", message)
        }
        NotCounted::OtherPod => {
            let message = "the run was one of another pod: send the feedback again on a new connection, until it reaches \
                           that pod; once that pod is gone it cannot be counted";
            (StatusCode::MISDIRECTED_REQUEST, "other_pod", message.to_owned())
        }
        NotCounted::Unknown => {
            let message = format!("this pod served no run {run:?}; send the id of the answer as it was given");
            (StatusCode::NOT_FOUND, "unknown_run", message)
        }
        NotCounted::Forgotten => {
            let message = format!("more than {KEPT_RUNS} runs began after this one: send feedback sooner");
            (StatusCode::NOT_FOUND, "forgotten_run", message)
        }
        NotCounted::Repeated => {
            let message = "feedback on this run was counted before, and each run counts once".to_owned();
            (StatusCode::CONFLICT, "repeated_feedback", message)
        }
    };
    ApiError::new(status, code, message)
}

fn no_name(run: &str) -> ApiError {
    ApiError::invalid(
        "run",
        format!("{run:?} is not the id of a run; send the id of the answer, as in run-..., chatcmpl-... or resp_..."),
    )
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
}
