use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proptest::{prelude::*, sample::Index};

use super::*;
use crate::agent::{
    grammar::MalformedTurn,
    timings::{first_token, progress, request_latencies, timings},
};

const LIMITS: Limits = Limits { max_steps: 3, max_tokens_per_step: 100, max_tokens: None };

/// Drives the loop by hand, one event at a time and one millisecond after the other.
struct Run {
    state: State,
    actions: Vec<Action>,
    now: u64,
}

impl Run {
    fn new(limits: Limits) -> Self {
        let mut run = Self { state: State::new("Question: q\n".into(), limits), actions: Vec::new(), now: 0 };
        run.happens(EventKind::Admitted);
        run
    }

    fn happens(&mut self, kind: EventKind) -> Vec<Action> {
        let actions = step(&mut self.state, Event { at: Timestamp::from_micros(self.now), kind });
        self.now += 1_000;
        self.actions.extend(actions.clone());
        actions
    }

    fn writes(&mut self, text: &str, finish: Option<FinishReason>) -> Vec<Action> {
        let output_tokens = self.state.steps.last().map_or(0, |step| step.output_tokens) + 10;
        let piece = Piece { text: text.into(), prompt_tokens: Some(4), output_tokens, finish, ..Piece::default() };
        self.happens(EventKind::Piece(piece))
    }

    fn does_not_fit(&mut self) -> Vec<Action> {
        let message = "the engine failed: Prompt length (1025) exceeds maximum input length (1024).".into();
        let fault = EngineFault::ContextLength;
        self.happens(EventKind::ModelFailed(ModelError {
            message,
            kind: "context_length",
            is_unavailable: false,
            fault,
        }))
    }

    fn ends_turn(&mut self, text: &str) -> Vec<Action> {
        self.writes(text, Some(FinishReason::Stop))
    }

    fn tool_gives(&mut self, step: u32, index: usize, result: &str) -> Vec<Action> {
        let observation = Observation::Result(result.into());
        self.happens(EventKind::ToolFinished { call: CallId { step, index }, observation })
    }

    fn outcome(&self) -> Outcome {
        self.state.finished().expect("the run is over").0.clone()
    }

    fn failure(&self) -> String {
        match self.outcome() {
            Outcome::Failed(failure) => failure.to_string(),
            Outcome::Answered { .. } | Outcome::Called { .. } => "answered".into(),
        }
    }
}

fn call_model(step: u32, prompt: &str) -> Action {
    Action::CallModel { step, prompt: prompt.into(), tokens: None, max_tokens: 100 }
}

fn call_tool(step: u32, index: usize, name: &str, input: &str) -> Action {
    let call = ToolCall { name: name.into(), input: input.into() };
    Action::CallTool { id: CallId { step, index }, call }
}

#[test]
fn a_question_is_answered_by_way_of_parallel_tools() {
    let mut run = Run::new(LIMITS);
    assert_eq!(run.actions, [call_model(1, "Question: q\n")]);
    let actions = run.ends_turn("Action: lookup[a]\nAction: lookup[b]\n\n");
    assert_eq!(actions, [call_tool(1, 0, "lookup", "a"), call_tool(1, 1, "lookup", "b")]);
    assert_eq!(run.tool_gives(1, 1, "7"), []);
    let prompt = "Question: q\nAction: lookup[a]\nAction: lookup[b]\n\nObservation: 5\nObservation: 7\n";
    assert_eq!(run.tool_gives(1, 0, "5"), [call_model(2, prompt)]);
    assert_eq!(run.writes("Answer: 1", None), [Action::EmitAnswer("1".into())]);
    assert_eq!(run.ends_turn("2\n\n"), [Action::EmitAnswer("2".into()), Action::Finish]);
    assert_eq!(run.outcome(), Outcome::Answered { text: "12".into(), finish: FinishReason::Stop });
}

#[test]
fn a_failed_tool_is_told_to_the_model() {
    let mut run = Run::new(LIMITS);
    run.ends_turn("Action: lookup[a]\n\n");
    let observation = Observation::Error { message: "HTTP status 503".into(), kind: "status" };
    let actions = run.happens(EventKind::ToolFinished { call: CallId { step: 1, index: 0 }, observation });
    let prompt = "Question: q\nAction: lookup[a]\n\nObservation: error: HTTP status 503\n";
    assert_eq!(actions, [call_model(2, prompt)]);
}

