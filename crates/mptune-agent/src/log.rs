//! Lines on standard error, which end up on a terminal or in a journal.
//!
//! Names of devices and programs, refusals of the kernel and lines of files are data: what does not print in
//! them is printed as an escape. Reports in JSON do not pass here; JSON has its own escapes.

use crate::kernel::sys::{self, Watch};
use std::io::Write;
use std::time::Duration;

/// Most characters of a line.
const LONGEST: usize = 2000;
/// Bytes of a line and its end for which a pipe has room if it has any (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// Writes a line. It neither fails where a terminal or a journal is gone, nor waits for one that nobody reads.
pub fn write(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let mut room = [Watch::writable(&stderr)];
    if sys::wait(&mut room, Duration::ZERO).is_ok() && room[0].ready {
        let mut line = visible(line);
        let mut end = line.len().min(PIPE_BYTES - 1);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        let _ = stderr.write_all((line + "\n").as_bytes());
    }
}

/// The text in one line, in which nothing controls a terminal or changes the direction of letters.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for (count, letter) in text.chars().enumerate() {
        if count == LONGEST {
            visible.push_str("...");
            break;
        }
        match letter {
            // These print; `escape_debug` is for literals of Rust.
            '"' | '\'' | '\\' => visible.push(letter),
            _ => visible.extend(letter.escape_debug()),
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prints_stays_as_it_is() {
        let text = "UiB-HiN 10.0.0.1->10.0.1.1 eth0: it's \"lost\" \\ Tromsø 日本 [red]";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn nothing_controls_a_terminal_and_nothing_is_lost() {
        for (text, expected) in [
            ("\x1b[2Jx", r"\u{1b}[2Jx"),
            ("\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("a\rb\nc\td\x08\x7f", r"a\rb\nc\td\u{8}\u{7f}"),
            ("\u{202e}gpj.exe\u{2066}", r"\u{202e}gpj.exe\u{2066}"),
            ("\u{2028}\u{200b}\u{feff}", r"\u{2028}\u{200b}\u{feff}"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }

    #[test]
    fn a_line_has_an_end() {
        assert_eq!(visible(&"x".repeat(100_000)).len(), LONGEST + 3);
    }
}
