//! The name of a tenant. Pure.

use std::{borrow::Borrow, fmt, sync::Arc};

/// The longest name, in characters.
pub const MAX_TENANT_CHARACTERS: usize = 128;

/// Who calls, as its token says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// A tenant of this name; nothing where it is empty, too long, or not one line without space around it.
    pub fn new(name: &str) -> Option<Self> {
        let is_name = (1..=MAX_TENANT_CHARACTERS).contains(&name.chars().count())
            && name.trim() == name
            && !name.chars().any(char::is_control);
        is_name.then(|| Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Tenant {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
