//! The system calls that the standard library lacks. All unsafe code of the crate is here, each block
//! with the reason why it is sound.
#![allow(unsafe_code)]

use mptune_core::units::Nanos;
use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Real-time priority, above processes without one; the second lowest, above traffic with the lowest.
const PRIORITY: c_int = 2;
/// Nice value where real-time scheduling is not permitted.
const NICE: c_int = -20;
/// Tolerance of timers, so that they can expire together (prctl(2), PR_SET_TIMERSLACK).
const TIMER_SLACK_NS: libc::c_ulong = 1_000;

/// The result of a call, or its errno.
fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes the kernel kill this process when the thread that started it ends, however it ends.
///
/// # Errors
/// The kernel's, or that the parent has ended already.
pub(crate) fn kill_with_parent() -> io::Result<()> {
    let parent = std::os::unix::process::parent_id();
    // SAFETY: prctl with PR_SET_PDEATHSIG takes a number and touches no memory.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    if std::os::unix::process::parent_id() == parent {
        return Ok(());
    }
    Err(io::Error::other("the process that started this one has ended"))
}

/// Raises the priority of the process and the precision of its timers. Returns its scheduling class.
pub(crate) fn raise_priority() -> &'static str {
    let priority = libc::sched_param { sched_priority: PRIORITY };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter outlives the call, which only reads it; 0 is this thread. prctl and
    // setpriority take numbers and touch no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS);
        if libc::sched_setscheduler(0, policy, &raw const priority) == 0 {
            "fifo"
        } else if libc::setpriority(libc::PRIO_PROCESS, 0, NICE) == 0 {
            "nice"
        } else {
            "normal"
        }
    }
}

/// The processor that this thread is on.
pub(crate) fn current_processor() -> Option<usize> {
    // SAFETY: the call has no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The processors that this thread may run on, in order.
///
/// # Errors
/// The machine has more of them than a set holds (1024).
pub(crate) fn allowed_processors() -> io::Result<Vec<usize>> {
    // SAFETY: a set is an array of bits, for which zero is a value. The call writes at most its size to
    // it, and it outlives the call; 0 is this thread.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        checked(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set))?;
        set
    };
    // SAFETY: the numbers are below the size of the set.
    let has = |&processor: &usize| unsafe { libc::CPU_ISSET(processor, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(has).collect())
}

/// Restricts this thread to these processors.
pub(crate) fn allow_processors(processors: &[usize]) -> io::Result<()> {
    // SAFETY: a set is an array of bits, for which zero is a value; CPU_SET panics on a number beyond
    // it; the call reads the set, which outlives it; 0 is this thread.
    checked(unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        processors.iter().for_each(|&processor| libc::CPU_SET(processor, &mut set));
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    })
    .map(drop)
}

/// Processor time of this process, all threads.
pub(crate) fn cpu_time() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux; the call writes to a timespec that outlives it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// Moves this thread into a network namespace.
pub(crate) fn enter_network_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: setns takes a descriptor, which is open, and touches no memory.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Creates a TUN device on an open `/dev/net/tun`, without packet information and with a virtio-net header. It lives
/// as long as the file is open. A name that is too long is truncated.
pub(crate) fn create_tun(file: &File, name: &str) -> io::Result<()> {
    // SAFETY: an ifreq consists of numbers and a union of numbers and pointers, for all of which zero
    // is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let last = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..last].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which outlives the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }).map(drop)
}

/// Enables the offloads of a TUN device: checksums and TSO. A kernel that refuses does both itself, as each header
/// reports.
pub(crate) fn enable_offloads(tun: &File) {
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // SAFETY: TUNSETOFFLOAD takes a number and touches no memory.
    unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
}

/// `MPTUNE_ADD` of python/mptune/guest/mptune_network.c: `_IOW('m', 1, struct mptune_device)`, which has this size.
const ADD_DEVICE: libc::c_ulong =
    1 << 30 | (size_of::<NamedDevice>() as libc::c_ulong) << 16 | (b'm' as libc::c_ulong) << 8 | 1;

