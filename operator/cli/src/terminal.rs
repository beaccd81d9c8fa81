//! The terminal: whether there is one, its size, and whether it shows colours. Reads IO and the environment.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use rustix::termios::tcgetwinsize;

use crate::{frame::Size, tree::lines::Ink};

/// Columns where nobody says how many there are.
pub const DEFAULT_WIDTH: usize = 120;

/// The size of the terminal behind standard output; none where that is a file or a pipe, or cannot be drawn upon.
pub fn size() -> Option<Size> {
    let is_dumb = env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb");
    if is_dumb || !io::stdout().is_terminal() {
        return None;
    }
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(Size { columns: size.ws_col.into(), rows: size.ws_row.into() }).filter(|size| size.columns > 0)
}

/// Colours on a terminal, unless NO_COLOR is set (<https://no-color.org>).
pub fn ink() -> Ink {
    let is_refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if size().is_none() || is_refused { Ink::None } else { Ink::Colours }
}
