//! Resolving and fetching models from claims, web folders, archives and a hub.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use flate2::{Compression, write::GzEncoder};
use pretty_assertions::assert_eq;
use slipway_worker::{
    failure::{self, Classify},
    fetch, hash, http, resolve,
    source::Access,
};
use slipway_worker_contract::{
    Digest, FailureClass, FetchTask, ModelShape, ResolveResult, ResolveTask, ShapeNeed, paths,
};
use tempfile::TempDir;

use crate::server::Server;

const CONFIG: &str = r#"{"architectures":["ReactLM"],"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,
    "vocab_size":98,"max_position_embeddings":320}"#;
const TOKENIZER: &str = "{}";

fn weights() -> Vec<u8> {
    let header = br#"{"w":{"dtype":"F32","shape":[64,98],"data_offsets":[0,25088]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    file.extend((0..25_088).map(|i| (i % 251) as u8));
    file
}

fn model() -> [(&'static str, Vec<u8>); 3] {
    [("config.json", CONFIG.into()), ("model.safetensors", weights()), ("tokenizer.json", TOKENIZER.into())]
}

fn expected(uri: &str, commit: Option<&str>) -> ResolveResult {
    let lines: String = model().iter().map(|(p, b)| format!("{}  {}  {p}\n", hash::bytes(b), b.len())).collect();
    let tokenizer = format!("{}  2  tokenizer.json\n", hash::bytes(TOKENIZER.as_bytes()));
    ResolveResult {
        uri: uri.into(),
        commit: commit.map(str::to_owned),
        source_digest: hash::bytes(lines.as_bytes()),
        tokenizer_digest: Some(hash::bytes(tokenizer.as_bytes())),
        files: 3,
        bytes: model().iter().map(|(_, b)| b.len() as u64).sum(),
        shape: Some(Box::new(ModelShape {
            architecture: "ReactLM".into(),
            hidden_size: 64,
            layers: 2,
            heads: 4,
            key_value_heads: 4,
            head_dim: 16,
            intermediate_size: None,
            experts: None,
            experts_per_token: None,
            dense_layers: 0,
            dense_intermediate_size: 0,
            shared_intermediate_size: 0,
            latent_size: 0,
            tied_embeddings: false,
            vocabulary: 98,
            max_positions: Some(320),
            dtype: Some("float32".into()),
            quantization: None,
            quantization_method: None,
            parameters: 6272,
            parameter_bytes: 25_088,
        })),
    }
}

/// A store, a claim and a client that does not wait between tries.
struct Bench {
    dir: TempDir,
    server: Server,
    access: Access,
}

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start().await;
        let access = Access {
            fetcher: http::Fetcher {
                client: http::client(None).unwrap(),
                token: None,
                retry: http::Retry { attempts: 3, first_wait: Duration::ZERO },
            },
            hub_endpoint: server.url.clone(),
            claim_root: dir.path().join("claim"),
            threads: 2,
        };
        Self { dir, server, access }
    }

    fn with_folder(self) -> Self {
        let entries: Vec<String> = model()
            .iter()
            .map(|(p, b)| format!(r#"{{"path":"{p}","size":{},"sha256":"{}"}}"#, b.len(), hash::bytes(b)))
            .collect();
        self.server.file("/m/manifest.json", format!("{{\"files\":[{}]}}", entries.join(",")));
        for (path, bytes) in model() {
            self.server.file(&format!("/m/{path}"), bytes);
        }
        self
    }

    fn folder_url(&self) -> String {
        format!("{}/m/", self.server.url)
    }

    fn with_hub(self) -> Self {
        let lfs = weights();
        let document = format!(
            r#"{{"sha":"0123abc","siblings":[{{"rfilename":"README.md","size":5}},{{"rfilename":"config.json","size":{}}},
               {{"rfilename":"tokenizer.json","size":2}},{{"rfilename":"pytorch_model.bin","size":9}},
               {{"rfilename":"model.safetensors","size":{1},"lfs":{{"sha256":"{2}","size":{1}}}}}]}}"#,
            CONFIG.len(),
            lfs.len(),
            hash::bytes(&lfs)
        );
        self.server.file("/api/models/org/react/revision/main", document.clone());
        self.server.file("/api/models/org/react/revision/0123abc", document);
        for (path, bytes) in model() {
            self.server.file(&format!("/org/react/resolve/0123abc/{path}"), bytes);
        }
        self
    }

    async fn resolve(&self, uri: &str) -> Result<ResolveResult, resolve::ResolveError> {
        resolve::run(&ResolveTask { uri: uri.into(), shape: ShapeNeed::Required }, &self.access).await
    }

    async fn fetch(&self, uri: &str, source_digest: &Digest) -> Result<u64, String> {
        let task = FetchTask { uri: uri.into(), source_digest: source_digest.clone() };
        let result = fetch::run(&task, &self.access, &self.store()).await;
        result.map(|r| r.transferred_bytes).map_err(|e| failure::chain(&e))
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn fetched(&self, digest: &Digest) -> Vec<(String, Vec<u8>)> {
        let root = self.store().join(paths::checkpoint_files(digest));
        let files = slipway_worker::tree::files(&root).unwrap();
        files.into_iter().map(|path| (path.clone(), fs::read(root.join(&path)).unwrap())).collect()
    }
}

