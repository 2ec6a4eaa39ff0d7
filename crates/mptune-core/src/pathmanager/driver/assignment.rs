//! A path manager's policy, its options and its paths.

use crate::error::SpecError;
use crate::pathmanager::{Forecast, OptionMap, PathEnds, PathId, Policy, TransferSize};
use crate::units::{Bytes, Nanos};
use std::sync::Arc;

/// A policy with its options and paths, for any number of connections.
#[derive(Debug, Clone)]
pub struct Assignment {
    pub(super) policy: Policy,
    pub(super) paths: Arc<[PathEnds]>,
    pub(super) lsrr_honoured: bool,
    pub(super) size: TransferSize,
}

impl Assignment {
    /// The path manager called `pm` for these paths, in topology order.
    ///
    /// `size` is that of the transfer as known beforehand; with `lsrr_honoured` the network obeys loose source routes
    /// (RFC 791), which only binder uses.
    ///
    /// # Errors
    /// The key that is wrong: "pm", "pm_options" for an unknown option, or the name of an option.
    pub fn new(
        pm: &str,
        options: &OptionMap,
        paths: impl Into<Arc<[PathEnds]>>,
        size: TransferSize,
        lsrr_honoured: bool,
    ) -> Result<Self, SpecError> {
        let paths = paths.into();
        let policy = Policy::new(pm, options, paths.len())?;
        Ok(Self::with_policy(policy, paths, size, lsrr_honoured))
    }

    /// The same with an existing policy.
    pub fn with_policy(
        policy: Policy,
        paths: impl Into<Arc<[PathEnds]>>,
        size: TransferSize,
        lsrr_honoured: bool,
    ) -> Self {
        Self { policy, paths: paths.into(), lsrr_honoured, size }
    }

    /// The policy may ask for forecasts.
    pub fn foresee(&mut self, forecast: impl FnOnce() -> Arc<dyn Forecast>) {
        self.policy.foresee(forecast);
    }

    /// Adds a path and returns its number.
    pub fn add_path(&mut self, ends: PathEnds) -> PathId {
        self.paths = self.paths.iter().copied().chain([ends]).collect();
        self.paths.len() - 1
    }

    /// The default path of the initial subflow; `default` is the topology's.
    pub fn initial_path(&self, default: PathId) -> PathId {
        self.policy.initial_path(&self.paths, self.size, default)
    }

    /// Numbers of sent bytes at which the policy may request a notification.
    pub fn thresholds(&self) -> Vec<Bytes> {
        self.policy.thresholds()
    }

    /// The interval of [`super::Report::Sample`].
    pub fn sampling(&self) -> Option<Nanos> {
        self.policy.sampling()
    }
}
