#!/usr/bin/env bash
# Guess:    a server of HTTP/2 knows that an upload was given up: the client resets the stream, or the connection ends without
#           END_STREAM. So it tells the application, which must not take the part for the body (RFC 9113 §8.1).
# Version:  Hypercorn 0.18.0, Granian 2.8.7, gunicorn 27.0.1, each with HTTP/2; the client is h2 4.4.1; all from PyPI.
# Found:    under Hypercorn wsgi.input.read() returns the part as the whole, and under Granian nothing, as if the body were empty,
#           even with a Content-Length of 100. When the reset says NO_ERROR, Granian gives the part as the whole, with ASGI
#           too. gunicorn raises an error, Hypercorn sends http.disconnect to an ASGI application.
# Seen:     50 bytes of a POST, then       Hypercorn, WSGI   Granian, WSGI   Granian, ASGI   gunicorn, WSGI   Hypercorn, ASGI
#           RST_STREAM with CANCEL         50, whole         0, whole        disconnect      an error         disconnect
#           the same, length 100           50, whole         0, whole        disconnect      an error         disconnect
#           RST_STREAM with NO_ERROR       50, whole         50, whole       50, whole       an error         disconnect
#           the connection is closed       50, whole         0, whole        disconnect      an error         disconnect
# Matters:  who stops an upload in an app replaces the file by half of it, or by an empty one, and the server logs 200. The
#           application has nothing to see it by, but the length, which streams do not have.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    hypercorn==0.18.0 granian==2.8.7 gunicorn==27.0.1 h2==4.4.1 trustme==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/apps.py" <<'PYTHON'
import os

def note(path, text):
    with open(os.environ["NOTES"] + path, "w") as file:
        file.write(text)
    os.rename(os.environ["NOTES"] + path, os.environ["NOTES"] + path + ".done")

def wsgi(environ, start):
    path = environ["PATH_INFO"]
    try:
        note(path, f"{len(environ['wsgi.input'].read())}, whole")
    except Exception:
        note(path, "an error")
        raise
    start("200 OK", [("Content-Length", "0")])
    return [b""]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            note(scope["path"], "disconnect")
            return
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    note(scope["path"], f"{length}, whole")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
PYTHON

"$work/venv/bin/python" - "$work" <<'PYTHON'
import os, socket, ssl, subprocess, sys, time
import h2.connection, h2.errors, trustme

work = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
identity = authority.issue_cert("localhost", "127.0.0.1")
identity.cert_chain_pems[0].write_to_path(f"{work}/server.pem")
identity.private_key_pem.write_to_path(f"{work}/server.key")
trust = ssl.create_default_context(cafile=f"{work}/ca.pem")
trust.set_alpn_protocols(["h2"])
hypercorn = ["hypercorn", "--bind", "127.0.0.1:PORT", "--certfile", "server.pem", "--keyfile", "server.key"]
granian = [
    "granian", "--host", "127.0.0.1", "--port", "PORT", "--http", "2", "--ssl-certificate", f"{work}/server.pem",
    "--ssl-keyfile", f"{work}/server.key", "--interface",
]
commands = {
    "Hypercorn, WSGI": [*hypercorn, "wsgi:apps:wsgi"], "Granian, WSGI": [*granian, "wsgi", "apps:wsgi"],
    "Granian, ASGI": [*granian, "asginl", "apps:asgi"],
    "gunicorn, WSGI": [
        "gunicorn", "--bind", "127.0.0.1:PORT", "--worker-class", "gthread", "--threads", "2", "--certfile", "server.pem",
        "--keyfile", "server.key", "--http-protocols", "h2,h1", "apps:wsgi",
    ],
    "Hypercorn, ASGI": [*hypercorn, "apps:asgi"],
}
ends = ("cancel", "length", "none", "closed")

def connect(port):
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        try:
            return trust.wrap_socket(socket.create_connection(("127.0.0.1", port), 20), server_hostname="localhost")
        except OSError:
            time.sleep(0.1)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

def upload(port, notes, end):
    """What the application has noted of an upload that its client does not finish."""
    client = h2.connection.H2Connection()
    fields = [(":method", "POST"), (":path", f"/{end}"), (":scheme", "https"), (":authority", "localhost")]
    with connect(port) as channel:
        client.initiate_connection()
        client.send_headers(1, fields + ([("content-length", "100")] if end == "length" else []))
        client.send_data(1, bytes(50))
        channel.sendall(client.data_to_send())
        time.sleep(0.7)
        if end != "closed":
            client.reset_stream(1, h2.errors.ErrorCodes.NO_ERROR if end == "none" else h2.errors.ErrorCodes.CANCEL)
            channel.sendall(client.data_to_send())
        else:
            channel.close()
        deadline = time.monotonic() + 10
        while not os.path.exists(f"{notes}/{end}.done"):
            if time.monotonic() > deadline:
                return "nothing"
            time.sleep(0.05)
    with open(f"{notes}/{end}.done") as file:
        return file.read()

seen = {}
for number, (name, command) in enumerate(commands.items()):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    notes = f"{work}/notes{number}"
    os.makedirs(notes)
    server = subprocess.Popen(
        [f"{work}/venv/bin/{command[0]}", *(word.replace("PORT", str(port)) for word in command[1:])], cwd=work,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": work, "NOTES": notes},
    )
    try:
        seen[name] = [upload(port, notes, end) for end in ends]
    finally:
        server.terminate()
        server.wait()
    print(f"{name:16}", *(f"{end}: {result}" for end, result in zip(ends, seen[name])), sep="   ")
as_found = seen == {
    "Hypercorn, WSGI": ["50, whole"] * 4, "Granian, WSGI": ["0, whole", "0, whole", "50, whole", "0, whole"],
    "Granian, ASGI": ["disconnect", "disconnect", "50, whole", "disconnect"], "gunicorn, WSGI": ["an error"] * 4,
    "Hypercorn, ASGI": ["disconnect"] * 4,
}
print("as found: a cut upload is whole, or empty" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
