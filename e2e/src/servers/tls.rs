//! TLS for a server of scenarios. Reads and writes IO.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::serve::Listener;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem},
    },
    server::TlsStream,
};

/// A client that says nothing keeps the others waiting no longer than this.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);

/// Why a server cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Certificate or key cannot be read.
    #[error("failed to read {file}")]
    Read {
        /// Path of the file.
        file: String,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// They do not belong together.
    #[error("failed to use the certificate with its key")]
    Use(#[source] rustls::Error),
}

/// A listener whose clients shake hands first.
pub struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    /// With the certificate `tls.crt` and the key `tls.key` of a folder, as a Secret is mounted.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(listener: TcpListener, folder: &Path) -> Result<Self, TlsError> {
        use pem::PemObject;

        let path = |name: &str| folder.join(name);
        let failed = |name: &str| {
            let file = path(name).display().to_string();
            move |source| TlsError::Read { file, source }
        };
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(path("tls.crt")).and_then(Iterator::collect);
        let certificates = certificates.map_err(failed("tls.crt"))?;
        let key = PrivateKeyDer::from_pem_file(path("tls.key")).map_err(failed("tls.key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
            .map_err(TlsError::Use)?;
        Ok(Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            match timeout(HANDSHAKE_LIMIT, self.acceptor.accept(stream)).await {
                Ok(Ok(stream)) => return (stream, address),
                // Probes connect and leave; a client that does not trust us says so.
                Ok(Err(error)) => eprintln!("{address} ended the handshake: {error}"),
                Err(_) => eprintln!("{address} did not end the handshake in time"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
