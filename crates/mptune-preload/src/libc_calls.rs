//! The functions of the C library that the program finds here instead, and the kernel's calls behind
//! them. The only file with unsafe code.
//!
//! Each function does the library's work and then, or before, what the program asked for. The work
//! leaves `errno` alone and calls the kernel directly, so that it never meets another preloaded
//! library; what the program asked for goes to the next one. Functions in which a thread may be
//! cancelled hold nothing that would have to be released.
#![allow(unsafe_code, reason = "what talks to the C library")]
#![cfg_attr(test, allow(dead_code, reason = "the functions stand in for nothing in the tests"))]

use crate::apart::SUBFLOW_INFO;
use crate::hooks::{Hooks, Memory};
use crate::info::address;
use crate::sandbox::{Sandbox, leads_in, option_leads_in};
use crate::settings::Settings;
use crate::system::{End, Errno, FullInfo, MAX_SUBFLOWS, SOL_MPTCP, System, TCP_INFO_ROOM};
use libc::{FILE, sockaddr, socklen_t};
use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::mem::transmute;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// `MPTCP_FULL_INFO` (Linux 6.5).
const MPTCP_FULL_INFO: c_int = 4;
/// Bytes that are read of /proc/self/status, which has about 1.4 KiB and `Seccomp:` behind lists of groups.
const STATUS_ROOM: usize = 16_384;
/// Descriptors looked at when a process ends, at most.
const MOST_DESCRIPTORS: u64 = 65_536;

unsafe extern "C" {
    /// The name of the program without its folder; glibc and musl set it.
    static program_invocation_short_name: *const c_char;
}

static SANDBOX: Sandbox = Sandbox::new();
static MEMORY: Memory = Memory::new();

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        Settings::read(|name| {
            // SAFETY: both are C strings; the value is copied before anything can change it: this
            // runs before `main`, when there is one thread.
            unsafe {
                let value = libc::getenv(name.as_ptr());
                (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
            }
        })
    })
}

fn hooks() -> Hooks<'static, Kernel> {
    Hooks { system: &Kernel, settings: settings(), memory: &MEMORY }
}

/// The library's own work: nothing of it reaches the program, neither a panic nor `errno`.
fn aside(work: impl FnOnce(&Hooks<'static, Kernel>)) {
    if SANDBOX.is_known() {
        return;
    }
    // SAFETY: `errno` of this thread, which lives as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let _ = catch_unwind(AssertUnwindSafe(|| work(&hooks())));
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// The function that would have been called without this library.
macro_rules! next {
    ($name:ident: fn($($type:ty),*) -> $result:ty) => {{
        static NEXT: OnceLock<usize> = OnceLock::new();
        let found = *NEXT.get_or_init(|| {
            let name = concat!(stringify!($name), "\0");
            // SAFETY: the name is a C string.
            unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) as usize }
        });
        // SAFETY: the C library's function of that name has this signature, or there is none.
        unsafe { transmute::<usize, Option<unsafe extern "C-unwind" fn($($type),*) -> $result>>(found) }
    }};
}

