//! A pull parser for JSON of any size: reads a stream through one small buffer, never a whole value. Reads IO.
//!
//! `serde_json` either needs the text in memory or reads byte by byte through `std::io::Read`; traces of several
//! gigabytes want neither. Grammar: RFC 8259; numbers are handed out as text, because a double cannot hold a time of
//! nineteen digits.

use std::io::{self, Read};

/// Why the text is not JSON, with the byte where that showed.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The stream ended inside a value.
    #[error("the file ends in the middle of a value at byte {at}")]
    Truncated {
        /// Offset in the uncompressed text.
        at: u64,
    },
    /// A byte that the grammar does not allow there.
    #[error("byte {at} should be {expected} and is {found:?}")]
    Unexpected {
        /// Offset in the uncompressed text.
        at: u64,
        /// What the grammar wants.
        expected: &'static str,
        /// What is there.
        found: char,
    },
    /// The stream failed.
    #[error("failed to read at byte {at}")]
    Read {
        /// Offset in the uncompressed text.
        at: u64,
        /// What the system or the decompressor said.
        #[source]
        source: io::Error,
    },
}

/// Nesting beyond this is refused; the bound keeps the parser's memory constant.
const DEEPEST: u32 = 512;

/// The parser.
pub struct Scanner<R> {
    reader: R,
    buffer: Box<[u8]>,
    position: usize,
    filled: usize,
    consumed: u64,
}

impl<R: Read> Scanner<R> {
    /// Starts at the beginning of a stream.
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; 1 << 18].into_boxed_slice(), position: 0, filled: 0, consumed: 0 }
    }

    /// Returns the offset of the next byte in the stream.
    pub fn offset(&self) -> u64 {
        self.consumed + self.position as u64
    }

    /// Returns the next byte that is not white space, without taking it.
    ///
    /// # Errors
    /// When the stream ends or fails.
    pub fn peek(&mut self) -> Result<u8, ScanError> {
        loop {
            let byte = self.byte()?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Ok(byte);
            }
            self.position += 1;
        }
    }

    /// Takes one structural byte.
    ///
    /// # Errors
    /// When something else is there.
    pub fn expect(&mut self, wanted: u8, expected: &'static str) -> Result<(), ScanError> {
        let found = self.peek()?;
        if found != wanted {
            return Err(self.unexpected(expected, found));
        }
        self.position += 1;
        Ok(())
    }

    /// Takes `,` and returns true, or takes the closing byte and returns false; call before every element.
    ///
    /// # Errors
    /// When neither is there.
    pub fn more(&mut self, first: &mut bool, close: u8) -> Result<bool, ScanError> {
        let byte = self.peek()?;
        if byte == close {
            self.position += 1;
            return Ok(false);
        }
        if std::mem::replace(first, false) {
            return Ok(true);
        }
        if byte != b',' {
            return Err(self.unexpected("a comma or the end of the list", byte));
        }
        self.position += 1;
        Ok(true)
    }

    /// Takes a string into `text`, replacing what was there.
    ///
    /// # Errors
    /// When no string is there.
    pub fn string(&mut self, text: &mut Vec<u8>) -> Result<(), ScanError> {
        text.clear();
        self.expect(b'"', "a string")?;
        loop {
            let chunk = self.chunk()?;
            let length = chunk.iter().position(|&byte| byte == b'"' || byte == b'\\').unwrap_or(chunk.len());
            text.extend_from_slice(&chunk[..length]);
            let at_end = length == chunk.len();
            self.position += length;
            if at_end {
                continue;
            }
            self.position += 1;
            if self.buffer[self.position - 1] == b'"' {
                return Ok(());
            }
            self.escape(text)?;
        }
    }

    /// Takes an object's key and its colon.
    ///
    /// # Errors
    /// When no key is there.
    pub fn key(&mut self, text: &mut Vec<u8>) -> Result<(), ScanError> {
        self.string(text)?;
        self.expect(b':', "a colon")
    }

    /// Takes a scalar as text: the content of a string, or the characters of a number or literal. Containers are
    /// skipped and leave the text empty.
    ///
    /// # Errors
    /// When no value is there.
    pub fn scalar(&mut self, text: &mut Vec<u8>) -> Result<(), ScanError> {
        match self.peek()? {
            b'"' => self.string(text),
            b'{' | b'[' => {
                text.clear();
                self.skip()
            }
            _ => self.bare(text),
        }
    }

    /// Takes a value of any kind and drops it.
    ///
    /// # Errors
    /// When no value is there.
    pub fn skip(&mut self) -> Result<(), ScanError> {
        let mut depth = 0u32;
        loop {
            match self.peek()? {
                b'"' => self.skip_string()?,
                found @ (b'{' | b'[') => {
                    depth += 1;
                    if depth > DEEPEST {
                        return Err(self.unexpected("a value nested less deeply", found));
                    }
                    self.position += 1;
                }
                found @ (b'}' | b']') => {
                    if depth == 0 {
                        return Err(self.unexpected("a value", found));
                    }
                    depth -= 1;
                    self.position += 1;
                }
                b',' | b':' if depth > 0 => self.position += 1,
                _ => self.skip_bare()?,
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Makes the error for a byte that should not be there.
    pub fn unexpected(&self, expected: &'static str, found: u8) -> ScanError {
        ScanError::Unexpected { at: self.offset(), expected, found: char::from(found) }
    }

    fn bare(&mut self, text: &mut Vec<u8>) -> Result<(), ScanError> {
        text.clear();
        loop {
            let byte = self.byte()?;
            if !is_bare(byte) {
                break;
            }
            text.push(byte);
            self.position += 1;
        }
        if text.is_empty() {
            let found = self.byte()?;
            return Err(self.unexpected("a value", found));
        }
        Ok(())
    }

    fn skip_bare(&mut self) -> Result<(), ScanError> {
        let first = self.byte()?;
        if !is_bare(first) {
            return Err(self.unexpected("a value", first));
        }
        while is_bare(self.byte()?) {
            self.position += 1;
        }
        Ok(())
    }

    fn skip_string(&mut self) -> Result<(), ScanError> {
        self.position += 1;
        loop {
            let chunk = self.chunk()?;
            let length = chunk.iter().position(|&byte| byte == b'"' || byte == b'\\').unwrap_or(chunk.len());
            let at_end = length == chunk.len();
            self.position += length;
            if at_end {
                continue;
            }
            self.position += 1;
            if self.buffer[self.position - 1] == b'"' {
                return Ok(());
            }
            self.byte()?;
            self.position += 1;
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), ScanError> {
        let byte = self.byte()?;
        self.position += 1;
        let plain = match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => return self.unicode(text),
            // Kineto writes names of Windows paths unescaped; the character itself is the most useful reading.
            other => other,
        };
        text.push(plain);
        Ok(())
    }

    fn unicode(&mut self, text: &mut Vec<u8>) -> Result<(), ScanError> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.byte()?;
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(self.unexpected("a hexadecimal digit", byte));
            };
            code = code * 16 + digit;
            self.position += 1;
        }
        // Halves of surrogate pairs only occur in labels; each becomes the replacement character.
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, ScanError> {
        if self.position == self.filled {
            self.fill()?;
        }
        Ok(self.buffer[self.position])
    }

    fn chunk(&mut self) -> Result<&[u8], ScanError> {
        if self.position == self.filled {
            self.fill()?;
        }
        Ok(&self.buffer[self.position..self.filled])
    }

    #[cold]
    fn fill(&mut self) -> Result<(), ScanError> {
        self.consumed += self.filled as u64;
        (self.position, self.filled) = (0, 0);
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Err(ScanError::Truncated { at: self.consumed }),
                Ok(length) => {
                    self.filled = length;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ScanError::Read { at: self.consumed, source }),
            }
        }
    }
}

