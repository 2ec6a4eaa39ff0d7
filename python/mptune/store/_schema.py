"""The campaign store's tables, their versions, and migrations from older versions.

SQL only: `mptune.store` fills the tables. `PRAGMA user_version` holds the version, and
`PRAGMA application_id` distinguishes a store from any other SQLite file. To change the schema, append a
script to `MIGRATIONS`: script n migrates version n to n + 1, and a new file runs all of them.
"""

import sqlite3

from mptune.errors import FailureKind, InputError

#: "mptu" in ASCII.
APPLICATION_ID = 0x6D707475

_VERSION_1 = """
CREATE TABLE campaign (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created TEXT NOT NULL,          -- ISO 8601 with the offset from UTC
    settings TEXT NOT NULL,         -- JSON: what was asked for
    environment TEXT NOT NULL       -- JSON: versions, platform, host
) STRICT;

CREATE TABLE topology (
    digest BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    document TEXT NOT NULL          -- JSON, as `mptune.topology.Topology`
) STRICT;

CREATE TABLE phase (
    campaign INTEGER NOT NULL REFERENCES campaign (id),
    purpose TEXT NOT NULL,
    round INTEGER NOT NULL,
    planned INTEGER NOT NULL,       -- trials
    PRIMARY KEY (campaign, purpose, round)
) STRICT, WITHOUT ROWID;

CREATE TABLE trial (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,       -- digest of everything that makes the trial what it is
    campaign INTEGER NOT NULL REFERENCES campaign (id),
    topology BLOB NOT NULL REFERENCES topology (digest),
    testbed TEXT NOT NULL,
    purpose TEXT NOT NULL,
    round INTEGER NOT NULL,
    run INTEGER NOT NULL,
    pm TEXT NOT NULL,
    cc TEXT NOT NULL,
    buffer_bytes INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    withdrawn TEXT,                 -- path put to standby half way, for an impact factor
    settings TEXT NOT NULL,         -- JSON: whatever else differs from a trial's defaults
    status TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed')), -- 'running' is never written
    failed TEXT,                    -- the reason
    started REAL NOT NULL,          -- seconds since 1970
    finished REAL,
    duration_ns INTEGER,
    completion_ns INTEGER,
    throughput_mbps REAL,
    omega REAL,
    observation BLOB                -- everything else that was observed, see `mptune.store`
) STRICT;

CREATE TABLE subflow (
    trial INTEGER NOT NULL REFERENCES trial (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    path TEXT NOT NULL,
    active INTEGER NOT NULL,
    throughput_mbps REAL NOT NULL,
    rtt_ms REAL,
    retransmitted INTEGER NOT NULL, -- segments
    PRIMARY KEY (trial, number)
) STRICT, WITHOUT ROWID;
"""

_VERSION_2 = """
ALTER TABLE subflow ADD COLUMN min_rtt_ms REAL;
ALTER TABLE trial ADD COLUMN failed_kind TEXT;  -- `mptune.errors.FailureKind`
UPDATE trial SET failed_kind = failure_kind(failed) WHERE failed IS NOT NULL;
"""

_VERSION_3 = """
ALTER TABLE subflow ADD COLUMN with_mbps REAL;     -- of the connection, around the window without the subflow
ALTER TABLE subflow ADD COLUMN without_mbps REAL;  -- of the connection, in that window
"""

_VERSION_4 = """
ALTER TABLE trial ADD COLUMN repeated INTEGER NOT NULL DEFAULT 0;  -- how often it was run before
"""

_VERSION_5 = """
ALTER TABLE subflow ADD COLUMN rto_ms REAL;  -- at the end
"""

_VERSION_6 = """
ALTER TABLE trial ADD COLUMN p5_mbps REAL;  -- of a saturated sender: 95 % of the whole seconds reach it
"""

