//! The Python module `mptune._core`: signature, call, map the error.
//!
//! No logic: everything that can be tested without an interpreter is in `mptune-core`.
//! The Python docs are in `python/mptune/_core.pyi`.

use errors::{SpecError, refused};
use mptune_core::early_end::EarlyEnd;
use mptune_core::mptcp::{accounting, scheduler};
use mptune_core::trial::{Recording, TrialSpec};
use mptune_core::{congestion, network, pathmanager};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::borrow::Cow;

mod errors;
mod limits;
mod path_manager;

/// The version of the core, as in `Cargo.toml`.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

#[pyfunction]
fn congestion_controls() -> Vec<&'static str> {
    congestion::NAMES.to_vec()
}

#[pyfunction]
fn path_managers() -> Vec<&'static str> {
    pathmanager::NAMES.to_vec()
}

/// The options of each path manager as JSON, with kinds, units, defaults and meaning.
#[pyfunction]
fn path_manager_options() -> PyResult<Vec<u8>> {
    let options =
        pathmanager::NAMES.iter().map(|&name| (name, pathmanager::Policy::describe(name)));
    let options: std::collections::BTreeMap<_, _> = options.collect();
    serde_json::to_vec(&options).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The effects on the wire as JSON, with their words and parameters.
#[pyfunction]
fn wire_effects() -> PyResult<Vec<u8>> {
    json(&network::WIRE_EFFECTS)
}

#[pyfunction]
fn wire_mean_loss_ppb(effect: &str, parameters: &[u8]) -> PyResult<u64> {
    network::wire_mean_loss_ppb(effect, parameters).map_err(refused)
}

#[pyfunction]
fn schedulers() -> Vec<&'static str> {
    scheduler::NAMES.to_vec()
}

#[pyfunction]
fn accountings() -> Vec<&'static str> {
    accounting::NAMES.to_vec()
}

#[pyfunction]
fn buffer_modes() -> Vec<&'static str> {
    accounting::MODES.to_vec()
}

#[pyfunction]
fn simulate(py: Python<'_>, trial: &[u8]) -> PyResult<Vec<u8>> {
    let spec = parsed(trial)?;
    json(&py.detach(|| spec.run()).map_err(refused)?)
}

/// Outcome, records of packets, number of packets after the limit, samples; JSON except the records.
type RecordedTrial = (Vec<u8>, Cow<'static, [u8]>, u64, Vec<u8>);

/// The same with a recording of its packets and senders.
#[pyfunction]
fn simulate_recorded(
    py: Python<'_>,
    trial: &[u8],
    packets: usize,
    spacing_ns: u64,
) -> PyResult<RecordedTrial> {
    let spec = parsed(trial)?;
    let recording = Recording { packets, spacing: spacing_ns };
    let (outcome, recorded) = py.detach(|| spec.run_recorded(recording)).map_err(refused)?;
    let samples = json(&recorded.samples)?;
    Ok((json(&outcome)?, recorded.records.into(), recorded.omitted, samples))
}

fn parsed(trial: &[u8]) -> PyResult<TrialSpec> {
    serde_json::from_slice(trial)
        .map_err(|error| SpecError::new_err(("", format!("expected a trial: {error}"))))
}

fn json(value: &impl serde::Serialize) -> PyResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The early end of a trial with these bins, and the bytes expected over its whole duration.
#[pyfunction]
fn early_end(bins: Vec<u64>, duration_ns: u64, bin_ns: u64) -> Option<(u64, u64)> {
    EarlyEnd::replay(&bins, duration_ns, bin_ns).map(|ended| (ended.at, ended.expected))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SpecError", module.py().get_type::<SpecError>())?;
    module.add_class::<limits::LimitRule>()?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(congestion_controls, module)?)?;
    module.add_function(wrap_pyfunction!(path_managers, module)?)?;
    module.add_function(wrap_pyfunction!(path_manager_options, module)?)?;
    module.add_function(wrap_pyfunction!(path_manager::path_manager_start, module)?)?;
    module.add_function(wrap_pyfunction!(schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(accountings, module)?)?;
    module.add_function(wrap_pyfunction!(buffer_modes, module)?)?;
    module.add_function(wrap_pyfunction!(early_end, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_recorded, module)?)?;
    module.add_function(wrap_pyfunction!(wire_effects, module)?)?;
    module.add_function(wrap_pyfunction!(wire_mean_loss_ppb, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)
}
