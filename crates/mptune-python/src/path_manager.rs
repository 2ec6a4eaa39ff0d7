//! The beginning of a connection under a path manager of the core; the agent runs the path manager afterwards. JSON,
//! as everywhere between Python and the core.

use crate::errors::{SpecError, refused};
use mptune_core::pathmanager::{Assignment, OptionMap, PathEnds, PathId, TransferSize};
use mptune_core::units::Bytes;
use pyo3::prelude::*;

/// The path of the first subflow, and the numbers of sent bytes at which the policy may request a notification.
#[pyfunction]
pub fn path_manager_start(
    name: &str,
    options: &[u8],
    paths: &[u8],
    transfer_bytes: Option<Bytes>,
    default: PathId,
) -> PyResult<(PathId, Vec<Bytes>)> {
    let options: OptionMap =
        serde_json::from_slice(options).map_err(|error| malformed("options", &error))?;
    let paths: Vec<PathEnds> =
        serde_json::from_slice(paths).map_err(|error| malformed("paths", &error))?;
    let size = match transfer_bytes {
        Some(Bytes::MAX) => TransferSize::Unlimited,
        Some(bytes) => TransferSize::Known(bytes),
        None => TransferSize::Unknown,
    };
    let assignment = Assignment::new(name, &options, paths, size, false).map_err(refused)?;
    Ok((assignment.initial_path(default), assignment.thresholds()))
}

fn malformed(key: &str, error: &serde_json::Error) -> PyErr {
    SpecError::new_err((key.to_owned(), error.to_string()))
}
