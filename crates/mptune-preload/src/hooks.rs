//! Behaviour of the calls that the library replaces.
//!
//! The settings are given to a socket when it is made, so that they hold for every descriptor of it
//! and for data sent without `connect()`. They are given again at `connect()` and `listen()`, the
//! last moment before they count, to sockets that were made here: what was asked for is stronger
//! than what the program sets on its own.

use crate::report::{Refused, Reporter, Role};
use crate::settings::Settings;
use crate::system::{IPPROTO_MPTCP, System};
use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bits of a word.
const BITS: usize = 64;
/// Descriptors below this number are remembered; sockets above it have their settings from the
/// beginning, which nearly always is enough.
const REMEMBERED: usize = 65_536;

/// Options that MPTCP refuses (Linux 6.18) and TCP does not, without which a program works all the
/// same: level, name, and its name in words. Others that it refuses must be seen to fail, because
/// programs then do the work themselves (TLS in the kernel, sending without copies) or rely on them.
const FORGIVEN: [(c_int, c_int, &str); 10] = [
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, "TCP_SYNCNT"),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, "TCP_LINGER2"),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP"),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK, "TCP_QUICKACK"),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, "TCP_THIN_LINEAR_TIMEOUTS"),
    (libc::IPPROTO_TCP, libc::TCP_THIN_DUPACK, "TCP_THIN_DUPACK"),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT"),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, "SO_OOBINLINE"),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, "SO_REUSEADDR"),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, "SO_REUSEPORT"),
];

/// A process's memory of its sockets.
pub struct Memory {
    /// A bit per descriptor: it was given its settings here. Only `socket()` writes it, so one that
    /// is closed and used again by something else never is wrong at `connect()` or `listen()`.
    ours: [AtomicU64; REMEMBERED / BITS],
    /// The program made an MPTCP socket itself: it knows what that is.
    knows_mptcp: AtomicBool,
}

impl Memory {
    /// Of a process that just began.
    pub const fn new() -> Self {
        Self {
            ours: [const { AtomicU64::new(0) }; REMEMBERED / BITS],
            knows_mptcp: AtomicBool::new(false),
        }
    }

    fn word(&self, fd: c_int) -> Option<(&AtomicU64, u64)> {
        let number = usize::try_from(fd).ok()?;
        let bit = 1u64.checked_shl(u32::try_from(number % BITS).ok()?)?;
        Some((self.ours.get(number / BITS)?, bit))
    }

    fn remember(&self, fd: c_int, ours: bool) {
        match self.word(fd) {
            Some((word, bit)) if ours => drop(word.fetch_or(bit, Relaxed)),
            Some((word, bit)) => drop(word.fetch_and(!bit, Relaxed)),
            None => {}
        }
    }

    fn is_ours(&self, fd: c_int) -> bool {
        self.word(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }
}

/// The library's work in one process.
pub struct Hooks<'a, S> {
    /// The system calls.
    pub system: &'a S,
    /// The settings.
    pub settings: &'a Settings,
    /// The memory of sockets.
    pub memory: &'a Memory,
}

