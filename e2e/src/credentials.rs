//! What scenarios give a namespace by hand: Secrets, ConfigMaps, and certificates of an authority of their own. What
//! fails ends the scenario. Reads and writes IO.

#![allow(clippy::unwrap_used, reason = "a scenario ends where it cannot go on")]

use std::{
    env, fs,
    path::Path,
    process::{self, Command},
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    agents::parsed,
    namespace::{Namespace, Outcome, refused},
};

/// A server's certificate, by an authority that has signed nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// The server's, in PEM.
    pub certificate: String,
    /// The server's key, in PEM.
    pub key: String,
}

impl Certificates {
    /// Makes them for a host, with openssl.
    ///
    /// # Panics
    /// When openssl refuses.
    #[must_use]
    pub fn of(host: &str) -> Self {
        let folder = env::temp_dir().join(format!("slipway-e2e-{host}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let authority = ["req", "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=scenario", "-days", "2"];
        openssl(&folder, &[authority.as_slice(), &key].concat());
        let subject = format!("/CN={host}");
        let request = ["req", "-keyout", "tls.key", "-out", "tls.csr", "-subj", &subject];
        openssl(&folder, &[request.as_slice(), &key].concat());
        fs::write(folder.join("names"), format!("subjectAltName=DNS:{host}\n")).unwrap();
        let signed = ["x509", "-req", "-in", "tls.csr", "-out", "tls.crt", "-days", "2", "-extfile", "names"];
        openssl(&folder, &[signed.as_slice(), &["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]].concat());
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let made = Self { authority: read("ca.crt"), certificate: read("tls.crt"), key: read("tls.key") };
        fs::remove_dir_all(&folder).unwrap();
        made
    }

    /// As a Secret of type `kubernetes.io/tls` has them.
    pub fn for_secret(&self) -> Value {
        json!({"tls.crt": self.certificate, "tls.key": self.key})
    }
}

fn openssl(folder: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Namespace {
    /// Creates a Secret of texts.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn give_secret(&self, name: &str, texts: &Value) -> Outcome<()> {
        let secret: Secret = parsed(json!({"metadata": {"name": name}, "stringData": texts}))?;
        self.create_object(&secret).await.map(|_| ())
    }

    /// Changes texts of a Secret, as a person does who rotates them.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn change_secret(&self, name: &str, texts: &Value) -> Outcome<()> {
        let changed = Patch::Merge(json!({"stringData": texts}));
        let patched = self.api::<Secret>().patch(name, &PatchParams::default(), &changed).await;
        patched.map(|_| ()).map_err(|source| refused(format!("change Secret {name}"), source))
    }

    /// Creates a ConfigMap of texts.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn give_config_map(&self, name: &str, texts: &Value) -> Outcome<()> {
        let object: ConfigMap = parsed(json!({"metadata": {"name": name}, "data": texts}))?;
        self.create_object(&object).await.map(|_| ())
    }

    /// Changes texts of a ConfigMap.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn change_config_map(&self, name: &str, texts: &Value) -> Outcome<()> {
        let changed = Patch::Merge(json!({"data": texts}));
        let patched = self.api::<ConfigMap>().patch(name, &PatchParams::default(), &changed).await;
        patched.map(|_| ()).map_err(|source| refused(format!("change ConfigMap {name}"), source))
    }
}
