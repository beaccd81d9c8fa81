//! Prometheus itself, on samples that were written for it.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use slipway_operator::{promql::Prometheus, settings_file};
use slipway_vocabulary::failure::chain;
use tempfile::TempDir;

/// How long Prometheus may take to come up.
const LIMIT: Duration = Duration::from_secs(60);

/// A Prometheus that ends with the test.
pub struct Server {
    process: Child,
    folder: TempDir,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The Prometheus of a configuration file with this block.
pub fn configured(folder: &TempDir, prometheus: &str) -> Result<Prometheus, String> {
    let file = folder.path().join("config.yaml");
    let path = folder.path().display();
    let yaml = format!("images: {{worker: w, agentRuntime: r}}\nprometheus: {{folder: {path}, {prometheus}}}\n");
    fs::write(&file, yaml).unwrap();
    let settings = settings_file::read(&file).map_err(|error| chain(&error))?;
    Ok(Prometheus::connect(&settings.prometheus).map_err(|error| chain(&error))?.unwrap())
}

fn import(folder: &Path, samples: &str) {
    fs::write(folder.join("samples.txt"), samples).unwrap();
    let arguments = ["tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"];
    let output = Command::new("promtool").args(arguments).current_dir(folder).output();
    let output = output.expect("`make test-alerts` installs promtool");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl Server {
    /// Starts it with these samples, in the text format of OpenMetrics.
    pub fn start(samples: &str) -> Self {
        let folder = TempDir::new().unwrap();
        import(folder.path(), samples);
        fs::write(folder.path().join("prometheus.yaml"), "{}").unwrap();
        // On a loopback address of its own: other tests take free ports of 127.0.0.1.
        let address = TcpListener::bind("127.0.0.3:0").unwrap().local_addr().unwrap().to_string();
        let process = Command::new("prometheus")
            .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .expect("`make test-alerts` installs Prometheus");
        Self { process, folder, address }
    }

    /// The client, once the server answers.
    pub async fn client(&self) -> Prometheus {
        // One that has failed is left alone for a minute: until it is up, each question is somebody else's.
        let fresh = || configured(&self.folder, &format!("url: 'http://{}'", self.address)).unwrap();
        let up = async {
            while fresh().ask("team", "vector(1)").await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        tokio::time::timeout(LIMIT, up).await.unwrap_or_else(|_| panic!("{}", log()));
        fresh()
    }
}
