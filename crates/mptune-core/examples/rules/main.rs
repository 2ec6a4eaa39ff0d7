//! Prints, as JSON, the results of every congestion control for the three rules of multipath congestion control, with
//! their limits. `benchmarks/fidelity/_rules.py` makes a table of it.

#[path = "../../tests/common/mod.rs"]
mod common;
mod scenarios;

use mptune_core::congestion;
use scenarios::{LEAST_THROUGHPUT, MOST_ON_CONGESTED, Rules, SPAN, WARM_UP};
use serde_json::{Value, json};

const SEEDS: u64 = 10;

fn judged(rules: &Rules, reno: &Rules) -> Value {
    let mut row = json!(rules);
    row["improves_throughput"] = rules.improves_throughput().into();
    row["does_no_harm"] = rules.does_no_harm().into();
    row["balances_congestion"] = rules.balances_congestion(reno).into();
    row
}

fn main() {
    let all: Vec<_> = congestion::NAMES.iter().map(|cc| Rules::measure(cc, SEEDS)).collect();
    let reno = all.iter().find(|rules| rules.cc == "reno").expect("reno is a control");
    let result = json!({
        "seeds": SEEDS,
        "warm_up_s": WARM_UP,
        "span_s": SPAN,
        "least_throughput": LEAST_THROUGHPUT,
        "most_on_congested": MOST_ON_CONGESTED,
        "controls": all.iter().map(|rules| judged(rules, reno)).collect::<Vec<_>>(),
    });
    println!("{result:#}");
}
