//! Reads a turn from the answer of either endpoint. Pure.

use crate::backend::{BackendError, Generation, Piece, tokens::StopWords};

use super::{
    OpenAiServer, chat,
    reader::{self, Read},
};

/// Reads the answer to one request.
pub(super) enum Reader {
    /// Of `/v1/completions`.
    Completion(reader::Reader),
    /// Of `/v1/chat/completions`.
    Chat(chat::Reader),
}

impl Reader {
    /// Reads the data of one event.
    pub(super) fn read(&mut self, data: &str) -> Result<Option<Read>, BackendError> {
        match self {
            Self::Completion(reader) => reader.read(data),
            Self::Chat(reader) => reader.read(data),
        }
    }

    /// Reads an answer that the server sent as one.
    pub(super) fn whole(&mut self, text: &str) -> Result<Piece, BackendError> {
        let piece = match self.read(text)? {
            Some(Read::Last(piece) | Read::Cut(piece)) => piece,
            Some(Read::More(_)) => return Err(BackendError::EndedEarly),
            None => self.end()?,
        };
        Ok(Piece { is_whole: true, ..piece })
    }

    /// The answer has ended.
    pub(super) fn end(&mut self) -> Result<Piece, BackendError> {
        match self {
            Self::Completion(reader) => reader.end(),
            Self::Chat(reader) => reader.end(),
        }
    }
}

impl OpenAiServer {
    /// A reader that cuts at the stop words that the server leaves to us.
    pub(super) fn reader(self, generation: &Generation) -> Reader {
        let stop_words = &generation.stop_words;
        match self {
            Self::Vllm => Reader::Completion(reader::Reader::new(StopWords::default())),
            Self::SgLang | Self::Completions => {
                Reader::Completion(reader::Reader::new(StopWords::new(stop_words.clone())))
            }
            // Where special tokens are wanted it leaves the one that ends the turn in the text (NVIDIA/TensorRT-LLM
            // pull request 14336, which was closed).
            Self::TrtLlm => {
                let end = generation.end().map(|end| end.to_string());
                let words = StopWords::new(stop_words.iter().cloned().chain(end).collect());
                let hides_likely = generation.logprobs == Some(0);
                Reader::Completion(reader::Reader::of_engine_that_goes_on(words, hides_likely))
            }
            Self::Chat => Reader::Chat(chat::Reader::default()),
        }
    }
}
