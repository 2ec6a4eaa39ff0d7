//! Settings of the library, from the environment.
//!
//! | variable | value |
//! |---|---|
//! | `MPTUNE_EXEC_PROTOCOL` | `mptcp`, or `tcp` to leave the protocol alone; without it the same as `mptcp` |
//! | `MPTUNE_EXEC_CC` | the kernel's name of a congestion control (`TCP_CONGESTION`); not set: the system's |
//! | `MPTUNE_EXEC_BUFFER` | bytes for `SO_SNDBUF` and `SO_RCVBUF`; not set: autotuning |
//! | `MPTUNE_EXEC_FORCE` | `1`: buffers beyond the kernel's limits where the process may have them |
//! | `MPTUNE_EXEC_STATS` | a file that every process appends its lines to (`report.rs`); not set: none |
//! | `MPTUNE_EXEC_FILTERS` | filters of system calls (seccomp) before the program began; not set: none |
//!
//! A value that makes no sense counts as not set: `mptune exec` has checked them.

use std::ffi::{CStr, c_int};

/// Longest name of a congestion control with its end, `TCP_CA_NAME_MAX`.
const CC_ROOM: usize = 16;
/// Longest name of the file of statistics with its end.
const PATH_ROOM: usize = 512;

/// A C string of a bounded length, kept without allocation.
#[derive(Clone, Copy)]
struct Text<const ROOM: usize> {
    bytes: [u8; ROOM],
}

impl<const ROOM: usize> Text<ROOM> {
    /// None if it is empty or does not fit.
    fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; ROOM];
        if text.is_empty() || text.len() >= ROOM || text.contains(&0) {
            return None;
        }
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { bytes })
    }

    fn as_c(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

/// The settings of this process.
#[derive(Clone, Copy)]
pub struct Settings {
    /// True if TCP sockets become MPTCP sockets.
    pub mptcp: bool,
    /// `SO_SNDBUF` and `SO_RCVBUF`, bytes.
    pub buffer_bytes: Option<c_int>,
    /// Buffers may exceed the kernel's limits (`SO_SNDBUFFORCE`), where the process has the right.
    pub forces: bool,
    /// Filters of system calls that the program has from whoever started it.
    pub filters: u32,
    cc: Option<Text<CC_ROOM>>,
    statistics: Option<Text<PATH_ROOM>>,
}

impl Settings {
    /// Reads the environment by way of `variable`.
    pub fn read<'a>(variable: impl Fn(&CStr) -> Option<&'a [u8]>) -> Self {
        Self {
            mptcp: variable(c"MPTUNE_EXEC_PROTOCOL") != Some(b"tcp"),
            buffer_bytes: variable(c"MPTUNE_EXEC_BUFFER").and_then(number),
            forces: variable(c"MPTUNE_EXEC_FORCE") == Some(b"1"),
            filters: variable(c"MPTUNE_EXEC_FILTERS")
                .and_then(number)
                .map_or(0, c_int::unsigned_abs),
            cc: variable(c"MPTUNE_EXEC_CC").and_then(Text::new),
            statistics: variable(c"MPTUNE_EXEC_STATS").and_then(Text::new),
        }
    }

    /// True if sockets get more than another protocol.
    pub fn gives_options(&self) -> bool {
        self.cc.is_some() || self.buffer_bytes.is_some()
    }

    /// Congestion control, by the kernel's name.
    pub fn cc(&self) -> Option<&[u8]> {
        self.cc.as_ref().and_then(Text::as_c).map(CStr::to_bytes)
    }

    /// File that lines of statistics go to.
    pub fn statistics(&self) -> Option<&CStr> {
        self.statistics.as_ref().and_then(Text::as_c)
    }
}

fn number(text: &[u8]) -> Option<c_int> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &'static [(&'static CStr, &'static [u8])]) -> Settings {
        Settings::read(|name| {
            given.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        })
    }

    #[test]
    fn nothing_set_means_mptcp_and_the_systems_choices() {
        let found = settings(&[]);
        assert!(found.mptcp);
        assert!(found.cc().is_none() && found.statistics().is_none());
        assert_eq!(found.buffer_bytes, None);
        assert!(!found.gives_options() && found.filters == 0 && !found.forces);
    }

    #[test]
    fn every_variable_is_read() {
        let found = settings(&[
            (c"MPTUNE_EXEC_PROTOCOL", b"tcp"),
            (c"MPTUNE_EXEC_CC", b"mptune_olia"),
            (c"MPTUNE_EXEC_BUFFER", b"655360"),
            (c"MPTUNE_EXEC_STATS", b"/tmp/x/y"),
            (c"MPTUNE_EXEC_FILTERS", b"2"),
            (c"MPTUNE_EXEC_FORCE", b"1"),
        ]);
        assert!(found.forces);
        assert!(!found.mptcp && found.gives_options());
        assert_eq!(found.filters, 2);
        assert_eq!(found.cc(), Some(b"mptune_olia".as_slice()));
        assert_eq!(found.buffer_bytes, Some(655_360));
        assert_eq!(found.statistics(), Some(c"/tmp/x/y"));
    }

    #[test]
    fn what_makes_no_sense_counts_as_not_set() {
        for buffer in [b"-1".as_slice(), b"0", b"", b"4MiB", b"99999999999", b"\xff"] {
            assert_eq!(number(buffer), None);
        }
        assert!(Text::<CC_ROOM>::new(b"a_name_longer_than_16").is_none());
        assert!(Text::<CC_ROOM>::new(b"").is_none());
        assert!(Text::<CC_ROOM>::new(b"fifteen_letters").is_some());
    }
}
