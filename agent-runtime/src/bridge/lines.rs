//! Lines of a program: bounded, and what of one beyond the bound is known. IO.

use std::{fmt, io};

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Most bytes of a line: as many as the sidecar reads of an answer.
pub(super) const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// The beginning of one beyond the bound. The rest was passed over.
    Long(Vec<u8>),
}

/// The next line; nothing once there are no more.
pub(super) async fn next(output: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Line>> {
    let (mut line, mut is_long) = (Vec::new(), false);
    loop {
        let read = output.fill_buf().await?;
        if read.is_empty() && line.is_empty() {
            return Ok(None);
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        let kept = part.len().min(MAX_LINE_BYTES - line.len());
        is_long |= kept < part.len();
        line.extend_from_slice(&part[..kept]);
        let (used, is_last) = (end.map_or(read.len(), |end| end + 1), end.is_some() || read.is_empty());
        output.consume(used);
        if is_last {
            return Ok(Some(if is_long { Line::Long(line) } else { Line::Whole(line) }));
        }
    }
}

/// What the beginning of a message says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Which request it answers.
    pub(super) id: Option<u64>,
    /// Whether it is a request or a notification instead of an answer.
    pub(super) has_method: bool,
}

impl Head {
    /// Reads a message that is cut off.
    pub(super) fn of(beginning: &[u8]) -> Self {
        let mut head = Self::default();
        if let Err(error) = serde_json::Deserializer::from_slice(beginning).deserialize_map(&mut head) {
            tracing::debug!(%error, "the message is cut off");
        }
        head
    }
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            self.has_method |= name == "method";
            if name == "id" {
                self.id = fields.next_value::<Value>()?.as_u64();
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[tokio::test]
    async fn lines_are_read_to_their_end_and_kept_to_a_bound() {
        let long = "x".repeat(MAX_LINE_BYTES + 9);
        let text = format!("one\n\n{long}\n{}\nlast", &long[..MAX_LINE_BYTES]);
        let mut output = text.as_bytes();
        let mut lines = Vec::new();
        while let Some(line) = next(&mut output).await.expect("memory can be read") {
            lines.push(line);
        }
        let bound = long.as_bytes()[..MAX_LINE_BYTES].to_vec();
        let whole = |line: &str| Line::Whole(line.into());
        assert!(lines == [whole("one"), whole(""), Line::Long(bound.clone()), Line::Whole(bound), whole("last")]);
    }

    #[rstest]
    #[case::answer(r#"{"jsonrpc":"2.0","id":7,"result":{"content":["xx"#, Some(7), false)]
    #[case::id_behind(r#"{"jsonrpc":"2.0","result":{"id":3,"content":["xx"#, None, false)]
    #[case::notification(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"xx"#, None, true)]
    #[case::no_message("xxxxxx", None, false)]
    fn the_beginning_of_a_message_tells_whom_it_answers(
        #[case] beginning: &str,
        #[case] id: Option<u64>,
        #[case] has_method: bool,
    ) {
        assert_eq!(Head::of(beginning.as_bytes()), Head { id, has_method });
    }
}
