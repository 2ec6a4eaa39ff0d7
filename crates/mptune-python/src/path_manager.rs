//! `_core.PathManager`: a policy of the core, told by Python what happened to a kernel's connection.
//!
//! JSON in both directions, as everywhere between Python and the core; the policy keeps its state here.

use crate::SpecError;
use mptune_core::network;
use mptune_core::pathmanager::driven::{Driven, Situation};
use mptune_core::pathmanager::{Event, Options, PathEnds, PathId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// One policy with its state.
#[pyclass(module = "mptune._core")]
pub struct PathManager {
    driven: Driven,
}

#[pymethods]
impl PathManager {
    #[new]
    fn new(name: &str, options: &[u8]) -> PyResult<Self> {
        let options: Options =
            serde_json::from_slice(options).map_err(|error| malformed("options", &error))?;
        Ok(Self { driven: Driven::new(name, &options).map_err(impossible)? })
    }

    fn initial_path(&self, paths: &[u8], default: PathId) -> PyResult<PathId> {
        let paths: Vec<PathEnds> =
            serde_json::from_slice(paths).map_err(|error| malformed("paths", &error))?;
        Ok(self.driven.initial_path(&paths, default))
    }

    fn on_event(&mut self, event: &[u8], view: &[u8]) -> PyResult<Vec<u8>> {
        let event: Event =
            serde_json::from_slice(event).map_err(|error| malformed("event", &error))?;
        let view: Situation =
            serde_json::from_slice(view).map_err(|error| malformed("view", &error))?;
        let commands = self.driven.on_event(event, &view).map_err(impossible)?;
        serde_json::to_vec(&commands).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

fn malformed(key: &str, error: &serde_json::Error) -> PyErr {
    SpecError::new_err((key.to_owned(), error.to_string()))
}

fn impossible(error: network::SpecError) -> PyErr {
    SpecError::new_err((error.key, error.expected))
}
