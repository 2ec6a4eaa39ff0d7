//! The accountings and modes of the buffers, by name.

use crate::units::{MILLISECOND, Nanos};

/// The accounting of a buffer's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accounting {
    /// Payload.
    #[default]
    Payload,
    /// Socket memory, as a release of the Linux kernel counts it.
    Linux(Release),
}

/// Releases that count differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// 6.18 and before.
    Linux6,
    /// 7.3.
    Linux7,
}

impl Release {
    /// A tick of its timers: with `CONFIG_HZ` 250, as distributions build it, or 1000, as guests are built.
    pub fn tick(self) -> Nanos {
        match self {
            Self::Linux6 => 4 * MILLISECOND,
            Self::Linux7 => MILLISECOND,
        }
    }
}

/// The names of all.
pub const NAMES: &[&str] = &["payload", "linux", "linux-7.3"];

impl Accounting {
    /// The accounting called `name`, or none.
    pub fn new(name: &str) -> Option<Self> {
        match name {
            "payload" => Some(Self::Payload),
            "linux" => Some(Self::Linux(Release::Linux6)),
            "linux-7.3" => Some(Self::Linux(Release::Linux7)),
            _ => None,
        }
    }
}

/// The mode of a buffer's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BufferMode {
    /// Set by the application (`SO_SNDBUF`, `SO_RCVBUF`), constant.
    #[default]
    Fixed,
    /// Set by the kernel: grows as needed, up to a limit (`tcp_wmem[2]`, `tcp_rmem[2]`).
    Auto,
}

/// The names of both, in the order of the enum.
pub const MODES: &[&str] = &["fixed", "auto"];

impl BufferMode {
    /// The mode called `name`, or none.
    pub fn new(name: &str) -> Option<Self> {
        match name {
            "fixed" => Some(Self::Fixed),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}
