//! The client for servers outside the cluster's own: goes where it is told and nowhere else. Reads IO.
//!
//! The operator's image has no certificates; the roots are compiled in.

use std::{path::Path, time::Duration};

use reqwest::{Certificate, Client, redirect};
use thiserror::Error;

use crate::credentials::{self, CredentialError};

/// How long a connection may take; the rest of an attempt's time is for the answer.
const CONNECT: Duration = Duration::from_secs(4);

/// Why there is no client.
#[derive(Debug, Error)]
pub enum OutgoingError {
    /// The certificates cannot be read.
    #[error("failed to read {field}")]
    ReadCertificates {
        /// Path of the value in the operator's configuration.
        field: &'static str,
        /// What is wrong with the file.
        #[source]
        source: CredentialError,
    },
    /// The certificates cannot be used.
    #[error("failed to use the certificates of {field}")]
    Certificates {
        /// Path of the value in the operator's configuration.
        field: &'static str,
        /// What is wrong with them.
        #[source]
        source: reqwest::Error,
    },
    /// There are no certificates.
    #[error("{field} holds no certificate: put PEM certificates into it, or leave it out")]
    NoCertificates {
        /// Path of the value in the operator's configuration.
        field: &'static str,
    },
    /// The client cannot be set up.
    #[error("failed to set up an HTTP client")]
    Build(#[source] reqwest::Error),
}

/// A client that trusts the bundled roots and the certificates of a file, which is the value of `field` in the
/// configuration.
///
/// # Errors
/// When the file holds no certificates that can be used.
pub fn client(field: &'static str, ca_file: Option<&Path>) -> Result<Client, OutgoingError> {
    let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|root| Certificate::from_der(root));
    let mut roots = roots.collect::<Result<Vec<_>, _>>().map_err(OutgoingError::Build)?;
    if let Some(file) = ca_file {
        let pem = credentials::text(file).map_err(|source| OutgoingError::ReadCertificates { field, source })?;
        let own = Certificate::from_pem_bundle(pem.as_bytes())
            .map_err(|source| OutgoingError::Certificates { field, source })?;
        if own.is_empty() {
            return Err(OutgoingError::NoCertificates { field });
        }
        roots.extend(own);
    }
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT)
        .user_agent(concat!("slipway-operator/", env!("CARGO_PKG_VERSION")))
        .tls_certs_only(roots)
        .build()
        .map_err(OutgoingError::Build)
}
