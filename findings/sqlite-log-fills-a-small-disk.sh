#!/usr/bin/env bash
# Guess:    where a database in WAL mode has filled a disk with its log, a checkpoint frees the room, or a DELETE does: the pages
#           are in the log several hundred times, and all of them are of one small table.
# Version:  SQLite 3.54.1 with its defaults (APSW 3.54.1.0 from PyPI).
# Found:    a table of 50 rows that are overwritten fills 3 MB with its log, because nothing is moved from it before 1,000 pages.
#           Then everything fails with SQLITE_FULL: DELETE, each kind of checkpoint, the change of the journal mode, VACUUM.
#           A checkpoint has to make the file longer before it can make the log shorter. It goes on failing until as much is
#           free as the file will have, however little that is beside the log.
# Seen:     after 723 writes of 50 rows: file 4096, log 3043328; each attempt: database or disk is full
#           checkpoint with 16 KiB free: database or disk is full; with 64 KiB free: ok, file 36864, log 0
# Matters:  on a device with a small partition a program that deletes to make room cannot delete, and stands still for good
#           although one hundredth of its own log would be enough.
# So here:  the outbox empties its log as long as the disk has room for that, and has a reserve, which it gives up to empty the
#           log on a full disk and takes again. That is also done before an entry, or the file of its body, is refused.
# Everything is in a temporary folder with a venv of its own, and the full disk is a tmpfs in a mount namespace. Exits with 0 if
# the behaviour is as above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check apsw==3.54.1.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi
mkdir "$work/disk"
namespace=(unshare --mount --propagation private)
((EUID == 0)) || namespace+=(--map-root-user)
if ! "${namespace[@]}" mount -t tmpfs -o size=3m none "$work/disk" >&2; then
    echo "a mount namespace is not permitted" >&2
    exit 2
fi

cat >"$work/full.py" <<'PYTHON'
import os, sys
import apsw

disk = sys.argv[1]
connection = apsw.Connection(f"{disk}/db")
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE rows(id INTEGER PRIMARY KEY, value TEXT)")

def sizes():
    return os.path.getsize(f"{disk}/db"), os.path.getsize(f"{disk}/db-wal")

def outcome(sql):
    try:
        list(connection.execute(sql))
        return "ok"
    except apsw.FullError as error:
        return str(error)

# Room that is given up below, in two parts.
reserve = os.open(f"{disk}/reserve", os.O_WRONLY | os.O_CREAT)
os.write(reserve, bytes(64 << 10))
writes = 0
try:
    for writes in range(10_000):
        connection.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (writes % 50, "x" * 500))
except apsw.FullError:
    pass
attempts = [
    "DELETE FROM rows WHERE id = 1", "PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(RESTART)",
    "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode = DELETE", "VACUUM",
]
before = sizes()
print(f"after {writes} writes of 50 rows: file {before[0]}, log {before[1]}")
full = [outcome(sql) for sql in attempts]
for sql, found in zip(attempts, full):
    print(f"{sql:34} {found}")
os.ftruncate(reserve, 48 << 10)
some = outcome("PRAGMA wal_checkpoint(TRUNCATE)")
os.ftruncate(reserve, 0)
enough = outcome("PRAGMA wal_checkpoint(TRUNCATE)")
after = sizes()
print(f"checkpoint with 16 KiB free: {some}; with 64 KiB free: {enough}, file {after[0]}, log {after[1]}")
expected = (
    before[0] == 4_096 and before[1] > 2_900_000 and 500 < writes < 1_000 and set(full) == {"database or disk is full"}
    and some == full[0] and enough == "ok" and after[1] == 0 and 20_000 < after[0] < 64 << 10
)
sys.exit(0 if expected else 1)
PYTHON
"${namespace[@]}" bash -c 'mount -t tmpfs -o size=3m none "$1/disk" && "$1/venv/bin/python" "$1/full.py" "$1/disk"' bash "$work"