#[test]
fn the_last_step_starts_no_tools() {
    let mut run = Run::new(Limits { max_steps: 1, ..LIMITS });
    assert_eq!(run.ends_turn("Action: lookup[a]\n\n"), [Action::Finish]);
    assert_eq!(run.failure(), "the agent reached no answer within 1 step(s); raise maxSteps or simplify the question");
}

#[test]
fn output_that_is_no_turn_is_told_to_the_model_once() {
    let mut run = Run::new(LIMITS);
    let told = "Question: q\nAs an AI\n\nObservation: error: this turn cannot be read, because it wrote the line \
                \"As an AI\", which is neither a thought, an action nor an answer; write `Action: name[input]` or \
                `Answer: text`\n";
    assert_eq!(run.ends_turn("As an AI\n\n"), [call_model(2, told)]);
    assert_eq!(run.ends_turn("Action: lookup a\n\n"), [Action::Finish]);
    assert_eq!(
        run.failure(),
        "the model's output in step 2 cannot be read: it wrote the action \"Action: lookup a\", which is not of the form \
         name[input]"
    );
}

#[test]
fn a_turn_that_was_corrected_goes_on_as_any() {
    let mut run = Run::new(Limits { max_steps: 4, ..LIMITS });
    run.ends_turn("Action: lookup a\n\n");
    run.ends_turn("Action: lookup[a]\n\n");
    assert!(matches!(&run.tool_gives(2, 0, "1")[..], [Action::CallModel { step: 3, .. }]));
    assert!(matches!(&run.ends_turn("Answer:\n\n")[..], [Action::CallModel { step: 4, .. }]), "it may err again");
    run.ends_turn("Answer: 1\n\n");
    assert_eq!(run.outcome(), Outcome::Answered { text: "1".into(), finish: FinishReason::Stop });
}

#[test]
fn thoughts_that_an_empty_line_ended_go_on() {
    let mut run = Run::new(LIMITS);
    let actions = run.ends_turn("Thought: I look it up.\n\n");
    assert_eq!(actions, [call_model(2, "Question: q\nThought: I look it up.\n")]);
    assert!(matches!(&run.ends_turn("Action: lookup[a]\n\n")[..], [Action::CallTool { .. }]));
}

#[test]
fn the_last_step_has_no_turn_to_correct_it() {
    let mut run = Run::new(Limits { max_steps: 1, ..LIMITS });
    assert_eq!(run.ends_turn("Thought: I look it up.\n\n"), [Action::Finish]);
    assert_eq!(run.failure(), "the model's output in step 1 cannot be read: it wrote neither an action nor an answer");
}

#[test]
fn actions_cut_off_are_not_run() {
    let mut run = Run::new(LIMITS);
    assert_eq!(run.writes("Action: lookup[a]", Some(FinishReason::Length)), [Action::Finish]);
    let reason = MalformedTurn::CutOff;
    assert_eq!(run.outcome(), Outcome::Failed(Failure::MalformedOutput { step: 1, reason }));
}

#[test]
fn a_turn_cut_off_is_not_told_to_the_model() {
    for text in ["Thought: I look it", "Action: loo", "Answer:"] {
        let mut run = Run::new(LIMITS);
        assert_eq!(run.writes(text, Some(FinishReason::Length)), [Action::Finish], "{text}");
    }
}

#[test]
fn an_answer_cut_off_is_an_answer_that_says_so() {
    let mut run = Run::new(LIMITS);
    run.writes("Answer: on and", Some(FinishReason::Length));
    assert_eq!(run.outcome(), Outcome::Answered { text: "on and".into(), finish: FinishReason::Length });
}

#[test]
fn an_engine_that_writes_past_the_empty_line_is_stopped() {
    let mut run = Run::new(LIMITS);
    let actions = run.writes("Answer: 1\n\nQuestion: more", None);
    assert_eq!(actions, [Action::EmitAnswer("1".into()), Action::CancelModel, Action::Finish]);
    assert_eq!(run.outcome(), Outcome::Answered { text: "1".into(), finish: FinishReason::Stop });
}

