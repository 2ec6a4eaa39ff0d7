//! Connections that may be the trial's: it is the first that begins with the trial's token.
//!
//! Anybody may connect to the receiver's port. Nobody who does ends or delays the trial: each is heard when
//! something arrives, none is waited for, and those that are wrong, slow or too many are reset. The token
//! is compared only when all of it is there, so that it cannot be guessed a byte at a time.

use crate::kernel::sys::{self, Watch};
use crate::meter::config::{TOKEN_BYTES, Token};
use crate::meter::socket;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;

/// Time for a connection to show its token.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Connections that may do so at the same time; beyond it the one that has taken longest is reset.
const MOST: usize = 4096;
/// Descriptors for everything else.
const OTHERS: usize = 64;

/// The trial's connection.
pub struct Chosen {
    /// Its socket, with the payload to come.
    pub stream: TcpStream,
    /// Time of its acceptance.
    pub accepted_ns: u64,
}

/// One that has not shown its token yet.
struct Candidate {
    stream: TcpStream,
    accepted_ns: u64,
    token_bytes: [u8; TOKEN_BYTES],
    length: usize,
}

/// State of a candidate.
enum Verdict {
    Unknown,
    Right,
    Wrong,
}

/// All connections that have not shown their token yet.
pub struct Candidates {
    /// None: the first connection is the trial's.
    token: Option<Token>,
    patience_ns: u64,
    most: usize,
    /// In the order in which they were accepted.
    waiting: VecDeque<Candidate>,
    /// Those that were reset.
    strangers: u64,
}

impl Candidates {
    /// None yet; silence of `stall_ns` is what the trial itself forgives.
    pub fn new(token: Option<Token>, stall_ns: u64) -> Self {
        let patience_ns = PATIENCE_NS.max(stall_ns);
        let most = sys::descriptors().saturating_sub(OTHERS).clamp(1, MOST);
        Self { token, patience_ns, most, waiting: VecDeque::new(), strangers: 0 }
    }

    /// One that was just accepted, which is returned if it is the trial's.
    pub fn add(&mut self, stream: TcpStream, accepted_ns: u64) -> Option<Chosen> {
        let mut candidate =
            Candidate { stream, accepted_ns, token_bytes: [0; TOKEN_BYTES], length: 0 };
        match candidate.read(self.token.as_ref()) {
            Verdict::Right => return Some(candidate.chosen()),
            Verdict::Wrong => self.reset(candidate),
            Verdict::Unknown => self.waiting.push_back(candidate),
        }
        if self.waiting.len() > self.most {
            self.make_room();
        }
        None
    }

    /// Resets the one that has taken longest.
    pub fn make_room(&mut self) {
        if let Some(oldest) = self.waiting.pop_front() {
            self.reset(oldest);
        }
    }

    /// Descriptors to wait for, in the order that `hear` expects.
    pub fn watches(&self) -> impl Iterator<Item = Watch<'_>> {
        self.waiting.iter().map(|candidate| Watch::readable(&candidate.stream))
    }

    /// Time at which the patience with the first of them is over.
    pub fn next_ns(&self) -> u64 {
        let first = self.waiting.front();
        first.map_or(u64::MAX, |candidate| candidate.accepted_ns.saturating_add(self.patience_ns))
    }

    /// Reads what has arrived; the trial's connection if it is among them.
    pub fn hear(&mut self, ready: &[bool], now_ns: u64) -> Option<Chosen> {
        let mut chosen = None;
        let waiting = std::mem::take(&mut self.waiting);
        for (index, mut candidate) in waiting.into_iter().enumerate() {
            let heard = chosen.is_none() && ready.get(index) == Some(&true);
            let verdict =
                if heard { candidate.read(self.token.as_ref()) } else { Verdict::Unknown };
            match verdict {
                Verdict::Right => chosen = Some(candidate.chosen()),
                Verdict::Unknown if now_ns < candidate.accepted_ns + self.patience_ns => {
                    self.waiting.push_back(candidate);
                }
                Verdict::Unknown | Verdict::Wrong => self.reset(candidate),
            }
        }
        chosen
    }

    /// Resets all that are left; how many connections were not the trial's.
    pub fn dismiss(mut self) -> u64 {
        while !self.waiting.is_empty() {
            self.make_room();
        }
        self.strangers
    }

    fn reset(&mut self, candidate: Candidate) {
        self.strangers += 1;
        socket::abort(candidate.stream);
    }
}

impl Candidate {
    fn chosen(self) -> Chosen {
        Chosen { stream: self.stream, accepted_ns: self.accepted_ns }
    }

