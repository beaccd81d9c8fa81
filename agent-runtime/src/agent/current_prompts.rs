//! The prompts of an agent whose tools may change.

use std::sync::{PoisonError, RwLock};

use crate::tools::Catalog;

use super::{chat::ChatFormatError, prompt::Prompts};

/// What writes the prompts of runs that begin now. A run keeps what it began with.
pub struct CurrentPrompts(RwLock<Prompts>);

impl CurrentPrompts {
    /// Begins with these.
    pub fn new(prompts: Prompts) -> Self {
        Self(RwLock::new(prompts))
    }

    /// Those of now.
    pub fn get(&self) -> Prompts {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes other tools for later runs.
    ///
    /// # Errors
    /// The template cannot show them: nothing changes.
    pub fn take(&self, catalog: &Catalog) -> Result<(), ChatFormatError> {
        let prompts = self.get().with_tools(catalog)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = prompts;
        Ok(())
    }
}
