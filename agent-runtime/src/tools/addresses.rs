//! Where a tool's host is: names are resolved once, every address is checked, and the connection goes to one of these
//! addresses. IO.
//!
//! So a name cannot lead elsewhere between the check and the connection. Addresses in URLs are checked when the tool is
//! set up, because nothing resolves them. Redirects are not followed.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hickory_resolver::{TokioResolver, config::LookupIpStrategy, net::NetError};
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use slipway_runtime_config::SpecialAddress;
use tokio::sync::OnceCell;

/// A tool's host is where no service is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("url: {host} may not be called")]
pub struct ForbiddenHost {
    host: String,
    #[source]
    source: SpecialAddress,
}

/// Resolves names, and refuses those that lead to a special address.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolver(Arc<OnceCell<TokioResolver>>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self(resolver) = self.clone();
        Box::pin(async move {
            let resolver = resolver.get_or_try_init(async || new_resolver()).await?;
            let found: Vec<IpAddr> = resolver.lookup_ip(name.as_str()).await?.iter().collect();
            check(name.as_str(), &found)?;
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// As the system is configured, for both families.
fn new_resolver() -> Result<TokioResolver, NetError> {
    let mut builder = TokioResolver::builder_tokio()?;
    builder.options_mut().ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
    builder.build()
}

/// One special address is enough: which one is called is not known.
fn check(host: &str, addresses: &[IpAddr]) -> Result<(), ForbiddenHost> {
    let special = addresses.iter().find_map(|address| SpecialAddress::refuse(*address).err());
    special.map_or(Ok(()), |source| Err(ForbiddenHost { host: host.to_owned(), source }))
}

/// Checks the host of a URL that is an address, in whatever form a URL may have one.
pub(super) fn check_url(origin: &str) -> Result<(), ForbiddenHost> {
    let Ok(url) = Url::parse(origin) else { return Ok(()) };
    let host = url.host_str().unwrap_or_default();
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => check(host, &[address]),
        Err(_) => Ok(()),
    }
}

/// The reason in a failure to connect, if that is it.
pub(super) fn forbidden(error: &reqwest::Error) -> Option<ForbiddenHost> {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref::<ForbiddenHost>()).next().cloned()
}
