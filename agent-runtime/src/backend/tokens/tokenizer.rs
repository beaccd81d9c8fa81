//! A checkpoint's tokenizer, and the tokens at which its model ends. Reads files.

use std::{
    collections::BTreeSet,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Decode, DecodeError};

/// Files that name the tokens at which a model ends: what it generates with comes before what it is.
const CONFIGURATIONS: [&str; 2] = ["generation_config.json", "config.json"];

/// Turns prompts into tokens, and tokens into text.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The token that the tokenizer puts before every text, where it does.
    begin: Option<u32>,
    ends: Vec<u32>,
}

/// Why a folder holds no tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is not a tokenizer.
    #[error("{} is not a usable tokenizer: save it again with save_pretrained()", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The file is not the configuration of a checkpoint.
    #[error("{} is not the configuration of a checkpoint: eos_token_id is a number or a list of numbers", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// A text has no tokens.
#[derive(Debug, thiserror::Error)]
#[error("the tokenizer cannot turn the prompt into tokens")]
pub struct EncodeError(#[source] Box<dyn Error + Send + Sync>);

/// What is read of a checkpoint's configuration.
#[derive(Deserialize)]
struct Configuration {
    eos_token_id: Option<Ends>,
}

/// Models that were tuned for chats have several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ends {
    One(u32),
    Several(Vec<u32>),
}

impl Tokenizer {
    /// Reads `tokenizer.json` and, where they are, the checkpoint's configurations beside it.
    ///
    /// # Errors
    /// [`TokenizerError`] names the file.
    pub fn read(folder: &Path) -> Result<Self, TokenizerError> {
        let path = folder.join("tokenizer.json");
        let bytes = fs::read(&path).map_err(|source| TokenizerError::Read { path: path.clone(), source })?;
        let unusable = |source| TokenizerError::Tokenizer { path: path.clone(), source };
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(unusable)?;
        // Files keep what their training was limited to; the engine says itself what is too long for it.
        inner.with_truncation(None).map_err(unusable)?;
        inner.with_padding(None);
        let begin = inner.encode("", true).map_err(unusable)?.get_ids().first().copied();
        let mut ends = Vec::new();
        for name in CONFIGURATIONS {
            ends.extend(read_ends(&folder.join(name))?);
        }
        // The first is what the engine ends at by itself; the same token of both files counts once.
        let mut seen = BTreeSet::new();
        ends.retain(|end| seen.insert(*end));
        Ok(Self { inner, begin, ends })
    }

    /// The tokens of a prompt, with those that the model expects before every text. No token lies across a cut of it.
    ///
    /// # Errors
    /// The tokenizer failed.
    pub fn encode(&self, prompt: &str, cuts: &[usize]) -> Result<Vec<u32>, EncodeError> {
        let first = cuts.first().copied().unwrap_or(prompt.len());
        let (begin, rest) = prompt.split_at_checked(first).unwrap_or((prompt, ""));
        let mut tokens = self.inner.encode(begin, true).map_err(EncodeError)?.get_ids().to_vec();
        // A prompt may spell out the token that the tokenizer begins with: the model has never seen it twice.
        if self.begin.is_some_and(|begin| tokens.starts_with(&[begin, begin])) {
            tokens.remove(0);
        }
        if !rest.is_empty() {
            let cuts: Vec<_> = cuts.iter().filter(|cut| **cut > first).map(|cut| cut - first).collect();
            tokens.extend(self.encode_behind(None, rest, &cuts)?);
        }
        Ok(tokens)
    }

    /// The tokens of a text that spells out all special tokens, behind a token that was there before it. No token lies
    /// across a cut of the text.
    ///
    /// # Errors
    /// The tokenizer failed.
    pub fn encode_behind(&self, last: Option<u32>, text: &str, cuts: &[usize]) -> Result<Vec<u32>, EncodeError> {
        let ends = cuts.iter().copied().chain([text.len()]);
        let mut tokens = Vec::new();
        let mut begin = 0;
        for end in ends {
            let part = text.get(begin..end).unwrap_or_default();
            let anchor = if begin == 0 { last.and_then(|token| Some((token, self.mark(token)?))) } else { None };
            tokens.extend(self.encode_part(anchor, part)?);
            begin = end;
        }
        Ok(tokens)
    }

    /// Some tokenizers begin a text in another way than they go on behind a mark, so the mark is encoded too.
    fn encode_part(&self, anchor: Option<(u32, &str)>, part: &str) -> Result<Vec<u32>, EncodeError> {
        let encode = |text: String| self.inner.encode_fast(text, false).map_err(EncodeError);
        if let Some((mark, text)) = anchor
            && let Some((first, rest)) = encode(format!("{text}{part}"))?.get_ids().split_first()
            && *first == mark
        {
            return Ok(rest.to_vec());
        }
        Ok(encode(part.to_owned())?.get_ids().to_vec())
    }

    /// The text of a token that stands beside the vocabulary, such as the end of a turn.
    pub fn mark(&self, token: u32) -> Option<&str> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        added.get(&token).map(|added| added.content.as_str())
    }

    /// Texts that templates alone may write: those of special tokens, and of other added ones that occur in them.
    pub fn marks(&self, templates: &str) -> Vec<String> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder().values();
        let marks = added.filter(|token| {
            let is_mark = token.content.chars().nth(1).is_some() && !token.content.trim().is_empty();
            is_mark && (token.special || templates.contains(&token.content))
        });
        marks.map(|token| token.content.clone()).collect()
    }

    /// The text of tokens with the special ones among them.
    ///
    /// # Errors
    /// The tokenizer failed.
    pub fn whole_text(&self, tokens: &[u32]) -> Result<String, DecodeError> {
        self.inner.decode(tokens, false).map_err(DecodeError)
    }

    /// The tokens at which an answer ends, the most usual one first.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Gives the tokens that hold a stop word, at which an engine may end by itself. Other tokens can hold one too,
    /// so [`super::StopWords`] still looks for it. A stop word of several tokens is left out: it could begin in the
    /// prompt.
    pub fn stop_tokens(&self, stop_words: &[String]) -> Vec<u32> {
        let token = |word: &String| {
            let encoding = self.inner.encode(word.as_str(), false).ok()?;
            let [token] = *encoding.get_ids() else { return None };
            self.text(&[token]).is_ok_and(|text| text.contains(word)).then_some(token)
        };
        stop_words.iter().filter_map(token).collect()
    }
}

impl Decode for Tokenizer {
    fn text(&self, tokens: &[u32]) -> Result<String, DecodeError> {
        self.inner.decode(tokens, true).map_err(DecodeError)
    }
}

fn read_ends(path: &Path) -> Result<Vec<u32>, TokenizerError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(TokenizerError::Read { path: path.to_owned(), source }),
    };
    let configuration: Configuration = serde_json::from_str(&text)
        .map_err(|source| TokenizerError::Configuration { path: path.to_owned(), source })?;
    Ok(match configuration.eos_token_id {
        None => Vec::new(),
        Some(Ends::One(end)) => vec![end],
        Some(Ends::Several(ends)) => ends,
    })
}

#[cfg(test)]
pub(super) mod tests;
