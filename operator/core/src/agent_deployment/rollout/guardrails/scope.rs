//! Holds a tenant's query to the tenant's namespace. Pure.
//!
//! The operator asks with its own token, which sees the metrics of all. So every selector of the query must select one
//! namespace: a matcher is added to each that has none. The query is read by a small grammar of PromQL: where a value
//! is expected, a name that is not a call is a selector. Words of dialects, such as `or` among matchers, are refused:
//! they could disable the matcher.

use std::fmt::Write;

use super::{
    refusal::ScopeError,
    tokens::{Kind, Token, tokens},
};

/// What a query may read.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// Labels that hold the namespace of a metric. The first is matched where a selector matches none of them.
    pub labels: &'a [String],
}

/// The query, each selector of which selects the namespace.
///
/// # Errors
/// When Prometheus would not read it as a query, or it cannot be held to a namespace.
pub fn scoped(query: &str, scope: Scope<'_>) -> Result<String, ScopeError> {
    let tokens = tokens(query)?;
    let mut reader = Reader { tokens: &tokens, next: 0, open: 0, scope, added: Vec::new() };
    reader.read()?;
    let mut text = String::with_capacity(query.len());
    let mut copied = 0;
    for (at, added) in &reader.added {
        text.push_str(&query[copied..*at]);
        text.push_str(added);
        copied = *at;
    }
    text.push_str(&query[copied..]);
    Ok(text)
}

/// Words between two values.
const OPERATORS: [&str; 4] = ["and", "or", "unless", "atan2"];
/// Signs between two values.
const SIGNS: [&str; 12] = ["+", "-", "*", "/", "%", "^", "==", "!=", "<", ">", "<=", ">="];

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    /// Parentheses that are open.
    open: usize,
    scope: Scope<'a>,
    /// What is added, by its place.
    added: Vec<(usize, String)>,
}

impl<'a> Reader<'a> {
    /// Reads values, with what stands after and between them.
    fn read(&mut self) -> Result<(), ScopeError> {
        self.value()?;
        while self.after_value()? {
            self.value()?;
        }
        if self.open == 0 { Ok(()) } else { Err(ScopeError::Ended) }
    }

    /// Reads to the end of the first value, whatever is opened before it.
    fn value(&mut self) -> Result<(), ScopeError> {
        loop {
            let token = self.take()?;
            match token.kind {
                Kind::Number | Kind::Text => return Ok(()),
                Kind::Sign if token.is("+") || token.is("-") => {}
                Kind::Sign if token.is("(") => self.open += 1,
                Kind::Sign if token.is("{") => return self.matchers(),
                Kind::Sign => return Err(unexpected(token)),
                Kind::Name if self.is_call() => {
                    if self.call(token)? {
                        return Ok(());
                    }
                }
                Kind::Name if token.is_word(&["inf", "nan"]) => return Ok(()),
                Kind::Name if self.take_sign("{") => return self.matchers(),
                Kind::Name => {
                    let matcher = format!("{{{}}}", self.matcher());
                    self.added.push((token.at.end, matcher));
                    return Ok(());
                }
            }
        }
    }

    /// Whether a name is followed by what makes it a function or an aggregation.
    fn is_call(&self) -> bool {
        let has_list = |list: &Token<'_>| list.is_word(&["by", "without"]);
        self.peek().is_some_and(|next| next.is("(") || has_list(next))
    }

    /// Reads the beginning of a call; says whether it ends there too, for it has no values.
    fn call(&mut self, name: &Token<'_>) -> Result<bool, ScopeError> {
        if name.is_word(&["info"]) {
            return Err(ScopeError::Function { function: name.text.to_owned() });
        }
        if self.take_word(&["by", "without"]) {
            self.labels()?;
        }
        self.expect("(")?;
        if self.take_sign(")") {
            return Ok(true);
        }
        self.open += 1;
        Ok(false)
    }

    /// Reads what stands after a value, up to the next one or to the end; says whether there is to be a next one.
    fn after_value(&mut self) -> Result<bool, ScopeError> {
        while let Some(token) = self.peek() {
            self.next += 1;
            if token.is(")") && self.open > 0 {
                self.open -= 1;
                continue;
            }
            if token.is("[") {
                self.range()?;
            } else if token.is("@") {
                self.moment()?;
            } else if token.is_word(&["offset"]) {
                self.signed_number()?;
            } else if token.is_word(&["by", "without"]) {
                self.labels()?;
            } else if token.is(",") && self.open > 0 {
                return Ok(true);
            } else if token.is_word(&OPERATORS) || SIGNS.iter().any(|sign| token.is(sign)) {
                return self.matching().map(|()| true);
            } else {
                return Err(unexpected(token));
            }
        }
        Ok(false)
    }

