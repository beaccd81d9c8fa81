//! Selectors of labels, as the operator writes them: `key=value` and `key`, joined by commas. Pure.

/// What must hold of the labels of an object.
pub(super) struct Selector<'a>(Vec<(&'a str, Option<&'a str>)>);

impl<'a> Selector<'a> {
    /// Reads a selector; an empty one selects everything.
    pub(super) fn parse(text: &'a str) -> Self {
        let parts = text.split(',').filter(|part| !part.is_empty());
        Self(parts.map(|part| part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)))).collect())
    }

    /// Whether it asks for no other labels than these.
    pub(super) fn is_of(&self, keys: &[&str]) -> bool {
        self.0.iter().all(|(key, _)| keys.contains(key))
    }

    /// Whether an object with these labels is selected.
    pub(super) fn matches<'b>(&self, label: impl Fn(&str) -> Option<&'b str>) -> bool {
        self.0.iter().all(|(key, wanted)| label(key).is_some_and(|value| wanted.is_none_or(|wanted| wanted == value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_selected_by_their_values_or_by_being_there() {
        let label = |key: &str| match key {
            "a" => Some("1"),
            "b" => Some(""),
            _ => None,
        };
        let selected = |text| Selector::parse(text).matches(label);
        assert_eq!(
            ["", "a=1", "a", "b", "b=", "a=1,b", "a=2", "c", "a=1,c=1"].map(selected),
            [true, true, true, true, true, true, false, false, false]
        );
        let is_of = |text| Selector::parse(text).is_of(&["a", "b"]);
        assert_eq!(["", "a=1,b", "a=1,c"].map(is_of), [true, true, false]);
    }
}
