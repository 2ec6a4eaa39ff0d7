//! The daemon's socket: lines of JSON to every reader, and requests from them.
//!
//! ```text
//! in   {"action": "status"}                    out  {"event": "status", ...}
//! in   {"action": "metrics"}                   out  {"event": "metrics", "text": "# HELP ..."}
//! in   {"action": "events", "since": 17}       out  {"event": "events", "events": [...]}
//! in   {"action": "reload"}                    out  {"event": "reloaded"} or {"event": "refused", "reason": ...}
//! in   {"action": "suspend", "policy": "x"}    out  {"event": "suspended", "policy": "x"}
//! in   {"action": "say", "policy": "x", "what": ..., "why": ...}      out  {"event": "said"}
//! out  {"event": "connections", ...}           about every second, in the shape of the role `watch`
//! ```
//!
//! A suspension (new connections of that policy are left alone during a measurement) lasts as long as the
//! connection that asked for it. A reader that does not read loses lines, and later learns how many; it never holds
//! up the daemon.

use super::error::Error;
use crate::kernel::sys::{self, Watch};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Most readers.
pub const READERS: usize = 16;
/// Lines that a reader's socket does not take yet are kept up to this many bytes, and dropped beyond.
const PENDING_BYTES: usize = 1 << 18;
/// Longest request.
const REQUEST_BYTES: usize = 4096;
/// Requests that are answered at a time; the others wait for the next.
const AT_ONCE: usize = 8;

/// A request of a reader.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The status.
    Status,
    /// The same for Prometheus.
    Metrics,
    /// The events after this number.
    Events {
        /// Its number.
        #[serde(default)]
        since: u64,
    },
    /// Read the policy file again.
    Reload,
    /// Leave new connections of a policy alone.
    Suspend {
        /// Its name.
        policy: String,
    },
    /// Something about a policy for the journal and the readers.
    Say {
        /// Its name.
        policy: String,
        /// The event, in a few words.
        what: String,
        /// The reason, in a sentence.
        why: String,
    },
}

/// The answer to an impossible request.
#[derive(Serialize)]
#[serde(tag = "event", rename = "refused")]
pub struct Refused<'a> {
    /// In a sentence.
    pub reason: &'a str,
}

/// The socket with its readers.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Inode of its file: another program may put another in its place.
    inode: u64,
    /// Its directory was made for it.
    in_own: bool,
    readers: Vec<Reader>,
    next: u64,
    dropped: u64,
}

struct Reader {
    id: u64,
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
    /// Lines that were dropped since the last one.
    lost: u64,
    /// The last event that it was sent.
    last_sent: u64,
    suspends: Option<String>,
    /// Nothing more comes from it.
    over: bool,
}

impl Server {
    /// Listens at a path, for this user and this group; makes its directory, but no more than that.
    ///
    /// # Errors
    /// That is not possible. Nothing is left then.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let in_own = make_room(path)?;
        match listen(path) {
            Ok((listener, inode)) => {
                let (readers, path) = (Vec::new(), path.to_owned());
                Ok(Self { listener, path, inode, in_own, readers, next: 0, dropped: 0 })
            }
            Err(error) => {
                if in_own {
                    let _ = path.parent().map(fs::remove_dir);
                }
                Err(Error::Socket(path.to_owned(), error))
            }
        }
    }

    /// Descriptors to wait for.
    pub fn watches(&self) -> Vec<Watch<'_>> {
        let mut watches = vec![Watch::readable(&self.listener)];
        watches.extend(self.readers.iter().map(|reader| {
            // Whoever does not read answers is not asked for more questions.
            let events = if reader.outgoing.is_empty() { libc::POLLIN } else { libc::POLLOUT };
            Watch { events, ..Watch::readable(&reader.stream) }
        }));
        watches
    }

    /// Reads and writes where that is possible; `ready` is about `watches`. Returns what readers ask for.
    pub fn step(&mut self, ready: &[bool], last_event: u64) -> Vec<(u64, Request)> {
        let mut requests = Vec::new();
        let waiting =
            ready.get(1..).unwrap_or_default().iter().copied().chain(std::iter::repeat(false));
        for (reader, ready) in self.readers.iter_mut().zip(waiting) {
            if ready {
                reader.write();
            }
            if ready && reader.outgoing.is_empty() && !reader.has_line() {
                reader.read();
            }
            reader.take(&mut requests);
        }
        self.readers.retain(|reader| !reader.over);
        if ready.first() == Some(&true) {
            self.accept(last_event);
        }
        requests
    }

    /// Some request is there already and was not answered yet.
    pub fn is_behind(&self) -> bool {
        self.readers.iter().any(|reader| reader.outgoing.is_empty() && reader.has_line())
    }

    fn accept(&mut self, last_event: u64) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next += 1;
            let mut reader = Reader {
                id: self.next,
                stream,
                incoming: Vec::new(),
                outgoing: VecDeque::new(),
                lost: 0,
                last_sent: last_event,
                suspends: None,
                over: false,
            };
            if self.readers.len() >= READERS {
                let reason = format!("expected at most {READERS} readers, found one more");
                reader.push(&line(&Refused { reason: &reason }), &mut self.dropped);
                reader.write();
            } else {
                self.readers.push(reader);
            }
        }
    }

    /// A line for one reader.
    pub fn answer(&mut self, id: u64, message: &impl Serialize) {
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == id) {
            reader.push(&line(message), &mut self.dropped);
            reader.write();
        }
    }

    /// A line for every reader, made from the last event that it was sent and the lines that it lost.
    pub fn tell_all<T: Serialize>(&mut self, last_event: u64, message: impl Fn(u64, u64) -> T) {
        for reader in &mut self.readers {
            let text = line(&message(reader.last_sent, reader.lost));
            if reader.push(&text, &mut self.dropped) {
                (reader.last_sent, reader.lost) = (last_event, 0);
                reader.write();
            }
        }
    }

    /// A reader wants a policy's new connections to be left alone.
    pub fn suspend(&mut self, id: u64, policy: String) {
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == id) {
            reader.suspends = Some(policy);
        }
    }

    /// All policies that a reader suspends.
    pub fn suspended(&self) -> BTreeSet<String> {
        self.readers.iter().filter_map(|reader| reader.suspends.clone()).collect()
    }

    /// Number of readers.
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Number of lines that were dropped because nobody read them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|about| about.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
        if self.in_own {
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}

