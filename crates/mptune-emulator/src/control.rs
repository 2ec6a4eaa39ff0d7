//! Commands to a running emulation: lines of JSON.

use crate::error::Error;
use serde::Deserialize;

/// A line after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Command {
    /// Starts the network at time 0.
    Start,
    /// Cuts a path.
    Down { path: usize },
    /// Restores it.
    Up { path: usize },
    /// The end.
    Stop,
}

impl Command {
    /// Parses a line; `paths` is the number of paths.
    ///
    /// # Errors
    /// The expected command.
    pub fn parse(line: &[u8], paths: usize) -> Result<Self, Error> {
        let command = serde_json::from_slice(line).map_err(Error::Command)?;
        if let Self::Down { path } | Self::Up { path } = command {
            if path >= paths {
                return Err(Error::Path { paths, found: path });
            }
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_wrong_ones_refused() {
        let parse = |line: &str| Command::parse(line.as_bytes(), 4);
        assert_eq!(parse(r#"{"action": "start"}"#).unwrap(), Command::Start);
        let down = parse(r#"{"action": "down", "path": 3}"#).unwrap();
        assert_eq!(down, Command::Down { path: 3 });
        for wrong in [
            r#"{"action": "up", "path": 4}"#,
            r#"{"action": "up"}"#,
            r#"{"action": "fly"}"#,
            "start",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
