//! Signals that end the agent, read from a file like everything else that it waits for.
//!
//! A handler and not signalfd(2): blocked signals would not end a process that is stuck in a system call. Beside
//! `sys`, `libbpf` and `seccomp` the only file of the crate with `unsafe`.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The descriptor that the handler of [`as_file`] writes to; -1 before there is one.
static SIGNALS: AtomicI32 = AtomicI32::new(-1);

/// Notes SIGTERM, SIGINT and SIGHUP in the result instead of ending at once: four bytes each, the number. From
/// SIGTERM or SIGINT on a process has `grace`, whole seconds: one that is stuck in a system call then is ended by
/// SIGALRM.
pub fn as_file(grace: Duration) -> io::Result<File> {
    GRACE_S.store(u32::try_from(grace.as_secs()).unwrap_or(u32::MAX), Relaxed);
    // SAFETY: sigset_t and sigaction are plain data, for which all zeros is a value; the calls write only to
    // what they are given; the pipe's descriptors have no other owner, and the end that the handler writes to
    // is never closed. The handler calls only what signal-safety(7) lists.
    unsafe {
        let mut ends = [0; 2];
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK))?;
        let received = File::from_raw_fd(ends[0]);
        SIGNALS.store(ends[1], Relaxed);
        let mut set: libc::sigset_t = std::mem::zeroed();
        check(libc::sigemptyset(&mut set))?;
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGALRM] {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            if signal != libc::SIGALRM {
                action.sa_sigaction = note as extern "C" fn(i32) as libc::sighandler_t;
                // A wait for something else goes on: the pipe becomes readable.
                action.sa_flags = libc::SA_RESTART;
            }
            check(libc::sigaction(signal, &action, ptr::null_mut()))?;
            check(libc::sigaddset(&mut set, signal))?;
        }
        // Whoever started this may have blocked them.
        match libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut()) {
            0 => Ok(received),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Seconds that a process has after a signal that ends it.
static GRACE_S: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(signal: i32) {
    let number = signal.to_ne_bytes();
    // SAFETY: a write of four bytes to a pipe that is never closed, which does not wait; `alarm` takes an
    // integer; what was interrupted finds its error as it was.
    unsafe {
        let error = libc::__errno_location();
        let before = *error;
        libc::write(SIGNALS.load(Relaxed), number.as_ptr().cast(), number.len());
        if signal != libc::SIGHUP {
            let left = libc::alarm(GRACE_S.load(Relaxed));
            if left > 0 {
                libc::alarm(left); // another signal gives no more time
            }
        }
        *error = before;
    }
}

/// Does something that is finished once it is begun: no signal of [`as_file`], before it or meanwhile, limits its time.
pub fn unhurried<T>(act: impl FnOnce() -> T) -> T {
    let grace_s = GRACE_S.swap(0, Relaxed);
    // SAFETY: alarm takes an integer; 0 is no alarm, for the handler too.
    unsafe { libc::alarm(0) };
    let done = act();
    GRACE_S.store(grace_s, Relaxed);
    done
}

/// The signal that comes next from [`as_file`]; none if there is none now.
pub fn next(mut signals: &File) -> io::Result<Option<&'static str>> {
    let mut number = [0; 4];
    match signals.read_exact(&mut number) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        read => read?,
    }
    Ok(Some(match i32::from_ne_bytes(number) {
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP",
        _ => "SIGTERM",
    }))
}

/// Sends a process SIGTERM.
///
/// # Errors
/// There is no such process.
pub fn terminate(number: u32) -> io::Result<()> {
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: kill takes two integers.
    check(unsafe { libc::kill(number, libc::SIGTERM) }).map(drop)
}

/// Blocks SIGTERM, SIGINT and SIGHUP for good: what ends a session does not end this process.
pub fn block() -> io::Result<()> {
    // SAFETY: sigset_t is plain data, for which all zeros is a value; the calls write only to it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        check(libc::sigemptyset(&mut set))?;
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            check(libc::sigaddset(&mut set, signal))?;
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_noted_and_gives_a_process_that_is_stuck_some_time() {
        let signals = as_file(Duration::from_secs(1000)).unwrap();
        assert_eq!(next(&signals).unwrap(), None);
        for (number, name, is_end) in
            [(libc::SIGHUP, "SIGHUP", false), (libc::SIGTERM, "SIGTERM", true)]
        {
            // SAFETY: integers; the handler is ours.
            let left = unsafe {
                libc::raise(number);
                libc::alarm(0)
            };
            assert_eq!(next(&signals).unwrap(), Some(name));
            assert_eq!(left > 0, is_end, "{name}");
        }
        // SAFETY: as above.
        let left = unsafe {
            libc::alarm(100);
            libc::raise(libc::SIGTERM);
            libc::alarm(100)
        };
        assert!((1..=100).contains(&left), "another signal gives no more time: {left} s");
        // SAFETY: as above.
        let begun = unhurried(|| unsafe {
            let before = libc::alarm(0);
            libc::raise(libc::SIGTERM);
            (before, libc::alarm(0))
        });
        assert_eq!(begun, (0, 0), "what is begun has the time it needs");
    }
}