fn is_model(files: Vec<(String, Vec<u8>)>) {
    assert_eq!(files, model().map(|(path, bytes)| (path.to_owned(), bytes)));
}

fn tar(prefix: &str) -> Vec<u8> {
    let mut archive = ::tar::Builder::new(Vec::new());
    for (path, bytes) in model() {
        let mut header = ::tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("{prefix}{path}"), bytes.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn write_claim(claim: &Path) {
    for (path, bytes) in model() {
        fs::create_dir_all(claim.join("react")).unwrap();
        fs::write(claim.join("react").join(path), bytes).unwrap();
    }
}

#[tokio::test]
async fn one_model_has_one_digest_wherever_it_comes_from() {
    let bench = Bench::new().await.with_folder().with_hub();
    write_claim(&bench.access.claim_root);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&tar("react/")).unwrap();
    bench.server.file("/m.tar", tar("")).file("/m.tgz", gzip.finish().unwrap());
    let url = bench.server.url.clone();

    for uri in ["pvc://models/react".to_owned(), bench.folder_url(), format!("{url}/m.tar"), format!("{url}/m.tgz")] {
        assert_eq!(bench.resolve(&uri).await.unwrap(), expected(&uri, None));
        let digest = expected(&uri, None).source_digest;
        bench.fetch(&uri, &digest).await.unwrap();
        is_model(bench.fetched(&digest));
        fs::remove_dir_all(bench.store()).unwrap();
    }
    let hub = bench.resolve("hf://org/react").await.unwrap();
    assert_eq!(hub, expected("hf://org/react@0123abc", Some("0123abc")));
    bench.fetch(&hub.uri, &hub.source_digest).await.unwrap();
    is_model(bench.fetched(&hub.source_digest));
}

#[tokio::test]
async fn quantization_that_is_written_beside_the_configuration_is_read() {
    let bench = Bench::new().await;
    for (path, bytes) in model() {
        let path = bench.dir.path().join("claim/m").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let found = async || {
        let resolved = bench.resolve("pvc://models/m").await.unwrap();
        resolved.shape.and_then(|shape| shape.quantization)
    };
    assert_eq!(found().await, None);
    fs::write(bench.dir.path().join("claim/m/hf_quant_config.json"), r#"{"quantization": {"quant_algo": "FP8"}}"#)
        .unwrap();
    assert_eq!(found().await.as_deref(), Some("FP8"));
}

#[tokio::test]
async fn a_fetched_checkpoint_is_not_fetched_again() {
    let bench = Bench::new().await.with_folder();
    let uri = bench.folder_url();
    let digest = expected(&uri, None).source_digest;
    let bytes = expected(&uri, None).bytes;
    assert_eq!(bench.fetch(&uri, &digest).await, Ok(bytes));
    let before = bench.server.requests().len();
    assert_eq!(bench.fetch(&uri, &digest).await, Ok(0));
    assert_eq!(bench.server.requests().len(), before, "no request is sent");
}

#[tokio::test]
async fn a_broken_transfer_goes_on_where_it_stopped() {
    let bench = Bench::new().await.with_folder();
    bench.server.break_once("/m/model.safetensors", 10_000);
    let uri = bench.folder_url();
    let digest = expected(&uri, None).source_digest;

    assert_eq!(bench.fetch(&uri, &digest).await, Ok(expected(&uri, None).bytes));

    is_model(bench.fetched(&digest));
    assert!(bench.server.requests().contains(&"/m/model.safetensors 10000".to_owned()));
}

#[tokio::test]
async fn a_later_attempt_keeps_what_an_earlier_one_left_and_distrusts_it() {
    let bench = Bench::new().await.with_folder();
    let uri = bench.folder_url();
    let digest = expected(&uri, None).source_digest;
    let partial = bench.store().join(format!("checkpoints/.partial-{digest}/files"));
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("config.json"), CONFIG).unwrap();
    fs::write(partial.join("tokenizer.json"), "!!").unwrap();
    fs::write(partial.join("model.safetensors.part"), vec![0; 500]).unwrap();
    fs::write(partial.join("leftover"), "of another release").unwrap();

    let transferred = bench.fetch(&uri, &digest).await.unwrap();

    is_model(bench.fetched(&digest));
    // The damaged start of the weights costs one wrong continuation, then the whole file.
    assert_eq!(transferred, 2 + (weights().len() as u64 - 500) + weights().len() as u64);
}

#[tokio::test]
async fn a_wrong_digest_names_the_file_what_was_expected_and_what_was_found() {
    let bench = Bench::new().await.with_folder();
    let mut damaged = weights();
    damaged[20_000] ^= 1;
    bench.server.file("/m/model.safetensors", damaged.clone());
    let uri = bench.folder_url();
    let digest = expected(&uri, None).source_digest;

    let error = bench.fetch(&uri, &digest).await.unwrap_err();

    assert_eq!(
        error,
        format!(
            "failed to fetch {uri}: model.safetensors of {uri} has digest {}, expected {}: the source is damaged or has changed meanwhile",
            hash::bytes(&damaged),
            hash::bytes(&weights())
        )
    );
    assert!(!bench.store().join(paths::checkpoint(&digest)).exists());
}

#[tokio::test]
async fn a_source_that_changed_since_it_was_resolved_is_not_fetched_as_the_old_one() {
    let bench = Bench::new().await;
    write_claim(&bench.access.claim_root);
    let digest = bench.resolve("pvc://models/react").await.unwrap().source_digest;
    fs::write(bench.access.claim_root.join("react/tokenizer.json"), "{\"new\":1}").unwrap();
    let error = bench.fetch("pvc://models/react", &digest).await.unwrap_err();
    assert!(
        error.contains(&format!("but {digest} was resolved: the source has changed since; resolve it again")),
        "{error}"
    );
}

#[tokio::test]
async fn a_gated_model_asks_for_a_token_and_opens_with_it() {
    let mut bench = Bench::new().await.with_hub();
    bench.server.require_token("hf_secret");
    let error = bench.resolve("hf://org/react").await.unwrap_err();
    assert_eq!(error.class(), FailureClass::BadModel);
    let text = failure::chain(&error);
    assert!(text.contains("401 Unauthorized (Access to this model is restricted): put a token"), "{text}");
    assert!(text.contains("secret of model.secretRef, key token"), "{text}");

    let secret = bench.dir.path().join("token");
    fs::write(&secret, "hf_secret\n").unwrap();
    bench.access.fetcher.token = http::Token::read(&secret).unwrap();
    bench.resolve("hf://org/react").await.unwrap();
    assert_eq!(format!("{:?}", bench.access.fetcher.token), "Some(Token(...))");
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_remedy() {
    let bench = Bench::new().await.with_hub();
    fs::create_dir_all(bench.access.claim_root.join("empty")).unwrap();
    let text = |error: resolve::ResolveError| failure::chain(&error);
    let error = text(bench.resolve("hf://org/react@v9").await.unwrap_err());
    assert!(error.contains("404 Not Found (RevisionNotFound): check the model URI and its revision"), "{error}");
    let error = text(bench.resolve("pvc://models/gone").await.unwrap_err());
    assert!(error.contains("pvc://models/gone does not exist: the claim has no folder"), "{error}");
    let error = text(bench.resolve("pvc://models/empty").await.unwrap_err());
    assert!(error.ends_with("pvc://models/empty has no files"), "{error}");
    let error = text(bench.resolve("ftp://x").await.unwrap_err());
    assert!(error.ends_with("needs one of the schemes hf://, pvc://, http://, https://"), "{error}");
    fs::write(bench.access.claim_root.join("empty/weights.onnx"), "x").unwrap();
    let error = text(bench.resolve("pvc://models/empty").await.unwrap_err());
    assert!(error.ends_with("the source has no config.json: give the folder that save_pretrained() writes"), "{error}");
    let optional = ResolveTask { uri: "pvc://models/empty".into(), shape: ShapeNeed::Optional };
    assert_eq!(resolve::run(&optional, &bench.access).await.unwrap().shape, None);
}

#[tokio::test]
async fn a_server_that_recovers_is_waited_for_and_one_that_does_not_is_infrastructure() {
    let bench = Bench::new().await.with_folder();
    bench.server.refuse("/m/manifest.json", &[StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS]);
    bench.resolve(&bench.folder_url()).await.unwrap();
    bench.server.refuse("/m/manifest.json", &[StatusCode::BAD_GATEWAY; 3]);
    let error = bench.resolve(&bench.folder_url()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Infrastructure);
    assert!(failure::chain(&error).ends_with("/m/manifest.json answered 502 Bad Gateway"));
}

#[tokio::test]
async fn a_checkpoint_that_the_store_lost_is_missed_and_not_taken_for_a_bad_model() {
    let bench = Bench::new().await.with_folder();
    let resolved = bench.resolve(&bench.folder_url()).await.unwrap();
    let store = bench.dir.path().join("store");
    let task = FetchTask { uri: resolved.uri, source_digest: resolved.source_digest.clone() };
    fetch::run(&task, &bench.access, &store).await.unwrap();
    fetch::check(&resolved.source_digest, &store).unwrap();
    fs::remove_file(store.join(paths::checkpoint_files(&resolved.source_digest)).join("model.safetensors")).unwrap();
    let error = fetch::check(&resolved.source_digest, &store).unwrap_err();
    assert_eq!(error.class(), FailureClass::MissingArtifact);
    let again = fetch::run(&task, &bench.access, &store).await.unwrap();
    assert!(again.transferred_bytes > 0, "fetched again: {again:?}");
    fetch::check(&resolved.source_digest, &store).unwrap();
}

#[tokio::test]
async fn a_busy_server_is_left_alone_for_as_long_as_it_asks() {
    let bench = Bench::new().await.with_folder();
    bench.server.refuse("/m/manifest.json", &[StatusCode::TOO_MANY_REQUESTS]).retry_after(1);
    let before = Instant::now();
    bench.resolve(&bench.folder_url()).await.unwrap();
    assert!(before.elapsed() >= Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test]
async fn nobody_listening_is_infrastructure_and_names_the_address() {
    let bench = Bench::new().await;
    // On a loopback address of its own: other tests take free ports of 127.0.0.1.
    let listener = std::net::TcpListener::bind("127.0.0.4:0").unwrap();
    let url = format!("http://{}/m/", listener.local_addr().unwrap());
    drop(listener);
    let error = bench.resolve(&url).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Infrastructure);
    let text = failure::chain(&error);
    assert!(text.contains(&format!("no answer from {url}manifest.json in 3 attempts")), "{text}");
}

#[tokio::test]
async fn a_list_or_archive_that_leaves_its_folder_is_refused() {
    let bench = Bench::new().await;
    let entry = format!(r#"{{"path":"../../x","size":1,"sha256":"{}"}}"#, hash::bytes(b"x"));
    bench.server.file("/m/manifest.json", format!("{{\"files\":[{entry}]}}"));
    let error = failure::chain(&bench.resolve(&bench.folder_url()).await.unwrap_err());
    assert!(error.ends_with("lists the file \"../../x\", which is not a relative path"), "{error}");

    let mut archive = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_entry_type(::tar::EntryType::Symlink);
    header.set_size(0);
    archive.append_link(&mut header, "model.safetensors", "/etc/passwd").unwrap();
    bench.server.file("/m.tar", archive.into_inner().unwrap());
    let uri = format!("{}/m.tar", bench.server.url);
    let error = failure::chain(&bench.resolve(&uri).await.unwrap_err());
    assert!(error.ends_with("model.safetensors is a link or device; pack plain files (tar --dereference)"), "{error}");
}

#[tokio::test]
async fn a_truncated_archive_is_an_error_and_leaves_no_checkpoint() {
    let bench = Bench::new().await;
    let whole = tar("");
    bench.server.file("/m.tar", whole[..20_000].to_vec());
    let uri = format!("{}/m.tar", bench.server.url);
    let digest = expected(&uri, None).source_digest;
    let error = bench.fetch(&uri, &digest).await.unwrap_err();
    assert!(error.contains("the archive") && error.contains("cannot be read"), "{error}");
    assert!(!bench.store().join(paths::checkpoint(&digest)).exists());
}
