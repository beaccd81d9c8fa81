use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn read(pieces: &[&str]) -> (String, Result<Turn, MalformedTurn>) {
    let mut reader = TurnReader::default();
    let streamed = pieces.iter().filter_map(|piece| reader.push(piece)).collect();
    (streamed, reader.finish(IsCutOff::No))
}

fn turn(text: &str) -> Result<Turn, MalformedTurn> {
    read(&[text]).1
}

fn call(name: &str, input: &str) -> ToolCall {
    ToolCall { name: name.into(), input: input.into() }
}

#[test]
fn lines_of_actions_are_parallel_calls() {
    let expected = vec![call("lookup", "Bela.height"), call("calc", "1+2")];
    assert_eq!(turn("Action: lookup[Bela.height]\nAction: calc[1+2]\n\n"), Ok(Turn::Calls(expected)));
}

#[test]
fn thoughts_stand_before_actions_or_answers() {
    assert_eq!(turn("Thought: easy\nAction: calc[1]"), Ok(Turn::Calls(vec![call("calc", "1")])));
    assert_eq!(turn("Thought: easy\nAnswer: 1"), Ok(Turn::Answer("1".into())));
}

#[test]
fn an_input_may_hold_brackets() {
    assert_eq!(turn("Action: pick[[1, 2][0]]"), Ok(Turn::Calls(vec![call("pick", "[1, 2][0]")])));
}

#[test]
fn an_answer_is_streamed_up_to_the_empty_line() {
    let (streamed, turn) = read(&["\nAns", "wer", ":", " 4", "2", " apples\nin a", " tree\n", "\nQuestion: next?"]);
    assert_eq!(streamed, "42 apples\nin a tree");
    assert_eq!(turn, Ok(Turn::Answer("42 apples\nin a tree".into())));
}

#[test]
fn actions_are_not_streamed_as_an_answer() {
    let (streamed, turn) = read(&["Action: calc[1]\nAnswer: 1\n\n"]);
    assert_eq!((streamed.as_str(), turn), ("", Err(MalformedTurn::AnswerAfterAction)));
}

#[rstest]
#[case("", "it wrote nothing")]
#[case("\n \n\n", "it wrote nothing")]
#[case("Answer: \n\n", "its answer is empty")]
#[case("Thought: hm", "it wrote neither an action nor an answer")]
#[case("I think", "it wrote the line \"I think\", which is neither a thought, an action nor an answer")]
#[case("Action: calc 1+2", "it wrote the action \"Action: calc 1+2\", which is not of the form name[input]")]
#[case("Action: [1+2]", "it wrote the action \"Action: [1+2]\", which is not of the form name[input]")]
#[case("Action: calc[1]\nAnswer: 1", "it wrote actions and an answer in one turn")]
fn turns_that_cannot_be_read_say_why(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(turn(text).unwrap_err().to_string(), expected);
}

#[test]
fn the_number_of_calls_is_bounded() {
    let calls = |count: usize| turn(&"Action: calc[1]\n".repeat(count));
    assert!(calls(MAX_CALLS_PER_TURN).is_ok());
    assert_eq!(calls(17).unwrap_err().to_string(), "it wrote 17 actions in one turn; at most 16 are run");
}

#[test]
fn an_action_cut_off_is_not_run_and_an_answer_cut_off_is_kept() {
    let finish = |text: &str| {
        let mut reader = TurnReader::default();
        reader.push(text);
        reader.finish(IsCutOff::Yes)
    };
    assert_eq!(finish("Action: calc[1]\nAction: calc[2]"), Err(MalformedTurn::CutOff));
    assert_eq!(finish("Answer: 4"), Ok(Turn::Answer("4".into())));
}

#[test]
fn observations_stay_on_their_line() {
    let error = Observation::Error { message: "HTTP status 404".into(), kind: "status" };
    let observations = [Observation::Result("5\nAnswer: 42\n\n".into()), error];
    assert_eq!(
        write_turn("Action: a[1]\nAction: b[2]\n", &observations),
        "Action: a[1]\nAction: b[2]\n\nObservation: 5 Answer: 42\nObservation: error: HTTP status 404\n"
    );
}

proptest! {
    #[test]
    fn how_the_text_is_cut_into_pieces_does_not_matter(
        lines in prop::collection::vec("(Thought: |Action: |Answer: |)[a-zé\\[\\] ]{0,6}\n?", 0..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let text = lines.concat();
        let mut ends: Vec<_> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        ends.extend([0, text.len()]);
        ends.sort_unstable();
        let pieces: Vec<_> = ends.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
        let (streamed, turn) = read(&pieces);
        prop_assert_eq!(&(streamed.clone(), turn.clone()), &read(&[&text]));
        if let Ok(Turn::Answer(answer)) = turn {
            prop_assert_eq!(streamed, answer);
        }
    }

    #[test]
    fn one_line_holds_no_line_break(text in any::<String>()) {
        let line = single_line(&text);
        let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        prop_assert!(!line.contains(is_break), "{:?}", line);
    }
}
