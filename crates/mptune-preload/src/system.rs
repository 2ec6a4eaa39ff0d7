//! The library's requests to the operating system, so that tests can answer instead.

use crate::apart::{DATA_HEAD, FULL_INFO_HEADER, SUBFLOW_INFO};
use std::ffi::{CStr, c_int};

/// An error number of the C library.
pub type Errno = c_int;

/// Protocol number of Multipath TCP.
pub const IPPROTO_MPTCP: c_int = 262;
/// Level of its socket options.
pub const SOL_MPTCP: c_int = 284;

/// Subflows of a connection that are reported; with its usual limits the kernel's path manager opens 3, at most 9
/// until Linux 6.18.
pub const MAX_SUBFLOWS: usize = 16;
/// Room for `struct mptcp_info`, 96 bytes in Linux 6.18.
pub const MPTCP_INFO_ROOM: usize = 128;
/// Room for one `struct tcp_info`; what is read of it ends at byte 242.
pub const TCP_INFO_ROOM: usize = 248;

/// Room for one of the options that older kernels have instead.
const SPARE_ROOM: usize = DATA_HEAD + MAX_SUBFLOWS * SUBFLOW_INFO;

/// The data that `MPTCP_FULL_INFO` fills in.
pub struct FullInfo {
    /// `struct mptcp_full_info`, which has the number of elements of the arrays, and their distance.
    pub header: [u8; FULL_INFO_HEADER + MPTCP_INFO_ROOM],
    /// Bytes of it that the kernel wrote.
    pub header_length: usize,
    /// Array of `struct mptcp_subflow_info`.
    pub subflows: [u8; MAX_SUBFLOWS * SUBFLOW_INFO],
    /// Array of `struct tcp_info`.
    pub tcp: [u8; MAX_SUBFLOWS * TCP_INFO_ROOM],
}

/// An empty spare room, for `FullInfo::read`.
pub const fn spare() -> [u8; SPARE_ROOM] {
    [0; SPARE_ROOM]
}

impl FullInfo {
    /// Nothing known yet.
    pub const fn new() -> Self {
        Self {
            header: [0; FULL_INFO_HEADER + MPTCP_INFO_ROOM],
            header_length: 0,
            subflows: [0; MAX_SUBFLOWS * SUBFLOW_INFO],
            tcp: [0; MAX_SUBFLOWS * TCP_INFO_ROOM],
        }
    }
}

/// End of a connection, by its addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// This program's.
    Local,
    /// The peer's.
    Remote,
}

/// Calls to the kernel. None of them blocks, and none changes the program's `errno`, but `socket`.
pub trait System {
    /// The program's own `socket()`: a descriptor, or -1 with `errno` set.
    fn socket(&self, domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    /// Sets a socket option.
    fn set_option(&self, fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno>;
    /// Reads a socket option into `room`; bytes that were written.
    fn option(&self, fd: c_int, level: c_int, name: c_int, room: &mut [u8])
    -> Result<usize, Errno>;
    /// `MPTCP_FULL_INFO` (Linux 6.5), with the sizes of the arrays filled in.
    fn full_info(&self, fd: c_int, info: &mut FullInfo) -> Result<(), Errno>;
    /// A socket address of an end; bytes that were written.
    fn address(&self, fd: c_int, end: End, room: &mut [u8; 128]) -> Option<usize>;
    /// `errno` of the call of `socket` that failed.
    fn error(&self) -> Errno;
    /// Adds a line to a file, whole or not at all.
    fn append(&self, file: &CStr, line: &[u8]);
    /// This process.
    fn pid(&self) -> u32;
    /// Name of the program.
    fn program(&self) -> &[u8];
    /// `CLOCK_MONOTONIC`, nanoseconds.
    fn now_ns(&self) -> u64;
    /// Descriptors that may be open are below this number.
    fn descriptors(&self) -> c_int;
    /// True if calls may be made that the program itself does not make: no sandbox kills it for one.
    fn is_free(&self) -> bool;
}
