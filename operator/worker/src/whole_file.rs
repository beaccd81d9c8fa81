//! Writes a small file whole or not at all: a volume may be full, a Job may end at any moment, and another Job may
//! write the same file.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Files that killed Jobs may leave of one file until it cannot be written any more.
const MOST_PARTIAL: usize = 1000;

/// Writes a file and the folders above it, and makes sure that both are on the volume. Until it is whole it has a name
/// of this writer's own. Where writing fails, nothing stays.
///
/// # Errors
/// What the system said.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let (partial, mut file) = partial(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&partial, path));
    written.inspect_err(|_| drop(fs::remove_file(&partial)))?;
    File::open(folder)?.sync_all()
}

/// The first free name beside a file: the volume tells writers apart, and pods have the same process ids.
fn partial(path: &Path) -> io::Result<(PathBuf, File)> {
    let names = (0..MOST_PARTIAL).map(|number| path.with_extension(format!("{number}.partial")));
    let mut created = names.map(|name| File::create_new(&name).map(|file| (name, file)));
    let is_taken = |made: &io::Result<_>| matches!(made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
    created.find(|made| !is_taken(made)).unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/scores.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(&dir.path().join("a/b")), ["scores.json"]);
    }

    #[test]
    fn writers_of_one_file_leave_one_of_theirs_and_none_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scores.json");
        let text = |writer: u8| vec![b'a' + writer; 200_000];
        std::thread::scope(|scope| {
            let path = &path;
            let writers = [0, 1, 2, 3]
                .map(|writer| scope.spawn(move || (0..20).try_for_each(|_| super::write(path, &text(writer)))));
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
        });
        let left = fs::read(&path).unwrap();
        assert!((0..4).any(|writer| left == text(writer)), "{} bytes", left.len());
        assert_eq!(names(dir.path()), ["scores.json"]);
    }

    #[test]
    fn nothing_stays_of_a_file_that_cannot_be_put_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        // A folder with something in it bears the name.
        fs::create_dir_all(dir.path().join("scores.json/in-the-way")).unwrap();
        assert!(write(&dir.path().join("scores.json"), b"one").is_err());
        assert_eq!(names(dir.path()), ["scores.json"]);
    }
}