impl<S: System> Hooks<'_, S> {
    /// `socket()`: one of TCP becomes one of MPTCP where that is to be had.
    pub fn socket(&self, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let is_tcp = is_stream(domain, kind) && [0, libc::IPPROTO_TCP].contains(&protocol);
        if !is_tcp || !self.system.is_free() {
            let fd = self.system.socket(domain, kind, protocol);
            if fd >= 0 && protocol == IPPROTO_MPTCP {
                self.memory.knows_mptcp.store(true, Relaxed);
            }
            self.memory.remember(fd, false);
            return fd;
        }
        let fd = self.stream(domain, kind, protocol);
        if fd >= 0 {
            self.memory.remember(fd, true);
            self.apply(fd, |what, error| self.refused(what, error));
        }
        fd
    }

    /// A stream socket, of MPTCP if possible.
    fn stream(&self, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        if !self.settings.mptcp {
            return self.system.socket(domain, kind, protocol);
        }
        let fd = self.system.socket(domain, kind, IPPROTO_MPTCP);
        if fd >= 0 {
            return fd;
        }
        let error = self.system.error();
        let plain = self.system.socket(domain, kind, protocol);
        if plain >= 0 {
            self.refused(Refused::Mptcp, error);
        }
        plain
    }

    /// Just before `connect()` or `listen()`.
    pub fn settle(&self, fd: c_int) {
        if self.memory.is_ours(fd) && self.settings.gives_options() && self.system.is_free() {
            self.apply(fd, |_, _| {});
        }
    }

    fn apply(&self, fd: c_int, refused: impl Fn(Refused, c_int)) {
        if let Some(cc) = self.settings.cc() {
            if let Err(error) =
                self.system.set_option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, cc)
            {
                refused(Refused::Congestion, error);
            }
        }
        if let Some(bytes) = self.settings.buffer_bytes {
            for (name, forced) in
                [(libc::SO_SNDBUF, libc::SO_SNDBUFFORCE), (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE)]
            {
                let set =
                    |name| self.system.set_option(fd, libc::SOL_SOCKET, name, &bytes.to_ne_bytes());
                if self.settings.forces && set(forced).is_ok() {
                    continue;
                }
                if let Err(error) = set(name) {
                    refused(Refused::Buffer, error);
                }
            }
        }
    }

    /// Value of `SO_PROTOCOL` for a program that asked for TCP: that it got it.
    pub fn protocol_shown(&self, protocol: c_int) -> c_int {
        let unaware = self.settings.mptcp && !self.memory.knows_mptcp.load(Relaxed);
        if protocol == IPPROTO_MPTCP && unaware { libc::IPPROTO_TCP } else { protocol }
    }

    /// True if an option that MPTCP refused with `error` is reported to the program as set.
    ///
    /// Only where it asked for TCP and got MPTCP, and only for what tunes a connection.
    pub fn forgives(&self, fd: c_int, level: c_int, name: c_int, error: c_int) -> bool {
        let known = FORGIVEN.iter().find(|one| (one.0, one.1) == (level, name));
        let Some((_, _, text)) = known else { return false };
        // Once connected, MPTCP takes no choice of addresses any more, where TCP takes and ignores it.
        let late = error == libc::EINVAL && text.starts_with("SO_REUSE");
        if !late && ![libc::ENOPROTOOPT, libc::EOPNOTSUPP].contains(&error) {
            return false;
        }
        let mut protocol = [0; 4];
        let asked = self.system.is_free()
            && self.system.option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut protocol).is_ok();
        let protocol = c_int::from_ne_bytes(protocol);
        if !asked || self.protocol_shown(protocol) == protocol {
            return false;
        }
        self.refused(Refused::Option(text), error);
        true
    }

    /// A connection to `remote` is begun.
    pub fn connecting(&self, fd: c_int, remote: Option<SocketAddr>) {
        if let (Some(report), Some(_)) = (self.reporter(), remote) {
            report.opened(fd, Role::Client, remote);
        }
    }

    /// A connection was accepted.
    pub fn accepted(&self, fd: c_int) {
        if let Some(report) = self.reporter() {
            report.opened(fd, Role::Server, None);
        }
    }

    /// A descriptor is about to be closed, its connection to be shut down or to be asked about.
    pub fn closing(&self, fd: c_int) {
        if let Some(report) = self.reporter() {
            report.state(fd);
        }
    }

    /// The process is about to end.
    pub fn ending(&self) {
        if let Some(report) = self.reporter() {
            (0..self.system.descriptors()).for_each(|fd| report.state(fd));
        }
    }

    fn refused(&self, what: Refused, error: c_int) {
        if let Some(report) = self.reporter() {
            report.refused(what, error);
        }
    }

    fn reporter(&self) -> Option<Reporter<'_, S>> {
        let file = self.settings.statistics()?;
        self.system.is_free().then_some(Reporter { system: self.system, file })
    }
}

