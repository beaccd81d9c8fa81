//! Server-sent events, as a client reads them: the data of each, and where a stream could be taken up again. Pure.
//!
//! Format: <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.

use std::{io::BufRead, time::Duration};

/// Most bytes of one line: far above a piece of text, far below a pod's memory.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Most bytes of an event, whose data may have many lines.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Puts events together from the bytes of an answer, wherever these are cut.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The line that has not ended.
    line: Vec<u8>,
    /// The data of the event that has not ended.
    data: Option<Vec<u8>>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// Something has no end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TooLong {
    /// A line.
    #[error("a line is longer than {MAX_LINE_BYTES} bytes")]
    Line,
    /// An event.
    #[error("an event is longer than {MAX_EVENT_BYTES} bytes")]
    Event,
}

impl Events {
    /// Takes the next bytes and gives the data of the events that end in them.
    ///
    /// # Errors
    /// A line or an event without an end.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        // Bytes that are there can always be read.
        while rest.read_until(b'\n', &mut self.line).is_ok_and(|read| read > 0) {
            let is_whole = self.line.pop_if(|byte| *byte == b'\n').is_some();
            if self.line.len() > MAX_LINE_BYTES {
                return Err(TooLong::Line);
            }
            if is_whole {
                events.extend(self.end_line());
                self.line.clear();
                if self.data.as_ref().is_some_and(|data| data.len() > MAX_EVENT_BYTES) {
                    return Err(TooLong::Event);
                }
            }
        }
        Ok(events)
    }

    /// The name of the last event that had one.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long to wait before the stream is taken up again, if the server says.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// A line has ended; an empty one ends an event.
    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.is_empty() {
            return self.data.take();
        }
        let field = |name: &[u8]| {
            let value = line.strip_prefix(name)?.strip_prefix(b":")?;
            Some(value.strip_prefix(b" ").unwrap_or(value))
        };
        let text = |name: &[u8]| field(name).and_then(|value| std::str::from_utf8(value).ok());
        // Comments and names of events say nothing here.
        if let Some(value) = field(b"data") {
            match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            }
        } else if let Some(id) = text(b"id").filter(|id| !id.contains('\0')) {
            self.last_id = Some(id.to_owned());
        } else if let Some(milliseconds) = text(b"retry").and_then(|retry| retry.parse().ok()) {
            self.retry = Some(Duration::from_millis(milliseconds));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const ANSWER: &str = ": ping\n\ndata: {\"text\":\"é\"}\r\n\r\nevent: x\nid: 1\ndata:a\ndata: b\n\nretry: 250\n\
                          id: 2\n\ndata\n\ndata: [DONE]\n\n";

    fn events(parts: &[&[u8]]) -> (Vec<String>, Option<String>, Option<Duration>) {
        let mut events = Events::default();
        let data = parts.iter().flat_map(|part| events.push(part).expect("short lines"));
        let data = data.map(|data| String::from_utf8(data).expect("it is text")).collect();
        (data, events.last_id().map(str::to_owned), events.retry())
    }

    #[test]
    fn events_have_the_data_of_their_lines() {
        let data = ["{\"text\":\"é\"}", "a\nb", "[DONE]"].map(str::to_owned).to_vec();
        assert_eq!(events(&[ANSWER.as_bytes()]), (data, Some("2".into()), Some(Duration::from_millis(250))));
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
        let whole = events(&[ANSWER.as_bytes()]);
        for at in 0..ANSWER.len() {
            let (first, second) = ANSWER.as_bytes().split_at(at);
            assert_eq!(events(&[first, second]), whole, "cut at {at}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let error = Events::default().push(&vec![b'x'; MAX_LINE_BYTES + 1]).expect_err("too long");
        assert_eq!(error.to_string(), "a line is longer than 1048576 bytes");
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let line = format!("data: {}\n", "x".repeat(MAX_LINE_BYTES - 6));
        let mut events = Events::default();
        let error = (0..9).find_map(|_| events.push(line.as_bytes()).err()).expect("too long");
        assert_eq!(error.to_string(), "an event is longer than 4194304 bytes");
    }
}
