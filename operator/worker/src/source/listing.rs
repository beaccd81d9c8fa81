//! Lists of a source's files, and the digests that stand for them. Pure.

use serde::{Deserialize, Serialize};
use slipway_worker_contract::Digest;

use crate::hash;

/// One file of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceFile {
    /// Relative path with forward slashes.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the whole file.
    pub sha256: Digest,
}

/// Files that a tokenizer consists of, by name, at the source's root.
const TOKENIZER_FILES: [&str; 9] = [
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
];

/// Returns the digest of a source: SHA-256 of one line `<sha256>  <size>  <path>` per file, sorted by path.
pub fn source_digest(files: &[SourceFile]) -> Digest {
    let mut sorted: Vec<&SourceFile> = files.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let lines: String = sorted.iter().map(|f| format!("{}  {}  {}\n", f.sha256, f.size, f.path)).collect();
    hash::bytes(lines.as_bytes())
}

/// Returns the digest of the tokenizer's files alone, if there are any.
pub fn tokenizer_digest(files: &[SourceFile]) -> Option<Digest> {
    let tokenizer: Vec<SourceFile> =
        files.iter().filter(|f| TOKENIZER_FILES.contains(&f.path.as_str())).cloned().collect();
    (!tokenizer.is_empty()).then(|| source_digest(&tokenizer))
}

/// Says whether a hub's file belongs to the model as engines are built from it.
///
/// Hidden files, documentation and pictures are left out. So are weights in other formats if the repository has
/// safetensors at its root (many carry the same weights two or three times).
pub fn is_wanted(path: &str, has_safetensors: bool) -> bool {
    const NEVER: [&str; 8] = [".md", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".ipynb"];
    const OTHER_WEIGHTS: [&str; 9] = [".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx", ".onnx_data", ".ot"];
    let hidden = path.split('/').any(|part| part.starts_with('.'));
    let lower = path.to_ascii_lowercase();
    let ends = |list: &[&str]| list.iter().any(|end| lower.ends_with(end));
    let superfluous = hidden || ends(&NEVER) || has_safetensors && ends(&OTHER_WEIGHTS);
    !superfluous
}

/// Says whether a file has the weights of an adapter (huggingface/peft, src/peft/utils/constants.py:
/// `SAFETENSORS_WEIGHTS_NAME`, `WEIGHTS_NAME`). They count for no model.
pub fn is_of_adapter(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("adapter_model."))
}

/// Returns the first folder of all paths if they share one and none lies outside it: `tar czf m.tgz model/`.
pub fn common_folder<'a>(mut paths: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = paths.next()?.split_once('/')?.0;
    paths.all(|path| path.split_once('/').is_some_and(|(top, _)| top == first)).then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> SourceFile {
        SourceFile { path: path.into(), size: path.len() as u64, sha256: hash::bytes(path.as_bytes()) }
    }

    #[test]
    fn the_source_digest_does_not_depend_on_the_order_and_never_changes() {
        let digest = source_digest(&[file("config.json"), file("model.safetensors")]);
        assert_eq!(source_digest(&[file("model.safetensors"), file("config.json")]), digest);
        // Golden: engines are identified by it, so that another value would rebuild every engine.
        assert_eq!(digest.as_str(), "659d035026693a318b788e46742c6d48373ff9bdb073f53f077658776640c6a1");
    }

    #[test]
    fn the_tokenizer_has_a_digest_of_its_own() {
        let files = [file("tokenizer.json"), file("model.safetensors"), file("merges.txt")];
        assert_eq!(tokenizer_digest(&files), Some(source_digest(&[file("merges.txt"), file("tokenizer.json")])));
        assert_eq!(tokenizer_digest(&files[1..2]), None);
    }

    #[test]
    fn a_repository_with_safetensors_loses_its_second_weights_and_its_papers() {
        let wanted = |path| is_wanted(path, true);
        assert!(wanted("model-00001-of-00002.safetensors") && wanted("tokenizer.model") && wanted("config.json"));
        assert!(!wanted("pytorch_model.bin") && !wanted("original/consolidated.00.pth"));
        assert!(!wanted(".gitattributes") && !wanted("README.md"));
        assert!(is_wanted("pytorch_model.bin", false));
    }

    #[test]
    fn one_folder_around_everything_is_found() {
        assert_eq!(common_folder(["m/a", "m/b/c"].into_iter()), Some("m".into()));
        assert_eq!(common_folder(["m/a", "b"].into_iter()), None);
        assert_eq!(common_folder(["a"].into_iter()), None);
    }
}
