//! Makes the TCP sockets of a program that another process runs, until that and its children have ended.
//!
//! It leaves to the kernel what it cannot do: the program gets what it would have got without. If it is killed, the
//! program's connections live on, and making another TCP socket fails with ENOSYS.

use crate::kernel::seccomp::{self, Call};
use crate::kernel::sys;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process;

/// Kind and options of the sockets.
pub struct SocketOptions {
    /// They are of MPTCP where that is to be had.
    pub mptcp: bool,
    /// Congestion control, by the kernel's name.
    pub cc: Option<String>,
    /// `SO_SNDBUF` and `SO_RCVBUF`, bytes.
    pub buffer_bytes: Option<i32>,
}

/// Works for the process at the other end of `program`, in a new session and with no file of it open.
pub fn main(options: &SocketOptions, program: UnixStream) -> ! {
    process::exit(i32::from(supervise(options, program).is_err()))
}

fn supervise(options: &SocketOptions, program: UnixStream) -> io::Result<()> {
    let mut program = UnixStream::from(seccomp::keep_only(program.as_fd())?);
    let listener = seccomp::receive_descriptor(program.as_fd())?;
    program.write_all(&[0])?;
    drop(program);
    let network = network("self");
    while let Some(call) = seccomp::next(listener.as_fd())? {
        let is_near = network.is_some() && self::network(&call.thread.to_string()) == network;
        let made = if is_near { socket(options, &call) } else { Ok(None) };
        // An error now means that the caller has gone meanwhile.
        let _ = answer(listener.as_fd(), &call, made);
    }
    Ok(())
}

/// The network namespace of a process: a socket is one of the namespace in which it was made.
fn network(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// The socket that a call is to get; none if the kernel may just as well make it.
fn socket(options: &SocketOptions, call: &Call) -> io::Result<Option<OwnedFd>> {
    let [domain, kind, protocol, ..] = call.arguments.map(|argument| argument as i32);
    let mptcp_socket =
        if options.mptcp { sys::any_socket(domain, kind, sys::IPPROTO_MPTCP).ok() } else { None };
    let made = match mptcp_socket {
        Some(made) => made,
        None if options.cc.is_none() && options.buffer_bytes.is_none() => return Ok(None),
        None => sys::any_socket(domain, kind, protocol)?,
    };
    // An option that the kernel refuses is left out, as everywhere under `mptune exec`.
    if let Some(cc) = &options.cc {
        let _ =
            sys::set_option(made.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, cc.as_bytes());
    }
    if let Some(bytes) = options.buffer_bytes {
        for name in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            let _ = sys::set_option(made.as_fd(), libc::SOL_SOCKET, name, &bytes.to_ne_bytes());
        }
    }
    Ok(Some(made))
}

fn answer(
    listener: BorrowedFd<'_>,
    call: &Call,
    made: io::Result<Option<OwnedFd>>,
) -> io::Result<()> {
    let code = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let made = match made {
        Ok(Some(made)) => made,
        Ok(None) => return seccomp::proceed(listener, call.id),
        Err(error) => return seccomp::fail(listener, call.id, code(error)),
    };
    let closes = call.arguments[1] as i32 & libc::SOCK_CLOEXEC != 0;
    match seccomp::hand_over(listener, call.id, made.as_fd(), closes).map_err(code) {
        Ok(()) => Ok(()),
        Err(libc::EINVAL) => seccomp::proceed(listener, call.id), // before Linux 5.14
        Err(error) => seccomp::fail(listener, call.id, error), // the caller has too many files open
    }
}
