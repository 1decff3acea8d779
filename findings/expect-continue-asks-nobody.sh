#!/usr/bin/env bash
# Guess:    100 Continue tells that the application wants the body (RFC 9110 §10.1.1): a server sends it when the application
#           begins to read, and one that refuses by the header alone spares the client the upload.
# Version:  uvicorn 0.54.0, Granian 2.8.7, Hypercorn 0.18.0 with one ASGI app; waitress 3.0.2, gunicorn 27.0.1 with one WSGI
#           app; aiohttp 3.14.5; all from PyPI.
# Found:    four of the six send 100 as soon as they have seen the header, without asking the application, which then refuses.
#           Only uvicorn and Granian wait, and answer 403 at once.
# Seen:     POST with Expect, the app answers 403 and reads nothing
#               uvicorn, Granian                          403
#               Hypercorn, waitress, gunicorn, aiohttp    100, and 403 after that
# Matters:  behind these servers Expect costs a round trip and saves nothing: a token that has run out, a quota, a file that is
#           too large are told after the upload. A client has to look for an early response while it sends as well.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check uvicorn==0.54.0 h11==0.16.0 \
    granian==2.8.7 hypercorn==0.18.0 waitress==3.0.2 gunicorn==27.0.1 aiohttp==3.14.5; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/apps.py" <<'PYTHON'
import sys

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})

def wsgi(environ, start):
    start("403 Forbidden", [("Content-Length", "2")])
    return [b"no"]

if __name__ == "__main__":
    from aiohttp import web

    async def refuse(request):
        return web.Response(status=403, text="no")

    app = web.Application()
    app.router.add_post("/", refuse)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
PYTHON

"$work/venv/bin/python" - "$work" <<'PYTHON'
import importlib.metadata, os, socket, subprocess, sys, time

work = sys.argv[1]
programs = {
    "uvicorn": ["uvicorn", "--host", "127.0.0.1", "--port", "PORT", "--http", "h11", "--lifespan", "off", "apps:asgi"],
    "granian": ["granian", "--interface", "asginl", "--host", "127.0.0.1", "--port", "PORT", "apps:asgi"],
    "hypercorn": ["hypercorn", "--bind", "127.0.0.1:PORT", "apps:asgi"],
    "waitress": ["waitress-serve", "--host=127.0.0.1", "--port=PORT", "apps:wsgi"],
    "gunicorn": ["gunicorn", "--bind", "127.0.0.1:PORT", "apps:wsgi"],
    "aiohttp": ["python", "apps.py", "PORT"],
}

def connect(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(("127.0.0.1", port), 10)
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

def statuses(port):
    """All statuses that come; the body is sent only after 100."""
    seen, received = [], b""
    with connect(port) as channel:
        channel.sendall(b"POST / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        while not seen or seen[-1] == 100:
            while b"\r\n\r\n" not in received:
                piece = channel.recv(65536)
                if not piece:
                    return seen
                received += piece
            head, _, received = received.partition(b"\r\n\r\n")
            seen.append(int(head.split(b" ")[1]))
            if seen[-1] == 100:
                channel.sendall(b"12345")
    return seen

seen = {}
for name, command in programs.items():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [f"{work}/venv/bin/{command[0]}", *(word.replace("PORT", str(port)) for word in command[1:])], cwd=work,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": work},
    )
    try:
        seen[name] = statuses(port)
    finally:
        server.terminate()
        server.wait()
    print(name, importlib.metadata.version(name), "->", *seen[name])
as_found = seen == {name: [403] if name in ("uvicorn", "granian") else [100, 403] for name in programs}
print("as found: the body is asked for before the application" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