/// A device to be made, as that file has it.
#[repr(C)]
struct NamedDevice {
    namespace: c_int,
    name: [u8; 16],
}

/// Creates a device of a guest's network driver in a network namespace. It lives as long as the driver's file is open.
/// A name that is too long is truncated.
pub(crate) fn add_device(driver: &File, namespace: &File, name: &str) -> io::Result<()> {
    let mut device = NamedDevice { namespace: namespace.as_raw_fd(), name: [0; 16] };
    device.name[..15].iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    // SAFETY: the call reads a device of that size, which outlives it.
    checked(unsafe { libc::ioctl(driver.as_raw_fd(), ADD_DEVICE, &raw const device) }).map(drop)
}

/// A descriptor that becomes readable at a given time, to the nanosecond.
#[derive(Debug)]
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: timerfd_create takes numbers; the descriptor it returns is owned by nobody else.
        let timer = unsafe {
            OwnedFd::from_raw_fd(checked(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?)
        };
        Ok(Self(timer))
    }

    /// Makes it unreadable now, and readable after `delay`, which is more than 0; none: never.
    pub fn set(&self, delay: Option<Duration>) -> io::Result<()> {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = delay.map_or(zero, |delay| libc::timespec {
            tv_sec: delay.as_secs() as libc::time_t,
            tv_nsec: delay.subsec_nanos() as libc::c_long,
        });
        let time = libc::itimerspec { it_interval: zero, it_value: value };
        let timer = self.0.as_raw_fd();
        // SAFETY: the call reads the time, which outlives it; no old time is asked for.
        let set = unsafe { libc::timerfd_settime(timer, 0, &raw const time, std::ptr::null_mut()) };
        checked(set).map(drop)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until something can be read, or only checks. A signal ends it early, with nothing to read.
pub(crate) fn wait(files: &mut [libc::pollfd], poll_only: bool) -> io::Result<()> {
    let (first, number) = (files.as_mut_ptr(), files.len() as libc::nfds_t);
    // SAFETY: pointer and number are those of a slice that is ours for the time of the call.
    match checked(unsafe { libc::poll(first, number, if poll_only { 0 } else { -1 }) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            files.iter_mut().for_each(|file| file.revents = 0);
            Ok(())
        }
        result => result.map(drop),
    }
}

/// An entry for [`wait`].
pub(crate) fn readable(file: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// The descriptor at which the signal handler reports a signal; never closed, -1 before.
static TERMINATION: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_termination(_signal: c_int) {
    let increment = 1_u64;
    let file: RawFd = TERMINATION.load(Ordering::Relaxed);
    // SAFETY: write is async-signal-safe (signal-safety(7)) and reads 8 bytes of a local variable.
    unsafe { libc::write(file, (&raw const increment).cast(), size_of::<u64>()) };
}

/// From now on SIGTERM and SIGINT do not end the process but make the result readable. A handler and
/// not a signalfd, because other threads of the process may have the signals unblocked.
pub(crate) fn catch_termination() -> io::Result<OwnedFd> {
    // SAFETY: eventfd takes numbers; the descriptor it returns is owned by nobody else, and the
    // handler uses a duplicate that stays open.
    let event = unsafe {
        OwnedFd::from_raw_fd(checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
    };
    TERMINATION.store(std::os::fd::IntoRawFd::into_raw_fd(event.try_clone()?), Ordering::Relaxed);
    let handler: extern "C" fn(c_int) = on_termination;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: a sigaction of zeros is valid and blocks nothing; the handler has the signature that
        // goes without SA_SIGINFO and does only what a handler may. A set of signals is plain data.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            checked(libc::sigaction(signal, &raw const action, std::ptr::null_mut()))?;
            // Whoever started this process may have blocked it.
            let mut set: libc::sigset_t = std::mem::zeroed();
            checked(libc::sigemptyset(&raw mut set))?;
            checked(libc::sigaddset(&raw mut set, signal))?;
            checked(libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()))?;
        }
    }
    Ok(event)
}
