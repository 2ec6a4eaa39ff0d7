//! Standard input, standard output and signals of the meter's process, none of which it waits for
//! without a limit.

use crate::sys::{self, Watch};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Longest write that a pipe that reports room takes at once (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;
/// How long a reader may leave the pipe full.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Longest line accepted; a configuration is a few hundred bytes.
const LINE_BYTES: usize = 1 << 20;

/// What came from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A line on standard input.
    Line(String),
    /// Standard input was closed: whoever started the meter is gone.
    Closed,
    /// A signal, by name.
    Signal(&'static str),
}

/// The process's connections to the outside.
pub struct Control {
    signals: File,
    input: File,
    output: File,
    pending: Vec<u8>,
}

impl Control {
    /// Takes over standard input and output, SIGTERM and SIGINT. Before any thread is started: they
    /// inherit that the signals are withheld.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            signals: sys::signals_as_file()?,
            input: io::stdin().as_fd().try_clone_to_owned()?.into(),
            output: io::stdout().as_fd().try_clone_to_owned()?.into(),
            pending: Vec::new(),
        })
    }

    /// What comes next; none if `bell` rang or the time is over before.
    pub fn next(&mut self, bell: Option<&File>, timeout: Duration) -> io::Result<Option<Input>> {
        if let Some(line) = self.pending_line()? {
            return Ok(Some(Input::Line(line)));
        }
        let mut watches = vec![Watch::readable(&self.signals), Watch::readable(&self.input)];
        watches.extend(bell.map(Watch::readable));
        sys::wait(&mut watches, timeout)?;
        let (signal, input) = (watches[0].ready, watches[1].ready);
        if signal {
            return self.signal().map(Some);
        }
        if input {
            return self.read();
        }
        Ok(None)
    }

    fn signal(&self) -> io::Result<Input> {
        let mut info = [0; 128]; // struct signalfd_siginfo, whose first field is the number
        (&self.signals).read_exact(&mut info)?;
        let number = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
        Ok(Input::Signal(if number == libc::SIGINT { "SIGINT" } else { "SIGTERM" }))
    }

    fn read(&mut self) -> io::Result<Option<Input>> {
        let mut bytes = [0; PIPE_BYTES];
        match self.input.read(&mut bytes) {
            Ok(0) => Ok(Some(Input::Closed)),
            Ok(length) => {
                self.pending.extend(&bytes[..length]);
                Ok(self.pending_line()?.map(Input::Line))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn pending_line(&mut self) -> io::Result<Option<String>> {
        let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') else {
            let too_long = self.pending.len() > LINE_BYTES;
            return if too_long { Err(io::Error::other("a line too long")) } else { Ok(None) };
        };
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        Ok(Some(String::from_utf8_lossy(&line).trim().to_owned()))
    }

    /// Writes a line.
    ///
    /// # Errors
    /// Nobody reads, or the pipe stays full.
    pub fn print(&mut self, line: &str) -> io::Result<()> {
        let end = Instant::now() + WRITE_PATIENCE;
        let line = format!("{line}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            let mut watches = [Watch::writable(&self.output)];
            sys::wait(&mut watches, end.saturating_duration_since(Instant::now()))?;
            if watches[0].ready {
                let written = (&self.output).write(&rest[..rest.len().min(PIPE_BYTES)])?;
                rest = &rest[written..];
            } else if Instant::now() >= end {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}