#[test]
fn the_clients_limit_on_tokens_counts_all_steps() {
    let mut run = Run::new(Limits { max_tokens: Some(15), ..LIMITS });
    run.ends_turn("Action: lookup[a]\n\n");
    let Some(Action::CallModel { max_tokens, .. }) = run.tool_gives(1, 0, "1").pop() else {
        panic!("a model call follows")
    };
    assert_eq!(max_tokens, 5);
    run.writes("Action: loo", Some(FinishReason::Length));
    assert_eq!(run.failure(), "the agent reached no answer within 15 token(s); raise max_tokens");
}

#[test]
fn a_spent_limit_on_tokens_calls_no_model() {
    let mut run = Run::new(Limits { max_tokens: Some(10), ..LIMITS });
    run.ends_turn("Action: lookup[a]\n\n");
    assert_eq!(run.tool_gives(1, 0, "1"), [Action::Finish]);
    assert_eq!(run.outcome(), Outcome::Failed(Failure::TokenBudget { max_tokens: 10 }));
}

#[test]
fn the_deadline_cancels_what_is_under_way() {
    let mut run = Run::new(LIMITS);
    let actions = run.happens(EventKind::DeadlinePassed { milliseconds: 500 });
    assert_eq!(actions, [Action::CancelModel, Action::Finish]);
    assert_eq!(run.failure(), "the run did not finish within 500 ms");

    let mut run = Run::new(LIMITS);
    run.ends_turn("Action: lookup[a]\nAction: lookup[b]\n\n");
    run.tool_gives(1, 0, "1");
    let actions = run.happens(EventKind::ShutDown);
    assert_eq!(actions, [Action::CancelTool(CallId { step: 1, index: 1 }), Action::Finish]);
    assert_eq!(run.failure(), "the pod was shut down before the run finished");
}

#[test]
fn a_failed_model_call_ends_the_run_with_its_cause() {
    let mut run = Run::new(LIMITS);
    let error = ModelError {
        message: "the engine failed: out of memory".into(),
        kind: "engine",
        is_unavailable: false,
        fault: EngineFault::Engine,
    };
    assert_eq!(run.happens(EventKind::ModelFailed(error)), [Action::Finish]);
    assert_eq!(run.failure(), "the model call of step 1 failed: the engine failed: out of memory");
}

/// A run whose two tools gave so much.
fn with_results(first: &str, second: &str) -> Run {
    let mut run = Run::new(LIMITS);
    run.ends_turn("Action: a[1]\nAction: b[2]\n\n");
    run.tool_gives(1, 0, first);
    run.tool_gives(1, 1, second);
    run
}

fn left_out(run: &Run) -> Vec<bool> {
    run.state.steps[0].calls.iter().map(|call| call.left_out.is_some()).collect()
}

#[test]
fn a_prompt_that_does_not_fit_is_sent_again_without_the_oldest_half_of_the_results() {
    let first = "Question: q\nAction: a[1]\nAction: b[2]\n\nObservation: (left out: 90 characters)\n";
    let mut run = with_results(&"x".repeat(90), "7");
    assert_eq!(run.does_not_fit(), [call_model(2, &format!("{first}Observation: 7\n"))]);
    assert_eq!(left_out(&run), [true, false]);
    // The note is part of what is left, so that here the older result alone is less than half.
    let mut run = with_results(&"x".repeat(90), &"y".repeat(80));
    let both = format!("{first}Observation: (left out: 80 characters)\n");
    assert_eq!(run.does_not_fit(), [call_model(2, &both)]);
    assert_eq!(left_out(&run), [true, true]);
    let given = run.state.steps[0].calls.iter().map(Call::observed_characters).collect::<Vec<_>>();
    assert_eq!(given, [90, 80], "what they gave is known all the same");
    run.ends_turn("Answer: 1\n\n");
    assert_eq!(run.outcome(), Outcome::Answered { text: "1".into(), finish: FinishReason::Stop });
    assert_eq!(run.state.steps.len(), 2, "asking again is no further step");
}

#[test]
fn a_prompt_that_does_not_fit_without_results_either_ends_the_run() {
    let mut run = with_results("1", "2");
    assert_eq!(run.does_not_fit(), [Action::Finish]);
    assert!(run.failure().starts_with("the model call of step 2 failed: the engine failed: Prompt length (1025)"));
}

