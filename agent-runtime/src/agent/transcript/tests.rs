//! With the demo's tokenizer: its first 256 tokens are bytes, and the marks of its template follow them.

use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::agent::marks::Marks;

const START: u32 = 257;
const END: u32 = 258;

fn demo() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/model/checkpoints/react-512");
    Tokenizer::read(&folder).expect("the demo's model has a tokenizer")
}

fn whole(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode_behind(None, text, &[]).expect("it has tokens")
}

/// A run by hand: what was written so far, and its transcript.
struct Run {
    tokenizer: Tokenizer,
    transcript: Transcript,
    text: String,
    turn: GeneratedTurn,
}

impl Run {
    fn new() -> Self {
        Self {
            tokenizer: demo(),
            transcript: Transcript::new(Begin::SpelledOut),
            text: String::new(),
            turn: GeneratedTurn::default(),
        }
    }

    /// What others say, and the beginning of the model's turn.
    fn asks(&mut self, text: &str) -> (Vec<u32>, Kept) {
        let harmless = Marks::new(self.tokenizer.marks("")).broken(text).into_owned();
        let new = Written::rendered(format!("<|im_start|>user\n{harmless}<|im_end|>\n<|im_start|>assistant\n"));
        let cuts = new.cuts.iter().map(|cut| cut + self.text.len()).collect();
        let prompt = Written { text: format!("{}{}", self.text, new.text), cuts };
        self.goes_on(&prompt)
    }

    fn goes_on(&mut self, prompt: &Written) -> (Vec<u32>, Kept) {
        let (tokens, kept) = self.transcript.go_on(&self.tokenizer, prompt, &self.turn).expect("it has tokens");
        self.transcript.note_sent(&tokens);
        self.text.clone_from(&prompt.text);
        (tokens, kept)
    }

    /// What the model writes, and what the template makes of it.
    fn writes(&mut self, tokens: &[u32], as_template: impl FnOnce(&str) -> String) {
        let said = self.tokenizer.whole_text(tokens).expect("it decodes");
        let written = format!("{}<|im_end|>\n", as_template(&said));
        self.text += &written;
        let tokens = [tokens, &[END]].concat();
        self.turn = GeneratedTurn { written: Some(written), said, tokens };
    }
}

#[test]
fn a_turn_stays_in_its_tokens_though_the_template_writes_it_in_other_words() {
    let mut run = Run::new();
    let (first, kept) = run.asks("2+2?");
    assert_eq!(kept, Kept { tokens: counted(first.len()), kept: 0, is_continued: true });
    // One token a byte, and no blanks: neither tokenizer nor template would write it so.
    let generated: Vec<u32> = r#"{"a":1}"#.bytes().map(u32::from).collect();
    run.writes(&generated, |said| said.replace(':', ": "));
    let (second, kept) = run.asks("4");
    let before = [first, generated, vec![END]].concat();
    let new = whole(&run.tokenizer, "\n<|im_start|>user\n4<|im_end|>\n<|im_start|>assistant\n");
    assert_eq!(second, [before.clone(), new].concat());
    assert_eq!(kept.kept, counted(before.len()));
    assert!(kept.is_continued);
}

#[test]
fn a_template_that_leaves_something_out_is_encoded_again_from_there() {
    let mut run = Run::new();
    let (first, _) = run.asks("2+2?");
    run.writes(&[104, 109, 46, 52], |said| said.replace("hm.", ""));
    run.turn.written = None;
    let (second, kept) = run.asks("Sure?");
    assert_eq!(second, whole(&run.tokenizer, &run.text));
    assert_eq!((kept.kept, kept.is_continued), (counted(first.len()), false));
}

#[test]
fn an_engine_that_gives_no_tokens_has_its_turns_encoded() {
    let mut run = Run::new();
    let (first, _) = run.asks("2+2?");
    run.writes(&[52], str::to_owned);
    run.turn.tokens = Vec::new();
    let (second, kept) = run.asks("Sure?");
    assert_eq!(second, whole(&run.tokenizer, &run.text));
    assert_eq!((kept.kept, kept.is_continued), (counted(first.len()), false));
}

#[test]
fn an_engine_that_leaves_the_end_of_a_turn_out_has_it_encoded() {
    let mut run = Run::new();
    run.asks("2+2?");
    run.writes(&[52], str::to_owned);
    run.turn.tokens.pop();
    let (second, kept) = run.asks("Sure?");
    assert_eq!(second, whole(&run.tokenizer, &run.text));
    assert!(kept.is_continued);
}

#[test]
fn what_changes_later_keeps_what_stands_before_it() {
    let mut run = Run::new();
    run.asks("2+2?");
    run.writes(&[52], str::to_owned);
    let (second, _) = run.asks("a long result");
    let kept_until = run.text.len() - "<|im_start|>user\na long result<|im_end|>\n<|im_start|>assistant\n".len() - 1;
    let kept_tokens = whole(&run.tokenizer, &run.text[..kept_until]).len();
    let shorter = Written::plain(run.text.replace("a long result", "(left out)"));
    let (again, kept) = run.goes_on(&shorter);
    assert_eq!(again, whole(&run.tokenizer, &shorter.text));
    assert_eq!(again[..kept_tokens], second[..kept_tokens]);
    assert!(!kept.is_continued);
}

proptest! {
    /// Whatever the model generates and others say: nothing of it is encoded twice, and nobody writes a mark.
    #[test]
    fn every_prompt_begins_with_the_prompt_and_the_turn_before(
        steps in prop::collection::vec((prop::collection::vec(0u32..768, 1..20), "(a|é|\n| |<\\|im_start\\|>|<\\|im_end\\|>|<){0,12}"), 1..5),
    ) {
        let mut run = Run::new();
        let (mut before, _) = run.asks("2+2?");
        for (generated, said) in steps {
            // Turns end at these.
            let generated: Vec<u32> = generated.into_iter().filter(|token| !(256..=258).contains(token)).collect();
            run.writes(&generated, str::to_owned);
            let (now, kept) = run.asks(&said);
            before.extend(generated.iter().chain([&END]));
            prop_assert_eq!(&now[..before.len()], &before[..]);
            prop_assert!(kept.is_continued && kept.kept == counted(before.len()));
            let new = &now[before.len()..];
            let count = |mark| new.iter().filter(|token| **token == mark).count();
            prop_assert_eq!((count(START), count(END)), (2, 1));
            let text = run.tokenizer.whole_text(new).expect("it decodes");
            prop_assert_eq!(text, format!("\n<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\n"));
            before = now;
        }
    }

    #[test]
    fn parts_have_the_tokens_of_the_whole(texts in prop::collection::vec("[a-z \n\"{}:,0-9é]{0,20}", 1..6)) {
        let mut run = Run::new();
        let mut last = Vec::new();
        for text in texts {
            last = run.asks(&text).0;
            // Each turn is one that the template wrote, and no engine.
            run.turn = GeneratedTurn { written: None, said: "4".to_owned(), tokens: Vec::new() };
            let whole = whole(&run.tokenizer, &run.text);
            run.text += "4<|im_end|>\n";
            prop_assert_eq!(&last, &whole);
        }
        prop_assert!(!last.is_empty());
    }
}
