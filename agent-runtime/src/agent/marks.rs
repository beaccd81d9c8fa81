//! Marks of a chat template, such as `<|im_end|>`, in texts that others wrote. Pure.
//!
//! A tokenizer makes a special token of each mark, no matter who wrote it. So a character that no text has is put into
//! the marks of questions and results, before the template sees them. It is taken out of the rendered prompt again, and
//! no token lies across its places.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use minijinja::{Value, value::ValueKind};

/// Unicode keeps it for programs' own use: it is not for exchange. A text that has it nevertheless loses it.
const BREAK: char = '\u{FDD0}';

/// Texts that the template alone may write.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// By their first character.
    of: BTreeMap<char, Vec<String>>,
    /// The bytes that one of them may begin at: few texts have these.
    begins: Vec<u8>,
}

/// A prompt, and where no token may lie across.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its text.
    pub text: String,
    /// Places in it, in order.
    pub cuts: Vec<usize>,
}

impl Marks {
    /// Of these texts.
    pub fn new(marks: impl IntoIterator<Item = String>) -> Self {
        let mut of: BTreeMap<char, Vec<String>> = BTreeMap::new();
        for mark in marks {
            if let Some(first) = mark.chars().next() {
                of.entry(first).or_default().push(mark);
            }
        }
        let firsts = of.keys().copied().chain([BREAK]);
        let begins: BTreeSet<u8> = firsts.map(|first| first.encode_utf8(&mut [0; 4]).as_bytes()[0]).collect();
        Self { of, begins: begins.into_iter().collect() }
    }

    /// The same text with its marks broken.
    pub fn broken<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let begins_mark = |at: usize, first: char| {
            let rest = text.get(at..).unwrap_or_default();
            self.of.get(&first).is_some_and(|marks| marks.iter().any(|mark| rest.starts_with(mark)))
        };
        let mut broken = String::new();
        let mut done = 0;
        let places = text.bytes().enumerate().filter(|(_, byte)| self.begins.contains(byte));
        let places = places.filter_map(|(at, _)| Some((at, text.get(at..)?.chars().next()?)));
        for (at, first) in places {
            let next = at + first.len_utf8();
            if first == BREAK {
                broken.push_str(&text[done..at]);
                done = next;
            } else if begins_mark(at, first) {
                broken.push_str(&text[done..next]);
                broken.push(BREAK);
                done = next;
            }
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        broken.push_str(&text[done..]);
        Cow::Owned(broken)
    }

    /// The same for all texts of a value.
    pub fn broken_value(&self, value: &Value) -> Value {
        match (value.kind(), value.as_str(), value.try_iter()) {
            (_, Some(text), _) => Value::from(self.broken(text).as_ref()),
            (ValueKind::Map, None, Ok(keys)) => Value::from_pairs(keys.map(|key| {
                let inner = value.get_item(&key).unwrap_or_default();
                (self.broken_value(&key), self.broken_value(&inner))
            })),
            (ValueKind::Seq | ValueKind::Iterable, None, Ok(items)) => {
                Value::from(items.map(|item| self.broken_value(&item)).collect::<Vec<_>>())
            }
            _ => value.clone(),
        }
    }
}

impl Written {
    /// A text without such places.
    pub fn plain(text: String) -> Self {
        Self { text, cuts: Vec::new() }
    }

    /// What a template rendered from texts with broken marks.
    pub fn rendered(text: String) -> Self {
        if !text.contains(BREAK) {
            return Self::plain(text);
        }
        let mut written = Self::default();
        for (index, part) in text.split(BREAK).enumerate() {
            if index > 0 {
                written.cuts.push(written.text.len());
            }
            written.text.push_str(part);
        }
        written
    }

    /// What follows its first bytes.
    pub fn behind(&self, begin: usize) -> Self {
        let text = self.text.get(begin..).unwrap_or_default().to_owned();
        let cuts = self.cuts.iter().filter(|cut| **cut > begin).map(|cut| cut - begin).collect();
        Self { text, cuts }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn marks() -> Marks {
        Marks::new(["<|im_end|>", "<|im_start|>", "[INST]"].map(str::to_owned))
    }

    #[test]
    fn marks_are_broken_and_nothing_else_is() {
        assert!(matches!(marks().broken("1 < 2 <|im_|> [INS]"), Cow::Borrowed(_)));
        let broken = marks().broken("a<|im_end|>[INST]\u{FDD0}b");
        assert_eq!(broken, "a<\u{FDD0}|im_end|>[\u{FDD0}INST]b");
        let written = Written::rendered(broken.into_owned());
        assert_eq!(written, Written { text: "a<|im_end|>[INST]b".to_owned(), cuts: vec![2, 12] });
        assert_eq!(written.behind(2), Written { text: "|im_end|>[INST]b".to_owned(), cuts: vec![10] });
    }

    #[test]
    fn marks_are_broken_wherever_a_value_has_them() {
        let value = Value::from_pairs([
            ("q", Value::from(vec![Value::from("<|im_end|>"), Value::from(5)])),
            ("[INST]", Value::from(())),
        ]);
        let broken = marks().broken_value(&value);
        assert_eq!(broken.get_attr("q").unwrap().get_item_by_index(0).unwrap().as_str(), Some("<\u{FDD0}|im_end|>"));
        assert_eq!(broken.get_attr("q").unwrap().get_item_by_index(1).unwrap().as_i64(), Some(5));
        assert!(broken.get_attr("[\u{FDD0}INST]").unwrap().is_none());
    }

    proptest! {
        #[test]
        fn a_text_is_itself_again_and_every_mark_has_a_cut(text in "[<>|_a-z\\[\\]INSTé]{0,8}(<\\|im_end\\|>|\\[INST\\]|[a-zé]){0,5}") {
            let written = Written::rendered(marks().broken(&text).into_owned());
            prop_assert_eq!(&written.text, &text);
            for mark in ["<|im_end|>", "[INST]"] {
                for (at, _) in text.match_indices(mark) {
                    prop_assert!(written.cuts.iter().any(|cut| at < *cut && *cut < at + mark.len()));
                }
            }
        }
    }
}
