#!/usr/bin/env bash
# Guess:    two usual clients for event streams deliver the events that the HTML standard defines: none for a block without
#           data, none for a block that the end of the stream cut off, and the last event id holds until another is sent.
# Version:  httpx-sse 0.4.3, sseclient-py 1.9.0, from PyPI.
# Found:    httpx-sse delivers an event with empty data for a block with an id or an event name only, as servers send them to
#           move the id on. sseclient-py delivers the unfinished block at the end, so that half of an event looks whole after a
#           lost connection, and forgets the id at once: the event after one with an id has none to continue from.
# Seen:     "id: 7" alone, then an event       httpx-sse  ['', 'a']      sseclient-py  ['a']
#           an event, then one that is cut off httpx-sse  ['a']          sseclient-py  ['a', 'half']
#           id of the second event             httpx-sse  '1'            sseclient-py  None
# Matters:  who moves from one client to another sees other events from the same server; a client should hold back the cut one.
#
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check httpx==0.28.1 httpx-sse==0.4.3 sseclient-py==1.9.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import importlib.metadata, sys
import httpx, sseclient
from httpx_sse import EventSource

def by_httpx_sse(text):
    response = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=text)
    return [(event.data, event.id) for event in EventSource(response).iter_sse()]

def by_sseclient(text):
    return [(event.data, event.id) for event in sseclient.SSEClient(iter([text])).events()]

streams = {
    "id alone": b"id: 7\n\ndata: a\n\n",
    "cut off": b"data: a\n\ndata: half\n",
    "id holds": b"id: 1\ndata: a\n\ndata: b\n\n",
}
print(*(f"{name} {importlib.metadata.version(name)}" for name in ("httpx-sse", "sseclient-py")))
seen = {}
for name, text in streams.items():
    seen[name] = by_httpx_sse(text), by_sseclient(text)
    print(f"{name}: httpx-sse {seen[name][0]}, sseclient-py {seen[name][1]}")
as_found = (
    [[data for data, _ in events] for events in seen["id alone"]] == [["", "a"], ["a"]]
    and [[data for data, _ in events] for events in seen["cut off"]] == [["a"], ["a", "half"]]
    and [events[1][1] for events in seen["id holds"]] == ["1", None]
)
print("as found: each has events that the other has not" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