#[test]
fn a_first_prompt_that_does_not_fit_is_the_clients() {
    let mut run = Run::new(LIMITS);
    assert_eq!(run.does_not_fit(), [Action::Finish]);
    assert!(run.failure().starts_with("messages: they do not fit the model's context"), "{}", run.failure());
}

#[test]
fn results_beyond_the_bound_leave_the_transcript_and_the_record() {
    let half = "x".repeat(MAX_RESULT_BYTES / 2);
    let run = with_results(&half, &half);
    assert_eq!(left_out(&run), [false, false]);
    let run = with_results(&half, &format!("{half}y"));
    assert_eq!(left_out(&run), [true, false]);
    assert!(run.state.bytes() < MAX_RESULT_BYTES / 2 + 200, "{}", run.state.bytes());
    assert!(
        run.state
            .prompt()
            .expect("a transcript is always written")
            .text
            .contains("\nObservation: (left out: 524288 characters)\nObservation: xxx")
    );
}

#[test]
fn tokens_of_prompts_add_up_unless_one_is_not_counted() {
    let mut run = with_results("1", "2");
    run.ends_turn("Answer: 1\n\n");
    assert_eq!(run.state.prompt_tokens(), Some(8));
    run.state.steps[0].prompt_tokens = None;
    assert_eq!(run.state.prompt_tokens(), None);
}

#[test]
fn what_comes_late_or_twice_changes_nothing() {
    let mut run = Run::new(LIMITS);
    run.ends_turn("Action: lookup[a]\nAction: lookup[b]\n\n");
    run.tool_gives(1, 0, "1");
    let before = run.state.clone();
    assert_eq!(run.tool_gives(1, 0, "2"), []);
    assert_eq!(run.tool_gives(7, 0, "2"), []);
    assert_eq!(run.tool_gives(1, 9, "2"), []);
    assert_eq!(run.writes("late", None), []);
    assert_eq!(run.happens(EventKind::Admitted), []);
    assert_eq!(run.state, before);
}

#[test]
fn time_is_told_apart_by_what_was_waited_for() {
    let mut run = Run::new(LIMITS); // model call at 0
    run.writes("Action: ", None); // first token at 1 ms, 10 tokens
    run.ends_turn("lookup[a]\nAction: lookup[b]\n\n"); // at 2 ms, 20 tokens; tools start
    run.tool_gives(1, 1, "1"); // at 3 ms
    run.now = 9_000;
    run.tool_gives(1, 0, "1"); // at 9 ms; model call
    assert_eq!(progress(&run.state).tool_micros, 7_000);
    run.ends_turn("Answer: 1\n\n"); // at 10 ms
    let timings = timings(&run.state, Timestamp::from_micros(99_000));
    assert_eq!((timings.total, timings.model, timings.tools, timings.other), (10_000, 3_000, 7_000, 0));
    let latencies = request_latencies(&run.state);
    assert_eq!((latencies.request, latencies.first_token), (Some(2_000), Some(1_000)));
    assert_eq!(latencies.inter_token, Some(100));
    // The client sees nothing before the answer: neither the first request's tokens nor those of its actions.
    assert_eq!(first_token(&run.state), Some(10_000));
}

#[test]
fn the_first_token_is_that_of_the_answer_and_stays() {
    let mut run = Run::new(LIMITS);
    run.writes("Thought: easy\n", None); // at 1 ms
    assert_eq!(first_token(&run.state), None);
    run.writes("Answer: 1", None); // at 2 ms
    run.ends_turn("2\n\n"); // at 3 ms
    assert_eq!(first_token(&run.state), Some(2_000));
}

#[test]
fn a_run_without_an_answer_has_no_first_token() {
    let mut run = Run::new(LIMITS);
    run.ends_turn("nonsense\n\n");
    assert_eq!(first_token(&run.state), None);
}

/// A model's script and an order of events, as proptest draws them.
#[derive(Clone, Debug)]
struct Story {
    turns: Vec<String>,
    picks: Vec<Index>,
    stop_at: Option<usize>,
}

/// Outcome of a story.
struct Told {
    state: State,
    actions: Vec<Action>,
    answered: BTreeMap<CallId, u32>,
}

