//! A client inside the cluster, which sends what it is told and shows the whole answer. The API server, through which
//! scenarios reach Services, keeps the header `authorization` for itself and hands a refusal on as its own.

use std::{collections::BTreeMap, time::Duration};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use reqwest::{
    Client, Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_vocabulary::failure::chain;

/// Longer than any run may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The method.
    pub method: String,
    /// The URL, as a pod of the namespace writes it.
    pub url: String,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body; nothing for none.
    pub body: Option<Value>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, by their names in lowercase.
    pub headers: BTreeMap<String, String>,
    /// The body; as a text where it is not JSON.
    pub body: Value,
}

impl Answer {
    /// A header; nothing is an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

type Refusal = (StatusCode, String);

/// The service: `POST /` of a [`Call`] gives an [`Answer`], or 502 with what is wrong with the connection.
///
/// # Errors
/// When the client cannot be set up.
pub fn router() -> Result<Router, reqwest::Error> {
    let client = Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build()?;
    Ok(Router::new().route("/", post(send)).with_state(client))
}

async fn send(State(client): State<Client>, Json(call): Json<Call>) -> Result<Json<Answer>, Refusal> {
    let wrong = |error: String| (StatusCode::BAD_REQUEST, error);
    let method = Method::from_bytes(call.method.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    let mut request = client.request(method, &call.url).headers(headers(&call.headers).map_err(wrong)?);
    if let Some(body) = &call.body {
        request = request.json(body);
    }
    let failed = |error: reqwest::Error| (StatusCode::BAD_GATEWAY, chain(&error));
    let response = request.send().await.map_err(failed)?;
    let status = response.status().as_u16();
    let shown = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = response.headers().iter().map(shown).collect();
    let text = response.text().await.map_err(failed)?;
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(Json(Answer { status, headers, body }))
}

fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let header = |(name, value): (&String, &String)| {
        let name_read = HeaderName::try_from(name).map_err(|error| format!("header {name:?}: {error}"))?;
        let value = HeaderValue::try_from(value).map_err(|error| format!("header {name:?}: {error}"))?;
        Ok((name_read, value))
    };
    given.iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use axum::{
        http::{HeaderMap, header::RETRY_AFTER},
        response::IntoResponse,
        routing::get,
    };
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    async fn serve(router: Router) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    /// Refuses everybody, and shows whom.
    async fn refuse(headers: HeaderMap) -> impl IntoResponse {
        let token = headers.get("authorization").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "7")], Json(json!({ "token": token })))
    }

    #[tokio::test]
    async fn a_refusal_comes_back_with_its_status_its_headers_and_its_body() {
        let url = serve(Router::new().route("/", get(refuse))).await;
        let client = serve(router().unwrap()).await;
        let headers = BTreeMap::from([("authorization".to_owned(), "Bearer x".to_owned())]);
        let call = Call { method: "GET".to_owned(), url, headers, body: None };
        let asked = Client::builder().no_proxy().tls_certs_only([]).build().unwrap().post(client).json(&call);
        let answer: Answer = asked.send().await.unwrap().json().await.unwrap();
        assert_eq!(
            (answer.status, answer.header("retry-after"), &answer.body),
            (429, "7", &json!({"token": "Bearer x"}))
        );
    }
}
