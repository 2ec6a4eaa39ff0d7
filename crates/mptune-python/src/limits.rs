//! The rule that sets limits of buffers from what is seen, for networks that are simulated under it.

use crate::errors::refused;
use mptune_core::limits::{Bounds, Curve, Destination, Rule, Seen, Side};
use mptune_core::units::Bytes;
use pyo3::prelude::*;

/// The rule of send buffers, with the curve of its only destination.
#[pyclass]
pub struct LimitRule {
    rule: Rule,
    curve: Option<Curve>,
}

#[pymethods]
impl LimitRule {
    #[new]
    fn new(
        least: Bytes,
        most: Bytes,
        target: f64,
        limit: Bytes,
        curve: Option<Vec<(Bytes, f64)>>,
    ) -> PyResult<Self> {
        let curve = curve.map(Curve::new).transpose().map_err(refused)?;
        Ok(Self { rule: Rule::new(Side::Send, Bounds { least, most, target }, limit), curve })
    }

    /// An interval with one connection, which always had more to send: the next limit, and the reason.
    fn step(&mut self, mbit_s: f64, pipe_bytes: f64, limited: f64) -> (Bytes, String) {
        let seen = [Seen { mbit_s, pipe_bytes, saturated: 1.0, limited }];
        let verdict = self.rule.step(&[Destination { curve: self.curve.as_ref(), seen: &seen }]);
        (verdict.limit, verdict.why)
    }
}