fn story() -> impl Strategy<Value = Story> {
    let calls = prop::collection::vec("[a-c]", 1..5)
        .prop_map(|inputs| inputs.iter().map(|input| format!("Action: t[{input}]\n")).collect::<String>() + "\n");
    let turn = prop_oneof![6 => calls, 2 => Just("Answer: 1\n\n".to_owned()), 1 => Just("?".to_owned())];
    let turns = prop::collection::vec(turn, 6);
    let picks = prop::collection::vec(any::<Index>(), 40);
    (turns, picks, prop::option::of(0_usize..30)).prop_map(|(turns, picks, stop_at)| Story { turns, picks, stop_at })
}

/// Lets the engine, the tools and the deadline act in the story's order.
fn tell(story: &Story, max_steps: u32) -> Told {
    let mut run = Run::new(Limits { max_steps, ..LIMITS });
    let mut answered = BTreeMap::new();
    for (i, pick) in story.picks.iter().enumerate() {
        if story.stop_at == Some(i) {
            run.happens(EventKind::DeadlinePassed { milliseconds: 1 });
        }
        let running: Vec<_> = match run.state.finished() {
            Some(_) => break,
            None => run.state.steps.last().map(|step| step.running().collect()).unwrap_or_default(),
        };
        if running.is_empty() {
            let turn = &story.turns[run.state.steps.len() - 1];
            run.ends_turn(turn);
        } else {
            let id = *pick.get(&running);
            *answered.entry(id).or_default() += 1;
            run.tool_gives(id.step, id.index, &format!("{}", id.index));
        }
    }
    Told { state: run.state, actions: run.actions, answered }
}

proptest! {
    #[test]
    fn model_calls_are_bounded_and_a_run_finishes_once(story in story(), max_steps in 1_u32..6) {
        let told = tell(&story, max_steps);
        let count = |wanted: fn(&Action) -> bool| told.actions.iter().filter(|action| wanted(action)).count();
        let model_calls = count(|action| matches!(action, Action::CallModel { .. }));
        prop_assert!(model_calls <= max_steps as usize, "{} model calls", model_calls);
        prop_assert_eq!(count(|action| matches!(action, Action::Finish)), 1);
        prop_assert_eq!(told.actions.last(), Some(&Action::Finish));
    }

    #[test]
    fn every_tool_call_is_answered_or_cancelled_exactly_once(story in story(), max_steps in 1_u32..6) {
        let mut told = tell(&story, max_steps);
        for action in &told.actions {
            if let Action::CancelTool(id) = action {
                *told.answered.entry(*id).or_default() += 1;
            }
        }
        let started = told.actions.iter().filter_map(|action| match action {
            Action::CallTool { id, .. } => Some((*id, 1)),
            _ => None,
        });
        prop_assert_eq!(started.collect::<BTreeMap<_, _>>(), told.answered);
        let mut calls = told.state.steps.iter().flat_map(|step| &step.calls);
        prop_assert!(calls.all(|call| call.end.is_some()));
    }

    #[test]
    fn the_order_in_which_tools_finish_does_not_change_the_transcript(
        story in story(),
        other in prop::collection::vec(any::<Index>(), 40),
    ) {
        let first = Story { stop_at: None, ..story };
        let second = Story { picks: other, ..first.clone() };
        let (first, second) = (tell(&first, 5), tell(&second, 5));
        prop_assert_eq!(first.state.prompt().expect("a transcript is always written"), second.state.prompt().expect("a transcript is always written"));
        let outcome = |told: &Told| told.state.finished().map(|(outcome, _)| outcome.clone());
        prop_assert_eq!(outcome(&first), outcome(&second));
    }

    #[test]
    fn nothing_happens_after_the_end(story in story()) {
        let told = tell(&story, 5);
        for kind in [
            EventKind::Admitted,
            EventKind::Piece(Piece { text: "Answer: 2\n\n".into(), output_tokens: 1, ..Piece::default() }),
            EventKind::DeadlinePassed { milliseconds: 1 },
            EventKind::ShutDown,
        ] {
            let mut state = told.state.clone();
            let actions = step(&mut state, Event { at: Timestamp::from_micros(u64::MAX), kind });
            prop_assert_eq!((state, actions), (told.state.clone(), Vec::new()));
        }
    }

    #[test]
    fn the_parts_of_a_runs_time_add_up(story in story()) {
        let told = tell(&story, 5);
        let times = timings(&told.state, Timestamp::default());
        prop_assert_eq!(times.model + times.tools + times.other, times.total);
    }
}
