#!/usr/bin/env bash
# Guess:    on HTTP/2 a server that answers an upload before its end (413, 401) ends that stream, and takes or drops what is
#           still on its way; the other calls on the connection go on (RFC 9113 §8.1, §5.1).
# Version:  Hypercorn 0.18.0 with h2 4.4.1, from PyPI; the client is h2 as well.
# Found:    Hypercorn forgets the stream as soon as it has sent the response, and fails at the next DATA frame for it with a
#           KeyError. It closes the connection at once, without GOAWAY: a response that another stream was receiving is cut off.
# Seen:     stream 1  GET: a line every 0.1 s, 10 lines     whole, while nobody uploads
#           stream 3  POST: 413 after its first DATA frame, then a second DATA frame
#           stream 1  GET, at the same time                 the connection ends after the first lines, no GOAWAY
# Matters:  each upload that is too large ends all other calls of that client with a lost connection. A client that takes such a
#           loss as a reason to send its upload again does it once more. On HTTP/1.1 only the upload itself ends, with its 413.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    hypercorn==0.18.0 h2==4.4.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, importlib.metadata, logging, select, socket, sys, threading, time
import h2.config, h2.connection, h2.events, hypercorn.asyncio, hypercorn.config

logging.disable(logging.CRITICAL)

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    upload = scope["method"] == "POST"
    await send({"type": "http.response.start", "status": 413 if upload else 200, "headers": []})
    for _ in range(0 if upload else 10):
        await send({"type": "http.response.body", "body": b"a line\n", "more_body": True})
        await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b""})

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
config = hypercorn.config.Config()
config.bind, config.errorlog = [f"127.0.0.1:{port}"], None

async def forever():
    await asyncio.Event().wait()

serving = hypercorn.asyncio.serve(app, config, shutdown_trigger=forever)
threading.Thread(target=asyncio.run, args=(serving,), daemon=True).start()

def fields(method):
    return [(":method", method), (":path", "/"), (":scheme", "http"), (":authority", "127.0.0.1")]

def connect():
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(("127.0.0.1", port), 1)
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

def run(upload):
    """Receives a slow response on stream 1; once it has begun, sends two DATA frames on stream 3 if told to."""
    lines, statuses, ending, started, refused, again = 0, {}, None, False, False, False
    with connect() as channel:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        connection.initiate_connection()
        connection.send_headers(1, fields("GET"), end_stream=True)
        deadline = time.monotonic() + 15
        while ending is None and time.monotonic() < deadline:
            channel.sendall(connection.data_to_send())
            if not select.select([channel], [], [], 0.5)[0]:
                continue
            received = channel.recv(65536)
            if not received:
                ending = "connection closed"
                break
            for event in connection.receive_data(received):
                if isinstance(event, h2.events.ResponseReceived):
                    statuses[event.stream_id] = dict(event.headers)[b":status"]
                elif isinstance(event, h2.events.DataReceived) and event.stream_id == 1:
                    lines += event.data.count(b"\n")
                elif isinstance(event, h2.events.StreamEnded):
                    refused = refused or event.stream_id == 3
                    ending = "whole" if event.stream_id == 1 else ending
                elif isinstance(event, h2.events.ConnectionTerminated):
                    ending = "GOAWAY"
            if upload and lines and not started:
                started = True
                connection.send_headers(3, [*fields("POST"), ("content-length", "32768")])
                connection.send_data(3, bytes(16_384))
            elif refused and not again:
                again = True
                connection.send_data(3, bytes(16_384), end_stream=True)
    print("with an upload:" if upload else "alone:", statuses, f"{lines} of 10 lines,", ending)
    return statuses, lines, ending

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("hypercorn", "h2")))
alone, together = run(False), run(True)
as_found = (
    alone == ({1: b"200"}, 10, "whole") and together[0] == {1: b"200", 3: b"413"} and together[1] < 10
    and together[2] == "connection closed"
)
print("as found: a refused upload ends the other calls" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
