"""An answer for tests that read one: everything that a result.json has to have, and nothing more."""

#: A document without an optional field.
ANSWER = {
    "opm": "pcdc",
    "occ": "cubic",
    "obs_mib": 4.0,
    "obs_bytes": 4_194_304,
    "otp_mbps": 266.6,
    "subflows": ["U-U"],
    "standby": [],
    "confirmed": {},
    "default": None,
    "models": [],
    "fits": [],
    "comparison": [],
    "pareto": [],
    "traditional": {},
    "sacrifice": 0.07,
    "model": "auto",
    "answer": [],
    "warnings": [],
}
