//! The system calls that `std` does not offer, each behind a safe signature.
//!
//! Beside `signals`, `libbpf` and `seccomp` the only file of the crate with `unsafe`. No policy: the callers decide what to ask the kernel
//! and what an error means.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::ptr;
use std::time::Duration;

/// `IPPROTO_MPTCP`.
pub const IPPROTO_MPTCP: i32 = 262;
/// Level of the MPTCP socket options.
pub const SOL_MPTCP: i32 = 284;
/// Connection and all subflows in one call (Linux 6.5).
pub const MPTCP_FULL_INFO: i32 = 4;

/// Longest name of a UNIX socket with its end (`sun_path`).
const UNIX_PATH_ROOM: usize = 108;
/// include/uapi/linux/sockios.h.
const SIOCETHTOOL: u32 = 0x8946;
/// A ready file descriptor, or a descriptor to wait for.
pub struct Watch<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// `POLLIN` or `POLLOUT`; 0 for errors and hang-ups only, which are always reported.
    pub events: i16,
    /// Set by [`wait`]: the events, an error or a hang-up occurred.
    pub ready: bool,
}

impl<'a> Watch<'a> {
    /// Waits until `fd` can be read.
    pub fn readable(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: libc::POLLIN, ready: false }
    }

    /// Waits until `fd` can be written.
    pub fn writable(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: libc::POLLOUT, ready: false }
    }

    /// Waits until the other end of `fd` is gone.
    pub fn hung_up(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: 0, ready: false }
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The file of a namespace; what is a pipe instead does not hold anybody up.
fn namespace(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Moves the calling thread, and only it, to the network namespace at `path`.
pub fn enter_network_namespace(path: &Path) -> io::Result<()> {
    let namespace = namespace(path)?;
    // SAFETY: setns takes a descriptor that is open here and an integer.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the process, which has one thread, to the user namespace at `path` as its root.
pub fn enter_user_namespace(path: &Path) -> io::Result<()> {
    let namespace = namespace(path)?;
    // SAFETY: setns takes a descriptor that is open here and an integer.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWUSER) })?;
    stay_readable()
}

/// Moves the process, which has one thread, to new namespaces (`CLONE_NEWUSER`, `CLONE_NEWNET`).
pub fn unshare(kinds: i32) -> io::Result<()> {
    // SAFETY: unshare takes an integer.
    check(unsafe { libc::unshare(kinds) }).map(drop)
}

/// Keeps the process's files in /proc readable for other processes of its user, which a change of user
/// would prevent.
pub fn stay_readable() -> io::Result<()> {
    // SAFETY: PR_SET_DUMPABLE takes one integer and touches no memory.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1 as libc::c_ulong) }).map(drop)
}

/// The number of a device of this network namespace.
pub fn device_number(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: if_nametoindex reads a string that lives until after the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}

/// Makes the kernel send this process a signal when its parent ends. False if the parent has already
/// ended.
pub fn die_with_parent(signal: i32) -> io::Result<bool> {
    let parent = parent_id();
    // SAFETY: PR_SET_PDEATHSIG takes one integer and touches no memory.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) })?;
    Ok(parent_id() == parent)
}

/// Continues in a child process that leads a new session and a new process group; the calling
/// process, which has one thread, ends with status 0.
pub fn detach() -> io::Result<()> {
    // SAFETY: there is one thread, so the child may do anything; _exit takes an integer and does not
    // return; setsid takes nothing.
    unsafe {
        if check(libc::fork())? > 0 {
            libc::_exit(0);
        }
        check(libc::setsid()).map(drop)
    }
}

/// Stops this process until it is continued.
pub fn stop_here() {
    // SAFETY: raise takes an integer.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Locks an open file for this process alone, until it is closed; false if another process has it.
pub fn lock_file(file: &File) -> io::Result<bool> {
    // SAFETY: flock takes a descriptor that is open here and an integer.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        locked => locked.map(|_| true),
    }
}

/// The user whose rights this process has.
pub fn user() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The group whose rights this process has.
pub fn group() -> u32 {
    // SAFETY: getegid takes nothing and cannot fail.
    unsafe { libc::getegid() }
}

/// True if this process leads its session.
pub fn leads_session() -> bool {
    // SAFETY: getsid takes an integer and returns one.
    let session = unsafe { libc::getsid(0) };
    u32::try_from(session) == Ok(std::process::id())
}

/// Numbers of the processors that this process may use.
pub fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: cpu_set_t is plain data, for which all zeros is a value; the kernel writes at most its
    // size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set))?;
        set
    };
    // SAFETY: the numbers are below the size of the set.
    let allowed = |&number: &usize| unsafe { libc::CPU_ISSET(number, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(allowed).collect())
}

/// Keeps the calling thread on a processor that [`processors`] gave.
pub fn stay_on(processor: usize) -> io::Result<()> {
    // SAFETY: as above; the number is below the size of the set, and the kernel only reads it.
    check(unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    })
    .map(drop)
}

