//! How much of an engine's folder counts as weights.

use std::{fs, path::Path};

use pretty_assertions::assert_eq;
use slipway_preflight::weights;

fn file(folder: &Path, name: &str, mib: u64) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    fs::File::create(path).and_then(|file| file.set_len(mib << 20)).expect("a file with holes");
}

#[test]
fn of_weights_in_two_formats_the_larger_counts_and_nothing_else_does() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "checkpoint/model-00001-of-00002.safetensors", 600);
    file(folder.path(), "checkpoint/model-00002-of-00002.safetensors", 500);
    file(folder.path(), "checkpoint/pytorch_model.bin", 1_000);
    file(folder.path(), "checkpoint/tokenizer.json", 4_000);
    assert_eq!(weights::mib(folder.path()).expect("it is readable"), 1_100);
}

#[test]
fn ranks_of_an_engine_count_together() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "engine/rank0.engine", 70);
    file(folder.path(), "engine/rank1.engine", 70);
    assert_eq!(weights::mib(folder.path()).expect("it is readable"), 140);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = weights::mib(Path::new("/nowhere/engine")).expect_err("it is not there");
    assert_eq!(error.to_string(), "failed to read /nowhere/engine");
}
