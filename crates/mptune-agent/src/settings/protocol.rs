//! The lines of JSON of the role `settings`.

use super::outcome::{Because, Refusal, Reload, Restored};
use super::setting::Setting;
use crate::undo::applied::Reverted;
use crate::undo::change::Setting as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An order.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum Order {
    /// Report what settings are now.
    Read {
        /// Which.
        settings: Vec<Value>,
    },
    /// Make settings.
    Apply(Apply),
    /// Keep what was made.
    Confirm,
    /// Report what was made and what became of it.
    Status,
    /// Put everything back.
    Rollback {
        /// Also what somebody else has changed since.
        #[serde(default)]
        force: bool,
    },
}

/// Settings to make.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// All of them; what was made before and is not among them is put back.
    pub settings: Vec<Value>,
    /// Name of the run that they come from.
    #[serde(default)]
    pub run: String,
    /// Everything is put back unless a confirmation comes within this time.
    #[serde(default)]
    pub confirm_within_s: Option<u64>,
    /// Programs that manage the same, and that may lose.
    #[serde(default)]
    pub despite: Vec<String>,
    /// Also what somebody else has changed since the last time.
    #[serde(default)]
    pub force: bool,
}

/// A setting that was made.
#[derive(Debug, Serialize)]
pub struct Made {
    /// With the value that it has now.
    pub setting: Value,
    /// With the value that it had before the first apply.
    pub before: Value,
    /// It was not so already.
    pub changed: bool,
}

/// One of the settings that were made, and what became of it.
#[derive(Debug, Serialize)]
pub struct Standing {
    /// With the value that was wanted.
    pub setting: Value,
    /// With the value that it had before.
    pub before: Value,
    /// With the value that it has now.
    pub present: Value,
    /// `set`, `before`, `unfinished`, `renewed` by the daemon, `changed` by somebody else, or `gone`.
    pub state: &'static str,
}

/// The confirmation that is waited for.
#[derive(Debug, Serialize)]
pub struct Waiting {
    /// Seconds until everything is put back.
    pub left_s: f64,
    /// Seconds there were.
    pub within_s: u64,
    /// The process that puts back: `process` or `systemd`.
    pub by: String,
}

/// Status of the settings that were made here.
#[derive(Debug, Serialize)]
pub struct Status {
    /// `nothing`, `applied`, `unfinished`, `rebooted`.
    pub state: &'static str,
    /// Name of the run that the settings came from.
    pub run: Option<String>,
    /// Time of the order, seconds since 1970.
    pub applied_s: Option<u64>,
    /// The confirmation that is awaited, if any.
    pub confirm: Option<Waiting>,
    /// All of them.
    pub settings: Vec<Standing>,
    /// Other programs that manage the same.
    pub foreign: Vec<&'static str>,
    /// The last rollback without a confirmation.
    pub reverted: Option<Reverted>,
}

/// An answer.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Message {
    /// Present values of settings.
    Read {
        /// The settings, as ordered, with their present values.
        present: Vec<Value>,
        /// Other programs that manage them.
        foreign: Vec<&'static str>,
    },
    /// Settings are made.
    Applied {
        /// Name of the run that they came from.
        run: String,
        /// All of them.
        settings: Vec<Made>,
        /// Names of those of earlier times that are as before again.
        dropped: Vec<String>,
        /// The confirmation that is awaited, if any.
        confirm: Option<Waiting>,
        /// The daemon's answer about its files, if they changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        daemon: Option<Reload>,
    },
    /// Nothing was done.
    Refused(Refusal),
    /// They stay.
    Confirmed {
        /// There was something to confirm.
        waited: bool,
    },
    /// The status.
    Status(Status),
    /// Everything is as before, but for `kept`.
    RolledBack(Restored),
}

/// The settings of an order, each of a kind that may be ordered.
///
/// # Errors
/// The first wrong setting, with the reason.
pub fn settings(ordered: &[Value]) -> Result<Vec<Setting>, Refusal> {
    let wrong = |number: usize, reason: &dyn std::fmt::Display| {
        Refusal::new(Because::Input, format!("settings[{number}]: {reason}"))
    };
    let parsed = |(number, value): (usize, &Value)| {
        let setting: Setting = serde_json::from_value(value.clone())
            .map_err(|error| wrong(number, &error.to_string().replace('`', "")))?;
        if let Setting::Directory(_) = setting {
            return Err(wrong(number, &"kind: expected a setting, found directory"));
        }
        setting.kind().check().map_err(|reason| wrong(number, &reason))?;
        Ok(setting)
    };
    ordered.iter().enumerate().map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_read_and_wrong_ones_named() {
        let good = json!([
            {"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "1 2 3"},
            {"kind": "limits", "subflows": 3, "add_addr_accepted": 2},
            {"kind": "endpoint", "address": "10.0.1.2", "device": "eth1", "flags": ["subflow"]},
            {"kind": "endpoint", "address": "fd00::2", "device": null, "flags": ["signal"]},
            {"kind": "endpoint", "address": "10.0.3.2", "absent": true},
            {"kind": "route", "to": "default", "congctl": "olia"},
            {"kind": "congestion", "name": "olia", "object": "AAAA"},
            {"kind": "file", "path": "/etc/mptune/policy.toml", "content": "", "reload": "/run/x"},
            {"kind": "file", "path": "/etc/mptune/policy.toml", "absent": true},
        ]);
        assert_eq!(settings(good.as_array().unwrap()).unwrap().len(), 9);
        for (wrong, words) in [
            (json!({"kind": "limit", "subflows": 3}), "unknown variant limit"),
            (json!({"kind": "limits", "subflows": 3}), "add_addr_accepted"),
            (json!({"kind": "limits", "subflows": 256, "add_addr_accepted": 1}), "at most 255"),
            (json!({"kind": "sysctl", "name": "a.b.c", "value": ""}), "setting of the network"),
            (json!({"kind": "sysctl", "name": "net.b.c", "value": "", "x": 1}), "unknown field x"),
            (json!({"kind": "directory", "path": "/"}), "found directory"),
            (json!({"kind": "file", "path": "/etc/passwd", "content": ""}), "below /etc/mptune"),
            (json!({"kind": "endpoint", "address": "10.0.1"}), "IP address"),
            (json!({"kind": "route", "to": "10.0.0.0/8", "congctl": ""}), "congctl"),
            (json!({"name": "x"}), "kind"),
        ] {
            let refusal = settings(&[
                json!({"kind": "limits", "subflows": 1, "add_addr_accepted": 1}),
                wrong,
            ])
            .unwrap_err();
            assert_eq!(refusal.because, Because::Input);
            let reason = refusal.reason;
            assert!(reason.starts_with("settings[1]: ") && reason.contains(words), "{reason}");
        }
    }
}
