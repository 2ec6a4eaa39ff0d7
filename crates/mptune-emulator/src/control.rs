//! Commands to the running emulator: lines of JSON on its standard input.

use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// A line after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Command {
    /// Starts the network at time 0.
    Start,
    /// Cuts a path.
    Down { path: usize },
    /// Restores it.
    Up { path: usize },
    /// The end.
    Stop,
}

impl Command {
    /// Parses a line; `paths` is the number of paths.
    ///
    /// # Errors
    /// The expected command.
    pub fn parse(line: &[u8], paths: usize) -> Result<Self, String> {
        let command = serde_json::from_slice(line)
            .map_err(|error| format!("command: expected start, down, up or stop: {error}"))?;
        if let Self::Down { path } | Self::Up { path } = command {
            if path >= paths {
                return Err(format!("command: expected a path below {paths}, found {path}"));
            }
        }
        Ok(command)
    }
}

/// Lines of a file that is read when input is available.
#[derive(Debug)]
pub(crate) struct Lines {
    file: File,
    pending: Vec<u8>,
    ended: bool,
}

impl Lines {
    pub fn new(file: File) -> Self {
        Self { file, pending: Vec::new(), ended: false }
    }

    /// Reads once; waits only if there is nothing to read.
    pub fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1 << 16];
        let length = self.file.read(&mut buffer)?;
        self.ended = length == 0;
        self.pending.extend_from_slice(&buffer[..length]);
        Ok(())
    }

    /// The next complete line that was read.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.pending.iter().position(|&byte| byte == b'\n')?;
        let mut line: Vec<u8> = self.pending.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// No more lines will follow.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

impl AsFd for Lines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn commands_are_read_and_wrong_ones_refused() {
        let parse = |line: &str| Command::parse(line.as_bytes(), 4);
        assert_eq!(parse(r#"{"action": "start"}"#), Ok(Command::Start));
        assert_eq!(parse(r#"{"action": "down", "path": 3}"#), Ok(Command::Down { path: 3 }));
        for wrong in [
            r#"{"action": "up", "path": 4}"#,
            r#"{"action": "up"}"#,
            r#"{"action": "fly"}"#,
            "start",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

        #[test]
        fn lines_are_whole_however_they_come(lines in prop::collection::vec("[a-z]{0,9}", 1..9), cut in 1usize..9) {
            let (reader, mut writer) = UnixStream::pair().expect("a socket");
            let mut read = Lines::new(File::from(OwnedFd::from(reader)));
            let text = lines.join("\n") + "\nrest";
            let mut received = Vec::new();
            for part in text.as_bytes().chunks(cut) {
                writer.write_all(part).expect("written");
                read.fill().expect("read");
                received.extend(std::iter::from_fn(|| read.next()));
            }
            drop(writer);
            read.fill().expect("read");
            prop_assert!(read.ended() && read.next().is_none());
            prop_assert_eq!(received, lines.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        }
    }
}
