#!/usr/bin/env bash
# Guess:    an application that reads the body of a request gets an error when the client's connection ends before Content-Length bytes
#           have come, or is never called: no framework hands over a part as the body.
# Version:  gunicorn 27.0.1, cheroot 11.1.2, Granian 2.8.7, waitress 3.0.2, uvicorn 0.54.0; Flask 3.1.3 (Werkzeug 3.1.9), Django 5.2.19,
#           Bottle 0.13.4, Falcon 4.4.0, CherryPy 18.10.0, Robyn 0.88.0, Starlette 1.10.0, aiohttp 3.14.5, Tornado 6.6.1; PyPI.
# Found:    request.get_data() of Flask, request.body of Django, and what Bottle, Falcon, CherryPy and Robyn call the body, return the part
#           that has come, and no error, with gunicorn, cheroot and Granian's WSGI, Falcon also with ASGI. Flask on Granian gets
#           an empty body. Starlette and aiohttp raise; Tornado and waitress do not call the application.
# Seen:     PUT with Content-Length: 20000, of which 10000 bytes are sent
#           gunicorn: Flask, Django, Bottle, Falcon                        10000 bytes
#           cheroot: Flask; CherryPy                                       10000 bytes
#           Granian, WSGI: Django; Flask                                   10000 bytes; 0 bytes
#           Robyn; uvicorn: Falcon                                         10000 bytes
#           uvicorn: Starlette; aiohttp                                    ClientDisconnect; ConnectionResetError
#           waitress: Flask; Tornado                                       not called
# Matters:  an application that stores the body replaces a file by half of it whenever a client loses its network, and thinks that
#           all is well; the client knows only that there was no answer. Compare the length, or a digest, oneself.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    gunicorn==27.0.1 cheroot==11.1.2 granian==2.8.7 waitress==3.0.2 uvicorn==0.54.0 h11==0.16.0 flask==3.1.3 werkzeug==3.1.9 \
    django==5.2.19 bottle==0.13.4 falcon==4.4.0 cherrypy==18.10.0 robyn==0.88.0 starlette==1.10.0 aiohttp==3.14.5 \
    tornado==6.6.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/served.py" <<'PYTHON'
"""The application that FRAMEWORK names; with arguments, the server of the first one on the port."""
import asyncio, os, sys

framework = os.environ["FRAMEWORK"]

def note(what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(f"{what}\n")

def noted(read):
    try:
        note(len(read()))
    except BaseException as error:
        note(type(error).__name__)
        raise
    return "ok"

async def noted_async(read):
    try:
        note(len(await read()))
    except BaseException as error:
        note(type(error).__name__)
        raise
    return "ok"

if framework == "Flask":
    import flask
    app = flask.Flask("finding")
    app.put("/")(lambda: noted(flask.request.get_data))
elif framework == "Django":
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path
    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="none")
    urlpatterns = [path("", lambda request: HttpResponse(noted(lambda: request.body)))]
    app = get_wsgi_application()
elif framework == "Bottle":
    import bottle
    app = bottle.Bottle()
    app.put("/")(lambda: noted(lambda: bottle.request.body.read()))
elif framework == "Falcon":
    import falcon

    class Files:
        def on_put(self, request, response):
            noted(request.bounded_stream.read)

    app = falcon.App()
    app.add_route("/", Files())
elif framework == "Falcon ASGI":
    import falcon.asgi

    class Files:
        async def on_put(self, request, response):
            await noted_async(request.stream.read)

    app = falcon.asgi.App()
    app.add_route("/", Files())
elif framework == "Starlette":
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def put(request):
        return PlainTextResponse(await noted_async(request.body))

    app = Starlette(routes=[Route("/", put, methods=["PUT"])])

def serve_cherrypy(port):
    import cherrypy

    class Files:
        @cherrypy.expose
        def index(self):
            return noted(cherrypy.request.body.read)

    cherrypy.config.update({"server.socket_host": "127.0.0.1", "server.socket_port": port, "engine.autoreload.on": False})
    cherrypy.quickstart(Files())

def serve_robyn(port):
    from robyn import Robyn
    app = Robyn(__file__)

    @app.put("/")
    async def put(request):
        return noted(lambda: request.body)

    app.start(host="127.0.0.1", port=port)

def serve_aiohttp(port):
    from aiohttp import web

    async def put(request):
        return web.Response(text=await noted_async(request.read))

    app = web.Application()
    app.router.add_put("/", put)
    web.run_app(app, host="127.0.0.1", port=port)

def serve_tornado(port):
    import tornado.web

    class Files(tornado.web.RequestHandler):
        def put(self):
            self.write(noted(lambda: self.request.body))

    async def serve():
        tornado.web.Application([("/", Files)]).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(serve())

if __name__ == "__main__":
    globals()[f"serve_{framework.lower()}"](int(sys.argv[1]))
PYTHON

python3 - "$work" <<'PYTHON'
import os, signal, socket, subprocess, sys, time

work = sys.argv[1]
programs, notes = f"{work}/venv/bin", f"{work}/notes"
commands = {
    "gunicorn": lambda port: ["gunicorn", "-b", f"127.0.0.1:{port}", "served:app"],
    "cheroot": lambda port: ["cheroot", "--bind", f"127.0.0.1:{port}", "served:app"],
    "Granian": lambda port: ["granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", port, "served:app"],
    "waitress": lambda port: ["waitress-serve", "--listen", f"127.0.0.1:{port}", "served:app"],
    "uvicorn": lambda port: ["uvicorn", "--port", port, "served:app"],
    "its own": lambda port: ["python", "served.py", port],
}
expected = {
    ("Flask", "gunicorn"): "10000", ("Django", "gunicorn"): "10000", ("Bottle", "gunicorn"): "10000", ("Falcon", "gunicorn"): "10000",
    ("Flask", "cheroot"): "10000", ("Django", "Granian"): "10000", ("Flask", "Granian"): "0", ("CherryPy", "its own"): "10000",
    ("Robyn", "its own"): "10000", ("Falcon ASGI", "uvicorn"): "10000", ("Starlette", "uvicorn"): "ClientDisconnect",
    ("aiohttp", "its own"): "ConnectionResetError", ("Flask", "waitress"): "not called", ("Tornado", "its own"): "not called",
}

def wait_until_ready(port, server):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            time.sleep(0.5)
            return
        except OSError:
            time.sleep(0.05)
    print("a server did not start", file=sys.stderr)
    sys.exit(2)

def put(port, sent):
    """What the application has noted of a PUT of 20000 bytes, of which so many are sent."""
    open(notes, "w").close()
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nHost: files.example\r\nContent-Length: 20000\r\n\r\n" + b"x" * sent)
        time.sleep(0.3)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline and not os.path.getsize(notes):
        time.sleep(0.05)
    with open(notes) as file:
        return " ".join(file.read().split()) or "not called"

def look(framework, server_name):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program, *arguments = commands[server_name](str(port))
    server = subprocess.Popen(
        [f"{programs}/{program}", *arguments], cwd=work, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "FRAMEWORK": framework, "NOTES": notes, "PYTHONPATH": work},
    )
    try:
        wait_until_ready(port, server)
        return put(port, 20_000), put(port, 10_000)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

as_found = True
for (framework, server_name), half in expected.items():
    whole, found = look(framework, server_name)
    as_found = as_found and (whole, found) == ("20000", half)
    print(f"{framework} on {server_name}: 20000 sent {whole}, 10000 sent {found}", flush=True)
print("as found: half an upload is a whole one" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
