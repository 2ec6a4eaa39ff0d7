//! Bursts of losses: the chain of Gilbert (1960) and Elliott (1963).

use super::declaration::parameters;
use super::effect::WireEffect;
use crate::engine::Random;
use crate::network::chance::{BILLION, Chance};

parameters! {
    /// A chain with a good and a bad state, which takes one step per packet. With p = `enter`, r =
    /// `leave`, h = `good_loss` and k = `bad_loss`, it is bad for p / (p + r) of the packets, in runs of
    /// 1/r packets on average, and loses (r h + p k) / (p + r) of them. Its first state is drawn from that
    /// distribution. (Elliott's own h and k are the probabilities of *correct* reception.)
    GilbertElliottSpec {
        /// Probability of the step from good to bad, parts per billion.
        enter_ppb: Chance;
        /// Probability of the step from bad to good, parts per billion; without one the bad state would never end.
        leave_ppb: SomeChance;
        /// Probability of a loss in the good state, parts per billion.
        #[serde(default)]
        good_loss_ppb: Loss = 0, "no good_loss given: the good state loses nothing (Gilbert 1960)";
        /// Probability of a loss in the bad state, parts per billion.
        bad_loss_ppb: Chance = BILLION,
            "no bad_loss given: the bad state loses everything (the simple Gilbert model), so bursts are runs";
    }
}

/// The chain of one link.
#[derive(Debug, Clone)]
pub struct GilbertElliott {
    enter: Chance,
    leave: Chance,
    good_loss: Chance,
    bad_loss: Chance,
    bad: bool,
    random: Random,
}

impl WireEffect for GilbertElliott {
    type Spec = GilbertElliottSpec;
    const WORDS: &'static str = "Gilbert-Elliott losses, {mean_loss_ppb} on average, \
                                 bad for {1/leave_ppb} packets at a time";
    const BURSTS: bool = true;

    fn mean_loss_ppb(spec: &GilbertElliottSpec) -> u64 {
        let (enter, leave) = (spec.enter_ppb as f64, spec.leave_ppb as f64);
        let lost = leave * spec.good_loss_ppb as f64 + enter * spec.bad_loss_ppb as f64;
        (lost / (enter + leave)).round_ties_even() as u64
    }

    fn new(spec: &GilbertElliottSpec, mut random: Random) -> Self {
        let (enter, leave) = (spec.enter_ppb as f64, spec.leave_ppb as f64);
        Self {
            enter: Chance::ppb(spec.enter_ppb),
            leave: Chance::ppb(spec.leave_ppb),
            good_loss: Chance::ppb(spec.good_loss_ppb),
            bad_loss: Chance::ppb(spec.bad_loss_ppb),
            bad: Chance::of(enter / (enter + leave)).happens(&mut random),
            random,
        }
    }

    fn loses(&mut self) -> bool {
        let (loss, change) =
            if self.bad { (self.bad_loss, self.leave) } else { (self.good_loss, self.enter) };
        let lost = loss.happens(&mut self.random);
        self.bad ^= change.happens(&mut self.random);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::declaration::Parameters;
    use super::*;

    fn spec(
        enter_ppb: u64,
        leave_ppb: u64,
        good_loss_ppb: u64,
        bad_loss_ppb: u64,
    ) -> GilbertElliottSpec {
        GilbertElliottSpec { enter_ppb, leave_ppb, good_loss_ppb, bad_loss_ppb }
    }

    fn losses(spec: &GilbertElliottSpec, packets: usize) -> Vec<bool> {
        let mut chain = GilbertElliott::new(spec, Random::new(3, 1));
        (0..packets).map(|_| chain.loses()).collect()
    }

    #[test]
    fn loses_the_stationary_share() {
        let spec = spec(10_000_000, 250_000_000, 1_000_000, 800_000_000);
        let packets = 400_000;
        let lost = losses(&spec, packets).iter().filter(|&&lost| lost).count() as f64;
        let expected: f64 = (0.25 * 0.001 + 0.01 * 0.8) / 0.26;
        assert_eq!(GilbertElliott::mean_loss_ppb(&spec), (expected * 1e9).round() as u64);
        // Successive states correlate with 1 - p - r = 0.74: the variance is at most
        // (1 + 0.74) / (1 - 0.74) times the binomial one. Five standard deviations.
        let deviation = (packets as f64 * expected * (1.0 - expected) * 1.74 / 0.26).sqrt();
        assert!((lost - packets as f64 * expected).abs() < 5.0 * deviation, "{lost}");
    }

    #[test]
    fn losses_come_in_runs_of_the_mean_length() {
        // Gilbert's simple chain: bad loses everything, runs are geometric with mean 1/r = 5.
        let lost = losses(&spec(5_000_000, 200_000_000, 0, BILLION), 400_000);
        let runs = lost.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
        let mean = lost.iter().filter(|&&lost| lost).count() as f64 / runs;
        // About 1950 runs with standard deviation sqrt(1 - r) / r = 4.5: 0.1 for the mean; five.
        assert!((mean - 5.0).abs() < 0.5, "{mean}");
    }

    #[test]
    fn starts_in_the_stationary_distribution() {
        let spec = spec(300_000_000, 100_000_000, 0, BILLION);
        let first = |seed| GilbertElliott::new(&spec, Random::new(seed, 1)).loses();
        let bad = (0..4000).filter(|&seed| first(seed)).count();
        // Binomial(4000, 0.75): mean 3000, standard deviation 27.4; five of them.
        assert!((2863..=3137).contains(&bad), "{bad}");
    }

    #[test]
    fn impossible_chains_are_refused() {
        let refused = |spec: GilbertElliottSpec| {
            spec.validate("gilbert_elliott").expect_err("impossible").key
        };
        assert_eq!(refused(spec(BILLION + 1, 1, 0, 0)), "gilbert_elliott.enter_ppb");
        assert_eq!(refused(spec(1, 0, 0, 0)), "gilbert_elliott.leave_ppb");
        assert_eq!(refused(spec(1, 1, BILLION, 0)), "gilbert_elliott.good_loss_ppb");
        assert_eq!(refused(spec(1, 1, 0, BILLION + 1)), "gilbert_elliott.bad_loss_ppb");
        assert_eq!(spec(0, 1, 0, BILLION).validate("gilbert_elliott"), Ok(()));
    }
}
