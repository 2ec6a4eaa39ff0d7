//! The error for an invalid specification.

/// A wrong key of a specification, and the value expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// Dotted path of the key.
    pub key: String,
    /// "expected X, found Y".
    pub expected: String,
}

impl SpecError {
    /// An error at a key.
    pub fn new(key: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { key: key.into(), expected: expected.into() }
    }
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.expected)
    }
}

impl std::error::Error for SpecError {}
