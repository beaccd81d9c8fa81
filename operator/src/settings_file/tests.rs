use std::{error::Error as _, fs};

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_operator_core::settings::Settings;

use super::check_notifications;

fn settings(notifications: &str) -> Settings {
    let yaml = format!("images: {{worker: w, agentRuntime: r}}\nnotifications:\n{notifications}");
    serde_norway::from_str(&yaml).expect("the shape of a configuration")
}

/// The problem of a configuration whose only credential says this, or is missing.
fn problem_of_file(receiver: &str, says: Option<&str>) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(text) = says {
        fs::write(folder.path().join("credential"), text).expect("a file");
    }
    let yaml = format!("  folder: {}\n  receivers: [{{name: a, {receiver}}}]\n", folder.path().display());
    let Err(error) = check_notifications(&settings(&yaml).notifications) else { return String::new() };
    let (mut words, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words.replace(&folder.path().display().to_string(), "FOLDER")
}

const SLACK: &str = "slack: {urlFile: credential}";
const PAGER_DUTY: &str = "pagerDuty: {routingKeyFile: credential}";
const WEBHOOK: &str = "webhook: {url: 'https://example.com', secretFile: credential}";

#[rstest]
#[case(SLACK, None, "slack.urlFile", "failed to read FOLDER/credential: No such file or directory (os error 2)")]
#[case(
    SLACK,
    Some("hooks.slack.com/services/T0"),
    "slack.urlFile",
    "FOLDER/credential does not hold an http or https URL"
)]
#[case(PAGER_DUTY, Some("\n"), "pagerDuty.routingKeyFile", "FOLDER/credential is empty")]
#[case(
    WEBHOOK,
    Some("correct horse battery staple"),
    "webhook.secretFile",
    "FOLDER/credential holds no signing secret: line 1 is not whsec_ followed by 24 to 512 bytes in base64"
)]
fn a_credential_that_cannot_be_used_is_named(
    #[case] receiver: &str,
    #[case] says: Option<&str>,
    #[case] field: &str,
    #[case] problem: &str,
) {
    let expected = format!(
        "notifications.receivers[0].{field} of the configuration needs a usable credential: put it into the Secret that \
         notifications.secretName of the chart names: {problem}"
    );
    assert_eq!(problem_of_file(receiver, says), expected);
}

#[test]
fn credentials_that_are_there_are_taken_with_white_space_around_them() {
    assert_eq!(problem_of_file(SLACK, Some(" https://hooks.slack.com/services/T0/B0/x\n")), "");
    assert_eq!(problem_of_file(PAGER_DUTY, Some("0123456789abcdef0123456789abcdef\n")), "");
    assert_eq!(problem_of_file(WEBHOOK, Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")), "");
}
