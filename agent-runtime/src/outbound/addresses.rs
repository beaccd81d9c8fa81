//! Where the host of a tool is. IO.
//!
//! A name is resolved for every new connection, once, and each of its addresses is checked. The connection goes to one
//! of these and to no other, so a name cannot lead elsewhere in between. Redirects are not followed, and proxies of the
//! environment are not used.

use std::{
    error::Error,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use hickory_resolver::{TokioResolver, config::LookupIpStrategy, net::NetError};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use slipway_runtime_config::{AllowedNetworks, ForbiddenAddress};
use tokio::sync::OnceCell;

type Found = Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>>;

/// Finds the addresses of a name.
#[derive(Clone)]
pub struct Lookup(Arc<dyn Fn(String) -> BoxFuture<'static, Found> + Send + Sync>);

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl Lookup {
    /// Asks the system's name servers, for both families of addresses.
    pub fn of_system() -> Self {
        let resolver: Arc<OnceCell<TokioResolver>> = Arc::default();
        Self(Arc::new(move |name| {
            let resolver = Arc::clone(&resolver);
            async move {
                let resolver = resolver.get_or_try_init(async || system_resolver()).await?;
                Ok(resolver.lookup_ip(name).await?.iter().collect())
            }
            .boxed()
        }))
    }

    /// Answers as a function does.
    pub fn of(addresses: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |name| std::future::ready(Ok(addresses(&name))).boxed()))
    }
}

fn system_resolver() -> Result<TokioResolver, NetError> {
    let mut builder = TokioResolver::builder_tokio()?;
    builder.options_mut().ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
    builder.build()
}

/// A tool's host is at an address that tools must not call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host {host:?} must not be called")]
pub struct ForbiddenHost {
    host: String,
    #[source]
    source: ForbiddenAddress,
}

/// Resolves names, and gives only addresses that may be called.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    lookup: Lookup,
    allowed: AllowedNetworks,
}

impl Guard {
    pub(crate) fn new(lookup: Lookup, allowed: AllowedNetworks) -> Self {
        Self { lookup, allowed }
    }

    /// One forbidden address is enough: which of them a connection would be made to is not known.
    fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), ForbiddenHost> {
        let forbidden = addresses.iter().find_map(|address| self.allowed.check(*address).err());
        forbidden.map_or(Ok(()), |source| Err(ForbiddenHost { host: host.to_owned(), source }))
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let this = self.clone();
        async move {
            let host = name.as_str();
            let addresses = (this.lookup.0)(host.to_owned()).await?;
            this.check(host, &addresses).inspect_err(|error| {
                tracing::warn!(error = %error, cause = error.source(), "a host is refused");
            })?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        }
        .boxed()
    }
}

/// The refusal in a failure to connect, if that is the reason.
pub(crate) fn forbidden(error: &reqwest::Error) -> Option<ForbiddenHost> {
    let causes = std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source());
    causes.filter_map(|cause| cause.downcast_ref::<ForbiddenHost>()).next().cloned()
}
