//! A server of the Model Context Protocol with one tool, `lookup`, which asks the server of facts. It speaks revision
//! 2025-11-25, by streamable HTTP to those who have its key, or on standard input and output.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>

use std::io::{self, Write};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
    routing::post,
};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use slipway_vocabulary::failure::chain;

use super::facts::Fact;

const REVISION: &str = "2025-11-25";
const PARSE_ERROR: i64 = -32700;
const METHOD_NOT_FOUND: i64 = -32601;

/// Where the facts are.
#[derive(Debug, Clone)]
pub struct Facts {
    client: Client,
    url: Url,
}

impl Facts {
    /// Those of a server.
    ///
    /// # Errors
    /// When the client cannot be set up.
    pub fn at(url: Url) -> Result<Self, reqwest::Error> {
        Ok(Self { client: Client::builder().no_proxy().tls_certs_only([]).build()?, url })
    }

    /// The value of `ENTITY.PROPERTY`, or why there is none.
    async fn look_up(&self, fact: &str) -> Result<String, String> {
        let (entity, property) = fact.split_once('.').ok_or("write ENTITY.PROPERTY")?;
        let mut url = self.url.clone();
        url.path_segments_mut().map_err(|()| "the facts have no address")?.extend(["facts", entity, property]);
        let response = self.client.get(url).send().await.map_err(|error| chain(&error))?;
        if !response.status().is_success() {
            return Err(response.text().await.unwrap_or_else(|error| chain(&error)));
        }
        let fact: Fact = response.json().await.map_err(|error| chain(&error))?;
        Ok(fact.value.to_string())
    }

    /// The answer to a message; nothing to one that wants none.
    async fn answer(&self, message: &Value) -> Option<Value> {
        let (method, id) = (message["method"].as_str()?, message.get("id")?);
        let result = match method {
            "initialize" => {
                let server = json!({"name": "facts", "version": env!("CARGO_PKG_VERSION")});
                json!({"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": server})
            }
            "ping" => json!({}),
            "tools/list" => json!({"tools": [tool()]}),
            "tools/call" => {
                let fact = message["params"]["arguments"]["fact"].as_str().unwrap_or_default();
                let looked_up = self.look_up(fact).await;
                let is_error = looked_up.is_err();
                let text = looked_up.unwrap_or_else(|why| why);
                json!({"content": [{"type": "text", "text": text}], "isError": is_error})
            }
            other => return Some(refusal(id, METHOD_NOT_FOUND, &format!("there is no method {other}"))),
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

fn tool() -> Value {
    let fact = json!({"type": "string", "description": "ENTITY.PROPERTY"});
    json!({
        "name": "lookup",
        "description": "looks up a property of an entity",
        "inputSchema": {"type": "object", "properties": {"fact": fact}, "required": ["fact"]},
    })
}

fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[derive(Debug, Clone)]
struct Shared {
    facts: Facts,
    authorization: String,
}

/// The service: `POST /mcp` by those who send this value of the header `authorization`. It announces nothing, so there
/// is no stream to `GET`.
pub fn router(facts: Facts, authorization: String) -> Router {
    Router::new().route("/mcp", post(take)).with_state(Shared { facts, authorization })
}

async fn take(State(shared): State<Shared>, headers: HeaderMap, body: String) -> Response {
    if headers.get(AUTHORIZATION).is_none_or(|value| value.as_bytes() != shared.authorization.as_bytes()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Ok(message) = serde_json::from_str(&body) else {
        let refusal = refusal(&Value::Null, PARSE_ERROR, "the body is not JSON");
        return (StatusCode::BAD_REQUEST, axum::Json(refusal)).into_response();
    };
    match shared.facts.answer(&message).await {
        Some(answer) => axum::Json(answer).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// Answers lines of standard input until there are no more.
///
/// # Errors
/// When a stream breaks.
pub async fn on_standard_streams(facts: Facts) -> io::Result<()> {
    // Waiting for a line blocks this thread alone: connections have others.
    for line in io::stdin().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(message) => facts.answer(&message).await,
            Err(error) => Some(refusal(&Value::Null, PARSE_ERROR, &error.to_string())),
        };
        if let Some(answer) = answer {
            let mut output = io::stdout().lock();
            writeln!(output, "{answer}")?;
            output.flush()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::net::TcpListener;

    use super::*;
    use crate::servers::facts;

    async fn serve(router: Router) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url.parse().unwrap()
    }

    /// A server beside facts that know Bela's height.
    async fn with_facts() -> Facts {
        let facts = Facts::at(serve(facts::router()).await).unwrap();
        let known = facts.url.join("facts/Bela/height").unwrap();
        facts.client.put(known).json(&Fact { value: 731 }).send().await.unwrap().error_for_status().unwrap();
        facts
    }

    fn call(fact: &str) -> Value {
        let params = json!({"name": "lookup", "arguments": {"fact": fact}});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    }

    #[tokio::test]
    async fn a_call_gives_the_fact_or_the_words_of_those_who_have_none() {
        let facts = with_facts().await;
        let said = |text: &str, is_error: bool| {
            let content = json!([{"type": "text", "text": text}]);
            Some(json!({"jsonrpc": "2.0", "id": 7, "result": {"content": content, "isError": is_error}}))
        };
        assert_eq!(facts.answer(&call("Bela.height")).await, said("731", false));
        assert_eq!(facts.answer(&call("Bela.age")).await, said("nothing is known of the age of Bela", true));
        assert_eq!(facts.answer(&call("Bela")).await, said("write ENTITY.PROPERTY", true));
        assert_eq!(facts.answer(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await, None);
    }

    #[tokio::test]
    async fn nobody_is_answered_without_the_key() {
        let facts = with_facts().await;
        let url = serve(router(facts.clone(), "Bearer right".to_owned())).await.join("mcp").unwrap();
        let ask = |key: &'static str| facts.client.post(url.clone()).header(AUTHORIZATION, key);
        let wrong = ask("Bearer wrong").json(&call("Bela.height")).send().await.unwrap();
        let right = ask("Bearer right").json(&call("Bela.height")).send().await.unwrap();
        assert_eq!([wrong.status().as_u16(), right.status().as_u16()], [401, 200]);
        let answer: Value = right.json().await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "731", "{answer}");
    }
}
