//! Servers of MCP. Pure.

use std::collections::BTreeSet;

use crate::{AllowedNetworks, McpServer, Tool, UrlTemplate};

use super::{
    Check, MAX_TIMEOUT_MILLISECONDS, check_address, is_identifier, not_an_identifier, validate_limits, validate_mounts,
};

const MAX_SERVERS: usize = 32;
/// Most bytes of a socket's path that the system takes.
const MAX_SOCKET_BYTES: usize = 107;
/// Tools of one server that can be named.
const MAX_NAMED_TOOLS: usize = 128;

pub(super) fn validate(check: &mut Check, servers: &[McpServer]) {
    check.that(servers.len() <= MAX_SERVERS, "mcpServers", || {
        format!("has {} entries; at most {MAX_SERVERS}", servers.len())
    });
    check.distinct("mcpServers", "name", servers.iter().map(|server| server.name.as_str()));
    for (i, server) in servers.iter().enumerate() {
        validate_server(check, &format!("mcpServers[{i}]"), server);
    }
}

/// What only a person's words must not have.
pub(super) fn validate_as_written(check: &mut Check, (tools, servers): (&[Tool], &[McpServer])) {
    let mut shown: BTreeSet<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    for (i, McpServer { url, socket, allowed_networks, prefix, tools, .. }) in servers.iter().enumerate() {
        // A server of the pod's own is reached through its socket, whatever the URL names.
        if socket.is_none() {
            check_address(check, &format!("mcpServers[{i}].url"), url, allowed_networks);
        }
        // Which tools it has is known only where the spec names them.
        for tool in tools {
            let name = format!("{prefix}{tool}");
            check.that(!shown.contains(&name), &format!("mcpServers[{i}].tools"), || {
                format!("the tool {tool:?} would be called {name:?}, as another tool is; change the prefix")
            });
            shown.insert(name);
        }
    }
}

fn validate_server(check: &mut Check, field: &str, server: &McpServer) {
    let McpServer {
        name,
        url,
        socket,
        prefix,
        tools,
        headers_from,
        authorities_from,
        allowed_networks,
        max_in_flight,
        circuit_breaker,
        timeout_milliseconds,
        trust_annotations,
        retries,
    } = server;
    check.that(is_identifier(name), &format!("{field}.name"), || not_an_identifier(name));
    match UrlTemplate::parse(url) {
        Err(error) => check.fail(format!("{field}.url"), error.to_string()),
        Ok(template) => check.that(template.placeholders().next().is_none(), &format!("{field}.url"), || {
            "has a placeholder; the endpoint of a server takes none".into()
        }),
    }
    if let Some(socket) = socket {
        let is_path = socket.starts_with('/') && socket.len() <= MAX_SOCKET_BYTES;
        check.that(is_path, &format!("{field}.socket"), || {
            format!("{socket:?} is not an absolute path of at most {MAX_SOCKET_BYTES} bytes; name the server's socket")
        });
        check.that(authorities_from.is_none() && allowed_networks.is_empty(), &format!("{field}.socket"), || {
            "leads to no network; leave authoritiesFrom and allowedNetworks out".into()
        });
    }
    check.that(prefix.is_empty() || is_identifier(prefix), &format!("{field}.prefix"), || not_an_identifier(prefix));
    check.that(tools.len() <= MAX_NAMED_TOOLS, &format!("{field}.tools"), || {
        format!("has {} entries; at most {MAX_NAMED_TOOLS}", tools.len())
    });
    check.that(!tools.iter().any(String::is_empty), &format!("{field}.tools"), || {
        "has an empty entry; remove it".into()
    });
    validate_mounts(check, field, url, headers_from.as_deref(), authorities_from.as_deref());
    if let Err(error) = AllowedNetworks::parse(allowed_networks) {
        check.fail(format!("{field}.allowedNetworks"), error.to_string());
    }
    validate_limits(check, field, *max_in_flight, *circuit_breaker);
    check.range(&format!("{field}.timeoutMilliseconds"), *timeout_milliseconds, 1..=MAX_TIMEOUT_MILLISECONDS);
    check.range(&format!("{field}.retries"), (*retries).into(), 0..=5);
    check.that(*retries == 0 || *trust_annotations, &format!("{field}.retries"), || {
        "has no effect while the server's annotations are not trusted; set trustAnnotations, or retries to 0".into()
    });
}
