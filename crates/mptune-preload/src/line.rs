//! One line of JSON in a room of fixed size.

use std::fmt::{self, Write};

/// Longest line, bytes: 16 subflows fit.
const ROOM: usize = 7168;

/// A line that is being written. What does not fit is refused, and leaves no half behind.
pub struct Line {
    bytes: [u8; ROOM],
    length: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Self {
        Self { bytes: [0; ROOM], length: 0 }
    }

    /// Its content.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }

    /// Writes all of `part`, or nothing if it leaves less than `spare` bytes of room.
    pub fn whole(
        &mut self,
        spare: usize,
        part: impl FnOnce(&mut Self) -> fmt::Result,
    ) -> fmt::Result {
        let before = self.length;
        let written = part(self);
        if written.is_err() || ROOM.saturating_sub(self.length) < spare {
            self.length = before;
            return Err(fmt::Error);
        }
        Ok(())
    }

    /// Text in quotation marks; what is not printable ASCII is left out.
    pub fn quoted(&mut self, text: &[u8]) -> fmt::Result {
        self.write_char('"')?;
        for &byte in text {
            match byte {
                b'"' | b'\\' => write!(self, "\\{}", char::from(byte))?,
                b' '..=b'~' => self.write_char(char::from(byte))?,
                _ => {}
            }
        }
        self.write_char('"')
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length.saturating_add(text.len());
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may fail")]
mod tests {
    use super::*;

    #[test]
    fn quotation_marks_are_escaped_and_control_characters_left_out() {
        let mut line = Line::new();
        line.quoted(b"a\"b\\c\n\xff").unwrap();
        assert_eq!(line.as_bytes(), br#""a\"b\\c""#);
    }

    #[test]
    fn what_does_not_fit_leaves_nothing_behind() {
        let mut line = Line::new();
        line.write_str("[").unwrap();
        while line.whole(2, |line| line.write_str("0123456789,")).is_ok() {}
        assert!(line.as_bytes().ends_with(b"9,"));
        line.write_str("]\n").unwrap();
        assert!(line.as_bytes().len() <= ROOM);
    }
}
