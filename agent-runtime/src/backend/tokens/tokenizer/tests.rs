//! Real tokenizers: the demo's, byte-level BPE whose first 256 tokens are bytes, and one after SentencePiece's manner.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::*;
use crate::backend::tokens::Detokenizer;

/// The tokenizer of the demo's model.
pub fn demo() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/model/checkpoints/react-512");
    Tokenizer::read(&folder).expect("the demo's model has a tokenizer")
}

/// Blanks are part of words, the first one is left out of texts, and characters without a token of their own are bytes.
fn sentence_piece() -> Value {
    let special = ["<unk>", "<s>", "</s>"];
    let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
    let words = ["\u{2581}", "a", "b", "c", "\u{2581}a", "ab"].map(str::to_owned);
    let all = special.map(str::to_owned).into_iter().chain(bytes).chain(words);
    let vocabulary: Map<String, Value> = all.zip(0..).map(|(token, id): (String, u32)| (token, json!(id))).collect();
    let added = |(id, content): (usize, &&str)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true})
    };
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 64}, "direction": "Left", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "<unk>"},
        "added_tokens": special.iter().enumerate().map(added).collect::<Vec<_>>(),
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        ]},
        "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "vocab": vocabulary,
            "merges": ["\u{2581} a", "a b"],
        },
    })
}

struct Folder(TempDir);

impl Folder {
    fn new(tokenizer: &str) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder can be made"));
        folder.write("tokenizer.json", tokenizer);
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("a file can be written");
    }

    fn read(&self) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::read(self.0.path())
    }

    fn complaint(&self) -> String {
        let error = self.read().err().expect("the folder holds no usable tokenizer");
        error.to_string().replace(&self.0.path().display().to_string(), "folder")
    }
}

fn words() -> Tokenizer {
    Folder::new(&sentence_piece().to_string()).read().expect("it is a tokenizer")
}

#[test]
fn a_prompt_is_neither_cut_nor_filled_as_in_training_and_begins_once() {
    let tokenizer = words();
    let tokens = tokenizer.encode("ab ab abc", &[]).expect("it has tokens");
    assert_eq!(tokenizer.text(&tokens).expect("it decodes"), "ab ab abc");
    assert_eq!(tokens.first(), Some(&1));
    let spelled = tokenizer.encode("<s>ab", &[]).expect("it has tokens");
    assert_eq!(spelled.iter().filter(|token| **token == 1).count(), 1, "{spelled:?}");
}

#[test]
fn an_answer_ends_where_the_checkpoint_says() {
    let folder = Folder::new(&sentence_piece().to_string());
    assert_eq!(folder.read().expect("it is a tokenizer").ends(), [0; 0]);
    folder.write("config.json", r#"{"eos_token_id": 2, "vocab_size": 9}"#);
    assert_eq!(folder.read().expect("it is a tokenizer").ends(), [2]);
    folder.write("generation_config.json", r#"{"eos_token_id": [7, 2, 7]}"#);
    assert_eq!(folder.read().expect("it is a tokenizer").ends(), [7, 2]);
    folder.write("generation_config.json", r#"{"eos_token_id": null}"#);
    assert_eq!(folder.read().expect("it is a tokenizer").ends(), [2]);
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = Folder::new("{}");
    assert_eq!(
        folder.complaint(),
        "folder/tokenizer.json is not a usable tokenizer: save it again with save_pretrained()"
    );
    let folder = Folder::new(&sentence_piece().to_string());
    folder.write("config.json", r#"{"eos_token_id": "</s>"}"#);
    assert_eq!(
        folder.complaint(),
        "folder/config.json is not the configuration of a checkpoint: eos_token_id is a number or a list of numbers"
    );
    fs::remove_file(folder.0.path().join("tokenizer.json")).expect("it was written");
    assert_eq!(folder.complaint(), "failed to read folder/tokenizer.json");
}

#[test]
fn an_engine_is_told_of_stop_words_that_are_one_token() {
    let stop_words = ["\n\n", "\n", ""].map(str::to_owned);
    assert_eq!(demo().stop_tokens(&stop_words), [10]);
}

/// The pieces of tokens that arrive one by one.
fn streamed(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let mut detokenizer = Detokenizer::default();
    let mut text: String =
        tokens.iter().map(|token| detokenizer.push(&[*token], tokenizer).expect("it decodes")).collect();
    text += &detokenizer.rest(tokenizer).expect("it decodes");
    text
}

proptest! {
    #[test]
    fn pieces_of_any_tokens_of_bytes_are_their_text(tokens in prop::collection::vec(0u32..768, 0..60)) {
        let tokenizer = demo();
        prop_assert_eq!(streamed(&tokenizer, &tokens), tokenizer.text(&tokens).expect("it decodes"));
    }

    /// Bytes that are not characters change the text before them with this decoder, so texts are drawn and not tokens.
    #[test]
    fn pieces_of_a_texts_tokens_are_the_text(text in "[a-c €é\u{1f600}]{0,24}") {
        let tokenizer = words();
        let tokens = tokenizer.encode(&text, &[]).expect("it has tokens");
        let whole = tokenizer.text(&tokens).expect("it decodes");
        prop_assert_eq!(&streamed(&tokenizer, &tokens), &whole);
        prop_assert_eq!(whole, text);
    }

    #[test]
    fn any_tokens_have_pieces(tokens in prop::collection::vec(0u32..265, 0..60)) {
        streamed(&words(), &tokens);
    }
}
