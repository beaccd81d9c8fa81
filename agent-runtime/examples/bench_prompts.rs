//! Measures what the prompt of a step costs a run, for `make bench-prompts`: prints a table by template, form of the
//! prompt and number of calls before it.
//!
//! Each call gives a result of 2,000 characters. A number is the least of all rounds: it has no other work in it.

use std::{
    error::Error,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use slipway_agent_runtime::{
    agent::{
        ChatFormat, Conversation, Limits, Observation, Opening, State, Wishes,
        state::CallId,
        step::{Action, Event, EventKind, step},
    },
    backend::{FinishReason, Piece, tokens::Tokenizer},
    chat_template::Checkpoint,
    clock::Timestamp,
    tools::Registry,
};
use slipway_runtime_config::{Tool, ToolKind};

/// Calls of a run.
const CALLS: usize = 30;
/// Calls after which a prompt is looked at.
const LOOKED_AT: [usize; 3] = [1, 10, 30];
const RESULT_CHARACTERS: usize = 2_000;
const ROUNDS: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    println!("| template | prompt | {} |", LOOKED_AT.map(|calls| format!("after {calls}, us")).join(" | "));
    println!("|---|---|---|---|---|");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtime/templates");
    let turns = [
        ("qwen3", "<tool_call>\n{\"name\": \"calc\", \"arguments\": {\"expression\": \"2+2\"}}\n</tool_call>", 258),
        ("llama31", "{\"name\": \"calc\", \"parameters\": {\"expression\": \"2+2\"}}", 258),
    ];
    for (name, turn, end) in turns {
        for in_tokens in [false, true] {
            let format = format_of(&folder.join(format!("{name}.jinja")), in_tokens)?;
            let mut least = [Duration::MAX; CALLS];
            for _ in 0..ROUNDS {
                for (least, cost) in least.iter_mut().zip(run(&format, turn, end)?) {
                    *least = cost.min(*least);
                }
            }
            let form = if in_tokens { "tokens" } else { "text" };
            let figures = LOOKED_AT.map(|calls| least[calls - 1].as_micros().to_string());
            println!("| {name} | {form} | {} |", figures.join(" | "));
        }
    }
    Ok(())
}

fn format_of(template: &Path, in_tokens: bool) -> Result<Arc<ChatFormat>, Box<dyn Error>> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/model/checkpoints/react-512");
    let folder = std::env::temp_dir().join(format!("slipway-bench-prompts-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let config = json!({ "chat_template": fs::read_to_string(template)?, "bos_token": "<s>" });
    fs::write(folder.join("tokenizer_config.json"), config.to_string())?;
    let checkpoint = Checkpoint::read(&folder)?.ok_or("the folder has no template")?;
    fs::remove_dir_all(&folder)?;
    let (name, description) = ("calc".to_owned(), "Evaluates an expression.".to_owned());
    let calculator = Tool { name, description, input_schema: None, kind: ToolKind::Calculator };
    let tools = Registry::new(&[calculator])?;
    let format = ChatFormat::new(checkpoint, None, "Be brief.", &tools.catalog().shown)?;
    if !in_tokens {
        return Ok(Arc::new(format));
    }
    let tokenizer = Arc::new(Tokenizer::read(&demo)?);
    Ok(Arc::new(format.with_tokenizer(Box::new(move || Some(tokenizer)))))
}

/// How long each next prompt of a run took.
fn run(format: &Arc<ChatFormat>, turn: &str, end: u32) -> Result<Vec<Duration>, Box<dyn Error>> {
    let at = Timestamp::default();
    let question = Conversation::question("What is 2+2, again and again?".to_owned())?;
    let talk = format.open(&question, &Arc::new(Wishes::default()), at)?;
    let limits = Limits { max_steps: 64, max_tokens_per_step: 256, max_tokens: None };
    let mut state = State::new(Opening::Chat(Box::new(talk)), limits);
    let mut actions = step(&mut state, Event { at, kind: EventKind::Admitted });
    let mut costs = Vec::new();
    for call in 0..CALLS {
        let has_tokens = matches!(actions.first(), Some(Action::CallModel { tokens: Some(_), .. }));
        let tokens = turn.bytes().map(u32::from).chain([end]).filter(|_| has_tokens).collect();
        let finish = Some(FinishReason::Stop);
        let piece = Piece { text: turn.to_owned(), output_tokens: 30, tokens, finish, ..Piece::default() };
        step(&mut state, Event { at, kind: EventKind::Piece(piece) });
        let id = CallId { step: u32::try_from(call)? + 1, index: 0 };
        let words = format!("{call} Every row says who sent what, and when it arrived. ");
        let observation = Observation::Result(words.chars().cycle().take(RESULT_CHARACTERS).collect());
        let event = Event { at, kind: EventKind::ToolFinished { call: id, observation } };
        let begun = Instant::now();
        actions = step(&mut state, event);
        costs.push(begun.elapsed());
        if !matches!(actions.first(), Some(Action::CallModel { .. })) {
            return Err(format!("no prompt after call {call}: {actions:?}").into());
        }
    }
    Ok(costs)
}