impl Reader {
    /// True if there was room for the line.
    fn push(&mut self, text: &str, dropped: &mut u64) -> bool {
        if !self.outgoing.is_empty() && self.outgoing.len() + text.len() > PENDING_BYTES {
            self.lost += 1;
            *dropped += 1;
            return false;
        }
        self.outgoing.extend(text.as_bytes());
        true
    }

    fn write(&mut self) {
        while !self.outgoing.is_empty() && !self.over {
            let (next, _) = self.outgoing.as_slices();
            match self.stream.write(next) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.over = true,
            }
        }
    }

    fn read(&mut self) {
        let mut bytes = [0; REQUEST_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.over = true,
            Ok(length) => self.incoming.extend(&bytes[..length]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.over = true,
        }
        // Whoever sends no lines is no reader.
        self.over |= self.incoming.len() > REQUEST_BYTES && !self.has_line();
    }

    fn has_line(&self) -> bool {
        self.incoming.contains(&b'\n')
    }

    /// The next requests, unless there are answers that it has not read.
    fn take(&mut self, requests: &mut Vec<(u64, Request)>) {
        for _ in 0..AT_ONCE {
            let Some(end) = self.incoming.iter().position(|&byte| byte == b'\n') else { return };
            if !self.outgoing.is_empty() {
                return;
            }
            let text: Vec<u8> = self.incoming.drain(..=end).collect();
            match serde_json::from_slice(&text) {
                Ok(request) => requests.push((self.id, request)),
                Err(error) => {
                    let reason = format!("expected a request, found {error}");
                    self.push(&line(&Refused { reason: &reason }), &mut 0);
                    self.write();
                }
            }
        }
    }
}

fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("structures always serialise") + "\n"
}

/// A listener at a path, and the inode of its file; no file if that fails.
fn listen(path: &Path) -> io::Result<(UnixListener, u64)> {
    let listener = UnixListener::bind(path)?;
    let ready = listener
        .set_nonblocking(true)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o660)))
        .and_then(|()| fs::symlink_metadata(path));
    let about = ready.inspect_err(|_| drop(fs::remove_file(path)))?;
    Ok((listener, about.ino()))
}

