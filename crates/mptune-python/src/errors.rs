//! The exception for an invalid specification.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;

create_exception!(_core, SpecError, PyValueError, "A trial that cannot be run.");

/// The exception for an error of the core.
pub(crate) fn refused(error: mptune_core::error::SpecError) -> PyErr {
    SpecError::new_err((error.key, error.expected))
}
