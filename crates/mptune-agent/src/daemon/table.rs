//! Reading a table of a configuration file, TOML or JSON, key by key, with one line for whatever is wrong.
//!
//! It knows no particular key. TOML is read as JSON: whatever the daemon reads from TOML can be written in JSON too.

use crate::files::Unread;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Failure to read a file, or a value in it that is wrong.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: expected {expected}, found {found}", .file.display())]
    Unread {
        /// The file.
        file: PathBuf,
        /// Its kind, as a noun.
        expected: &'static str,
        /// Its actual content.
        found: Unread,
    },
    /// It is no TOML.
    #[error("{}: line {line}: expected TOML, found something else: {found}", .file.display())]
    Toml {
        /// The file.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The parser's words.
        found: String,
    },
    /// It is no JSON.
    #[error("{}: expected an object of JSON, found {error}", .file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// The parser's error.
        error: serde_json::Error,
    },
    /// A key has a value that is wrong.
    #[error("{}: {key}: {problem}", .file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The key with what leads to it.
        key: String,
        /// Expected and actual value.
        problem: String,
    },
}

/// A table of a file.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    /// The file, for messages.
    file: &'a Path,
    /// Path of the table in the file, for messages; empty for the file itself.
    prefix: &'a str,
    values: &'a Map<String, Value>,
}

/// The content of a TOML file.
///
/// # Errors
/// [`Error::Toml`].
pub fn parsed(file: &Path, text: &str) -> Result<Map<String, Value>, Error> {
    let table: Result<Map<String, Value>, _> = toml::from_str(text);
    table.map_err(|error| {
        let before = error.span().map_or(0, |span| span.start).min(text.len());
        let line = text.as_bytes()[..before].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let found = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Error::Toml { file: file.to_owned(), line, found }
    })
}

impl<'a> Table<'a> {
    /// A table with these keys only.
    ///
    /// # Errors
    /// The first key that is none of them.
    pub fn new(
        file: &'a Path,
        prefix: &'a str,
        values: &'a Map<String, Value>,
        known: &[&str],
    ) -> Result<Self, Error> {
        let table = Self { file, prefix, values };
        match values.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                Err(table
                    .wrong(key, format!("expected one of {}, found {key:?}", known.join(", "))))
            }
            None => Ok(table),
        }
    }

    /// The file.
    pub fn file(&self) -> &'a Path {
        self.file
    }

    /// The error of a key.
    pub fn wrong(&self, key: &str, problem: impl Into<String>) -> Error {
        Error::Key { file: self.file.to_owned(), key: self.key(key), problem: problem.into() }
    }

    /// The error of a key with another value there.
    pub fn unexpected(&self, key: &str, expected: &str, found: &Value) -> Error {
        self.wrong(key, format!("expected {expected}, found {}", displayed(found)))
    }

    /// The key with what leads to it.
    pub fn key(&self, key: &str) -> String {
        match (self.prefix, key) {
            ("", key) => key.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, key) => format!("{prefix}.{key}"),
        }
    }

    /// A value of any type; null is none.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// Text.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        self.read(key, "text", Value::as_str)
    }

    /// Text that must be there.
    ///
    /// # Errors
    /// It is missing, empty, or something else.
    pub fn needed(&self, key: &str) -> Result<&'a str, Error> {
        match self.text(key)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(self.wrong(key, "expected text, found none")),
            None => Err(self.wrong(key, "expected text, found nothing")),
        }
    }

    /// One of these words.
    ///
    /// # Errors
    /// It is another, or no text.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Error> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let chosen = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        chosen.map(Some).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(key, format!("expected one of {}, found {text:?}", words.join(", ")))
        })
    }

    /// True or false; false if it is missing.
    ///
    /// # Errors
    /// It is something else.
    pub fn flag(&self, key: &str) -> Result<bool, Error> {
        Ok(self.read(key, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// A number that is not negative.
    ///
    /// # Errors
    /// It is something else.
    pub fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        let positive = |value: &Value| value.as_f64().filter(|number| *number >= 0.0);
        self.read(key, "a number that is not negative", positive)
    }

    /// A list of text that is not empty.
    ///
    /// # Errors
    /// It is something else.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let list = value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| self.unexpected(key, "a list of text", value))?;
        let text = |(index, value): (usize, &'a Value)| {
            let place = format!("{key}[{index}]");
            value.as_str().ok_or_else(|| self.unexpected(&place, "text", value))
        };
        list.iter().enumerate().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// A table in it.
    ///
    /// # Errors
    /// It is something else.
    pub fn table(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, Error> {
        self.read(key, "a table", Value::as_object)
    }

    /// A list of tables in it.
    ///
    /// # Errors
    /// It is something else.
    pub fn tables(&self, key: &str) -> Result<Vec<&'a Map<String, Value>>, Error> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = |value| self.unexpected(key, &format!("tables [[{key}]]"), value);
        let list = value.as_array().ok_or_else(|| wrong(value))?;
        list.iter().map(|table| table.as_object().ok_or_else(|| wrong(table))).collect()
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.unexpected(key, expected, value))
    }
}

/// A value in a message: short, and in one line.
pub fn displayed(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(list) if list.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}
