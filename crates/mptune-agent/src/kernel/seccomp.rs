//! System calls of another process, answered by this one: seccomp's user notifications (seccomp_unotify(2)),
//! behind safe signatures.
//!
//! Beside `sys`, `signals` and `libbpf` the only file of the crate with `unsafe`. No policy: which calls are stopped is the
//! filter's business, and what becomes of one that of the caller.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// A call that waits for its answer.
pub struct Call {
    /// By which it is answered.
    pub id: u64,
    /// The thread that calls, by its number here; 0 if it cannot be seen from here.
    pub thread: u32,
    /// Of the call.
    pub arguments: [u64; 6],
}

/// Room for one descriptor in a control message, aligned as the kernel wants it.
#[repr(align(8))]
struct Control([u8; 24]);

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Puts a filter before the system calls of this process and all that come from it; who holds the result
/// answers for those that the filter stops.
///
/// Without `CAP_SYS_ADMIN` this also means that no program which it starts gains rights by that (setuid).
pub fn install(filter: &mut [libc::sock_filter]) -> io::Result<OwnedFd> {
    let length = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    let installed = |flags: libc::c_ulong| {
        // SAFETY: the program and its instructions live until the call returns, and the kernel only reads them.
        let listener = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | flags,
                ptr::from_ref(&program),
            )
        };
        if listener < 0 { Err(io::Error::last_os_error()) } else { Ok(listener as RawFd) }
    };
    // Signals then do not interrupt a call that is being answered (Linux 6.0); Go's runtime sends many.
    let attempt = || match installed(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => installed(0),
        done => done,
    };
    let listener = match attempt() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // SAFETY: PR_SET_NO_NEW_PRIVS takes integers and touches no memory.
            check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as libc::c_ulong, 0, 0, 0) })?;
            attempt()
        }
        done => done,
    }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Waits for the next call that was stopped; none when no process is left whose calls could be.
pub fn next(listener: BorrowedFd<'_>) -> io::Result<Option<Call>> {
    loop {
        let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives until the call returns.
        match check(unsafe { libc::poll(&raw mut poll, 1, -1) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            done => done?,
        };
        if poll.revents & libc::POLLIN == 0 {
            return Ok(None);
        }
        // SAFETY: plain data, for which all zeros is a value, and what the kernel expects.
        let mut notice: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: the kernel writes one such structure.
        let received = check(unsafe {
            libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice)
        });
        match received.map_err(|error| error.raw_os_error()) {
            Ok(_) => {
                return Ok(Some(Call {
                    id: notice.id,
                    thread: notice.pid,
                    arguments: notice.data.args,
                }));
            }
            // It was killed before, or a signal came here.
            Err(Some(libc::ENOENT | libc::EINTR)) => {}
            Err(code) => return Err(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO))),
        }
    }
}

/// Lets the kernel do what the call asks for.
pub fn proceed(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    respond(listener, libc::seccomp_notif_resp { id, val: 0, error: 0, flags })
}

/// Makes the call fail with an error number.
pub fn fail(listener: BorrowedFd<'_>, id: u64, error: i32) -> io::Result<()> {
    respond(listener, libc::seccomp_notif_resp { id, val: 0, error: -error, flags: 0 })
}

fn respond(listener: BorrowedFd<'_>, mut response: libc::seccomp_notif_resp) -> io::Result<()> {
    // SAFETY: the kernel reads one such structure.
    check(unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response)
    })
    .map(drop)
}

/// Gives the caller a copy of a descriptor, as the result of its call (Linux 5.14).
pub fn hand_over(
    listener: BorrowedFd<'_>,
    id: u64,
    given: BorrowedFd<'_>,
    closes_on_exec: bool,
) -> io::Result<()> {
    let mut asked = libc::seccomp_notif_addfd {
        id,
        flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
        srcfd: given.as_raw_fd().unsigned_abs(),
        newfd: 0,
        newfd_flags: if closes_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
    };
    // SAFETY: the kernel reads one such structure.
    check(unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut asked)
    })
    .map(drop)
}

/// Continues in two processes: this one (false), and one that is no child of it and leads a new session
/// (true).
pub fn fork_apart() -> io::Result<bool> {
    // SAFETY: there is one thread, so a child may do anything; the others take integers; _exit does not return.
    unsafe {
        let child = check(libc::fork())?;
        if child > 0 {
            check(libc::waitpid(child, ptr::null_mut(), 0))?;
            return Ok(false);
        }
        if libc::setsid() < 0 || libc::fork() != 0 {
            libc::_exit(0);
        }
    }
    Ok(true)
}

/// Closes all descriptors but this one, and opens /dev/null as the first three.
pub fn keep_only(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: descriptors of ours that nobody uses any more, as the caller asserts by calling this; integers.
    unsafe {
        let descriptor = check(libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3))?;
        let nothing = check(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR))?;
        for standard in 0..3 {
            check(libc::dup2(nothing, standard))?;
        }
        let number = descriptor.unsigned_abs();
        for (first, last) in [(3, number - 1), (number + 1, u32::MAX)] {
            if first <= last {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Sends a descriptor over a UNIX socket.
pub fn send_descriptor(socket: BorrowedFd<'_>, given: BorrowedFd<'_>) -> io::Result<()> {
    let mut control = Control([0; 24]);
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: all that the message points to lives until the call returns; the control message has room for
    // its header and one descriptor, as CMSG_SPACE(4) is 24.
    unsafe {
        let message = message(&mut part, &mut control);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(given.as_raw_fd());
        check(libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) as i32)?;
    }
    Ok(())
}

/// Receives one; an error also if the other end was closed.
pub fn receive_descriptor(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut control = Control([0; 24]);
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: as above; the kernel writes at most what the message has room for, and a descriptor that it has
    // put there is ours.
    unsafe {
        let mut message = message(&mut part, &mut control);
        check(libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) as i32)?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()))
    }
}

fn message(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: plain data, for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = ptr::from_mut(part);
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    message
}
