//! The exception for an invalid specification.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;

create_exception!(_core, SpecError, PyValueError, "A trial that cannot be run.");