/// Return value of a function that the C library does not have.
fn missing() -> c_int {
    // SAFETY: `errno` of this thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Kernel calls that bypass the C library.
struct Kernel;

/// The result of a call made by `syscall`, which leaves its error in `errno`.
fn checked(result: c_long) -> Result<c_long, Errno> {
    // SAFETY: `errno` of this thread.
    if result < 0 { Err(unsafe { *libc::__errno_location() }) } else { Ok(result) }
}

impl System for Kernel {
    fn socket(&self, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let Some(next) = next!(socket: fn(c_int, c_int, c_int) -> c_int) else { return missing() };
        // SAFETY: three numbers.
        unsafe { next(domain, kind, protocol) }
    }

    fn set_option(&self, fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
        let (data, length) = (value.as_ptr(), value.len());
        // SAFETY: the kernel reads `length` bytes of `value`.
        checked(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, data, length) })?;
        Ok(())
    }

    fn option(
        &self,
        fd: c_int,
        level: c_int,
        name: c_int,
        room: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut length = room.len() as socklen_t;
        let (data, end) = (room.as_mut_ptr(), &raw mut length);
        // SAFETY: the kernel writes at most `length` bytes to `room`.
        checked(unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, data, end) })?;
        Ok(length as usize)
    }

    fn full_info(&self, fd: c_int, info: &mut FullInfo) -> Result<(), Errno> {
        let put = |header: &mut [u8], offset: usize, value: &[u8]| {
            if let Some(field) = header.get_mut(offset..offset.saturating_add(value.len())) {
                field.copy_from_slice(value);
            }
        };
        for (offset, size) in [(4, TCP_INFO_ROOM), (12, SUBFLOW_INFO), (20, MAX_SUBFLOWS)] {
            put(&mut info.header, offset, &(size as u32).to_ne_bytes());
        }
        put(&mut info.header, 24, &(info.subflows.as_mut_ptr() as u64).to_ne_bytes());
        put(&mut info.header, 32, &(info.tcp.as_mut_ptr() as u64).to_ne_bytes());
        // The kernel writes to the header as `option` defines, and to the two arrays, which outlive
        // the call, at most as many elements and bytes per element as the header grants.
        info.header_length = self.option(fd, SOL_MPTCP, MPTCP_FULL_INFO, &mut info.header)?;
        Ok(())
    }

    fn address(&self, fd: c_int, end: End, room: &mut [u8; 128]) -> Option<usize> {
        let call = match end {
            End::Local => libc::SYS_getsockname,
            End::Remote => libc::SYS_getpeername,
        };
        let mut length = room.len() as socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `room`.
        checked(unsafe { libc::syscall(call, fd, room.as_mut_ptr(), &raw mut length) }).ok()?;
        Some(length as usize)
    }

    fn error(&self) -> Errno {
        // SAFETY: `errno` of this thread.
        unsafe { *libc::__errno_location() }
    }

    fn append(&self, file: &CStr, line: &[u8]) {
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY;
        // SAFETY: a C string, and a buffer of that length; the descriptor is closed here.
        unsafe {
            let opened = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, file.as_ptr(), flags);
            if opened >= 0 {
                libc::syscall(libc::SYS_write, opened, line.as_ptr(), line.len());
                libc::syscall(libc::SYS_close, opened);
            }
        }
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn program(&self) -> &[u8] {
        // SAFETY: set before any code of the program runs, and never freed.
        unsafe {
            let name = program_invocation_short_name;
            if name.is_null() { b"" } else { CStr::from_ptr(name).to_bytes() }
        }
    }

    fn now_ns(&self) -> u64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it is written to `now`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
    }

    fn descriptors(&self) -> c_int {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: it is written to `limit`.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        limit.rlim_cur.min(MOST_DESCRIPTORS) as c_int
    }

    fn is_free(&self) -> bool {
        learn(settings());
        // SAFETY: numbers; it leaves an error in `errno`, which `aside` and `socket` put back.
        SANDBOX.is_absent(|| unsafe {
            libc::syscall(libc::SYS_prctl, libc::PR_GET_SECCOMP, 0, 0, 0, 0)
        })
    }
}

/// The remote address of a `connect()`; none if it is no address of the internet.
///
/// # Safety
///
/// `remote` is null or has `length` readable bytes.
unsafe fn remote_address(remote: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if remote.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    address(unsafe { std::slice::from_raw_parts(remote.cast::<u8>(), length as usize) })
}

/// Reads the settings while there is one thread, and whether the program was begun in a sandbox.
extern "C" fn begun() {
    aside(|hooks| {
        learn(hooks.settings);
        next_syscall();
    });
}

/// Learns of the filters that there were from the beginning; other libraries may begin earlier.
fn learn(settings: &Settings) {
    static LEARNT: OnceLock<()> = OnceLock::new();
    LEARNT.get_or_init(|| {
        let mut room = [0; STATUS_ROOM];
        let length = beginning(c"/proc/self/status", &mut room);
        SANDBOX.begin(room.get(..length).unwrap_or(&[]), settings.filters);
    });
}

/// The beginning of a file, by the calls by which the loader has just read this library.
fn beginning(file: &CStr, room: &mut [u8]) -> usize {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a C string, and a buffer of that length; the descriptor is closed here.
    unsafe {
        let opened = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, file.as_ptr(), flags, 0);
        if opened < 0 {
            return 0;
        }
        let length = libc::syscall(libc::SYS_read, opened, room.as_mut_ptr(), room.len());
        libc::syscall(libc::SYS_close, opened);
        usize::try_from(length).unwrap_or(0)
    }
}

