//! The available accountings, by name.

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
