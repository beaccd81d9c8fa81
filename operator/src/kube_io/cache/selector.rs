//! Selectors of labels, as the operator writes them: `key=value` and `key`, joined by commas. Pure.

use std::collections::BTreeMap;

/// What must hold of the labels of an object.
pub(super) struct Selector<'a>(Vec<(&'a str, Option<&'a str>)>);

impl<'a> Selector<'a> {
    /// Reads a selector; an empty one selects everything.
    pub(super) fn parse(text: &'a str) -> Self {
        let parts = text.split(',').filter(|part| !part.is_empty());
        Self(parts.map(|part| part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)))).collect())
    }

    /// Whether the labels of an object are selected.
    pub(super) fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let label = |key: &str| labels.and_then(|labels| labels.get(key));
        self.0.iter().all(|(key, wanted)| label(key).is_some_and(|value| wanted.is_none_or(|wanted| wanted == value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_selected_by_their_values_or_by_being_there() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]);
        let selected = |text| Selector::parse(text).matches(Some(&labels));
        assert_eq!(
            ["", "a=1", "a", "b", "b=", "a=1,b", "a=2", "c", "a=1,c=1"].map(selected),
            [true, true, true, true, true, true, false, false, false]
        );
        assert!(Selector::parse("").matches(None) && !Selector::parse("a").matches(None));
    }
}
