//! The text of a message, by a template in Jinja's language. Pure.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use thiserror::Error;

use crate::notifications::events::{Announcement, Happening, Role, Severity, Subject, Topic};

/// Instructions that one message may take: some thousand times what a long one needs.
const FUEL: u64 = 100_000;
const NAME: &str = "template";

/// Why a template cannot be used.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// It is not a template.
    #[error("failed to parse the template")]
    Parse(#[source] minijinja::Error),
    /// It asks for something that messages do not have, or takes too long.
    #[error("failed to write {happening} with the template")]
    Render {
        /// Of which happening.
        happening: &'static str,
        /// What the engine said.
        #[source]
        source: minijinja::Error,
    },
}

/// What templates may name. Texts alone, so that `{% if plan %}` works: what is absent is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Name of the cluster, from the operator's configuration.
    pub cluster: String,
    /// Namespace of the AgentDeployment.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Generation of its spec.
    pub generation: String,
    /// What happened, as a word: `RolledBack`.
    pub happening: &'static str,
    /// The same for people: `rolled back`.
    pub title: &'static str,
    /// critical, error, warning or info.
    pub severity: &'static str,
    /// Slack's emoji for the severity.
    pub emoji: &'static str,
    /// What happened, with numbers.
    pub message: String,
    /// Hash of the plan.
    pub plan: String,
    /// Name of the objective.
    pub objective: String,
    /// When, as RFC 3339 in UTC.
    pub time: String,
}

impl Context {
    /// What an announcement says.
    pub fn of(announcement: &Announcement, cluster: &str) -> Self {
        let objective = match &announcement.topic {
            Topic::Objective(name) => name.clone(),
            Topic::Rollout(_) | Topic::Engine(_) | Topic::Drift | Topic::Problem => String::new(),
        };
        let Subject { namespace, name, uid: _ } = announcement.subject.clone();
        Self {
            cluster: cluster.to_owned(),
            namespace,
            name,
            generation: announcement.generation.to_string(),
            happening: announcement.happening.as_str(),
            title: announcement.happening.title(),
            severity: announcement.severity.as_str(),
            emoji: emoji(announcement),
            message: announcement.message.clone(),
            plan: announcement.plan.clone().unwrap_or_default(),
            objective,
            time: announcement.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }
    }

    /// The context with every text of a user's passed through a function.
    pub fn map(self, escape: impl Fn(&str) -> String) -> Self {
        let Self { cluster, namespace, name, message, plan, objective, .. } = &self;
        let [cluster, namespace, name, message, plan, objective] =
            [cluster, namespace, name, message, plan, objective].map(|text| escape(text));
        Self { cluster, namespace, name, message, plan, objective, ..self }
    }

    fn value(&self) -> Value {
        let Self {
            cluster,
            namespace,
            name,
            generation,
            happening,
            title,
            severity,
            emoji,
            message,
            plan,
            objective,
            time,
        } = self;
        Value::from_pairs([
            ("cluster", cluster.as_str()),
            ("namespace", namespace),
            ("name", name),
            ("generation", generation),
            ("happening", happening),
            ("title", title),
            ("severity", severity),
            ("emoji", emoji),
            ("message", message),
            ("plan", plan),
            ("objective", objective),
            ("time", time),
        ])
    }

    fn sample(happening: Happening) -> Self {
        Self {
            cluster: "production".to_owned(),
            namespace: "team".to_owned(),
            name: "support-agent".to_owned(),
            generation: "1".to_owned(),
            happening: happening.as_str(),
            title: happening.title(),
            severity: Severity::Warning.as_str(),
            emoji: ":warning:",
            message: "what happened".to_owned(),
            plan: String::new(),
            objective: String::new(),
            time: "2026-01-01T00:00:00Z".to_owned(),
        }
    }
}

/// Good news are green, whatever they end.
fn emoji(announcement: &Announcement) -> &'static str {
    match (announcement.happening.role(), announcement.severity) {
        (Role::Closes, _) => ":large_green_circle:",
        (_, Severity::Critical | Severity::Error) => ":red_circle:",
        (_, Severity::Warning) => ":large_orange_circle:",
        (_, Severity::Info) => ":large_blue_circle:",
    }
}

/// A template that can write every happening.
#[derive(Debug, Clone)]
pub struct Template {
    environment: Environment<'static>,
}

impl Template {
    /// Reads a template, and tries it on every happening.
    ///
    /// # Errors
    /// When it does not parse, or names something that messages do not have.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // JSON escapes what must be escaped; the texts themselves are no HTML.
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.add_template_owned(NAME, source.to_owned()).map_err(TemplateError::Parse)?;
        let template = Self { environment };
        for happening in Happening::ALL {
            template.render(&Context::sample(happening))?;
        }
        Ok(template)
    }

    /// Writes a message.
    ///
    /// # Errors
    /// When the template asks for something that this message does not have.
    pub fn render(&self, context: &Context) -> Result<String, TemplateError> {
        let rendered = self.environment.get_template(NAME).and_then(|template| template.render(context.value()));
        rendered.map_err(|source| TemplateError::Render { happening: context.happening, source })
    }
}
