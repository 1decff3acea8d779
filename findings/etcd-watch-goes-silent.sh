#!/usr/bin/env bash
# Guess:    a watch of etcd over HTTP (JSON lines) that begins at a revision which is compacted fails as a read of that revision
#           does: 400, or at least the stream ends, so that the client notices and reads everything anew.
# Version:  etcd 3.4.23 (Debian 12, etcd-server 3.4.23-4+b4), the JSON gateway at /v3.
# Found:    the watch gets 200 and "created": true, then a line with "canceled": true, and stays open: no event comes on it any
#           more, no end, and no sign of life. A body that is no JSON is 500 from /v3/watch and 400 from /v3/kv/range, and the
#           renewal of a lease that does not exist is 200, as of one that does, but without TTL.
# Seen:     range at revision 2, compacted at 4         400, code 11
#           watch from revision 2                       200, created, canceled, compact_revision 4; then open without an event
#           watch from now                              200, created, the event
#           lease/keepalive of no lease                 200, no TTL
# Matters:  a client that resumes a watch after a long break, at the last revision that it has seen, waits for ever on a
#           connection that is in order, with values that grow older. A status, an error or the end of the stream never tells it.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { cd "$work" && apt-get download -q -o APT::Sandbox::User=root etcd-server=3.4.23-4+b4 \
    && dpkg -x etcd-server_*.deb root; } >&2; then
    echo "etcd could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import base64, http.client, json, os, socket, subprocess, sys, time

work = sys.argv[1]
ports = []
for _ in range(2):
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    ports.append(probe)
port, peers = (probe.getsockname()[1] for probe in ports)
for probe in ports:
    probe.close()
program = f"{work}/root/usr/bin/etcd"
print(subprocess.check_output([program, "--version"], text=True).splitlines()[0])
environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
server = subprocess.Popen([
    program, "--data-dir", f"{work}/data", "--listen-client-urls", f"http://127.0.0.1:{port}",
    "--advertise-client-urls", f"http://127.0.0.1:{port}", "--listen-peer-urls", f"http://127.0.0.1:{peers}",
    "--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}", "--initial-cluster", f"default=http://127.0.0.1:{peers}",
], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def started(path, body, timeout=20):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", "/v3" + path, body if isinstance(body, bytes) else json.dumps(body))
    return connection.getresponse()

def call(path, body):
    response = started(path, body)
    received = response.read()
    response.close()
    return response.status, json.loads(received)

def wait_until_ready():
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if call("/kv/range", {"key": key})[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    print("etcd did not start", file=sys.stderr)
    sys.exit(2)

def put(value):
    call("/kv/put", {"key": key, "value": base64.b64encode(value).decode()})

def line(watch):
    """The next line of a watch, or None if none comes for 3 seconds."""
    try:
        received = watch.readline()
    except TimeoutError:
        return None
    return json.loads(received)["result"] if received else "the end"

key = base64.b64encode(b"price").decode()
try:
    wait_until_ready()
    for value in (b"1", b"2", b"3"):
        put(value)
    call("/kv/compaction", {"revision": "4"})
    status, body = call("/kv/range", {"key": key, "revision": "2"})
    read = status, body["code"]
    resumed = started("/watch", {"create_request": {"key": key, "start_revision": "2"}}, 3)
    lines = [line(resumed), line(resumed)]
    new = started("/watch", {"create_request": {"key": key}}, 20)
    created = line(new)["created"]
    put(b"4")
    event = line(new)["events"][0]["kv"]["value"]
    after = line(resumed)
    faults = [call(path, b"{x")[0] for path in ("/watch", "/kv/range")]
    lease = call("/lease/keepalive", {"ID": "12345"})
finally:
    server.terminate()
    server.wait()
told = lines[0].get("created"), lines[1].get("canceled"), lines[1].get("compact_revision")
print("range of a compacted revision:", *read)
print("watch from there:", resumed.status, "created, canceled, compact_revision:", *told, "  then:", after or "open, nothing")
print("watch from now: created", created, "  then:", base64.b64decode(event))
print("no JSON: /watch", faults[0], "  /kv/range", faults[1])
print("keepalive of no lease:", lease[0], "TTL", lease[1]["result"].get("TTL"))
as_found = (
    read == (400, 11) and resumed.status == 200 and told == (True, True, "4") and after is None and created is True
    and base64.b64decode(event) == b"4" and faults == [500, 400] and lease[0] == 200 and "TTL" not in lease[1]["result"]
)
print("as found: the watch is open and silent" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
