//! Standard input, and the signals that ask for the end.

use crate::error::ProcessError;
use crate::sys;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most bytes of a line: traces of links may be long.
const LINE: usize = 256 << 20;
/// Its name in errors.
pub(crate) const STANDARD_INPUT: &str = "standard input";
/// Files to wait for besides the devices.
pub(crate) const INPUTS: usize = 2;

/// The sources of commands and of the end.
pub(crate) struct Inputs {
    termination: OwnedFd,
    pub lines: Lines,
    terminated: bool,
}

impl Inputs {
    pub fn open() -> io::Result<Self> {
        let termination = sys::catch_termination()?;
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { termination, lines: Lines::new(file), terminated: false })
    }

    /// Files to wait for.
    pub fn files(&self) -> [libc::pollfd; INPUTS] {
        [sys::readable(self.termination.as_fd()), sys::readable(self.lines.as_fd())]
    }

    /// Takes the results of the wait.
    pub fn take(&mut self, polled: &[libc::pollfd]) -> Result<(), ProcessError> {
        self.terminated |= polled[0].revents != 0;
        if polled[1].revents != 0 {
            self.lines.fill().map_err(|error| ProcessError::System(STANDARD_INPUT, error))?;
        }
        Ok(())
    }

    pub fn ended(&self) -> bool {
        self.terminated || self.lines.ended()
    }

    /// Waits for the next line; none if the end comes first.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, ProcessError> {
        loop {
            if let Some(line) = self.lines.next() {
                return Ok(Some(line));
            }
            if self.ended() {
                return Ok(None);
            }
            let mut files = self.files();
            sys::wait(&mut files, false).map_err(|error| ProcessError::System("waiting", error))?;
            self.take(&files)?;
        }
    }
}

/// Lines of a file that is read when input is available.
#[derive(Debug)]
pub(crate) struct Lines {
    file: File,
    pending: Vec<u8>,
    /// So many of them are known to have no end of a line.
    searched: usize,
    ended: bool,
}

impl Lines {
    pub fn new(file: File) -> Self {
        Self { file, pending: Vec::new(), searched: 0, ended: false }
    }

    /// Reads once; waits only if there is nothing to read.
    ///
    /// # Errors
    /// The file cannot be read, or a line is too long.
    pub fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1 << 16];
        let length = self.file.read(&mut buffer)?;
        self.ended = length == 0;
        if self.pending.len() > LINE {
            return Err(io::Error::other("the line is too long"));
        }
        self.pending.extend_from_slice(&buffer[..length]);
        Ok(())
    }

    /// The next complete line that was read.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        let new = &self.pending[self.searched..];
        let Some(end) = new.iter().position(|&byte| byte == b'\n') else {
            self.searched = self.pending.len();
            return None;
        };
        let end = self.searched + end;
        self.searched = 0;
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
    use std::os::unix::net::UnixStream;

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
