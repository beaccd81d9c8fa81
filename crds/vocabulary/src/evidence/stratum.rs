//! The strata within which the judge compares: like with like. Pure.

use std::{error::Error, fmt, str::FromStr};

/// Whether a unit's answer or prefix came from a cache, and whether the cache had had time to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheState {
    /// The pod's caches are still filling after its start; the judge leaves these units out in both arms.
    Cold,
    /// Served from a cache.
    Hit,
    /// Computed.
    Miss,
}

/// What a unit looked like when it was admitted. Latency depends on all three, so arms are compared within a stratum.
///
/// On the wire: `miss/p11/f2`, that is the cache state, `floor(log2(characters that the user wrote))` and
/// `floor(log2(units in flight, the new one included))`. Bands are log2 so that neighbouring loads share one. The
/// length is that of the part of the prompt that no revision decides. With the system prompt in it, a revision that
/// changes the system prompt could share no stratum with the one before. Then nothing would ever be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stratum {
    /// The cache state.
    pub cache: CacheState,
    /// `floor(log2(max(1, characters that the user wrote)))`.
    pub prompt_band: u8,
    /// `floor(log2(max(1, units in flight on the pod, this one included)))`.
    pub in_flight_band: u8,
}

impl Stratum {
    /// Makes the stratum of a unit from the characters that the user wrote and the number of units in flight at its
    /// admission, itself included.
    #[must_use]
    pub const fn new(cache: CacheState, user_characters: u64, in_flight: u64) -> Self {
        Self { cache, prompt_band: log2_band(user_characters), in_flight_band: log2_band(in_flight) }
    }
}

/// Returns `floor(log2(max(1, value)))`.
const fn log2_band(value: u64) -> u8 {
    if value == 0 { 0 } else { value.ilog2() as u8 }
}

impl fmt::Display for Stratum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = match self.cache {
            CacheState::Cold => "cold",
            CacheState::Hit => "hit",
            CacheState::Miss => "miss",
        };
        write!(f, "{cache}/p{}/f{}", self.prompt_band, self.in_flight_band)
    }
}

/// The text is not a stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StratumError {
    text: String,
}

impl fmt::Display for StratumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stratum {:?} is not of the form cold|hit|miss/p<0-63>/f<0-63>", self.text)
    }
}

impl Error for StratumError {}

impl FromStr for Stratum {
    type Err = StratumError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| StratumError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Stratum> {
    let mut parts = text.split('/');
    let cache = match parts.next()? {
        "cold" => CacheState::Cold,
        "hit" => CacheState::Hit,
        "miss" => CacheState::Miss,
        _ => return None,
    };
    let prompt_band = band(parts.next()?.strip_prefix('p')?)?;
    let in_flight_band = band(parts.next()?.strip_prefix('f')?)?;
    parts.next().is_none().then_some(Stratum { cache, prompt_band, in_flight_band })
}

fn band(text: &str) -> Option<u8> {
    text.parse().ok().filter(|band| *band < 64)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{CacheState, Stratum};

    #[test]
    fn a_stratum_reads_back_from_its_text() {
        for cache in [CacheState::Cold, CacheState::Hit, CacheState::Miss] {
            let stratum = Stratum::new(cache, 3_000, 5);
            assert_eq!(stratum.to_string().parse(), Ok(stratum));
        }
        assert_eq!(Stratum::new(CacheState::Miss, 3_000, 5).to_string(), "miss/p11/f2");
        assert_eq!(Stratum::new(CacheState::Hit, 0, 0).to_string(), "hit/p0/f0");
    }

    #[test]
    fn other_text_is_refused_with_the_form() {
        for text in ["", "warm/p1/f1", "miss/p1", "miss/p64/f0", "miss/p1/f1/x", "miss/1/1"] {
            let error = text.parse::<Stratum>().unwrap_err();
            assert_eq!(error.to_string(), format!("stratum {text:?} is not of the form cold|hit|miss/p<0-63>/f<0-63>"));
        }
    }
}