#: Beginnings of reasons in version 1, which had no kinds; any other reason is of kind "died".
_KINDS: tuple[tuple[str, FailureKind], ...] = (
    ("stalled at ", "stalled"),
    ("overloaded: ", "overloaded"),
    ("the connection is plain TCP", "fallback"),
    ("payload differs from what was sent", "corrupt"),
    ("no byte ", "unreachable"),
    ("no connection to ", "unreachable"),
    ("nothing was delivered ", "unreachable"),
    ("not completed within ", "incomplete"),
    ("the deadline passed ", "incomplete"),
    ("stopped after ", "incomplete"),
    ("the series ends after ", "incomplete"),
)


def failure_kind(reason: str) -> FailureKind:
    """The kind of a failure, from its reason in version 1."""
    return next((kind for words, kind in _KINDS if reason.startswith(words)), "died")


_COLUMNS = (
    "key, topology, testbed, purpose, round, run, pm, cc, buffer_bytes, seed, withdrawn, settings, status, "
    "failed, started, finished, duration_ns, completion_ns, throughput_mbps, omega, observation, "
    "failed_kind, repeated, p5_mbps"
)

#: Adds what only the attached database `other` has. Campaigns with the same settings are the same campaign,
#: and their trials belong together.
MERGE = f"""
BEGIN IMMEDIATE;
INSERT OR IGNORE INTO topology SELECT * FROM other.topology;
INSERT INTO campaign (uuid, name, created, settings, environment)
    SELECT uuid, name, created, settings, environment FROM other.campaign o WHERE NOT EXISTS (
        SELECT 1 FROM campaign c WHERE c.settings = o.settings OR c.uuid = o.uuid);
INSERT OR IGNORE INTO phase
    SELECT c.id, p.purpose, p.round, p.planned FROM other.phase p
    JOIN other.campaign o ON o.id = p.campaign JOIN campaign c ON c.settings = o.settings OR c.uuid = o.uuid;
CREATE TEMP TABLE added AS
    SELECT t.id AS theirs, t.key FROM other.trial t
    WHERE t.key NOT IN (SELECT key FROM trial);
INSERT INTO trial (campaign, {_COLUMNS})
    SELECT c.id, {", ".join(f"t.{name.strip()}" for name in _COLUMNS.split(","))} FROM other.trial t
    JOIN added a ON a.theirs = t.id JOIN other.campaign o ON o.id = t.campaign
    JOIN campaign c ON c.settings = o.settings OR c.uuid = o.uuid;
INSERT INTO subflow
    SELECT t.id, s.number, s.path, s.active, s.throughput_mbps, s.rtt_ms, s.retransmitted, s.min_rtt_ms,
        s.with_mbps, s.without_mbps, s.rto_ms
    FROM other.subflow s
    JOIN added a ON a.theirs = s.trial JOIN trial t ON t.key = a.key;
DROP TABLE added;
COMMIT;
"""

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5, _VERSION_6)

#: Version that this program writes.
VERSION = len(MIGRATIONS)


def version(connection: sqlite3.Connection, where: str) -> int:
    """Version of a store, 0 of an empty file.

    Raises
    ------
    InputError : it is another program's SQLite file, or a store of a later version of mptune.
    """
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if identity != APPLICATION_ID and (identity or number or tables):
        raise InputError(where, "", "is not a campaign store but another program's database")
    if number > VERSION:
        raise InputError(where, "", f"expected at most version {VERSION}, found {number}: update mptune")
    return int(number)


def prepare(connection: sqlite3.Connection, where: str) -> None:
    """Create the tables in an empty file, or bring an older store up to date, in one transaction.

    Raises
    ------
    InputError : as `version`.
    """
    version_ = version(connection, where)
    if version_ == VERSION:
        return
    connection.create_function("failure_kind", 1, failure_kind, deterministic=True)
    script = "".join(MIGRATIONS[version_:])
    connection.executescript(
        f"BEGIN IMMEDIATE; {script} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {VERSION}; COMMIT;"
    )
