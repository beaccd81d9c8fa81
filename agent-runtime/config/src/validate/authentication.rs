//! What makes an authentication usable. Pure.

use crate::{AllowedNetworks, Authentication, Jwt, JwtKeys, Rate, Rates, UrlTemplate};

use super::{Check, check_address};

/// More audiences than one agent is called by.
const MAX_AUDIENCES: usize = 16;
const MAX_TENANTS: usize = 1_000;
const MAX_REQUESTS_PER_MINUTE: u64 = 1_000_000;
const MAX_TOKENS_PER_MINUTE: u64 = 1_000_000_000;
/// As many as a pod serves at most.
const MAX_RUNS_AT_ONCE: u64 = 4_096;

pub(super) fn validate(check: &mut Check, authentication: &Authentication) {
    let Authentication { tokens, jwt, rates } = authentication;
    check.that(tokens.is_some() || jwt.is_some(), "authentication", || {
        "lets nobody in; add tokens or jwt, or leave it out".into()
    });
    if let Some(path) = tokens {
        absolute(check, "authentication.tokens", path, "file of tokens");
    }
    if let Some(jwt) = jwt {
        validate_jwt(check, jwt);
    }
    validate_rates(check, rates);
}

/// What only a person's words must not have.
pub(super) fn validate_as_written(check: &mut Check, authentication: &Authentication) {
    let keys = authentication.jwt.as_ref().map(|jwt| &jwt.keys);
    if let Some(JwtKeys::Url { url, authorities_from: _, allowed_networks }) = keys {
        check_address(check, "authentication.jwt.keys.url", url, allowed_networks);
    }
}

fn validate_jwt(check: &mut Check, jwt: &Jwt) {
    let Jwt { issuer, audiences, keys, tenant_claim } = jwt;
    let field = |name: &str| format!("authentication.jwt.{name}");
    check.that(!issuer.is_empty(), &field("issuer"), || "is empty; write the claim iss of the tokens".into());
    check.that((1..=MAX_AUDIENCES).contains(&audiences.len()), &field("audiences"), || {
        format!("has {} entries; name 1 to {MAX_AUDIENCES}, of which the claim aud has one", audiences.len())
    });
    check.that(audiences.iter().all(|audience| !audience.is_empty()), &field("audiences"), || {
        "has an empty entry; remove it".into()
    });
    check.that(!tenant_claim.is_empty(), &field("tenantClaim"), || {
        "is empty; name the claim with the tenant, such as sub".into()
    });
    match keys {
        JwtKeys::Url { url, authorities_from, allowed_networks } => {
            check.that(url.starts_with("https://"), &field("keys.url"), || {
                format!("{url:?} does not begin with https://; who answers for the issuer could sign any token")
            });
            // What it refuses, such as an address in one number, would pass the check of networks unseen.
            match UrlTemplate::parse(url) {
                Err(error) => check.fail(field("keys.url"), error.to_string()),
                Ok(url) => check.that(url.placeholders().next().is_none(), &field("keys.url"), || {
                    "has a placeholder; write the address of the keys in full".into()
                }),
            }
            if let Some(path) = authorities_from {
                absolute(check, &field("keys.authoritiesFrom"), path, "directory of certificates");
            }
            if let Err(error) = AllowedNetworks::parse(allowed_networks) {
                check.fail(field("keys.allowedNetworks"), error.to_string());
            }
        }
        JwtKeys::File(path) => absolute(check, &field("keys.file"), path, "file of keys"),
    }
}

fn validate_rates(check: &mut Check, rates: &Rates) {
    const FIELD: &str = "authentication.rates";
    let Rates { default, tenants } = rates;
    validate_rate(check, &format!("{FIELD}.default"), default);
    let field = format!("{FIELD}.tenants");
    check
        .that(tenants.len() <= MAX_TENANTS, &field, || format!("has {} entries; at most {MAX_TENANTS}", tenants.len()));
    check.distinct(&field, "name", tenants.iter().map(|tenant| tenant.name.as_str()));
    for (i, tenant) in tenants.iter().enumerate() {
        check.that(!tenant.name.is_empty(), &format!("{field}[{i}].name"), || "is empty; name the tenant".into());
        validate_rate(check, &format!("{field}[{i}].rate"), &tenant.rate);
    }
}

fn validate_rate(check: &mut Check, field: &str, rate: &Rate) {
    let Rate { requests_per_minute, tokens_per_minute, runs_at_once } = *rate;
    let bounds = [
        ("requestsPerMinute", requests_per_minute, MAX_REQUESTS_PER_MINUTE),
        ("tokensPerMinute", tokens_per_minute, MAX_TOKENS_PER_MINUTE),
        ("runsAtOnce", runs_at_once, MAX_RUNS_AT_ONCE),
    ];
    for (name, value, most) in bounds {
        if let Some(value) = value {
            check.range(&format!("{field}.{name}"), value.into(), 1..=most);
        }
    }
}

fn absolute(check: &mut Check, field: &str, path: &str, what: &str) {
    check.that(path.starts_with('/'), field, || format!("{path:?} is not an absolute path; name the mounted {what}"));
}
