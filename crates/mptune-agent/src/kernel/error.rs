//! Errors of the kernel's netlink families, one readable line each.

use netlink_packet_core::DecodeError;
use std::fmt;
use std::io;
use thiserror::Error as Derived;

/// The kernel refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The request, for messages.
    request: String,
    /// The error number.
    number: i32,
    /// Its meaning here, or the kernel's own words.
    words: Option<String>,
}

impl Refusal {
    /// `request` was answered with an error number and perhaps an explanation.
    pub fn new(request: &str, number: i32, words: Option<String>) -> Self {
        Self { request: request.to_owned(), number, words }
    }

    /// The error number.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// The same with our own explanation.
    pub fn meaning(self, words: &str) -> Self {
        Self { words: Some(words.to_owned()), ..self }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.request, strerror(self.number))?;
        self.words.as_ref().map_or(Ok(()), |words| write!(f, " ({words})"))
    }
}

/// Failure of a request, or of the whole conversation with the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Derived)]
pub enum Error {
    /// The kernel refused one request; others may succeed.
    #[error("{0}")]
    Refused(Refusal),
    /// Nothing more can be done.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// A system call failed while handling `subject`.
    pub fn io(subject: &str, error: &io::Error) -> Self {
        Self::Failed(format!("{subject}: {}", plain(error)))
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Failed(format!("netlink: unreadable message: {error}"))
    }
}

/// The system's words for an error number, without the number.
pub fn strerror(number: i32) -> String {
    plain(&io::Error::from_raw_os_error(number))
}

/// The words of an error, without its number.
pub fn plain(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_request_the_error_and_its_meaning() {
        let refusal = Refusal::new("subflow a to b", libc::ESRCH, None);
        assert_eq!(refusal.to_string(), "subflow a to b: No such process");
        let meant = refusal.meaning("there is no such subflow");
        assert_eq!(meant.to_string(), "subflow a to b: No such process (there is no such subflow)");
    }
}
