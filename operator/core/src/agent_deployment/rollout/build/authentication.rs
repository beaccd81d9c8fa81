//! What the pods of a revision need to tell clients apart: part of their sidecar's configuration, and what is mounted.
//! Pure.
//!
//! A plan says who may call. Rates are those of the spec as it is: the sidecar reloads them.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, KeyToPath, SecretVolumeSource, Volume, VolumeMount};
use slipway_agent_config::{ISSUER_AUTHORITIES_FOLDER, ISSUER_KEYS};
use slipway_crds::v1alpha1::{
    agent_deployment::{Authentication as ApiAuthentication, NamedTenantRate, TenantRate as ApiRate, TenantRates},
    shared::{ConfigMapKeyReference, SecretKeyReference},
};
use slipway_runtime_config::{Authentication, Rate, Rates, TenantRate};

use crate::{
    agent_deployment::rollout::revision::RevisionPlan,
    jobs::{
        template::{config_map_volume, mount, read_only},
        view::USERS_CONFIG_MAP_VOLUME,
    },
};

/// Folder and file of the tokens of clients.
const TOKENS: (&str, &str) = ("/etc/slipway/tokens", "tokens");

const TOKENS_VOLUME: &str = "tokens";
const KEYS_VOLUME: &str = "issuer-keys";

/// The sidecar's configuration for the clients of a plan, at the rates of the spec.
pub(super) fn config(plan: &RevisionPlan, rates: Option<&TenantRates>) -> Option<Authentication> {
    let ApiAuthentication { tokens_from, jwt, rates: _ } = plan.authentication.as_ref()?;
    Some(Authentication {
        tokens: tokens_from.as_ref().map(|_| path(TOKENS)),
        jwt: jwt.as_ref().map(slipway_agent_config::json_web_tokens),
        rates: rates.map(of_tenants).unwrap_or_default(),
    })
}

/// What the sidecar's container mounts.
pub(super) fn mounts(plan: &RevisionPlan) -> Vec<VolumeMount> {
    let places = [(TOKENS_VOLUME, TOKENS.0), (KEYS_VOLUME, ISSUER_KEYS.0)];
    let maps = [(keys_map_volume(), ISSUER_KEYS.0), (authorities_volume(), ISSUER_AUTHORITIES_FOLDER)];
    let places = places.map(|(volume, folder)| (volume.to_owned(), folder)).into_iter().chain(maps);
    let volumes = volumes(plan);
    let is_there = |name: &str| volumes.iter().any(|volume| volume.name == name);
    places.filter(|(volume, _)| is_there(volume)).map(|(volume, folder)| read_only(mount(&volume, folder))).collect()
}

/// The volumes of a plan's pods.
pub(super) fn volumes(plan: &RevisionPlan) -> Vec<Volume> {
    let Some(ApiAuthentication { tokens_from, jwt, rates: _ }) = &plan.authentication else { return Vec::new() };
    let keys = jwt.as_ref().map(|jwt| &jwt.keys);
    let tokens = tokens_from.as_ref().map(|secret| secret_file(TOKENS_VOLUME, secret, TOKENS.1));
    let secret = keys.and_then(|keys| keys.secret.as_ref());
    let config_map = keys.and_then(|keys| keys.config_map.as_ref());
    let authorities = keys.and_then(|keys| keys.authorities_from.as_ref());
    let authorities = authorities.map(|config_map| config_map_volume(&authorities_volume(), &config_map.name));
    let of_keys = [secret.map(|secret| secret_file(KEYS_VOLUME, secret, ISSUER_KEYS.1)), config_map.map(keys_map)];
    tokens.into_iter().chain(of_keys.into_iter().flatten()).chain(authorities).collect()
}

fn secret_file(name: &str, secret: &SecretKeyReference, file: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.name.clone()),
            items: Some(vec![one_file(&secret.key, file)]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn keys_map(config_map: &ConfigMapKeyReference) -> Volume {
    Volume {
        name: keys_map_volume(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map.name.clone(),
            items: Some(vec![one_file(&config_map.key, ISSUER_KEYS.1)]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn one_file(key: &str, file: &str) -> KeyToPath {
    KeyToPath { key: key.to_owned(), path: file.to_owned(), mode: None }
}

fn keys_map_volume() -> String {
    format!("{USERS_CONFIG_MAP_VOLUME}{KEYS_VOLUME}")
}

fn authorities_volume() -> String {
    format!("{USERS_CONFIG_MAP_VOLUME}issuer")
}

fn path((folder, file): (&str, &str)) -> String {
    format!("{folder}/{file}")
}

fn of_tenants(rates: &TenantRates) -> Rates {
    let named =
        |NamedTenantRate { name, rate: own }: &NamedTenantRate| TenantRate { name: name.clone(), rate: rate(*own) };
    Rates { default: rate(rates.default), tenants: rates.tenants.iter().map(named).collect() }
}

fn rate(rate: ApiRate) -> Rate {
    let ApiRate { requests_per_minute, tokens_per_minute, runs_at_once } = rate;
    // Integers of the API are signed; its bounds keep them above zero.
    let unsigned = |value: i32| u32::try_from(value).unwrap_or(0);
    Rate {
        requests_per_minute: requests_per_minute.map(unsigned),
        tokens_per_minute: tokens_per_minute.map(unsigned),
        runs_at_once: runs_at_once.map(unsigned),
    }
}