/// True if a socket is a stream over IPv4 or IPv6, whatever flags it was asked for with.
fn is_stream(domain: c_int, kind: c_int) -> bool {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    [libc::AF_INET, libc::AF_INET6].contains(&domain) && kind & !flags == libc::SOCK_STREAM
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests may fail")]
mod tests {
    use super::*;
    use crate::testing::{Fake, settings};

    const TCP: c_int = libc::IPPROTO_TCP;

    fn socket(fake: &Fake, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let settings = settings(true);
        Hooks { system: fake, settings: &settings, memory: &Memory::new() }
            .socket(domain, kind, protocol)
    }

    #[test]
    fn tcp_becomes_mptcp_and_keeps_its_flags() {
        for domain in [libc::AF_INET, libc::AF_INET6] {
            for flags in [0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK] {
                for protocol in [0, TCP] {
                    let fake = Fake::default();
                    let kind = libc::SOCK_STREAM | flags;
                    assert_eq!(socket(&fake, domain, kind, protocol), 3);
                    assert_eq!(fake.made.take(), [(domain, kind, IPPROTO_MPTCP)]);
                }
            }
        }
    }

    #[test]
    fn everything_else_is_passed_on_and_given_nothing() {
        for asked in [
            (libc::AF_INET, libc::SOCK_DGRAM, 0),
            (libc::AF_UNIX, libc::SOCK_STREAM, 0),
            (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
            (libc::AF_INET6, libc::SOCK_SEQPACKET, 0),
            (libc::AF_INET, libc::SOCK_RAW, TCP),
            (libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP),
        ] {
            let fake = Fake::default();
            assert_eq!(socket(&fake, asked.0, asked.1, asked.2), 3);
            assert_eq!(fake.made.take(), [asked]);
            assert!(fake.set.take().is_empty());
        }
    }

    #[test]
    fn where_mptcp_is_refused_the_program_gets_tcp_with_its_settings() {
        for error in
            [libc::EPROTONOSUPPORT, libc::ENOPROTOOPT, libc::EINVAL, libc::ENOENT, libc::EPERM]
        {
            let fake = Fake { no_mptcp: Some(error), ..Fake::default() };
            assert_eq!(socket(&fake, libc::AF_INET, libc::SOCK_STREAM, TCP), 3);
            assert_eq!(fake.made.take().last(), Some(&(libc::AF_INET, libc::SOCK_STREAM, TCP)));
            assert_eq!(fake.set.take().len(), 3);
            let lines = fake.lines.take();
            assert!(
                lines[0].contains(&format!(r#""what":"mptcp","errno":{error}}}"#)),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn settings_are_given_again_before_a_connection_and_only_to_what_was_made_here() {
        let (fake, settings, memory) = (Fake::default(), settings(true), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        assert_eq!(hooks.socket(libc::AF_INET, libc::SOCK_STREAM, 0), 3);
        assert_eq!(fake.set.take().len(), 3);
        hooks.settle(3);
        let given = fake.set.take();
        assert_eq!(given[0], (3, TCP, libc::TCP_CONGESTION, b"olia".to_vec()));
        let buffer = 4096i32.to_ne_bytes().to_vec();
        assert_eq!(given[1], (3, libc::SOL_SOCKET, libc::SO_SNDBUF, buffer.clone()));
        assert_eq!(given[2], (3, libc::SOL_SOCKET, libc::SO_RCVBUF, buffer));
        for fd in [4, 70_000, -1, c_int::MAX] {
            hooks.settle(fd);
        }
        assert!(fake.set.take().is_empty());
        // The number is used again, by something that the program made MPTCP itself.
        hooks.socket(libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP);
        hooks.settle(3);
        assert!(fake.set.take().is_empty());
    }

    #[test]
    fn without_mptcp_only_the_settings_are_given() {
        let (fake, settings, memory) = (Fake::default(), settings(false), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        hooks.socket(libc::AF_INET6, libc::SOCK_STREAM, 0);
        assert_eq!(fake.made.take(), [(libc::AF_INET6, libc::SOCK_STREAM, 0)]);
        assert_eq!(fake.set.take().len(), 3);
        assert_eq!(hooks.protocol_shown(IPPROTO_MPTCP), IPPROTO_MPTCP);
    }

    #[test]
    fn a_program_that_asked_for_tcp_sees_tcp() {
        let (fake, settings, memory) = (Fake::default(), settings(true), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        assert_eq!(hooks.protocol_shown(IPPROTO_MPTCP), TCP);
        assert_eq!(hooks.protocol_shown(libc::IPPROTO_UDP), libc::IPPROTO_UDP);
        hooks.socket(libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP);
        assert_eq!(hooks.protocol_shown(IPPROTO_MPTCP), IPPROTO_MPTCP);
    }

    #[test]
    fn options_that_tune_tcp_are_forgiven_to_a_program_that_asked_for_tcp() {
        let fake = Fake { connected: true, ..Fake::default() };
        let (settings, memory) = (settings(true), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        let refused = libc::ENOPROTOOPT;
        assert!(hooks.forgives(3, TCP, libc::TCP_USER_TIMEOUT, refused));
        assert!(hooks.forgives(3, libc::SOL_SOCKET, libc::SO_OOBINLINE, libc::EOPNOTSUPP));
        assert!(fake.lines.take()[0].contains(r#""what":"TCP_USER_TIMEOUT","errno":92}"#));
        assert!(!hooks.forgives(3, TCP, libc::TCP_USER_TIMEOUT, libc::EINVAL), "a bad value");
        assert!(hooks.forgives(3, libc::SOL_SOCKET, libc::SO_REUSEADDR, libc::EINVAL), "connected");
        assert!(!hooks.forgives(3, TCP, libc::TCP_ULP, refused), "TLS in the kernel");
        assert!(!hooks.forgives(3, libc::SOL_SOCKET, libc::SO_ZEROCOPY, libc::EOPNOTSUPP));
        hooks.socket(libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP);
        assert!(!hooks.forgives(3, TCP, libc::TCP_USER_TIMEOUT, refused), "it knows what it has");
        let unconnected = Fake::default();
        let hooks = Hooks { system: &unconnected, settings: &settings, memory: &Memory::new() };
        assert!(!hooks.forgives(3, TCP, libc::TCP_USER_TIMEOUT, refused), "no socket of MPTCP");
    }

    #[test]
    fn a_refused_setting_is_counted_once_and_breaks_nothing() {
        let fake = Fake { no_option: Some(libc::EPERM), ..Fake::default() };
        let (settings, memory) = (settings(true), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        assert_eq!(hooks.socket(libc::AF_INET, libc::SOCK_STREAM, 0), 3);
        hooks.settle(3);
        let lines = fake.lines.take();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains(r#""what":"congestion control","errno":1}"#));
    }

    #[test]
    fn in_a_sandbox_nothing_is_called_but_what_the_program_calls() {
        let fake = Fake { connected: true, confined: true, ..Fake::default() };
        let (settings, memory) = (settings(true), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        assert_eq!(hooks.socket(libc::AF_INET, libc::SOCK_STREAM, TCP), 3);
        assert_eq!(fake.made.take(), [(libc::AF_INET, libc::SOCK_STREAM, TCP)]);
        memory.remember(3, true);
        hooks.settle(3);
        hooks.connecting(3, "10.0.0.1:80".parse().ok());
        hooks.accepted(3);
        hooks.closing(3);
        hooks.ending();
        assert!(!hooks.forgives(3, TCP, libc::TCP_USER_TIMEOUT, libc::ENOPROTOOPT));
        assert!(fake.set.take().is_empty() && fake.lines.take().is_empty());
    }

    #[test]
    fn what_is_no_connection_is_not_reported() {
        let (fake, settings, memory) = (Fake::default(), settings(true), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        hooks.closing(7);
        hooks.accepted(7);
        hooks.connecting(7, "10.0.0.1:80".parse().ok());
        assert!(fake.lines.take().is_empty());
    }

    #[test]
    fn a_connection_is_reported_by_its_cookie_with_its_subflows() {
        let fake = Fake { connected: true, ..Fake::default() };
        let (settings, memory) = (settings(true), Memory::new());
        let hooks = Hooks { system: &fake, settings: &settings, memory: &memory };
        hooks.connecting(5, "10.0.0.1:80".parse().ok());
        hooks.closing(5);
        let lines = fake.lines.take();
        assert!(lines[0].contains(r#""cookie":77,"role":"client","remote":"10.0.0.1:80"}"#));
        assert!(lines[0].starts_with(r#"{"event":"open","pid":9,"at_ns":1,"command":"prog","#));
        assert!(lines[1].contains(r#""cookie":77,"kind":"mptcp""#), "{}", lines[1]);
        assert_eq!(lines[1].matches(r#""id":"#).count(), 2);
        assert!(
            lines[1].contains(r#""local":"10.0.2.1:2","remote":"10.0.9.1:80""#),
            "{}",
            lines[1]
        );
        assert!(lines[1].ends_with("}]}\n"));
    }

    #[test]
    fn a_kernel_before_6_5_is_asked_for_each_part() {
        let fake = Fake { connected: true, before_6_5: true, ..Fake::default() };
        let (settings, memory) = (settings(true), Memory::new());
        Hooks { system: &fake, settings: &settings, memory: &memory }.closing(5);
        let line = &fake.lines.take()[0];
        assert!(line.contains(r#""kind":"mptcp""#), "{line}");
        let ends = r#"{"local":"10.0.2.1:2","remote":"10.0.9.1:80","tcp":{"#;
        assert!(line.contains(ends) && line.contains(r#""cwnd":11,"#), "{line}");
        // What it does not count is left out.
        assert!(!line.contains("reinjected_bytes") && !line.contains(r#""id":"#), "{line}");
    }
}