/// Says whether a byte belongs to a number or a literal; `NaN` and `Infinity` pass, since older tools wrote them.
#[inline]
const fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    /// Hands out one byte per read, so that every token crosses a boundary.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            (buffer[0], self.0) = (*first, rest);
            Ok(1)
        }
    }

    #[test]
    fn tokens_cross_the_edges_of_the_buffer() {
        let mut scanner = Scanner::new(Trickle(br#" {"a\"\u00e9\n" : [1, {"x": "\\"}, -2.5e3], "b":"c"}"#));
        let (mut text, mut first) = (Vec::new(), true);

        scanner.expect(b'{', "an object").unwrap();
        assert!(scanner.more(&mut first, b'}').unwrap());
        scanner.key(&mut text).unwrap();
        assert_eq!(String::from_utf8_lossy(&text), "a\"\u{e9}\n");
        scanner.skip().unwrap();
        assert!(scanner.more(&mut first, b'}').unwrap());
        scanner.key(&mut text).unwrap();
        scanner.scalar(&mut text).unwrap();
        assert_eq!(text, b"c");
        assert!(!scanner.more(&mut first, b'}').unwrap());
    }

    #[rstest]
    #[case("[1, 2", "the file ends in the middle of a value at byte 5")]
    #[case("{\"a\": \"b", "the file ends in the middle of a value at byte 8")]
    #[case("]", "byte 0 should be a value and is ']'")]
    #[case("\u{1}", "byte 0 should be a value and is '\\u{1}'")]
    fn broken_text_is_named_with_its_place(#[case] text: &str, #[case] message: &str) {
        assert_eq!(Scanner::new(text.as_bytes()).skip().unwrap_err().to_string(), message);
    }

    #[test]
    fn nesting_is_bounded() {
        let text = "[".repeat(100_000);

        let error = Scanner::new(text.as_bytes()).skip().unwrap_err();

        assert_eq!(error.to_string(), "byte 512 should be a value nested less deeply and is '['");
    }
}
