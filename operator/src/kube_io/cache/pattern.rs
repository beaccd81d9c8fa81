//! Texts of objects of a kind, packed: most of what one says, others have said before it. Pure.

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// Bytes of texts that others are packed with.
const MOST: usize = 16 * 1024;

/// Texts that are unlike those before them. It only grows, so what was packed with a part of it stays readable.
#[derive(Debug, Default)]
pub(super) struct Pattern(Vec<u8>);

/// A text.
#[derive(Debug)]
pub(super) struct Packed {
    text: Box<[u8]>,
    /// Bytes that it has unpacked.
    bytes: u32,
    /// Bytes of the pattern that it was packed with.
    pattern: u32,
}

impl Pattern {
    /// Packs a text.
    pub(super) fn pack(&mut self, text: &[u8]) -> Packed {
        let packed = compress_with_dict(text, &self.0).into_boxed_slice();
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let (bytes, pattern) = (size(text.len()), size(self.0.len()));
        if packed.len() * 2 > text.len() && self.0.len() + text.len() <= MOST {
            self.0.extend_from_slice(text);
        }
        Packed { text: packed, bytes, pattern }
    }

    /// The text again.
    pub(super) fn unpack(&self, Packed { text, bytes, pattern }: &Packed) -> Option<Vec<u8>> {
        let size = |bytes: u32| usize::try_from(bytes).ok();
        decompress_with_dict(text, size(*bytes)?, self.0.get(..size(*pattern)?)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn text(number: usize) -> Vec<u8> {
        let owner = "\"ownerReferences\":[{\"apiVersion\":\"slipway.dev/v1alpha1\",\"controller\":true}]";
        format!("{{\"metadata\":{{\"name\":\"agent-{number}\",\"uid\":\"{:032x}\",{owner}}}}}", number * 7_919)
            .into_bytes()
    }

    #[test]
    fn texts_that_are_alike_take_little_and_are_read_again_as_they_were() {
        let mut pattern = Pattern::default();
        let texts: Vec<Vec<u8>> = (0..100).map(text).chain([Vec::new(), b"x".to_vec(), vec![b'y'; 100_000]]).collect();
        let packed: Vec<Packed> = texts.iter().map(|text| pattern.pack(text)).collect();
        let again: Vec<Option<Vec<u8>>> = packed.iter().map(|packed| pattern.unpack(packed)).collect();
        assert_eq!(again, texts.iter().cloned().map(Some).collect::<Vec<_>>());
        let size = |of: std::ops::Range<usize>| packed[of].iter().map(|packed| packed.text.len()).sum::<usize>();
        let whole: usize = texts[1..100].iter().map(Vec::len).sum();
        assert!(size(1..100) * 2 < whole, "{} of {whole} bytes", size(1..100));
        assert!(pattern.0.len() < 4 * texts[0].len(), "what is alike is kept once: {}", pattern.0.len());
    }

    #[test]
    fn texts_that_are_all_different_make_no_pattern_without_end() {
        let mut pattern = Pattern::default();
        let mut number = 1_u64;
        for _ in 0..100 {
            let bytes = std::iter::from_fn(|| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                number.to_be_bytes().first().copied()
            });
            let text: Vec<u8> = bytes.take(500).collect();
            let packed = pattern.pack(&text);
            assert_eq!(pattern.unpack(&packed), Some(text));
        }
        assert!(pattern.0.len() <= MOST && pattern.0.len() > MOST / 2);
    }
}
