#!/usr/bin/env bash
# Guess:    a server whose application fails in the middle of a streamed response closes the connection (HTTP/2: resets the
#           stream) without the last chunk, so that each client sees that the body is cut off: there is no other way to say so.
# Version:  Tornado 6.6.1, Sanic 25.12.1, Robyn 0.88.0, Granian 2.8.7, FastAPI 0.165.0 with Starlette 1.10.0 on uvicorn 0.54.0, gunicorn
#           27.0.1; PyPI.
# Found:    Tornado, Sanic, Robyn, Granian with WSGI (HTTP/1.1 and HTTP/2), and FastAPI as soon as it has one function with
#           @app.middleware("http"), end the body in order: the last chunk, or END_STREAM without an error. FastAPI without
#           such a function, gunicorn, and Granian with ASGI cut it off.
# Seen:     an application that yields "first ", "second " and raises, to http.client, and to HTTPX for HTTP/2
#           Tornado, Sanic, Robyn, FastAPI with middleware         200, 13 bytes, no error
#           Granian, WSGI: HTTP/1.1 and HTTP/2                     200, 13 bytes, no error
#           FastAPI without, gunicorn                              IncompleteRead
#           Granian, ASGI: HTTP/1.1, HTTP/2                        IncompleteRead, RemoteProtocolError
# Matters:  half an export, or a list without its end, counts as the whole, in the client and in each cache and file it writes. No
#           client can tell; one middleware that only adds a field to the response takes the error away.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    tornado==6.6.1 sanic==25.12.1 robyn==0.88.0 granian==2.8.7 fastapi==0.165.0 starlette==1.10.0 uvicorn==0.54.0 h11==0.16.0 \
    gunicorn==27.0.1 httpx==0.28.1 h2==4.4.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/wsgi.py" <<'PYTHON'
def app(environ, start_response):
    def body():
        yield b"first "
        yield b"second "
        raise RuntimeError("the database is gone")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return body()
PYTHON
cat > "$work/served.py" <<'PYTHON'
"""One application for each framework; with two arguments, the server of the first one on the port."""
import asyncio, sys

async def body():
    for piece in (b"first ", b"second "):
        yield piece
        await asyncio.sleep(0.05)
    raise RuntimeError("the database is gone")

def with_fastapi(middleware):
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse
    app = FastAPI()

    @app.get("/")
    async def read():
        return StreamingResponse(body(), media_type="text/plain")

    if middleware:
        @app.middleware("http")
        async def add_field(request, call_next):
            response = await call_next(request)
            response.headers["Served-By"] = "a"
            return response
    return app

def serve_tornado(port):
    import tornado.web

    class Reader(tornado.web.RequestHandler):
        async def get(self):
            async for piece in body():
                self.write(piece)
                await self.flush()

    async def serve():
        tornado.web.Application([("/", Reader)]).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(serve())

def serve_sanic(port):
    from sanic import Sanic
    app = Sanic("finding")

    @app.get("/")
    async def read(request):
        response = await request.respond(content_type="text/plain")
        async for piece in body():
            await response.send(piece)
        await response.eof()

    app.run("127.0.0.1", port, single_process=True, motd=False, access_log=False)

def serve_robyn(port):
    from robyn import Robyn, StreamingResponse
    app = Robyn(__file__)

    @app.get("/")
    async def read(request):
        return StreamingResponse(body(), media_type="text/plain")

    app.start(host="127.0.0.1", port=port)

if __name__ == "__main__":
    globals()[f"serve_{sys.argv[1]}"](int(sys.argv[2]))
else:
    plain, wrapped = with_fastapi(False), with_fastapi(True)
PYTHON

"$work/venv/bin/python" - "$work" <<'PYTHON'
import http.client, os, signal, socket, subprocess, sys, time
import httpx

work = sys.argv[1]
programs = f"{work}/venv/bin"

def granian(interface, application, version):
    return lambda port: [
        f"{programs}/granian", "--interface", interface, "--http", version, "--host", "127.0.0.1", "--port", str(port), application,
    ]

def framework(name):
    return lambda port: [f"{programs}/python", "served.py", name, str(port)]

def uvicorn(application):
    return lambda port: [f"{programs}/uvicorn", application, "--port", str(port), "--log-level", "critical"]

servers = {
    "Tornado": framework("tornado"), "Sanic": framework("sanic"), "Robyn": framework("robyn"),
    "FastAPI with middleware": uvicorn("served:wrapped"), "FastAPI": uvicorn("served:plain"),
    "gunicorn": lambda port: [f"{programs}/gunicorn", "-b", f"127.0.0.1:{port}", "--log-level", "critical", "wsgi:app"],
    "Granian WSGI": granian("wsgi", "wsgi:app", "1"), "Granian WSGI HTTP/2": granian("wsgi", "wsgi:app", "2"),
    "Granian ASGI": granian("asgi", "served:plain", "1"), "Granian ASGI HTTP/2": granian("asgi", "served:plain", "2"),
}

def wait_until_ready(port, server):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("a server did not start", file=sys.stderr)
    sys.exit(2)

def read(port, version):
    try:
        if version == 2:
            with httpx.Client(http1=False, http2=True, timeout=10) as client:
                response = client.get(f"http://127.0.0.1:{port}/")
                return response.status_code, response.content
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        response = connection.getresponse()
        return response.status, response.read()
    except Exception as error:
        return type(error).__name__

def answer(name, command):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        command(port), cwd=work, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": work},
    )
    try:
        wait_until_ready(port, server)
        time.sleep(0.5)
        return read(port, 2 if name.endswith("HTTP/2") else 1)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

seen = {name: answer(name, command) for name, command in servers.items()}
for name, result in seen.items():
    print(f"{name:24}", result)
cut_off = {
    "FastAPI": "IncompleteRead", "gunicorn": "IncompleteRead", "Granian ASGI": "IncompleteRead",
    "Granian ASGI HTTP/2": "RemoteProtocolError",
}
as_found = seen == {name: cut_off.get(name, (200, b"first second ")) for name in servers}
print("as found: half a body is the whole" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
