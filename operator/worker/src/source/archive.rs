//! Models that are one archive over HTTP.
//!
//! The archive is read as a stream, once for the survey and once for the fetch; only requested parts are kept.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha256};
use slipway_worker_contract::Compression;
use tokio::sync::mpsc;

use super::{
    Access, QUANT_CONFIG, SourceError, Survey,
    listing::{SourceFile, common_folder},
    shape::header_length,
};
use crate::{hash, http::body_error};

/// Most bytes of a configuration: it is held in memory, and those of models have some kilobytes.
const MAX_CONFIG_BYTES: u64 = 32 << 20;
/// Most files: the list of them is held in memory. The largest checkpoints have some hundred.
const MAX_FILES: usize = 10_000;
/// Most bytes of all files: more than any model has. A few bytes of gzip may stand for as many as their author likes.
const MAX_BYTES: u64 = 4 << 40;
/// Chunks in flight between the network and the decoder.
const CHUNKS_IN_FLIGHT: usize = 16;

/// What an archive holds.
struct Contents {
    files: Vec<SourceFile>,
    config: Option<Vec<u8>>,
    quant_config: Option<Vec<u8>>,
    headers: BTreeMap<String, Vec<u8>>,
}

/// Where the entries' bytes go.
#[derive(Clone)]
enum Sink {
    Nowhere,
    Folder(PathBuf),
}

/// Hashes an archive's files and reads what the shape needs.
///
/// # Errors
/// [`SourceError`] if the archive cannot be read.
pub async fn survey(url: &str, compression: Compression, access: &Access) -> Result<Survey, SourceError> {
    let Contents { files, config, quant_config, headers } = stream(url, compression, access, Sink::Nowhere).await?;
    Ok(Survey { uri: url.to_owned(), commit: None, files, config, quant_config, headers })
}

/// Unpacks an archive into an empty folder; a folder around everything is dropped.
///
/// # Errors
/// [`SourceError`] if the archive cannot be read or a file cannot be written.
pub async fn unpack(
    url: &str,
    compression: Compression,
    access: &Access,
    folder: &Path,
) -> Result<Vec<SourceFile>, SourceError> {
    let staging = folder.with_extension("unpacking");
    let failed = |source| SourceError::Write { path: staging.clone(), source };
    if staging.exists() {
        fs::remove_dir_all(&staging).map_err(failed)?;
    }
    fs::create_dir_all(&staging).map_err(failed)?;
    let contents = stream(url, compression, access, Sink::Folder(staging.clone())).await?;
    let top = fs::read_dir(&staging).map_err(failed)?.flatten().map(|e| e.path()).next();
    let is_wrapped = contents.files.first().is_some_and(|file| !staging.join(&file.path).exists());
    let root = top.filter(|_| is_wrapped).unwrap_or_else(|| staging.clone());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::rename(root, folder).map_err(failed)?;
    if is_wrapped {
        fs::remove_dir_all(&staging).map_err(failed)?;
    }
    Ok(contents.files)
}

async fn stream(url: &str, compression: Compression, access: &Access, sink: Sink) -> Result<Contents, SourceError> {
    let mut response = access.fetcher.get(url, 0).await.map_err(SourceError::Http)?;
    let (sender, receiver) = mpsc::channel(CHUNKS_IN_FLIGHT);
    let reader = ChunkReader { chunks: receiver, current: Vec::new(), position: 0 };
    let decoder = tokio::task::spawn_blocking(move || match compression {
        Compression::None => read(reader, &sink),
        Compression::Gzip => read(GzDecoder::new(reader), &sink),
    });
    let broken = loop {
        match response.chunk().await {
            Ok(Some(chunk)) if sender.send(chunk.to_vec()).await.is_ok() => {}
            Ok(_) => break None,
            Err(error) => break Some(body_error(url, error)),
        }
    };
    drop(sender);
    let contents = decoder.await.map_err(SourceError::Interrupted)?;
    match broken {
        Some(error) => Err(SourceError::Http(error)),
        None => contents.map_err(|source| SourceError::Archive { url: url.to_owned(), source }),
    }
}

fn read(from: impl Read, sink: &Sink) -> io::Result<Contents> {
    let mut archive = tar::Archive::new(from);
    let mut contents = Contents { files: Vec::new(), config: None, quant_config: None, headers: BTreeMap::new() };
    let (mut configs, mut bytes) = (BTreeMap::new(), 0u64);
    for entry in archive.entries()? {
        let entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() {
            continue;
        }
        let path = relative_path(&entry.path()?)?;
        bytes = bytes.saturating_add(entry.size());
        if bytes > MAX_BYTES {
            let most = MAX_BYTES >> 40;
            return Err(io::Error::other(format!("its files have more than {most} TiB, which no model has")));
        }
        if !kind.is_file() {
            return Err(io::Error::other(format!("{path} is a link or device; pack plain files (tar --dereference)")));
        }
        if path.split('/').any(|part| part.starts_with('.')) {
            continue;
        }
        let (file, head) = read_entry(entry, &path, sink)?;
        match head {
            Head::None => {}
            Head::Config(bytes) => drop(configs.insert(path.clone(), bytes)),
            Head::Safetensors(header) => drop(contents.headers.insert(path.clone(), header)),
        }
        contents.files.push(file);
        if contents.files.len() > MAX_FILES {
            return Err(io::Error::other(format!("it holds more than {MAX_FILES} files: pack the model alone")));
        }
    }
    if contents.files.is_empty() {
        return Err(io::Error::other("it holds no files"));
    }
    unwrap_folder(&mut contents, &mut configs);
    contents.config = configs.remove("config.json");
    contents.quant_config = configs.remove(QUANT_CONFIG);
    contents.files.sort();
    Ok(contents)
}