extern "C" fn ended() {
    aside(Hooks::ending);
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGUN: extern "C" fn() = begun;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static ENDED: extern "C" fn() = ended;

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if SANDBOX.is_known() {
        return Kernel.socket(domain, kind, protocol);
    }
    // SAFETY: `errno` of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let made = catch_unwind(AssertUnwindSafe(|| hooks().socket(domain, kind, protocol)));
    let fd = made.unwrap_or(-1);
    if fd >= 0 {
        // SAFETY: as above.
        unsafe { *errno = before };
    }
    fd
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn connect(fd: c_int, to: *const sockaddr, length: socklen_t) -> c_int {
    aside(|hooks| hooks.settle(fd));
    let next = next!(connect: fn(c_int, *const sockaddr, socklen_t) -> c_int);
    let Some(next) = next else { return missing() };
    // SAFETY: the program's own arguments.
    let result = unsafe { next(fd, to, length) };
    // SAFETY: as `connect` demands.
    aside(|hooks| hooks.connecting(fd, unsafe { remote_address(to, length) }));
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    aside(|hooks| hooks.settle(fd));
    let Some(next) = next!(listen: fn(c_int, c_int) -> c_int) else { return missing() };
    // SAFETY: two numbers.
    unsafe { next(fd, backlog) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept(
    fd: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let next = next!(accept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int);
    let Some(next) = next else { return missing() };
    // SAFETY: the program's own arguments.
    let accepted = unsafe { next(fd, from, length) };
    if accepted >= 0 {
        aside(|hooks| hooks.accepted(accepted));
    }
    accepted
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let next = next!(accept4: fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int);
    let Some(next) = next else { return missing() };
    // SAFETY: the program's own arguments.
    let accepted = unsafe { next(fd, from, length, flags) };
    if accepted >= 0 {
        aside(|hooks| hooks.accepted(accepted));
    }
    accepted
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let next = next!(getsockopt: fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int);
    let Some(next) = next else { return missing() };
    if level == libc::IPPROTO_TCP && name == libc::TCP_INFO {
        // A program that wants to know how its connection does may not be able to ask later.
        aside(|hooks| hooks.closing(fd));
    }
    // SAFETY: the program's own arguments.
    let result = unsafe { next(fd, level, name, value, length) };
    if result == 0 && level == libc::SOL_SOCKET && name == libc::SO_PROTOCOL {
        // SAFETY: the kernel has just written `length` bytes to `value`, which may be unaligned.
        aside(|hooks| unsafe {
            if *length as usize == size_of::<c_int>() {
                let value = value.cast::<c_int>();
                value.write_unaligned(hooks.protocol_shown(value.read_unaligned()));
            }
        });
    }
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let next = next!(setsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int);
    let Some(next) = next else { return missing() };
    // SAFETY: the program's own arguments.
    let mut result = unsafe { next(fd, level, name, value, length) };
    if result < 0 {
        let error = Kernel.error();
        aside(|hooks| {
            if hooks.forgives(fd, level, name, error) {
                result = 0;
            }
        });
    }
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if how != libc::SHUT_RD {
        aside(|hooks| hooks.closing(fd));
    }
    let Some(next) = next!(shutdown: fn(c_int, c_int) -> c_int) else { return missing() };
    // SAFETY: two numbers.
    unsafe { next(fd, how) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C-unwind" fn close(fd: c_int) -> c_int {
    aside(|hooks| hooks.closing(fd));
    let Some(next) = next!(close: fn(c_int) -> c_int) else { return missing() };
    // SAFETY: a number.
    unsafe { next(fd) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fclose(file: *mut FILE) -> c_int {
    if settings().statistics().is_some() {
        // SAFETY: the program's own argument; what it has written leaves before it is counted.
        aside(|hooks| unsafe {
            libc::fflush(file);
            hooks.closing(libc::fileno(file));
        });
    }
    let Some(next) = next!(fclose: fn(*mut FILE) -> c_int) else { return missing() };
    // SAFETY: the program's own argument.
    unsafe { next(file) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if old != new {
        aside(|hooks| hooks.closing(new));
    }
    let Some(next) = next!(dup2: fn(c_int, c_int) -> c_int) else { return missing() };
    // SAFETY: two numbers.
    unsafe { next(old, new) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if old != new {
        aside(|hooks| hooks.closing(new));
    }
    let Some(next) = next!(dup3: fn(c_int, c_int, c_int) -> c_int) else { return missing() };
    // SAFETY: three numbers.
    unsafe { next(old, new, flags) }
}

/// On every platform that Linux has, numbers are passed to a variadic function as to this one.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    let next = next!(prctl: fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int);
    let Some(next) = next else { return missing() };
    // SAFETY: the program's own arguments; what it did not pass is not looked at.
    let call = || unsafe { next(option, second, third, fourth, fifth) };
    if option_leads_in(option) { SANDBOX.enter(call, |&result| result < 0) } else { call() }
}

/// The C library's `syscall()`, with all that it can be passed.
type Syscall =
    unsafe extern "C-unwind" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;

/// The next `syscall()`. Without a lock, unlike the others: those wait by means of it.
fn next_syscall() -> Option<Syscall> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut found = NEXT.load(Relaxed);
    if found == 0 {
        // SAFETY: the name is a C string.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) as usize };
        NEXT.store(found, Relaxed);
    }
    // SAFETY: the C library's function of that name takes numbers, or there is none.
    unsafe { transmute::<usize, Option<Syscall>>(found) }
}

/// As `prctl`. What the program did not pass is not looked at by the kernel either; the last argument, which is
/// on the stack on x86-64, is then whatever is there, as for the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    let Some(next) = next_syscall() else { return missing().into() };
    // SAFETY: the program's own arguments.
    let call = || unsafe { next(number, first, second, third, fourth, fifth, sixth) };
    // The arguments are 32 bits wide; what is above them may be anything.
    if leads_in(number, c_long::from(first as c_int)) {
        SANDBOX.enter(call, |&result| result < 0)
    } else {
        call()
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C-unwind" fn _exit(code: c_int) -> ! {
    ended();
    loop {
        // SAFETY: it ends the process, whatever the state of it is.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case, reason = "the C library calls it so")]
extern "C-unwind" fn _Exit(code: c_int) -> ! {
    _exit(code)
}
