//! Server-sent events, as far as an answer has them: the data of each. Pure.
//!
//! Format: <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.

use crate::backend::BackendError;

/// Most bytes of one line: far above a piece of text, far below a pod's memory.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Puts events together from the bytes of an answer, wherever these are cut.
#[derive(Debug, Default)]
pub struct Events {
    /// The line that has not ended.
    line: Vec<u8>,
    /// The data of the event that has not ended.
    data: Option<String>,
}

impl Events {
    /// Takes the next bytes and gives the data of the events that end in them.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, BackendError> {
        let mut events = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.line.extend_from_slice(part);
            if self.line.len() > MAX_LINE_BYTES {
                let problem = format!("a line is longer than {MAX_LINE_BYTES} bytes");
                return Err(BackendError::Protocol { problem });
            }
            if parts.peek().is_some() {
                events.extend(self.end_line());
            }
        }
        Ok(events)
    }

    /// A line has ended; an empty one ends an event.
    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_suffix('\r').unwrap_or(&line);
        if line.is_empty() {
            return self.data.take();
        }
        // Comments, names and ids of events say nothing here.
        if let Some(text) = line.strip_prefix("data:") {
            let text = text.strip_prefix(' ').unwrap_or(text);
            match &mut self.data {
                None => self.data = Some(text.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(text);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const ANSWER: &str = ": ping\n\ndata: {\"text\":\"é\"}\r\n\r\nevent: x\nid: 1\ndata:a\ndata: b\n\ndata: [DONE]\n\n";

    fn events(parts: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        parts.iter().flat_map(|part| events.push(part).expect("short lines")).collect()
    }

    #[test]
    fn events_have_the_data_of_their_lines() {
        assert_eq!(events(&[ANSWER.as_bytes()]), ["{\"text\":\"é\"}", "a\nb", "[DONE]"]);
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
        assert_eq!(error.to_string(), "the engine's answer cannot be read: a line is longer than 1048576 bytes");
    }
}
