//! Runs one trial: its specification as JSON on the standard input, its outcome as JSON on the standard output.
//! The same as Python does through the binding, but without Python: for profilers and debuggers.

use mptune_core::trial::TrialSpec;
use std::io::Read;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut text = String::new();
    let outcome = std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str(&text).map_err(|error| error.to_string()))
        .and_then(|trial: TrialSpec| trial.run().map_err(|error| error.to_string()));
    match outcome {
        Ok(outcome) => {
            println!("{}", serde_json::json!(outcome));
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("trial: {message}");
            ExitCode::from(2)
        }
    }
}