/// Makes the directory of a socket, and removes a socket without a listener; true if the directory was made.
fn make_room(path: &Path) -> Result<bool, Error> {
    let place = |expected| Error::SocketPlace(path.to_owned(), expected);
    let directory = path.parent().ok_or_else(|| place("a path of a file"))?;
    let made = match fs::create_dir(directory) {
        Ok(()) => {
            // Whatever the umask: readers are others.
            let given = fs::set_permissions(directory, Permissions::from_mode(0o755));
            given.map_err(|error| Error::SocketDirectory(directory.to_owned(), error))?;
            true
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(Error::SocketDirectory(directory.to_owned(), error)),
    };
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(made) };
    if !about.file_type().is_socket() {
        return Err(place("a place for a socket, found something else"));
    }
    // A listener with a full backlog counts as listening.
    let is_heard = |error: io::Error| error.kind() == ErrorKind::WouldBlock;
    if sys::connect_unix(path).map_or_else(is_heard, |_| true) {
        return Err(place("an unused socket, found one with a listener"));
    }
    fs::remove_file(path).map_err(|error| Error::Socket(path.to_owned(), error))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{BufRead, BufReader};

    fn server(name: &str) -> (Server, PathBuf) {
        let folder = std::env::temp_dir().join(format!("mptune-{name}-{}", std::process::id()));
        let path = folder.join("daemon.sock");
        (Server::open(&path).unwrap(), folder)
    }

    fn stepped(server: &mut Server) -> Vec<(u64, Request)> {
        let ready = vec![true; server.watches().len()];
        server.step(&ready, 5)
    }

    #[test]
    fn requests_come_in_and_answers_go_out() {
        let (mut server, folder) = server("requests");
        let mut reader = UnixStream::connect(folder.join("daemon.sock")).unwrap();
        assert_eq!(fs::metadata(folder.join("daemon.sock")).unwrap().mode() & 0o777, 0o660);
        stepped(&mut server);
        reader.write_all(b"{\"action\": \"events\", \"sin").unwrap();
        assert_eq!(stepped(&mut server), []);
        reader.write_all(b"ce\": 3}\nnonsense\n{\"action\": \"events\", \"x\": 1}\n").unwrap();
        let requests = stepped(&mut server);
        assert_eq!(requests, [(1, Request::Events { since: 3 })]);
        server.answer(1, &json!({"event": "status"}));
        let mut lines = BufReader::new(&reader).lines().map(Result::unwrap);
        assert!(lines.next().unwrap().contains("expected a request"));
        assert!(lines.next().unwrap().contains("unknown field"));
        assert_eq!(lines.next().unwrap(), r#"{"event":"status"}"#);
        server.suspend(1, "x".to_owned());
        assert_eq!(server.suspended(), BTreeSet::from(["x".to_owned()]));
        drop(lines);
        drop(reader);
        stepped(&mut server);
        assert_eq!((server.readers(), server.suspended().len()), (0, 0));
        drop(server);
        assert!(!folder.exists());
    }

    #[test]
    fn a_reader_that_never_reads_loses_lines_and_takes_no_more_room() {
        let (mut server, folder) = server("silent");
        let silent = UnixStream::connect(folder.join("daemon.sock")).unwrap();
        let busy = UnixStream::connect(folder.join("daemon.sock")).unwrap();
        stepped(&mut server);
        let mut busy = BufReader::new(busy).lines();
        for _ in 0..2000 {
            server.tell_all(
                6,
                |last_sent, lost| json!({"t": last_sent, "lost": lost, "x": "x".repeat(1000)}),
            );
            busy.next().unwrap().unwrap();
        }
        assert!(server.dropped() > 0 && server.readers[0].lost == server.dropped());
        assert!(server.readers[0].outgoing.len() <= PENDING_BYTES);
        assert_eq!((server.readers[1].lost, server.readers[1].last_sent), (0, 6));
        drop((silent, server));
        assert!(!folder.exists());
    }

    #[test]
    fn there_are_not_more_readers_than_that() {
        let (mut server, folder) = server("many");
        let connect = || UnixStream::connect(folder.join("daemon.sock")).unwrap();
        let all: Vec<_> = (0..=READERS).map(|_| connect()).collect();
        stepped(&mut server);
        assert_eq!(server.readers(), READERS);
        let mut refusal = String::new();
        BufReader::new(&all[READERS]).read_line(&mut refusal).unwrap();
        assert!(refusal.contains("expected at most 16 readers"), "{refusal}");
        drop(server);
        assert!(!folder.exists());
    }

    #[test]
    fn whoever_sends_no_lines_is_no_reader() {
        let (mut server, folder) = server("endless");
        let mut reader = UnixStream::connect(folder.join("daemon.sock")).unwrap();
        stepped(&mut server);
        reader.write_all(&[b'x'; 2 * REQUEST_BYTES]).unwrap();
        stepped(&mut server);
        stepped(&mut server);
        assert_eq!(server.readers(), 0);
        drop(server);
        assert!(!folder.exists());
    }

    #[test]
    fn where_it_cannot_be_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("mptune-toolong-{}", std::process::id()));
        let path = folder.join("x".repeat(120));
        assert!(Server::open(&path).is_err());
        assert!(!folder.exists());
    }

    #[test]
    fn a_socket_that_is_in_use_or_no_socket_is_left_alone() {
        let (server, folder) = server("taken");
        let path = folder.join("daemon.sock");
        let reason = Server::open(&path).err().unwrap().to_string();
        assert!(reason.ends_with("found one with a listener"), "{reason}");
        drop(server);
        fs::create_dir(&folder).unwrap();
        drop(UnixListener::bind(&path).unwrap()); // a file that a killed daemon has left
        drop(Server::open(&path).unwrap()); // its directory is somebody else's, and stays
        fs::write(&path, b"").unwrap();
        let reason = Server::open(&path).err().unwrap().to_string();
        assert!(reason.ends_with("found something else"), "{reason}");
        fs::remove_dir_all(&folder).unwrap();
        let reason = Server::open(&folder.join("deeper/daemon.sock")).err().unwrap().to_string();
        assert!(reason.contains("No such file") && reason.ends_with("the socket's directory"));
    }
}
