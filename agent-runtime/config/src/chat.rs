//! Whose chat template writes an agent's prompts.

use serde::{Deserialize, Serialize};
use slipway_vocabulary::ToolCallDialect;

/// A checkpoint whose chat template is used, where it has one. Where it has none, `promptTemplate` counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatTemplate {
    /// Folder with `tokenizer_config.json`, and `chat_template.jinja` where there is one.
    pub folder: String,
    /// How the model writes calls. Absent means that its template tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<ToolCallDialect>,
}
