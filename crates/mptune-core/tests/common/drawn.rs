//! Draws of random tests of whole connections, and their number.

use super::*;
use proptest::prelude::*;

prop_compose! {
    /// Any network of two sites.
    pub fn any_network()(
        rates in prop::collection::vec(0.2f64..50.0, 1..4),
        remotes in 1usize..3,
        delay_ms in 0.1f64..150.0,
        loss in prop_oneof![Just(0.0), 0.0f64..0.05],
        queue_packets in 2u64..300,
        jitter_ns in prop_oneof![Just(0u64), 0u64..20_000_000],
    ) -> NetworkSpec {
        sites(&rates, remotes, delay_ms, loss, queue_packets, jitter_ns)
    }
}

/// 300 random trials per property; `PROPTEST_CASES` sets another number (see `make fuzz`).
pub fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig { cases: if asked { default.cases } else { 300 }, ..default }
}

/// One of these names.
pub fn any_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(names)
}
