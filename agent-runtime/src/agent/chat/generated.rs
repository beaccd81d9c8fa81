//! The last turn of a run as the template writes it, so that the next prompt can keep its tokens. Pure.

use minijinja::Value;

use crate::agent::{state::Step, transcript::GeneratedTurn};

use super::{Talk, Turns};

impl Talk {
    /// The last turn, as the engine gave it. Where the template writes all of it, though in other words, the next
    /// prompt can go on from it. Of that prompt, `at` has the part that is the one before, and the rest.
    pub(in crate::agent) fn generated(&self, steps: &[Step], at: Option<(&str, &str)>) -> GeneratedTurn {
        let Some((step, earlier)) = steps.split_last() else { return GeneratedTurn::default() };
        let turn = GeneratedTurn { written: None, said: step.text.clone(), tokens: step.generated.clone() };
        let is_whole = !turn.tokens.is_empty() && self.format.is_one_message(step);
        let Some((before, rest)) = at.filter(|_| is_whole) else { return turn };
        let fits = |text: &String| rest.starts_with(text.as_str()) && self.format.has_all(step, text);
        let written = self.alone(step).filter(fits).or_else(|| self.in_place(before, step, earlier).filter(fits));
        GeneratedTurn { written, ..turn }
    }

    /// What the template writes of a turn behind the last question alone. That costs the same however long the run is,
    /// and most templates write the same behind all steps.
    fn alone(&self, step: &Step) -> Option<String> {
        let is_question = |message: &Value| message.get_attr("role").is_ok_and(|role| role.as_str() == Some("user"));
        let messages = &self.messages[self.messages.iter().rposition(is_question)?..];
        let asked = self.of_question.get_or_init(|| {
            self.format.render(messages.to_vec(), &self.offer, Turns::AreAsked, self.now).ok().map(|asked| asked.text)
        });
        self.behind(asked.as_deref()?, messages.to_vec(), step)
    }

    /// The same behind all earlier steps, for templates that number calls.
    fn in_place(&self, asked: &str, step: &Step, earlier: &[Step]) -> Option<String> {
        let mut messages = self.messages.clone();
        earlier.iter().for_each(|step| self.format.write(step, &self.offer, &mut messages));
        self.behind(asked, messages, step)
    }

    fn behind(&self, asked: &str, mut messages: Vec<Value>, step: &Step) -> Option<String> {
        let before = messages.len();
        self.format.write(step, &self.offer, &mut messages);
        if messages.len() == before {
            return None;
        }
        messages.truncate(before + 1);
        let written = self.format.render(messages, &self.offer, Turns::AreOver, self.now).ok()?;
        written.text.strip_prefix(asked).map(str::to_owned)
    }
}