/// Lets the calling thread run only when no other wants its processor.
pub fn run_when_idle() -> io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one sched_param.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &none) }).map(drop)
}

/// Allows this process as many open files as it may have; returns how many.
pub fn descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit, and reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
                limit = raised;
            }
        }
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Opens a file of a directory by its name there, without following a link or waiting for the other end of a
/// pipe; no child process inherits it.
pub fn open_at(directory: BorrowedFd<'_>, name: &str, flags: i32, mode: u32) -> io::Result<File> {
    let name = CString::new(name)?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: a C string that lives until the call returns, and integers; the new descriptor has no other owner.
    unsafe {
        let fd = check(libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, mode))?;
        Ok(File::from_raw_fd(fd))
    }
}

/// Makes a directory in a directory.
pub fn make_directory_at(directory: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: a C string that lives until the call returns, and integers.
    check(unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), mode) }).map(drop)
}

/// Gives a file of a directory another name there, in the place of what has it.
pub fn rename_at(directory: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
    let (from, to, fd) = (CString::new(from)?, CString::new(to)?, directory.as_raw_fd());
    // SAFETY: C strings that live until the call returns, and integers.
    check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) }).map(drop)
}

/// Removes a file from a directory.
pub fn remove_at(directory: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: a C string that lives until the call returns, and integers.
    check(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// A connection to a UNIX socket, without waiting: `WouldBlock` if its listener's backlog is full.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let socket = socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)?;
    let path = path.as_os_str().as_bytes();
    if path.len() >= UNIX_PATH_ROOM || path.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
    connect(socket.as_fd(), &[&family[..], path, &[0]].concat())?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A non-blocking socket that no child process inherits.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    any_socket(domain, kind | libc::SOCK_NONBLOCK, protocol)
}

/// A socket that no child process inherits, and that blocks unless `kind` has SOCK_NONBLOCK.
pub fn any_socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes integers; the new descriptor has no other owner.
    let fd = check(unsafe { libc::socket(domain, kind, protocol) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an address in the kernel's layout.
pub fn bind(fd: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let (data, length) = (address.as_ptr().cast(), address.len() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes, which is the length of the slice.
    check(unsafe { libc::bind(fd.as_raw_fd(), data, length) }).map(drop)
}

/// Connects to an address in the kernel's layout; family `AF_UNSPEC` undoes a connection.
pub fn connect(fd: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let (data, length) = (address.as_ptr().cast(), address.len() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes, which is the length of the slice.
    check(unsafe { libc::connect(fd.as_raw_fd(), data, length) }).map(drop)
}

/// Listens.
pub fn listen(fd: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    // SAFETY: listen takes integers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// Sets a socket option.
pub fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let (data, length) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes, which is the length of the slice.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, data, length) }).map(drop)
}

/// Reads a socket option of at most `room` bytes; not for options that hold pointers.
pub fn option(fd: BorrowedFd<'_>, level: i32, name: i32, room: usize) -> io::Result<Vec<u8>> {
    let mut value = vec![0u8; room];
    let length = read_option(fd, level, name, &mut value)?;
    value.truncate(length);
    Ok(value)
}

/// Reads a socket option into `room`, which may hold a request; bytes that were written.
pub fn read_option(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    room: &mut [u8],
) -> io::Result<usize> {
    let mut length = room.len() as libc::socklen_t;
    let data = room.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes, the length of the slice, and reports how many.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, data, &mut length) })?;
    Ok(length as usize)
}

