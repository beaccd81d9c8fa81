//! Tells the formats of trace files apart. Pure.

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SQLite export of Nsight Systems.
    Nsys,
    /// Chrome trace of Kineto, plain or gzip.
    Kineto,
}

/// Why a file is of no format that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Nothing in it.
    #[error("the file is empty; wait until the profiler has written it")]
    Empty,
    /// Nsight Systems' own format.
    #[error(
        "this is a report of Nsight Systems, not its export; run `nsys export --type=sqlite --output=x.sqlite x.nsys-rep` \
         and pass x.sqlite"
    )]
    Report,
    /// Nsight Compute's format.
    #[error(
        "this is a report of Nsight Compute, which holds single kernels and no timeline; pass an Nsight Systems export"
    )]
    Compute,
    /// Anything else.
    #[error(
        "the file is neither SQLite (an `nsys export --type=sqlite`) nor JSON (a torch.profiler chrome trace, plain or .gz)"
    )]
    Unknown,
}

/// Returns the format from the file's name and its first bytes; the bytes decide, the name explains.
///
/// # Errors
/// When it cannot be read, with what to do instead.
pub fn detect(name: &str, head: &[u8]) -> Result<Format, FormatError> {
    if head.starts_with(b"SQLite format 3\0") {
        return Ok(Format::Nsys);
    }
    if is_gzip(head) {
        return Ok(Format::Kineto);
    }
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    let lower = name.to_ascii_lowercase();
    match first {
        Some(b'{' | b'[') => Ok(Format::Kineto),
        _ if lower.ends_with(".nsys-rep") || lower.ends_with(".qdrep") || lower.ends_with(".qdstrm") => {
            Err(FormatError::Report)
        }
        _ if lower.ends_with(".ncu-rep") => Err(FormatError::Compute),
        None => Err(FormatError::Empty),
        Some(_) => Err(FormatError::Unknown),
    }
}

/// Says whether a file is compressed with gzip (RFC 1952).
#[must_use]
pub fn is_gzip(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a.sqlite", b"SQLite format 3\0\x10", Ok(Format::Nsys))]
    #[case("a.db", b"SQLite format 3\0\x10", Ok(Format::Nsys))]
    #[case("a.json", b"\n  {\n", Ok(Format::Kineto))]
    #[case("a.pt.trace.json.gz", b"\x1f\x8b\x08", Ok(Format::Kineto))]
    #[case("a.nsys-rep", b"\x01\x02", Err(FormatError::Report))]
    #[case("a.ncu-rep", b"NVR\0", Err(FormatError::Compute))]
    #[case("a.json", b"", Err(FormatError::Empty))]
    #[case("a.csv", b"Time (%)", Err(FormatError::Unknown))]
    fn bytes_decide_and_names_explain(
        #[case] name: &str,
        #[case] head: &[u8],
        #[case] format: Result<Format, FormatError>,
    ) {
        assert_eq!(detect(name, head), format);
    }

    #[test]
    fn a_report_is_answered_with_the_export_command() {
        assert_eq!(
            FormatError::Report.to_string(),
            "this is a report of Nsight Systems, not its export; run `nsys export --type=sqlite --output=x.sqlite \
             x.nsys-rep` and pass x.sqlite"
        );
    }
}
