//! Checks the values of a trial's keys.

use super::path_parameters;
use super::script::ScriptAction;
use super::spec::TrialSpec;
use crate::error::SpecError;
use crate::pathmanager::PathId;
use crate::units::Bytes;

/// Limit on scripted events: each may reopen subflows, which are numbered with 16 bits.
const MAX_SCRIPT: usize = 256;

fn wrong(key: &str, expected: impl Into<String>) -> Result<(), SpecError> {
    Err(SpecError::new(key, expected))
}

impl TrialSpec {
    pub(super) fn check_numbers(&self) -> Result<(), SpecError> {
        if !(64..=8960).contains(&self.mss) {
            return wrong("mss", format!("expected 64 to 8960 bytes, found {}", self.mss));
        }
        self.check_buffer("buffer_bytes", self.buffer_bytes)?;
        self.check_buffer(
            "receive_buffer_bytes",
            self.receive_buffer_bytes.unwrap_or(self.buffer_bytes),
        )?;
        self.members.validate()?;
        if !(1_000_000..=1_000_000_000).contains(&self.bin_ns) {
            return wrong("bin_ns", format!("expected 1 ms to 1 s, found {} ns", self.bin_ns));
        }
        self.check_flows(self.segment())?;
        self.check_early_end()?;
        self.check_protocol()?;
        self.check_paths()
    }

    /// A buffer holds a segment, and fewer than 2^30.
    fn check_buffer(&self, key: &str, bytes: Bytes) -> Result<(), SpecError> {
        let segment = self.segment();
        if bytes < u64::from(segment) {
            return wrong(
                key,
                format!("expected at least one segment of {segment} bytes, found {bytes}"),
            );
        }
        // A window of 2^30 segments is 1.5 TB: more than any host has, and safely within 32 bits.
        if bytes / u64::from(segment) > 1 << 30 {
            return wrong(key, "expected less than 2^30 segments");
        }
        Ok(())
    }

    /// Plain TCP has one path and no path manager.
    fn check_protocol(&self) -> Result<(), SpecError> {
        if self.protocol.rules().is_multipath() {
            return Ok(());
        }
        if self.pm != "default" {
            return wrong("pm", format!("expected default with protocol tcp, found {}", self.pm));
        }
        let of_network = |action| matches!(action, ScriptAction::Down | ScriptAction::Up);
        if !self.script.iter().all(|event| of_network(event.action)) {
            return wrong("script", "expected only down and up with protocol tcp");
        }
        Ok(())
    }

    /// A scripted change cannot be extrapolated.
    fn check_early_end(&self) -> Result<(), SpecError> {
        if self.workload.ends_early() && !self.script.is_empty() {
            return wrong("workload.ends_early", "expected a saturated sender without a script");
        }
        Ok(())
    }

    fn check_paths(&self) -> Result<(), SpecError> {
        let count = self.network.paths.len();
        let check = |key: &str, paths: &[PathId]| match paths.iter().find(|&&path| path >= count) {
            Some(path) => wrong(key, format!("expected a path below {count}, found {path}")),
            None => Ok(()),
        };
        check("initial_path", self.initial_path.as_slice())?;
        if self.script.len() > MAX_SCRIPT {
            let count = self.script.len();
            return wrong(
                "script",
                format!("expected at most {MAX_SCRIPT} actions, found {count}"),
            );
        }
        let scripted: Vec<_> = self.script.iter().map(|action| action.path).collect();
        check("script", &scripted)?;
        let told: Vec<_> = self.path_parameters.iter().map(|told| told.path).collect();
        check("path_parameters", &told)?;
        path_parameters::check(&self.path_parameters, &self.cc)
    }
}
