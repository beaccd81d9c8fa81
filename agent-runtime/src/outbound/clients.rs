//! The HTTP client of a tool, by whose certificates its service may have. IO.

use std::{sync::Arc, time::Duration};

use reqwest::{Certificate, Client, ClientBuilder, redirect};
use tokio::sync::Mutex;

use super::{
    addresses::Guard,
    mounted::{self, File, ReadMountedError},
};

/// A service that is there accepts within this time; one that is not is found out before the call's own timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the certificates that a tool's service is checked against cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// The folder cannot be read.
    #[error("the mounted certificates cannot be read")]
    Read(#[source] ReadMountedError),
    /// A file holds no certificate, or the folder no file.
    #[error("{path} holds no certificate; write PEM, which begins with -----BEGIN CERTIFICATE-----")]
    Nothing {
        /// The file, or the folder.
        path: String,
    },
    /// A file is malformed, or no client can be made of it.
    #[error("the mounted certificates cannot be used")]
    Unusable(#[source] reqwest::Error),
}

/// Makes clients that go only where they are told.
#[derive(Debug)]
pub(crate) enum Clients {
    /// The service's certificate is of a public authority. Their roots are compiled in: the image has none.
    Public(Client),
    /// The service is in the pod, at a socket: there is no way elsewhere.
    Socket(Client),
    /// It is of an authority in a mounted folder, and of no other.
    Private {
        /// The folder. It is read at every call, so that a renewed authority is trusted at once.
        folder: String,
        /// What keeps it from addresses.
        guard: Option<Guard>,
        /// The client of the folder's last content: its connections are used again.
        last: Mutex<Option<(Vec<File>, Client)>>,
    },
}

impl Clients {
    /// Without a guard they go wherever a name leads.
    pub(crate) fn new(authorities_from: Option<&str>, guard: Option<Guard>) -> Result<Self, reqwest::Error> {
        Ok(match authorities_from {
            Some(folder) => Self::Private { folder: folder.to_owned(), guard, last: Mutex::new(None) },
            None => {
                let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|root| Certificate::from_der(root));
                Self::Public(client(roots.collect::<Result<_, _>>()?, guard)?)
            }
        })
    }

    /// They go to this socket, whatever the URL's host.
    pub(crate) fn at(socket: &str) -> Result<Self, reqwest::Error> {
        builder(Vec::new()).unix_socket(socket).build().map(Self::Socket)
    }

    pub(crate) async fn get(&self) -> Result<Client, AuthoritiesError> {
        let (folder, guard, last) = match self {
            Self::Public(client) | Self::Socket(client) => return Ok(client.clone()),
            Self::Private { folder, guard, last } => (folder, guard, last),
        };
        let files = mounted::files(folder).await.map_err(AuthoritiesError::Read)?;
        let mut last = last.lock().await;
        match &*last {
            Some((read, client)) if *read == files => Ok(client.clone()),
            Some(_) | None => {
                let new = client(authorities(folder, &files)?, guard.clone()).map_err(AuthoritiesError::Unusable)?;
                *last = Some((files, new.clone()));
                Ok(new)
            }
        }
    }
}

fn authorities(folder: &str, files: &[File]) -> Result<Vec<Certificate>, AuthoritiesError> {
    if files.is_empty() {
        return Err(AuthoritiesError::Nothing { path: folder.to_owned() });
    }
    let mut all = Vec::new();
    for File { name: _, path, text } in files {
        let found = Certificate::from_pem_bundle(text.as_bytes()).map_err(AuthoritiesError::Unusable)?;
        if found.is_empty() {
            return Err(AuthoritiesError::Nothing { path: path.clone() });
        }
        all.extend(found);
    }
    Ok(all)
}

fn client(authorities: Vec<Certificate>, guard: Option<Guard>) -> Result<Client, reqwest::Error> {
    let builder = builder(authorities);
    match guard {
        Some(guard) => builder.dns_resolver(Arc::new(guard)).build(),
        None => builder.build(),
    }
}

fn builder(authorities: Vec<Certificate>) -> ClientBuilder {
    Client::builder()
        .redirect(redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("slipway-agent-runtime/", env!("CARGO_PKG_VERSION")))
        .tls_certs_only(authorities)
}
