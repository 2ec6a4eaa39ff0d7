//! The accountings and modes of the buffers, by name.

/// The accounting of a buffer's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accounting {
    /// Payload.
    #[default]
    Payload,
    /// Socket memory, as the Linux kernel counts it.
    Linux,
}

/// The names of both, in the order of the enum.
pub const NAMES: &[&str] = &["payload", "linux"];

impl Accounting {
    /// The accounting called `name`, or none.
    pub fn new(name: &str) -> Option<Self> {
        match name {
            "payload" => Some(Self::Payload),
            "linux" => Some(Self::Linux),
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
