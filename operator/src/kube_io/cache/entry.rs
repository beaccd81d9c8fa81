//! An object as it is kept: its version, the labels by which it is found, and itself as text. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use slipway_crds::labels;

use super::pattern::Packed;

/// Labels by which objects are found without being read.
pub(super) const KEYS: [&str; 5] =
    [labels::APP_MANAGED_BY, labels::APP_COMPONENT, labels::AGENT_DEPLOYMENT, labels::ENGINE, labels::PROFILE];

/// What a line begins with that says what an object is concerned by: no digit, as those of labels do.
const CONCERN: char = '*';

/// One of the objects.
#[derive(Debug)]
pub(super) struct Entry {
    /// The version; then, a line each, the place of a label's key and its value, and what it is concerned by.
    head: Box<str>,
    body: Packed,
    /// The list that has shown it last.
    pub(super) listed: u32,
}

impl Entry {
    /// Keeps an object whose text is packed already, with what it is concerned by.
    pub(super) fn of(metadata: &ObjectMeta, concerns: &[String], body: Packed, listed: u32) -> Self {
        let mut head = metadata.resource_version.clone().unwrap_or_default();
        let found = |key: &str| metadata.labels.as_ref()?.get(key);
        for (place, value) in ('0'..).zip(KEYS).filter_map(|(place, key)| Some((place, found(key)?))) {
            head.push('\n');
            head.push(place);
            head.push_str(value);
        }
        for concern in concerns {
            head.push('\n');
            head.push(CONCERN);
            head.push_str(concern);
        }
        Self { head: head.into_boxed_str(), body, listed }
    }

    /// Its resource version.
    pub(super) fn version(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The value of one of the [`KEYS`], where it is labelled with that.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        let (place, _) = ('0'..).zip(KEYS).find(|(_, of)| *of == key)?;
        self.head.split('\n').skip(1).find_map(|line| line.strip_prefix(place))
    }

    /// Whether it is concerned by one of these.
    pub(super) fn is_concerned_by(&self, any: &[String]) -> bool {
        let mut concerns = self.head.split('\n').skip(1).filter_map(|line| line.strip_prefix(CONCERN));
        concerns.any(|concern| any.iter().any(|of| of == concern))
    }

    /// Itself.
    pub(super) fn body(&self) -> &Packed {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::kube_io::cache::pattern::Pattern;

    #[test]
    fn an_object_is_found_by_version_labels_and_concerns() {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let all = [label(labels::AGENT_DEPLOYMENT, "support"), label(labels::ENGINE, ""), label("app", "x")];
        let metadata =
            ObjectMeta { resource_version: Some("7".to_owned()), labels: Some(all.into()), ..ObjectMeta::default() };
        let mut pattern = Pattern::default();
        let entry = Entry::of(&metadata, &["job/a".to_owned()], pattern.pack(b"{}"), 1);
        let found = [labels::AGENT_DEPLOYMENT, labels::ENGINE, labels::PROFILE, "app"].map(|key| entry.label(key));
        assert_eq!(
            (entry.version(), pattern.unpack(entry.body()).as_deref(), found),
            ("7", Some(b"{}".as_slice()), [Some("support"), Some(""), None, None])
        );
        let by = |of: &str| entry.is_concerned_by(&["engine/a".to_owned(), of.to_owned()]);
        assert_eq!([by("job/a"), by("job/b"), by("support")], [true, false, false]);
        let bare = Entry::of(&ObjectMeta::default(), &[], pattern.pack(b""), 1);
        assert_eq!((bare.version(), bare.label(labels::ENGINE)), ("", None));
    }
}
