"""The campaign store's tables, their versions, and how an older file becomes a newer one.

SQL only: what goes into the tables is `mptune.campaign.store`. `PRAGMA user_version` holds the version,
`PRAGMA application_id` tells a store from any other SQLite file. To change the schema, append a script to
`MIGRATIONS`: the n-th one turns version n into n + 1, and a new file runs them all.
"""

import sqlite3

from mptune.errors import InputError

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
    status TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed')),
    failed TEXT,                    -- the reason
    started REAL NOT NULL,          -- seconds since 1970
    finished REAL,
    duration_ns INTEGER,
    completion_ns INTEGER,
    throughput_mbps REAL,
    omega REAL,
    observation BLOB                -- everything else that was observed, see `mptune.campaign.store`
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

_COLUMNS = (
    "key, topology, testbed, purpose, round, run, pm, cc, buffer_bytes, seed, withdrawn, settings, status, "
    "failed, started, finished, duration_ns, completion_ns, throughput_mbps, omega, observation"
)

#: Adds what the attached database `other` has and this one does not. Campaigns are the same when the same was
#: asked for: then their trials belong together.
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
    WHERE t.status <> 'running' AND t.key NOT IN (SELECT key FROM trial);
INSERT INTO trial (campaign, {_COLUMNS})
    SELECT c.id, {", ".join(f"t.{name.strip()}" for name in _COLUMNS.split(","))} FROM other.trial t
    JOIN added a ON a.theirs = t.id JOIN other.campaign o ON o.id = t.campaign
    JOIN campaign c ON c.settings = o.settings OR c.uuid = o.uuid;
INSERT INTO subflow
    SELECT t.id, s.number, s.path, s.active, s.throughput_mbps, s.rtt_ms, s.retransmitted FROM other.subflow s
    JOIN added a ON a.theirs = s.trial JOIN trial t ON t.key = a.key;
DROP TABLE added;
COMMIT;
"""

MIGRATIONS: tuple[str, ...] = (_VERSION_1,)


def prepare(connection: sqlite3.Connection, where: str) -> None:
    """Create the tables in an empty file, or bring an older store up to date, in one transaction.

    Raises
    ------
    InputError : it is a SQLite file of something else, or a store of a later version of mptune.
    """
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if identity != APPLICATION_ID and (identity or version or tables):
        raise InputError(where, "", "expected a campaign store, found another program's database")
    if version > len(MIGRATIONS):
        raise InputError(
            where, "", f"expected version {len(MIGRATIONS)} at most, found {version}: update mptune"
        )
    if version == len(MIGRATIONS):
        return
    script = "".join(MIGRATIONS[version:])
    connection.executescript(
        f"BEGIN IMMEDIATE; {script} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {len(MIGRATIONS)}; COMMIT;"
    )