/// Bytes of a connection that were written and are not acknowledged (`SIOCOUTQ`; of MPTCP since Linux 5.17).
pub fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer behind the pointer, which lives until after the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ as _, &mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// A value of a network device, by one of ethtool's commands that have one (`struct ethtool_value`).
pub fn ethtool(fd: BorrowedFd<'_>, device: &str, command: u32) -> io::Result<u32> {
    let mut value = [command, 0u32];
    // SAFETY: ifreq is plain data, for which all zeros is a value; the kernel reads and writes the two
    // integers behind the pointer, which live until after the call.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        let name = device.as_bytes().iter().take(request.ifr_name.len() - 1);
        for (to, from) in request.ifr_name.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        check(libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, &mut request))?;
    }
    Ok(value[1])
}

/// `MPTCP_FULL_INFO`, with pointers to two arrays of this many elements in its header; bytes of the header that are
/// known. The sizes of elements are in the header already: the kernel lowers them to its own.
pub fn full_info(
    fd: BorrowedFd<'_>,
    header: &mut [u8],
    arrays: [&mut [u8]; 2],
    elements: u32,
) -> io::Result<usize> {
    let size =
        |offset: usize| u32::from_ne_bytes(header[offset..offset + 4].try_into().expect("4 bytes"));
    let needed = [12, 4].map(|offset| size(offset) as usize * elements as usize);
    if arrays.iter().zip(needed).any(|(array, needed)| array.len() < needed) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    header[20..24].copy_from_slice(&elements.to_ne_bytes());
    for (place, array) in header[24..40].chunks_exact_mut(8).zip(arrays) {
        place.copy_from_slice(&(array.as_mut_ptr() as u64).to_ne_bytes());
    }
    // The kernel writes to the header, and to the two arrays, which live until after the call, at most as many
    // elements and bytes per element as the header grants: there is room for them.
    read_option(fd, SOL_MPTCP, MPTCP_FULL_INFO, header)
}

/// A datagram that arrived.
pub struct Datagram {
    /// Its bytes that fit.
    pub length: usize,
    /// The sender, in the kernel's layout.
    pub from: [u8; 28],
    /// Time of its arrival at this machine, CLOCK_REALTIME; none if the socket takes no timestamps.
    pub arrived_ns: Option<u64>,
}

