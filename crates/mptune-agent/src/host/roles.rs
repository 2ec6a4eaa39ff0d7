//! The roles that a session runs on its host: children with pipes, whose lines pass through.
//!
//! Nothing waits for a child: it is sent what its pipe has room for, and its output is read as it comes.

use super::error::Error;
use super::protocol::Ended;
use crate::kernel::sys::Watch;
use crate::undo::detached::SELF;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// Roles that carry out what they have begun, whatever becomes of the session; they end with their input.
const FINISHING: [&str; 1] = ["settings"];
/// Longest write that a pipe with reported room accepts at once (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;
/// Bytes read at a time.
const CHUNK: usize = 1 << 16;
/// Longest line of a role: bins of a long trial are a few megabytes.
const LINE_BYTES: usize = 1 << 26;
/// Bytes of standard error that are kept, and characters of them that are reported.
const KEPT_BYTES: usize = 4096;
const TOLD_CHARACTERS: usize = 200;

/// News of a role.
#[derive(Debug, PartialEq)]
pub enum News {
    /// A line of JSON of its standard output.
    Said(u64, String),
    /// It has ended.
    Ended(Ended),
}

/// A running role.
struct Running {
    id: u64,
    /// It is one of `FINISHING`.
    finishes: bool,
    child: Child,
    input: Option<ChildStdin>,
    outgoing: Vec<u8>,
    closing: bool,
    output: Option<ChildStdout>,
    partial: Vec<u8>,
    errors: Option<ChildStderr>,
    error_output: Vec<u8>,
}

/// All roles of a session.
#[derive(Default)]
pub struct Roles {
    running: Vec<Running>,
}

impl Roles {
    /// Starts a role.
    ///
    /// # Errors
    /// There is a role of this number.
    pub fn start(&mut self, id: u64, role: &str) -> Result<Option<Ended>, Error> {
        if self.running.iter().any(|role| role.id == id) {
            return Err(Error::Number(id));
        }
        match Running::start(id, role) {
            Ok(role) => self.running.push(role),
            Err(error) => return Ok(Some(Ended::unable(id, &format!("{role}: {error}")))),
        }
        Ok(None)
    }

    fn with(&mut self, id: u64, act: impl FnOnce(&mut Running)) {
        // One that has ended hears nothing any more; the controller learns of it by its ending.
        if let Some(role) = self.running.iter_mut().find(|role| role.id == id) {
            act(role);
        }
    }

    /// Sends a line to a role.
    pub fn tell(&mut self, id: u64, line: &Value) {
        self.with(id, |role| {
            role.outgoing.extend(line.to_string().as_bytes());
            role.outgoing.push(b'\n');
        });
    }

    /// Ends a role's input once everything queued for it is written.
    pub fn close(&mut self, id: u64) {
        self.with(id, |role| role.closing = true);
    }

    /// Kills a role.
    pub fn kill(&mut self, id: u64) {
        self.with(id, Running::kill);
    }

    /// Ends the input of all.
    pub fn close_all(&mut self) {
        self.running.iter_mut().for_each(|role| role.closing = true);
    }

    /// Kills all but those that carry out what they have begun.
    pub fn kill_all(&mut self) {
        self.running.iter_mut().filter(|role| !role.finishes).for_each(Running::kill);
    }

    /// Those that are left carry out what they have begun.
    pub fn are_finishing(&self) -> bool {
        self.running.iter().all(|role| role.finishes)
    }

    /// No role is left.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// A role has closed its output, but its process has not ended yet.
    pub fn is_ending(&self) -> bool {
        self.running.iter().any(Running::is_silent)
    }

    /// Descriptors to wait for, in the order that `serve` expects; without their output if `hears` is false.
    pub fn watches(&self, hears: bool) -> Vec<Watch<'_>> {
        self.running.iter().flat_map(|role| role.watches(hears)).collect()
    }

    /// Passes on what has arrived and writes what there is room for.
    pub fn serve(&mut self, hears: bool, ready: &[bool]) -> Vec<News> {
        let mut ready = ready.iter().copied();
        let mut news = Vec::new();
        for role in &mut self.running {
            role.serve(hears, &mut ready, &mut news);
        }
        self.running.retain_mut(|role| match role.ended() {
            Some(ended) => {
                news.push(News::Ended(ended));
                false
            }
            None => true,
        });
        news
    }
}

impl Running {
    fn start(id: u64, role: &str) -> io::Result<Self> {
        Self::of(id, role, Command::new(SELF).arg0("mptune-agent").arg(role))
    }

