//! Headers of a mounted Secret, such as a key. IO.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::mounted::{self, File, ReadMountedError};

/// Why the directory of headers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeadersError {
    /// The directory or a file in it cannot be read.
    #[error("the mounted headers cannot be read")]
    Read(#[source] ReadMountedError),
    /// A file's name or content is not a header.
    #[error(
        "{path} is not an HTTP header: the file's name is the header's name, and its content is the value, on one line"
    )]
    Invalid {
        /// The file.
        path: String,
    },
}

/// Reads a mounted Secret: one header per file.
pub(crate) async fn read_headers(directory: &str) -> Result<HeaderMap, HeadersError> {
    let header = |File { name, path, text }: File| {
        let header = HeaderName::try_from(name).ok().zip(HeaderValue::from_str(text.trim_end()).ok());
        let (name, mut value) = header.ok_or(HeadersError::Invalid { path })?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    mounted::files(directory).await.map_err(HeadersError::Read)?.into_iter().map(header).collect()
}
