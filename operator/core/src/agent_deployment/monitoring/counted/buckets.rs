//! Buckets with their counts, in few bytes: most counts are small, and most buckets are near the one before. Pure.

/// Bits of a byte that belong to its number; the highest says whether another byte follows.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// The buckets of a histogram in their order, each as its distance from the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Buckets(Box<[u8]>);

impl Buckets {
    /// Those that are given in their order.
    pub(super) fn of(pairs: impl IntoIterator<Item = (u16, u32)>) -> Self {
        let (mut bytes, mut before) = (Vec::new(), 0_u16);
        for (bucket, count) in pairs {
            push(&mut bytes, u32::from(bucket.wrapping_sub(before)));
            push(&mut bytes, count);
            before = bucket;
        }
        Self(bytes.into_boxed_slice())
    }

    /// The buckets, each with its count.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u16, u32)> {
        let (mut bytes, mut before) = (self.0.iter(), 0_u16);
        std::iter::from_fn(move || {
            let (distance, count) = (pull(&mut bytes)?, pull(&mut bytes)?);
            before = before.wrapping_add(u16::try_from(distance).ok()?);
            Some((before, count))
        })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.iter().filter(|byte| **byte < MORE).count() / 2
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u32) {
    loop {
        let low = u8::try_from(number & u32::from(MORE - 1)).unwrap_or_default();
        number >>= BITS;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | MORE);
    }
}

fn pull<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u32> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes.next()?;
        number |= u32::from(byte & (MORE - 1)).checked_shl(shift)?;
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
    fn buckets_are_read_again_as_they_were_kept_and_take_two_bytes_where_they_are_near() {
        let all = vec![(0, 1), (1, 127), (128, 128), (255, 1), (640, 70_000), (u16::MAX, u32::MAX)];
        let kept = Buckets::of(all.clone());
        assert_eq!((kept.pairs().collect::<Vec<_>>(), kept.len()), (all, 6));
        let near: Vec<(u16, u32)> = (600..642).map(|bucket| (bucket, 30)).collect();
        let kept = Buckets::of(near.clone());
        assert_eq!((kept.pairs().collect::<Vec<_>>(), kept.0.len()), (near, 2 * 42 + 1));
        assert_eq!((Buckets::default().pairs().next(), Buckets::default().len()), (None, 0));
    }
}