    fn of(id: u64, role: &str, command: &mut Command) -> io::Result<Self> {
        let finishes = FINISHING.contains(&role);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (outgoing, partial, error_output) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self {
            id,
            finishes,
            child,
            input,
            outgoing,
            closing: false,
            output,
            partial,
            errors,
            error_output,
        })
    }

    fn kill(&mut self) {
        // It fails only for one that was waited for, and such a one is not here any more.
        let _ = self.child.kill();
    }

    fn watches(&self, hears: bool) -> Vec<Watch<'_>> {
        let output = self.output.as_ref().filter(|_| hears).map(Watch::readable);
        let errors = self.errors.as_ref().map(Watch::readable);
        let input = self.input.as_ref().filter(|_| self.has_to_write()).map(Watch::writable);
        output.into_iter().chain(errors).chain(input).collect()
    }

    fn has_to_write(&self) -> bool {
        self.closing || !self.outgoing.is_empty()
    }

    fn serve(&mut self, hears: bool, ready: &mut impl Iterator<Item = bool>, news: &mut Vec<News>) {
        let mut is_ready = |asked: bool| asked && ready.next() == Some(true);
        let output = is_ready(hears && self.output.is_some());
        let errors = is_ready(self.errors.is_some());
        let input = is_ready(self.input.is_some() && self.has_to_write());
        if output && !self.hear(news) {
            self.output = None;
        }
        if errors && !self.keep() {
            self.errors = None;
        }
        if input && !self.write() {
            self.input = None;
        }
    }

    /// Reads its output; false at the end.
    fn hear(&mut self, news: &mut Vec<News>) -> bool {
        let Some(output) = self.output.as_mut() else { return false };
        let before = self.partial.len();
        let there = take(output, &mut self.partial);
        let mut begin = 0;
        // Only what is new can hold the end of a line.
        while let Some(length) =
            self.partial[begin.max(before)..].iter().position(|&byte| byte == b'\n')
        {
            let end = begin.max(before) + length;
            let line = String::from_utf8_lossy(&self.partial[begin..end]);
            if !line.trim().is_empty() {
                news.push(News::Said(self.id, json(line.trim())));
            }
            begin = end + 1;
        }
        self.partial.drain(..begin);
        there && self.partial.len() <= LINE_BYTES
    }

    /// Keeps the last of its standard error; false at the end.
    fn keep(&mut self) -> bool {
        let Some(errors) = self.errors.as_mut() else { return false };
        let there = take(errors, &mut self.error_output);
        self.error_output.drain(..self.error_output.len().saturating_sub(KEPT_BYTES));
        there
    }

    /// Writes what its pipe has room for, without waiting; false when its input should end.
    fn write(&mut self) -> bool {
        let Some(input) = self.input.as_mut() else { return false };
        let now = self.outgoing.len().min(PIPE_BYTES);
        match input.write(&self.outgoing[..now]) {
            Ok(written) => drop(self.outgoing.drain(..written)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false, // it has ended, or closed its input
        }
        !(self.closing && self.outgoing.is_empty())
    }

    fn is_silent(&self) -> bool {
        self.output.is_none() && self.errors.is_none()
    }

    /// Its end; none while it runs.
    fn ended(&mut self) -> Option<Ended> {
        if !self.is_silent() {
            return None;
        }
        let text = String::from_utf8_lossy(&self.error_output);
        let text: Vec<char> = text.trim().chars().collect();
        let last = text[text.len().saturating_sub(TOLD_CHARACTERS)..].iter().collect();
        let status = self.child.try_wait().unwrap_or(Some(ExitStatus::from_raw(127 << 8)))?;
        Some(Ended { id: self.id, status: status.code(), signal: status.signal(), stderr: last })
    }
}

/// Reads once; false at the end.
fn take(from: &mut impl Read, to: &mut Vec<u8>) -> bool {
    let mut chunk = vec![0; CHUNK];
    match from.read(&mut chunk) {
        Ok(length) => {
            to.extend(&chunk[..length]);
            length > 0
        }
        Err(error) => matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock),
    }
}

/// The line itself if it is JSON, otherwise a JSON string of it.
fn json(line: &str) -> String {
    match serde_json::from_str::<IgnoredAny>(line) {
        Ok(_) => line.to_owned(),
        Err(_) => Value::from(line).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_was_begun_is_not_killed_with_the_session() {
        let running = |id, role| Running::of(id, role, &mut Command::new("cat")).unwrap();
        let mut roles = Roles { running: vec![running(1, "sender"), running(2, "settings")] };
        assert!(!roles.are_finishing());
        roles.kill_all();
        assert_eq!(roles.running[0].child.wait().unwrap().signal(), Some(libc::SIGKILL));
        roles.running.remove(0);
        assert!(roles.are_finishing());
        roles.running[0].input = None;
        assert_eq!(roles.running[0].child.wait().unwrap().code(), Some(0));
    }

    #[test]
    fn what_is_no_json_becomes_a_text() {
        assert_eq!(json(r#"{"a": 18446744073709551615}"#), r#"{"a": 18446744073709551615}"#);
        assert_eq!(json(r#"a "quoted" word"#), r#""a \"quoted\" word""#);
    }
}