fn unwrap_folder(contents: &mut Contents, configs: &mut BTreeMap<String, Vec<u8>>) {
    let Some(top) = common_folder(contents.files.iter().map(|f| f.path.as_str())) else { return };
    let strip = |path: &str| path.strip_prefix(&format!("{top}/")).unwrap_or(path).to_owned();
    for file in &mut contents.files {
        file.path = strip(&file.path);
    }
    for map in [&mut contents.headers, configs] {
        *map = std::mem::take(map).into_iter().map(|(path, bytes)| (strip(&path), bytes)).collect();
    }
}

fn relative_path(path: &Path) -> io::Result<String> {
    let text = path.to_str().ok_or_else(|| io::Error::other("it has a file name that is not UTF-8"))?;
    let text = text.trim_start_matches("./");
    if text.is_empty() || text.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(io::Error::other(format!("it has the entry {text:?}, which is not a relative path")));
    }
    Ok(text.to_owned())
}

/// The part of a file that the shape is read from.
enum Head {
    None,
    Config(Vec<u8>),
    Safetensors(Vec<u8>),
}

fn read_entry(mut entry: impl Read, path: &str, sink: &Sink) -> io::Result<(SourceFile, Head)> {
    let mut out: Box<dyn Write> = match sink {
        Sink::Nowhere => Box::new(io::sink()),
        Sink::Folder(folder) => {
            let target = folder.join(path);
            fs::create_dir_all(target.parent().unwrap_or(folder))?;
            Box::new(File::create(target)?)
        }
    };
    let mut head = Vec::new();
    let is_config = matches!(path.rsplit('/').next(), Some("config.json" | QUANT_CONFIG));
    if is_config {
        entry.by_ref().take(MAX_CONFIG_BYTES + 1).read_to_end(&mut head)?;
        if head.len() as u64 > MAX_CONFIG_BYTES {
            let most = MAX_CONFIG_BYTES >> 20;
            return Err(io::Error::other(format!(
                "{path} has more than {most} MiB, which no model's configuration has"
            )));
        }
    } else if path.ends_with(".safetensors") {
        entry.by_ref().take(8).read_to_end(&mut head)?;
        if let Ok(length) = header_length(path, &head) {
            entry.by_ref().take(length).read_to_end(&mut head)?;
        }
    }
    let mut hash = Sha256::new_with_prefix(&head);
    out.write_all(&head)?;
    let mut size = head.len() as u64;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = entry.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        out.write_all(&buffer[..n])?;
        size += n as u64;
    }
    let file = SourceFile { path: path.to_owned(), size, sha256: hash::finish(hash) };
    let head = match (is_config, head.len()) {
        (true, _) => Head::Config(head),
        (false, 8..) => Head::Safetensors(head.split_off(8)),
        (false, _) => Head::None,
    };
    Ok((file, head))
}

/// Reads what an asynchronous task sends.
struct ChunkReader {
    chunks: mpsc::Receiver<Vec<u8>>,
    current: Vec<u8>,
    position: usize,
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.current.len() {
            match self.chunks.blocking_recv() {
                None => return Ok(0),
                Some(chunk) => (self.current, self.position) = (chunk, 0),
            }
        }
        let n = buffer.len().min(self.current.len() - self.position);
        buffer[..n].copy_from_slice(&self.current[self.position..self.position + n]);
        self.position += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of files of spaces.
    fn archive(files: impl IntoIterator<Item = (String, u64)>) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, size) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(size);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, io::repeat(b' ').take(size)).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn refusal(archive: &[u8]) -> String {
        read(archive, &Sink::Nowhere).map(|contents| contents.files.len()).unwrap_err().to_string()
    }

    /// The worker would end for its memory limit, and nobody would know why.
    #[test]
    fn a_configuration_is_read_no_further_than_its_bound() {
        let larger = archive([("m/config.json".to_owned(), MAX_CONFIG_BYTES + 1)]);
        assert_eq!(refusal(&larger), "m/config.json has more than 32 MiB, which no model's configuration has");
    }

    #[test]
    fn an_archive_of_more_bytes_than_any_model_has_is_refused_before_they_are_read() {
        let head = |path: &str, size: u64| {
            let mut header = tar::Header::new_gnu();
            header.set_path(path).unwrap();
            header.set_size(size);
            header.set_mode(0o644);
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        let small = archive([("a.bin".to_owned(), 512)]);
        // Without the blocks that end an archive.
        let bomb = [&small[..1024], &head("b.bin", MAX_BYTES)].concat();
        assert_eq!(refusal(&bomb), "its files have more than 4 TiB, which no model has");
    }

    #[test]
    fn an_archive_of_too_many_files_is_refused() {
        let many = archive((0..=MAX_FILES).map(|number| (format!("{number}.txt"), 0)));
        assert_eq!(refusal(&many), "it holds more than 10000 files: pack the model alone");
    }
}
