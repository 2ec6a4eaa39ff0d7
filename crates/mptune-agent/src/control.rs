//! Standard input, standard output and signals of the agent, none of which it waits for without a
//! limit: the measurement continues whatever the other end of a pipe does.

use crate::kernel::signals;
use crate::kernel::sys::{self, Watch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Longest write that a pipe with reported room accepts at once (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;
/// Time for which a reader may leave the pipe full at the end.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// The same after a signal.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// Time for a role to end after SIGTERM or SIGINT, however stuck it is.
pub const GRACE: Duration = Duration::from_secs(10);
/// Longest line accepted; a configuration is a few hundred bytes.
const LINE_BYTES: usize = 1 << 20;
/// Longest wait if nothing else limits it.
const TICK: Duration = Duration::from_secs(1);

/// Absence of a configuration, or input that cannot be read.
#[derive(Debug, Error)]
pub enum Error {
    /// Standard input ended before its first line.
    #[error("configuration: expected a line of JSON")]
    Missing,
    /// The first line is something else.
    #[error("configuration: {0}")]
    Configuration(serde_json::Error),
    /// A signal came first.
    #[error("ended by {0}")]
    Signal(&'static str),
    /// Standard input or output cannot be used.
    #[error("standard input: {0}")]
    Input(#[from] io::Error),
}

/// Input from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A line on standard input.
    Line(String),
    /// Standard input was closed: the program that started this one is gone or wants it to end.
    Closed,
    /// A signal, by name.
    Signal(&'static str),
}

/// The process's connections to the outside.
pub struct Control {
    signals: File,
    /// A signal has asked for the end.
    ending: bool,
    input: File,
    output: File,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
}

impl Control {
    /// Takes over standard input and output, SIGTERM, SIGINT and SIGHUP.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            signals: signals::as_file(GRACE)?,
            ending: false,
            input: io::stdin().as_fd().try_clone_to_owned()?.into(),
            output: io::stdout().as_fd().try_clone_to_owned()?.into(),
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
        })
    }

    /// The first line: the configuration of the role.
    ///
    /// # Errors
    /// The end of the wait, or of the input, without a configuration.
    pub fn configuration<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        loop {
            match self.wait(&mut [], TICK)? {
                Some(Input::Line(line)) => {
                    return serde_json::from_str(&line).map_err(Error::Configuration);
                }
                Some(Input::Closed) => return Err(Error::Missing),
                Some(Input::Signal(name)) => return Err(Error::Signal(name)),
                None => {}
            }
        }
    }

    /// The next input from outside; none if one of `watches` is ready or the time is over first.
    /// Pending output is written meanwhile.
    ///
    /// # Errors
    /// Standard input or output can no longer be used.
    pub fn wait(
        &mut self,
        watches: &mut [Watch<'_>],
        timeout: Duration,
    ) -> io::Result<Option<Input>> {
        if let Some(line) = self.next_line()? {
            return Ok(Some(Input::Line(line)));
        }
        let mut all = vec![Watch::readable(&self.signals), Watch::readable(&self.input)];
        all.extend(watches.iter().map(|watch| Watch { ready: false, ..*watch }));
        if !self.outgoing.is_empty() {
            all.push(Watch::writable(&self.output));
        }
        sys::wait(&mut all, timeout)?;
        let ready: Vec<_> = all.iter().map(|watch| watch.ready).collect();
        for (watch, ready) in watches.iter_mut().zip(&ready[2..]) {
            watch.ready = *ready;
        }
        if ready.get(2 + watches.len()) == Some(&true) {
            self.write_some()?;
        }
        if ready[0]
            && let Some(name) = signals::next(&self.signals)?
        {
            self.ending = true;
            return Ok(Some(Input::Signal(name)));
        }
        if ready[1] { self.read() } else { Ok(None) }
    }

    /// The descriptor of signals, for a wait for something else.
    pub fn signals(&self) -> &File {
        &self.signals
    }

    fn read(&mut self) -> io::Result<Option<Input>> {
        let mut bytes = [0; PIPE_BYTES];
        match self.input.read(&mut bytes) {
            Ok(0) => Ok(Some(Input::Closed)),
            Ok(length) => {
                self.incoming.extend(&bytes[..length]);
                Ok(self.next_line()?.map(Input::Line))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn next_line(&mut self) -> io::Result<Option<String>> {
        let Some(end) = self.incoming.iter().position(|&byte| byte == b'\n') else {
            let too_long = self.incoming.len() > LINE_BYTES;
            return if too_long { Err(io::Error::other("the line is too long")) } else { Ok(None) };
        };
        let line: Vec<u8> = self.incoming.drain(..=end).collect();
        Ok(Some(String::from_utf8_lossy(&line).trim().to_owned()))
    }

    /// Queues a line of JSON, which is written by the next waits or by [`flush`].
    ///
    /// [`flush`]: Control::flush
    pub fn tell(&mut self, message: &impl Serialize) {
        self.pass_on(&serde_json::to_string(message).expect("structures always serialise"));
    }

    /// Queues a line that is JSON already.
    pub fn pass_on(&mut self, line: &str) {
        self.outgoing.extend(line.as_bytes());
        self.outgoing.push_back(b'\n');
    }

    /// Bytes of output that the reader has not taken yet.
    pub fn pending(&self) -> usize {
        self.outgoing.len()
    }

    /// The descriptor of output.
    pub fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Writes pending output.
    ///
    /// # Errors
    /// The reader is gone, or the pipe stays full.
    pub fn flush(&mut self) -> io::Result<()> {
        let patience = if self.ending { LAST_PATIENCE } else { WRITE_PATIENCE };
        let end = Instant::now() + patience;
        while !self.outgoing.is_empty() {
            let mut watches = [Watch::writable(&self.output)];
            sys::wait(&mut watches, end.saturating_duration_since(Instant::now()))?;
            if watches[0].ready {
                self.write_some()?;
            } else if Instant::now() >= end {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Writes as much as the pipe accepts without waiting.
    fn write_some(&mut self) -> io::Result<()> {
        let (next, _) = self.outgoing.as_slices();
        let written = (&self.output).write(&next[..next.len().min(PIPE_BYTES)])?;
        self.outgoing.drain(..written);
        Ok(())
    }
}
