//! Numbers in few bytes: most of them are small, or near the one before. Pure.

/// Bits of a byte that belong to its number; the highest says whether another byte follows.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// Numbers in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Packed(Box<[u8]>);

impl Packed {
    /// Those that are given.
    pub(super) fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut bytes = Vec::new();
        numbers.into_iter().for_each(|number| push(&mut bytes, number));
        Self(bytes.into_boxed_slice())
    }

    /// The numbers again.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        let mut bytes = self.0.iter();
        std::iter::from_fn(move || pull(&mut bytes))
    }

    /// Bytes that they take.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & u64::from(MORE - 1)).unwrap_or_default();
        number >>= BITS;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | MORE);
    }
}

fn pull<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes.next()?;
        number |= u64::from(byte & (MORE - 1)).checked_shl(shift)?;
        if *byte < MORE {
            return Some(number);
        }
        shift += BITS;
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_are_read_again_as_they_were_kept_and_small_ones_take_a_byte() {
        let all = [0, 1, 127, 128, 300, 70_000, u64::from(u32::MAX), 1 << 62, u64::MAX];
        assert_eq!(Packed::of(all).numbers().collect::<Vec<_>>(), all);
        assert_eq!((Packed::of(0..128).len(), Packed::of([]).len()), (128, 0));
        assert_eq!(Packed::default().numbers().next(), None);
    }
}