    /// Reads what is there of a token, and nothing that comes after it.
    fn read(&mut self, token: Option<&Token>) -> Verdict {
        let Some(token) = token else { return Verdict::Right };
        while self.length < TOKEN_BYTES {
            match self.stream.read(&mut self.token_bytes[self.length..]) {
                Ok(0) => return Verdict::Wrong,
                Ok(length) => self.length += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Verdict::Unknown,
                Err(_) => return Verdict::Wrong,
            }
        }
        if self.token_bytes == *token { Verdict::Right } else { Verdict::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    const TOKEN: Token = *b"0123456789abcdef";
    const OLD: Token = *b"0123456789abcdee";

    struct World {
        listener: TcpListener,
        candidates: Candidates,
    }

    impl World {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Self { listener, candidates: Candidates::new(Some(TOKEN), 0) }
        }

        /// Somebody connects at a time.
        fn connects(&mut self, at_ns: u64) -> (TcpStream, Option<Chosen>) {
            let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            let (stream, _) = self.listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            let chosen = self.candidates.add(stream, at_ns);
            (client, chosen)
        }

        /// The choice after something has arrived.
        fn hears(&mut self, now_ns: u64) -> Option<Chosen> {
            let mut watches: Vec<_> = self.candidates.watches().collect();
            sys::wait(&mut watches, Duration::from_secs(10)).unwrap();
            let ready: Vec<_> = watches.iter().map(|watch| watch.ready).collect();
            self.candidates.hear(&ready, now_ns)
        }
    }

    fn is_reset(mut client: &TcpStream) -> bool {
        client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    }

    #[test]
    fn the_first_with_the_token_is_chosen_and_its_payload_is_left_to_it() {
        let mut world = World::new();
        let (mut silent, mut right) = (world.connects(1).0, world.connects(2).0);
        right.write_all(&TOKEN).unwrap();
        right.write_all(b"payload").unwrap();
        let mut chosen = world.hears(3).unwrap();
        assert_eq!(chosen.accepted_ns, 2);
        let mut payload = [0; 7];
        chosen.stream.set_nonblocking(false).unwrap();
        chosen.stream.read_exact(&mut payload).unwrap();
        assert_eq!(&payload, b"payload");
        // Even if others have it too: they are too late.
        silent.write_all(&TOKEN).unwrap();
        assert_eq!(world.candidates.dismiss(), 1);
        assert!(is_reset(&silent));
    }

    #[test]
    fn wrong_and_closed_ones_are_reset_and_counted() {
        let mut world = World::new();
        let mut wrong = world.connects(1).0;
        wrong.write_all(&OLD).unwrap();
        assert!(world.hears(2).is_none() && is_reset(&wrong));
        drop(world.connects(3));
        assert!(world.hears(4).is_none());
        assert_eq!(world.candidates.waiting.len(), 0);
        assert_eq!(world.candidates.dismiss(), 2);
    }

    #[test]
    fn a_token_in_pieces_counts_from_when_its_connection_was_accepted() {
        let mut world = World::new();
        let mut slow = world.connects(1).0;
        slow.write_all(&TOKEN[..9]).unwrap();
        assert!(world.hears(2).is_none());
        slow.write_all(&TOKEN[9..]).unwrap();
        assert_eq!(world.hears(PATIENCE_NS).unwrap().accepted_ns, 1);
        assert_eq!(world.candidates.dismiss(), 0);
    }

    #[test]
    fn silent_ones_are_reset_when_the_patience_is_over() {
        let mut world = World::new();
        let (first, _second) = (world.connects(1).0, world.connects(2).0);
        assert_eq!(world.candidates.next_ns(), 1 + PATIENCE_NS);
        assert!(world.candidates.hear(&[], 1 + PATIENCE_NS).is_none());
        assert!(is_reset(&first));
        assert_eq!(world.candidates.next_ns(), 2 + PATIENCE_NS);
    }

    #[test]
    fn too_many_push_out_the_oldest() {
        let mut world = World::new();
        world.candidates.most = 2;
        let clients: Vec<_> = (0..3).map(|at_ns| world.connects(at_ns).0).collect();
        assert!(is_reset(&clients[0]));
        assert_eq!(world.candidates.next_ns(), 1 + PATIENCE_NS);
    }

    #[test]
    fn without_a_token_the_first_is_chosen() {
        let mut world = World::new();
        world.candidates.token = None;
        assert!(world.connects(1).1.is_some());
    }
}
