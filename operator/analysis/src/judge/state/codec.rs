//! Bytes and text of the judge's memory. Pure.

use super::StateError;

/// The versions of a memory that a program reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    pub known: &'static [u8],
    /// The same for people.
    pub words: &'static str,
}

/// Appends fixed-width numbers, little-endian.
#[derive(Default)]
pub(crate) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// Lists are bounded by constants below 256.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.u8(items.len() as u8);
        items.iter().for_each(|item| write(self, item));
    }
}

/// Takes them back.
pub(crate) struct Reader<'a> {
    pub bytes: &'a [u8],
    pub offset: usize,
    /// The version of what is read.
    pub version: u8,
}

impl Reader<'_> {
    pub fn damaged(&self) -> StateError {
        StateError::Damaged { offset: self.offset }
    }

    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let rest =
            self.bytes.get(self.offset..).and_then(|rest| rest.first_chunk::<N>()).ok_or_else(|| self.damaged())?;
        self.offset += N;
        Ok(*rest)
    }

    pub fn u8(&mut self) -> Result<u8, StateError> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, StateError> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, StateError> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, StateError> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn f32(&mut self) -> Result<f32, StateError> {
        self.u32().map(f32::from_bits)
    }

    pub fn list<T>(
        &mut self,
        most: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, StateError>,
    ) -> Result<Vec<T>, StateError> {
        let length = usize::from(self.u8()?);
        if length > most {
            return Err(self.damaged());
        }
        (0..length).map(|_| read(self)).collect()
    }
}

const ALPHABET: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Encodes bytes, a multiple of four of them.
pub(crate) fn z85_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 4 * 5);
    for chunk in bytes.chunks_exact(4) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let digit = |power: u32| char::from(ALPHABET[(word / 85_u32.pow(power) % 85) as usize]);
        text.extend((0..5).rev().map(digit));
    }
    text
}

pub(crate) fn z85_decode(text: &str) -> Result<Vec<u8>, StateError> {
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4);
    for (block, chunk) in text.as_bytes().chunks(5).enumerate() {
        let damaged = StateError::Damaged { offset: block * 5 };
        let mut word = 0_u32;
        for character in chunk {
            let digit = ALPHABET.iter().position(|letter| letter == character).ok_or_else(|| damaged.clone())?;
            let shifted = word.checked_mul(85).and_then(|word| word.checked_add(digit as u32));
            word = shifted.ok_or_else(|| damaged.clone())?;
        }
        if chunk.len() != 5 {
            return Err(damaged);
        }
        bytes.extend(word.to_be_bytes());
    }
    Ok(bytes)
}

/// Seals bytes into a text: padded to whole words, with a checksum, after the version and a colon.
pub(crate) fn seal(version: u8, mut bytes: Vec<u8>) -> String {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let check = checksum(&bytes);
    bytes.extend(check.to_le_bytes());
    format!("{version}:{}", z85_encode(&bytes))
}

/// Opens a sealed text of one of the versions. Up to three bytes of padding follow the content.
pub(crate) fn open(text: &str, versions: &Versions) -> Result<(u8, Vec<u8>), StateError> {
    let (found, body) = text.split_once(':').unwrap_or((text, ""));
    let version = versions.known.iter().copied().find(|known| known.to_string() == found);
    let Some(version) = version else {
        return Err(StateError::Version { found: found.chars().take(16).collect(), known: versions.words });
    };
    let mut bytes = z85_decode(body)?;
    let (body, check) = bytes.split_last_chunk::<4>().ok_or(StateError::Damaged { offset: bytes.len() })?;
    if checksum(body) != u32::from_le_bytes(*check) {
        return Err(StateError::Damaged { offset: body.len() });
    }
    bytes.truncate(bytes.len() - 4);
    Ok((version, bytes))
}

/// FNV-1a, 32 bits.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
