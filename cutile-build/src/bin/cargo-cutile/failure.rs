//! An error of the command: a text that says what was found, what was expected, what to do next.

use crate::output::shown;
use std::fmt;
use std::io;
use std::path::Path;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    /// `cannot ACTION PATH: what the system says`.
    pub(crate) fn io<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |error| Self(format!("cannot {action} {}: {error}", shown(path)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}
