//! What turns a chat's prompts into tokens. Pure.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use minijinja::Value;
use slipway_vocabulary::ToolCallDialect;

use crate::{
    agent::{dialect, marks::Marks},
    backend::tokens::Tokenizer,
};

/// A tokenizer, and what of it a template alone may write.
pub struct Vocabulary {
    tokenizer: Arc<Tokenizer>,
    /// Marks in texts of people and tools.
    theirs: Marks,
    /// The same in texts of the model, which writes those of its calls and thoughts.
    models: Marks,
}

/// Makes something, or nothing where it cannot be made.
type Make<T> = Box<dyn FnOnce() -> Option<Arc<T>> + Send>;

/// Makes a tokenizer for the first run: it takes far more memory than all else of an idle sidecar.
pub type MakeTokenizer = Make<Tokenizer>;

/// A vocabulary that is made when it is needed.
pub struct LazyVocabulary {
    made: OnceLock<Option<Arc<Vocabulary>>>,
    make: Mutex<Option<Make<Vocabulary>>>,
}

/// Who wrote a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The model.
    Model,
    /// Anybody else.
    Other,
}

impl LazyVocabulary {
    /// Of a checkpoint with these templates, whose model writes this dialect.
    pub fn new(make: MakeTokenizer, templates: String, dialect: ToolCallDialect) -> Self {
        let vocabulary = move || make().map(|tokenizer| Arc::new(Vocabulary::new(tokenizer, &templates, dialect)));
        Self { made: OnceLock::new(), make: Mutex::new(Some(Box::new(vocabulary))) }
    }

    /// The vocabulary. The first who asks makes it, and all others wait.
    pub fn get(&self) -> Option<&Arc<Vocabulary>> {
        let make = || self.make.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.made.get_or_init(|| make().and_then(|make| make())).as_ref()
    }

    /// Whether nobody has to wait for it.
    pub fn is_made(&self) -> bool {
        self.made.get().is_some()
    }
}

impl Vocabulary {
    fn new(tokenizer: Arc<Tokenizer>, templates: &str, dialect: ToolCallDialect) -> Self {
        let all = tokenizer.marks(templates);
        let own = dialect::marks(dialect);
        let models = all.iter().filter(|mark| !own.contains(&mark.as_str())).cloned();
        let models = Marks::new(models);
        Self { theirs: Marks::new(all), models, tokenizer }
    }

    /// Of an agent whose prompts this template begins: a transcript has no marks of the model.
    pub fn of_transcript(tokenizer: Arc<Tokenizer>, template: &str) -> Self {
        let marks = Marks::new(tokenizer.marks(template));
        Self { theirs: marks.clone(), models: marks, tokenizer }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// How many tokens a text has by itself.
    pub fn count(&self, text: &str) -> u32 {
        let tokens = self.tokenizer.encode_behind(None, text, &[]);
        tokens.map_or(0, |tokens| u32::try_from(tokens.len()).unwrap_or(u32::MAX))
    }

    /// A text for the template, whose marks do not count.
    pub fn harmless<'a>(&self, author: Author, text: &'a str) -> Cow<'a, str> {
        match author {
            Author::Model => self.models.broken(text),
            Author::Other => self.theirs.broken(text),
        }
    }

    /// The same for a value.
    pub fn harmless_value(&self, value: &Value) -> Value {
        self.theirs.broken_value(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_vocabulary_is_made_once_when_somebody_asks() {
        let made = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&made);
        let make = move || {
            counts.fetch_add(1, Ordering::Relaxed);
            None
        };
        let vocabulary = LazyVocabulary::new(Box::new(make), String::new(), ToolCallDialect::Hermes);
        assert_eq!((vocabulary.is_made(), made.load(Ordering::Relaxed)), (false, 0));
        assert!(vocabulary.get().is_none() && vocabulary.get().is_none());
        assert_eq!((vocabulary.is_made(), made.load(Ordering::Relaxed)), (true, 1));
    }
}
