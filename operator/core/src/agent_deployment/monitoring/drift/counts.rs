//! Counts as text, a fifth as long as their JSON. Pure.

use slipway_analysis::drift::baseline::Counts;
use slipway_vocabulary::evidence::Histogram;

/// `COUNT ERRORS BUCKETS` in hexadecimal, where buckets are runs of neighbours, `FIRST:COUNT,COUNT`, separated by
/// semicolons.
pub fn write(counts: &Counts) -> String {
    let mut text = format!("{:x} {:x} ", counts.count, counts.errors);
    let mut next = None;
    for (index, count) in counts.buckets.pairs() {
        let piece = match next {
            Some(next) if next == index => format!(",{count:x}"),
            Some(_) => format!(";{index:x}:{count:x}"),
            None => format!("{index:x}:{count:x}"),
        };
        text.push_str(&piece);
        next = Some(index.saturating_add(1));
    }
    text
}

/// Reads what [`write`] wrote; `None` for any other text.
pub fn read(text: &str) -> Option<Counts> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut parts = text.split(' ');
    let (count, errors, runs) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let mut pairs = Vec::new();
    for run in runs.split(';').filter(|run| !run.is_empty()) {
        let (first, counted) = run.split_once(':')?;
        let first = u16::from_str_radix(first, 16).ok()?;
        for (offset, count) in counted.split(',').enumerate() {
            pairs.push((first.checked_add(u16::try_from(offset).ok()?)?, number(count)?));
        }
    }
    Some(Counts { count, errors, buckets: Histogram::from_pairs(pairs).ok()? })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_share_the_place_of_the_first() {
        let buckets = Histogram::from_pairs([(16, 1), (17, 255), (20, 2)]).expect("buckets of the table");
        let text = write(&Counts { count: 300, errors: 42, buckets });
        assert_eq!(text, "12c 2a 10:1,ff;14:2");
    }

    #[test]
    fn another_text_is_none() {
        let texts = ["", "1", "1 2", "1 2 3", "1 2 3:x", "1 2 zz:1", "1 2 800:1", "1 2 10:1 ", "1 2 ffff:1,1"];
        assert_eq!(texts.map(|text| read(text).is_some()), [false; 9]);
    }

    proptest! {
        #[test]
        fn counts_read_back(
            pairs in prop::collection::vec((0..2_048u16, 1..u64::from(u32::MAX)), 0..300),
            (count, errors) in any::<(u64, u64)>(),
        ) {
            let buckets = Histogram::from_pairs(pairs).expect("buckets of the table");
            let counts = Counts { count, errors, buckets };
            prop_assert_eq!(read(&write(&counts)), Some(counts));
        }
    }
}
