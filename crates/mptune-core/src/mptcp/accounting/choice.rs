//! The available accountings and modes of the buffers, by name.

/// What a buffer's bytes are charged with.
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

/// Who determines the size of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BufferMode {
    /// The application (`SO_SNDBUF`, `SO_RCVBUF`): it never changes.
    #[default]
    Fixed,
    /// The kernel: it grows as needed, up to a limit (`tcp_wmem[2]`, `tcp_rmem[2]`).
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