/// Receives one datagram, with the kernel's timestamp if `SO_TIMESTAMPNS` is set.
pub fn receive(fd: BorrowedFd<'_>, data: &mut [u8]) -> io::Result<Datagram> {
    #[repr(align(8))]
    struct Room([u8; 64]);
    let mut room = Room([0; 64]);
    let mut from = [0u8; 28];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: msghdr is plain data, for which all zeros is a value. The kernel writes at most the lengths
    // that are given of the three buffers, which outlive the call; the control messages are read with the
    // C library's own arithmetic, within the length that the kernel reported, at any alignment.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = from.as_mut_ptr().cast();
        message.msg_namelen = from.len() as libc::socklen_t;
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = room.0.as_mut_ptr().cast();
        message.msg_controllen = room.0.len() as _;
        let length = libc::recvmsg(fd.as_raw_fd(), &mut message, 0);
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut arrived_ns = None;
        let mut next = libc::CMSG_FIRSTHDR(&message);
        while !next.is_null() {
            if ((*next).cmsg_level, (*next).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
            {
                let time: libc::timespec = ptr::read_unaligned(libc::CMSG_DATA(next).cast());
                arrived_ns = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            next = libc::CMSG_NXTHDR(&message, next);
        }
        Ok(Datagram { length: length as usize, from, arrived_ns })
    }
}

/// Report of a router, or of the other end, about a datagram that this socket sent (ip(7), `IP_RECVERR`).
pub struct ErrorReport {
    /// Bytes of the datagram's payload that the report quotes.
    pub quoted: usize,
    /// Its sender, in the kernel's layout.
    pub from: [u8; 28],
    /// `SO_EE_ORIGIN_ICMP`, `SO_EE_ORIGIN_ICMP6` or another origin.
    pub origin: u8,
    /// Type and code of the ICMP message.
    pub kind: (u8, u8),
}

/// Takes a report from the error queue; its quotation goes into `data`.
///
/// # Errors
/// There is none (`WouldBlock`), or the socket has failed.
pub fn receive_error(fd: BorrowedFd<'_>, data: &mut [u8]) -> io::Result<ErrorReport> {
    #[repr(align(8))]
    struct Room([u8; 256]);
    let mut room = Room([0; 256]);
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    let mut report = ErrorReport { quoted: 0, from: [0; 28], origin: 0, kind: (0, 0) };
    // SAFETY: msghdr is plain data, for which all zeros is a value. The kernel writes at most the lengths
    // that are given of the two buffers, which outlive the call; the control messages are read with the C
    // library's own arithmetic, and the error and the address behind it within the message's length.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = room.0.as_mut_ptr().cast();
        message.msg_controllen = room.0.len() as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let length = libc::recvmsg(fd.as_raw_fd(), &mut message, flags);
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        report.quoted = length as usize;
        let mut next = libc::CMSG_FIRSTHDR(&message);
        while !next.is_null() {
            let kinds = [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
            let room = ((*next).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let head = size_of::<libc::sock_extended_err>();
            if kinds.contains(&((*next).cmsg_level, (*next).cmsg_type)) && room >= head {
                let body = libc::CMSG_DATA(next);
                let error: libc::sock_extended_err = ptr::read_unaligned(body.cast());
                report.origin = error.ee_origin;
                report.kind = (error.ee_type, error.ee_code);
                let length = (room - head).min(report.from.len());
                ptr::copy_nonoverlapping(body.add(head), report.from.as_mut_ptr(), length);
            }
            next = libc::CMSG_NXTHDR(&message, next);
        }
    }
    Ok(report)
}

/// Receives the datagrams that are there, each into its own piece of `data` of this size, as many as there are
/// pieces. `lengths` becomes theirs, as they were sent: one that is longer than its piece is cut off.
///
/// # Errors
/// There is none (`WouldBlock`), or the socket has failed.
pub fn receive_some(
    fd: BorrowedFd<'_>,
    data: &mut [u8],
    size: usize,
    lengths: &mut Vec<usize>,
) -> io::Result<()> {
    let mut parts: Vec<_> = data
        .chunks_exact_mut(size)
        .map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: size })
        .collect();
    let message = |part: &mut libc::iovec| {
        // SAFETY: mmsghdr is plain data, for which all zeros is a value.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        message
    };
    let mut messages: Vec<_> = parts.iter_mut().map(message).collect();
    let (count, flags) = (messages.len() as u32, libc::MSG_DONTWAIT | libc::MSG_TRUNC);
    // SAFETY: the kernel writes `count` elements, all of the vector, and at most `size` bytes into each piece;
    // the pieces and their iovecs outlive the call.
    let received = check(unsafe {
        libc::recvmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count, flags, ptr::null_mut())
    })?;
    lengths.clear();
    lengths.extend(messages[..received as usize].iter().map(|message| message.msg_len as usize));
    Ok(())
}

/// Messages that the kernel could not give to a socket so far, as it was full (`SK_MEMINFO_DROPS`).
///
/// # Errors
/// The socket has failed, or this kernel does not count them (`SO_MEMINFO`, Linux 4.12).
pub fn dropped(fd: BorrowedFd<'_>) -> io::Result<u32> {
    /// Its place among the values (include/uapi/linux/sock_diag.h).
    const DROPS: usize = 8;
    let mut values = [0u32; 16];
    let mut size = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into the array, and how many these were into `size`.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut size,
        )
    })?;
    Ok(values[DROPS])
}

/// Waits until a descriptor is ready, a signal arrived or the time is over.
pub fn wait(watches: &mut [Watch<'_>], timeout: Duration) -> io::Result<()> {
    let mut polled: Vec<_> = watches
        .iter()
        .map(|watch| libc::pollfd { fd: watch.fd.as_raw_fd(), events: watch.events, revents: 0 })
        .collect();
    let limit = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the kernel reads and writes `count` elements, all of the vector, and reads the
    // timespec; no signal mask is given.
    let result = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &limit, ptr::null()) };
    if let Err(error) = check(result) {
        return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
    }
    for (watch, polled) in watches.iter_mut().zip(&polled) {
        watch.ready = polled.revents != 0;
    }
    Ok(())
}

/// Processor time of all threads of this process so far, nanoseconds.
pub fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The same of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CLOCK_MONOTONIC, which all processes of a machine share, nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME, by which the kernel dates what arrives, nanoseconds.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// CLOCK_BOOTTIME, which goes on while the machine is suspended, nanoseconds.
pub fn boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec; the clocks exist on every Linux, so the call cannot
    // fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
pub mod tests;
