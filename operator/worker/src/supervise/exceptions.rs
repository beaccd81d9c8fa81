//! What vLLM's processes raised, as their log says. Pure.
//!
//! Each line begins with its process, such as `(EngineCore pid=133)`. The engine's process says what went wrong; the
//! server's raises another exception because of it, some eighty lines later.

/// The exceptions that a log ends with, the first raised first, each once and without the process and the place that
/// logged it.
pub fn raised(lines: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(exception) = written_by_a_process(line).filter(|text| is_exception(text)) else { continue };
        // Some say in the next line what is wrong.
        let more = lines.get(at + 1).and_then(|next| written_by_a_process(next)).filter(|text| is_continued(text));
        let text = more.map_or_else(|| exception.to_owned(), |more| format!("{exception} {}", more.trim()));
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// The text after the process, and after the place of an error's record. Records of other levels give no reason.
fn written_by_a_process(line: &str) -> Option<&str> {
    let (process, text) = line.strip_prefix('(')?.split_once(") ")?;
    if !process.contains(" pid=") {
        return None;
    }
    match text.strip_prefix("ERROR ") {
        Some(record) => record.split_once("] ").map(|(_, text)| text),
        None => Some(text),
    }
}

/// Whether a text begins with the name of an exception, as the last line of a traceback does.
fn is_exception(text: &str) -> bool {
    let Some((name, _)) = text.split_once(": ") else { return false };
    let is_name = name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_'));
    is_name && (name.ends_with("Error") || name.ends_with("Exception"))
}

fn is_continued(text: &str) -> bool {
    text.starts_with("  ") && !text.starts_with("  File ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    /// Shortened from vLLM 0.25.0 on an H100.
    const NO_NINJA: &str = "\
(EngineCore pid=133) WARNING 11-23 15:53:06 [import_utils.py:408] ModuleNotFoundError: No module named 'elftools'
(EngineCore pid=133) INFO 11-23 15:53:28 [model_runner.py:722] Graph capturing finished in 1 secs, took 0.10 GiB
(EngineCore pid=133) Process EngineCore:
(EngineCore pid=133) Traceback (most recent call last):
(EngineCore pid=133)     raise child_exception_type(errno_num, err_msg, err_filename)
(EngineCore pid=133) FileNotFoundError: [Errno 2] No such file or directory: 'ninja'
(EngineCore pid=133) ERROR 11-23 15:53:36 [core.py:1231] EngineCore failed to start.
(EngineCore pid=133) ERROR 11-23 15:53:36 [core.py:1231] Traceback (most recent call last):
(EngineCore pid=133) ERROR 11-23 15:53:36 [core.py:1231] FileNotFoundError: [Errno 2] No such file or directory: 'ninja'
(APIServer pid=23) Traceback (most recent call last):
(APIServer pid=23)     raise RuntimeError(
(APIServer pid=23) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}";

    #[test]
    fn what_the_engine_raised_comes_before_what_the_server_made_of_it() {
        assert_eq!(
            raised(&lines(NO_NINJA)),
            [
                "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
                "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            ]
        );
    }

    #[test]
    fn an_exception_is_told_with_the_line_that_explains_it() {
        let log = "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n\
                   (APIServer pid=1)   Value error, 8192 is greater than the derived max_model_len";
        let expected = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig \
                        Value error, 8192 is greater than the derived max_model_len";
        assert_eq!(raised(&lines(log)), [expected]);
    }

    #[test]
    fn other_logs_have_none() {
        let log = "ValueError: of no process\nvllm: error: unrecognized arguments: --x\n(core dumped) Error: x";
        assert_eq!(raised(&lines(log)), Vec::<String>::new());
    }
}
