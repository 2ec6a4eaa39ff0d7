//! The subflows of a managed connection are those of the simulator.

use super::*;

/// The simulator's actions for a policy over three paths from three local interfaces to one remote one,
/// 100 Mbit/s and 20 ms each.
fn simulated(pm: &str, pm_options: &Value, further: Value) -> Outcome {
    let link = |delay_ms: u64| {
        json!({"name": "", "rate_bps": 100_000_000, "delay_ns": delay_ms * MS, "jitter_ns": 0,
               "queue_bytes": 100_000, "loss_ppb": 0})
    };
    let path = |local: usize| {
        json!({"label": format!("{local}-0"), "local": local, "remote": 0,
               "forward": [2 * local], "reverse": [2 * local + 1]})
    };
    let network = json!({
        "links": [link(10), link(10), link(10), link(10), link(10), link(10)],
        "paths": [path(0), path(1), path(2)],
        "initial_path": 0,
        "lsrr_honoured": false,
    });
    let mut spec = json!({
        "network": network, "pm": pm, "pm_options": pm_options, "cc": "reno", "scheduler": "minrtt",
        "buffer_bytes": 1 << 22, "mss": 1448, "seed": 1,
    });
    spec.as_object_mut().unwrap().extend(further.as_object().cloned().unwrap());
    serde_json::from_value::<TrialSpec>(spec).unwrap().run().unwrap()
}

/// As much as the connection takes, for this long.
fn bulk(duration_ns: u64) -> Value {
    json!({"kind": "bulk", "duration_ns": duration_ns})
}

#[test]
fn the_subflows_are_those_of_the_simulator() {
    let saturated = bulk(2 * SECOND);
    let transfer = json!({"kind": "transfer", "bytes": 900 * KIB, "deadline_ns": 600 * SECOND});
    for (pm, options, size) in [
        ("default", json!({}), &saturated),
        ("fullmesh", json!({}), &saturated),
        ("ndiffports", json!({"ndiffports": 3}), &saturated),
        ("binder", json!({}), &saturated),
        ("pcdc", json!({"active": [1, 2]}), &saturated),
        ("pcdc", json!({"active": [0, 2], "standby_order": [1]}), &saturated),
        ("pcdc", json!({}), &transfer),
        ("pcdc", json!({"class_bytes": [100, 200]}), &transfer),
    ] {
        let outcome = simulated(pm, &options, json!({"workload": size}));
        let expected: Vec<_> = outcome.subflows.iter().map(|one| (one.path, one.active)).collect();

        let mut further = json!({"pm_options": options});
        if let Some(bytes) = size.get("bytes") {
            further["transfer_bytes"] = bytes.clone();
        }
        let managed = assignment(pm, (3, 1), further);
        let initial = managed.paths[managed.policy.initial_path(0)].label.clone();
        let mut kernel = Kernel::new(&managed, &initial, false);
        kernel.establish();
        let ids = kernel.connection.established().into_iter();
        let found = ids.map(|(id, pair)| {
            (kernel.connection.subflows[id].path, !kernel.subflows[&pair].backup)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{pm} {options}");
    }
}

#[test]
fn the_successor_is_that_of_the_simulator() {
    let options = json!({"active": [0], "standby_order": [2, 1]});
    let cut = json!([{"at_ns": SECOND, "path": 0, "action": "down"}]);
    let further = json!({"workload": bulk(10 * SECOND), "script": cut});
    let outcome = simulated("pcdc", &options, further);
    let carries = |bins: &[u64]| bins.iter().rev().take(10).sum::<u64>() > 0;
    let last = outcome.subflows.iter().filter(|one| carries(&one.bins)).map(|one| one.path);
    assert_eq!(last.collect::<Vec<_>>(), [2]);

    let managed = assignment("pcdc", (3, 1), json!({"pm_options": options}));
    let mut kernel = Kernel::established(&managed);
    kernel.at("0-0").timeouts = 3;
    kernel.look();
    assert_eq!(kernel.standby(), ["1-0"]);
}