    /// Reads how an operator matches its values.
    fn matching(&mut self) -> Result<(), ScopeError> {
        loop {
            if self.take_word(&["on", "ignoring"]) {
                self.labels()?;
            } else if self.take_word(&["group_left", "group_right"]) {
                if self.peek().is_some_and(|next| next.is("(")) {
                    self.labels()?;
                }
            } else if !self.take_word(&["bool"]) {
                return Ok(());
            }
        }
    }

    /// Reads a list of labels.
    fn labels(&mut self) -> Result<(), ScopeError> {
        self.expect("(")?;
        loop {
            let token = self.take()?;
            let is_label = matches!(token.kind, Kind::Name | Kind::Text);
            if token.is(")") {
                return Ok(());
            }
            if !is_label && !token.is(",") {
                return Err(unexpected(token));
            }
        }
    }

    /// Reads the rest of a range or of a subquery: `5m]`, `1h:5m]`.
    fn range(&mut self) -> Result<(), ScopeError> {
        loop {
            let token = self.take()?;
            let is_resolution = token.kind == Kind::Name && token.text.starts_with(':');
            if token.is("]") {
                return Ok(());
            }
            if token.kind != Kind::Number && !is_resolution {
                return Err(unexpected(token));
            }
        }
    }

    /// Reads the rest of `@ 1767225600` or `@ end()`.
    fn moment(&mut self) -> Result<(), ScopeError> {
        if self.take_word(&["start", "end"]) {
            self.expect("(")?;
            return self.expect(")");
        }
        self.signed_number()
    }

    fn signed_number(&mut self) -> Result<(), ScopeError> {
        let _ = self.take_sign("-") || self.take_sign("+");
        let token = self.take()?;
        if token.kind == Kind::Number { Ok(()) } else { Err(unexpected(token)) }
    }

    /// Reads the matchers of a selector whose brace is open, and adds one unless there is one already.
    fn matchers(&mut self) -> Result<(), ScopeError> {
        let begin = self.tokens[self.next - 1].at.end;
        let (mut is_scoped, mut is_empty) = (false, true);
        while !self.take_sign("}") {
            is_empty = false;
            is_scoped |= self.one_matcher()?;
            if !self.take_sign(",") && !self.peek().is_some_and(|next| next.is("}")) {
                return Err(self.take().map_or_else(|error| error, unexpected));
            }
        }
        if !is_scoped {
            let mut matcher = self.matcher();
            if !is_empty {
                matcher.push(',');
            }
            self.added.push((begin, matcher));
        }
        Ok(())
    }

    /// Reads `label="value"`, or the name of a metric in quotes; says whether it selects the namespace.
    fn one_matcher(&mut self) -> Result<bool, ScopeError> {
        let label = self.take()?;
        if !matches!(label.kind, Kind::Name | Kind::Text) {
            return Err(unexpected(label));
        }
        let is_metric = label.kind == Kind::Text && self.peek().is_some_and(|next| next.is(",") || next.is("}"));
        if is_metric {
            return Ok(false);
        }
        let operator = self.take()?;
        if !["=", "!=", "=~", "!~"].iter().any(|sign| operator.is(sign)) {
            return Err(unexpected(operator));
        }
        let value = self.take()?;
        if value.kind != Kind::Text {
            return Err(unexpected(value));
        }
        let is_of_scope = self.scope.labels.iter().any(|known| known == label.text);
        // A name of a namespace has no character that could be written in another way within quotes.
        Ok(is_of_scope && operator.is("=") && value.text[1..value.text.len() - 1] == *self.scope.namespace)
    }

    /// `namespace="team"`.
    fn matcher(&self) -> String {
        let mut text = self.scope.labels.first().cloned().unwrap_or_default();
        let _ = write!(text, "=\"{}\"", self.scope.namespace);
        text
    }

    fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Result<&'a Token<'a>, ScopeError> {
        let token = self.peek().ok_or(ScopeError::Ended)?;
        self.next += 1;
        Ok(token)
    }

    fn take_if(&mut self, is_it: impl FnOnce(&Token<'_>) -> bool) -> bool {
        let is_next = self.peek().is_some_and(is_it);
        self.next += usize::from(is_next);
        is_next
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        self.take_if(|token| token.is(sign))
    }

    fn take_word(&mut self, words: &[&str]) -> bool {
        self.take_if(|token| token.is_word(words))
    }

    fn expect(&mut self, sign: &str) -> Result<(), ScopeError> {
        let token = self.take()?;
        if token.is(sign) { Ok(()) } else { Err(unexpected(token)) }
    }
}

fn unexpected(token: &Token<'_>) -> ScopeError {
    ScopeError::Unexpected { found: token.text.to_owned(), at: token.at.start + 1 }
}

#[cfg(test)]
mod tests;
