//! What turns a chat's prompts into tokens. Pure.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
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
pub struct LazyVocabulary(LazyLock<Option<Arc<Vocabulary>>, Make<Vocabulary>>);

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
        Self(LazyLock::new(Box::new(vocabulary)))
    }

    /// The vocabulary. The first who asks makes it.
    pub fn get(&self) -> Option<&Arc<Vocabulary>> {
        self.0.as_ref()
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
