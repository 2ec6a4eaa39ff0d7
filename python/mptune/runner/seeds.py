"""Seeds of trials, derived from one number, so that a campaign can be repeated.

A seed depends only on the campaign's base seed, the purpose and the run. The same run of different
configurations therefore draws the same random numbers (common random numbers): two configurations differ by
their settings and not by luck, and fewer runs are needed to distinguish them. Different purposes never share
a seed, so a confirmation uses new random numbers; but what an answer is shown beside has those of the
confirmation.
"""

from hashlib import blake2b

#: Bytes of a seed: 48 bits are exact in a JSON number and in every database.
_SEED_BYTES = 6

#: Purposes of trials on the testbed of a campaign, and of those on a kernel beside the simulator's answer.
OF_CAMPAIGN = ("impact", "sets", "screen", "search", "sweep", "shortlist", "confirm", "vary")
ON_KERNEL = ("finalists", "guest")
#: Baselines of an answer: as the confirmation, run by run, and no part of the search.
BASELINE = "baseline"
PURPOSES = (*OF_CAMPAIGN, *ON_KERNEL, BASELINE)

#: Purposes with the seeds of another, to be compared run by run.
_LIKE = {BASELINE: "confirm"}


def seed_for(base_seed: int, purpose: str, run: int, round_: int = 0) -> int:
    """Seed of one run, in [0, 2^48).

    Parameters
    ----------
    base_seed : the campaign's seed.
    purpose : one of `PURPOSES`.
    run : index of the run, from 0.
    round_ : of a campaign that is repeated over time, from 0.
    """
    text = f"{base_seed}/{_LIKE.get(purpose, purpose)}/{run}" + (f"/{round_}" if round_ else "")
    return int.from_bytes(blake2b(text.encode(), digest_size=_SEED_BYTES).digest(), "big")
