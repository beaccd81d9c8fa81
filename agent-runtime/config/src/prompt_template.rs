//! The prompt template: literal text with placeholders. Pure.

use std::fmt;

/// A parsed prompt template.
///
/// Placeholders are `{systemPrompt}`, `{messages}`, `{question}` and `{tools}`; `{{` and `}}` are braces.
/// **A line whose placeholders are all empty is left out**: without a system prompt the default template
/// renders no `System:` line. The transcript of the run always follows the rendered text.
///
/// `{messages}` is the whole conversation in the transcript grammar: `Question: ..\nAnswer: ..\n\n` per earlier turn,
/// then `Question: ..\n`. `{question}` is the bare text of the last user message, for templates that write their own
/// labels. A template names exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    lines: Vec<Vec<Part>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

/// What a template can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// The agent's system prompt.
    SystemPrompt,
    /// The conversation in the transcript grammar.
    Messages,
    /// The last user message alone.
    Question,
    /// One line `name: description` per tool.
    Tools,
}

/// The values for a template's placeholders.
#[derive(Clone, Copy, Debug, Default)]
pub struct PromptValues<'a> {
    /// For `{systemPrompt}`.
    pub system_prompt: &'a str,
    /// For `{messages}`.
    pub messages: &'a str,
    /// For `{question}`.
    pub question: &'a str,
    /// For `{tools}`.
    pub tools: &'a str,
}

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptTemplateError {
    /// A placeholder nobody knows.
    #[error(
        "unknown placeholder {{{name}}}; use {{systemPrompt}}, {{messages}}, {{question}} or {{tools}}, and {{{{ for a brace"
    )]
    UnknownPlaceholder {
        /// The text between the braces.
        name: String,
    },
    /// A brace without its partner.
    #[error("a brace is not closed; write {{{{ or }}}} where a brace is meant literally")]
    UnbalancedBrace,
    /// Neither `{messages}` nor `{question}`.
    #[error("the user's question is missing; add {{messages}} (whole conversation) or {{question}} (last message)")]
    NoQuestion,
    /// Both, or one of them twice.
    #[error("the user's question appears more than once; keep one of {{messages}} and {{question}}")]
    RepeatedQuestion,
}

impl PromptTemplate {
    /// The template of an agent that names none.
    pub const DEFAULT: &'static str = "System: {systemPrompt}\n{messages}";

    /// Parses a template.
    ///
    /// # Errors
    /// Unknown placeholders, unbalanced braces, and templates that do not hold the question exactly once.
    pub fn parse(template: &str) -> Result<Self, PromptTemplateError> {
        let lines: Vec<_> = template.split_inclusive('\n').map(parse_line).collect::<Result<_, _>>()?;
        let parsed = Self { lines };
        match parsed.count(Placeholder::Messages) + parsed.count(Placeholder::Question) {
            0 => Err(PromptTemplateError::NoQuestion),
            1 => Ok(parsed),
            _ => Err(PromptTemplateError::RepeatedQuestion),
        }
    }

    /// Whether earlier turns of a conversation have a place in this template.
    pub fn takes_conversation(&self) -> bool {
        self.count(Placeholder::Messages) == 1
    }

    /// Whether instructions have a place in this template.
    pub fn takes_system_prompt(&self) -> bool {
        self.count(Placeholder::SystemPrompt) > 0
    }

    /// Renders the template; lines whose placeholders are all empty are left out.
    pub fn render(&self, values: &PromptValues<'_>) -> String {
        self.lines.iter().filter(|line| !is_blank(line, values)).flatten().map(|part| part.text(values)).collect()
    }

    fn count(&self, placeholder: Placeholder) -> usize {
        self.lines.iter().flatten().filter(|part| **part == Part::Value(placeholder)).count()
    }
}

impl Part {
    fn text<'a>(&'a self, values: &PromptValues<'a>) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Value(placeholder) => placeholder.value(values),
        }
    }
}

impl Placeholder {
    fn value<'a>(self, values: &PromptValues<'a>) -> &'a str {
        match self {
            Self::SystemPrompt => values.system_prompt,
            Self::Messages => values.messages,
            Self::Question => values.question,
            Self::Tools => values.tools,
        }
    }

    fn parse(name: &str) -> Result<Self, PromptTemplateError> {
        match name {
            "systemPrompt" => Ok(Self::SystemPrompt),
            "messages" => Ok(Self::Messages),
            "question" => Ok(Self::Question),
            "tools" => Ok(Self::Tools),
            unknown => Err(PromptTemplateError::UnknownPlaceholder { name: unknown.into() }),
        }
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SystemPrompt => "{systemPrompt}",
            Self::Messages => "{messages}",
            Self::Question => "{question}",
            Self::Tools => "{tools}",
        })
    }
}

fn is_blank(line: &[Part], values: &PromptValues<'_>) -> bool {
    let mut placeholders = line.iter().filter_map(|part| match part {
        Part::Value(placeholder) => Some(placeholder.value(values)),
        Part::Text(_) => None,
    });
    match placeholders.next() {
        None => false,
        Some(first) => first.is_empty() && placeholders.all(str::is_empty),
    }
}

fn parse_line(line: &str) -> Result<Vec<Part>, PromptTemplateError> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '{' | '}' if characters.peek() == Some(&character) => {
                characters.next();
                text.push(character);
            }
            '{' => {
                let name: String = characters.by_ref().take_while(|c| *c != '}').collect();
                if name.contains(['\n', '{']) {
                    return Err(PromptTemplateError::UnbalancedBrace);
                }
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Value(Placeholder::parse(&name)?));
            }
            '}' => return Err(PromptTemplateError::UnbalancedBrace),
            plain => text.push(plain),
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn render(template: &str, values: PromptValues<'_>) -> String {
        PromptTemplate::parse(template).unwrap().render(&values)
    }

    #[test]
    fn default_template_has_a_system_line_only_with_a_system_prompt() {
        let values = PromptValues { messages: "Question: hi\n", ..PromptValues::default() };
        assert_eq!(render(PromptTemplate::DEFAULT, values), "Question: hi\n");
        let values = PromptValues { system_prompt: "Be brief.", ..values };
        assert_eq!(render(PromptTemplate::DEFAULT, values), "System: Be brief.\nQuestion: hi\n");
    }

    #[test]
    fn lines_without_placeholders_stay_and_doubled_braces_are_literal() {
        let values = PromptValues { question: "hi", ..PromptValues::default() };
        assert_eq!(render("{{json}}\nTools: {tools}\n\nQ: {question}\n", values), "{json}\n\nQ: hi\n");
    }

    #[test]
    fn braces_in_values_are_not_expanded_again() {
        let values = PromptValues { question: "{tools}", tools: "secret", ..PromptValues::default() };
        assert_eq!(render("{question}", values), "{tools}");
    }

    #[rstest]
    #[case::unknown("{messages}{user}", "unknown placeholder {user}")]
    #[case::open("{messages} {", "unknown placeholder {}")]
    #[case::over_the_line("{mess\nages}", "a brace is not closed")]
    #[case::closed_alone("{messages} }", "a brace is not closed")]
    #[case::no_question("System: {systemPrompt}\n", "add {messages}")]
    #[case::twice("{messages}{question}", "appears more than once")]
    fn bad_templates_say_what_to_change(#[case] template: &str, #[case] expected: &str) {
        let message = PromptTemplate::parse(template).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}
