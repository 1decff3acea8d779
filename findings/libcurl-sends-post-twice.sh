#!/usr/bin/env bash
# Guess:    a client may repeat a GET by itself when a connection that it has kept is closed without a response, and does not
#           repeat a POST, which the server may have carried out (RFC 9110 §9.2.2): the caller gets an error, and decides.
# Version:  libcurl 8.23.0 (pycurl 7.49.0), aiohttp 3.14.5, requests 2.34.2, niquests 3.21.2, HTTPX 0.28.1, primp 2.0.1,
#           pyreqwest 0.15.1, from PyPI; each with its own settings, on a connection that has carried one call.
# Found:    libcurl sends the POST a second time on a new connection and reports 200: the server has carried it out twice, and
#           nothing tells. On a new connection it does not. aiohttp repeats GET, PUT and DELETE; the others nothing at all.
# Seen:     the server reads the whole request and closes            GET    POST   PUT    DELETE
#           libcurl                                                  2      2      2      2 times, each 200
#           aiohttp                                                  2      1      2      2
#           requests, niquests, HTTPX, primp, pyreqwest              1      1      1      1
# Matters:  a server that fails while it carries out a call, or restarts, gets the order twice. An SDK on libcurl that promises
#           "POST is not repeated" must see to it itself.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check pycurl==7.49.0 \
    aiohttp==3.14.5 requests==2.34.2 niquests==3.21.2 httpx==0.28.1 primp==2.0.1 pyreqwest==0.15.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, os, socket, sys, threading

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
import aiohttp, httpx, niquests, primp, pycurl, pyreqwest.client, requests

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
            channel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=accept, daemon=True).start()
server = f"http://127.0.0.1:{listener.getsockname()[1]}"

def libcurl(method, body, first=True):
    curl = pycurl.Curl()
    curl.setopt(pycurl.WRITEFUNCTION, lambda piece: None)
    curl.setopt(pycurl.TIMEOUT, 20)
    if first:
        curl.setopt(pycurl.URL, server + "/first")
        curl.perform()
    curl.setopt(pycurl.URL, server + "/order")
    if body is not None:
        curl.setopt(pycurl.POSTFIELDS, body)
    curl.setopt(pycurl.CUSTOMREQUEST, method)
    curl.perform()
    return curl.getinfo(pycurl.RESPONSE_CODE)

def with_aiohttp(method, body):
    async def call():
        async with aiohttp.ClientSession() as session:
            for verb, path, data in (("GET", "/first", None), (method, "/order", body)):
                async with session.request(verb, server + path, data=data) as response:
                    await response.read()
            return response.status

    return asyncio.run(call())

def session_of(kind, name):
    def call(method, body):
        with kind() as session:
            session.get(server + "/first")
            return session.request(method, server + "/order", **({} if body is None else {name: body})).status_code

    return call

def with_primp(method, body):
    client = primp.Client()
    client.get(server + "/first")
    return client.request(method, server + "/order", **({} if body is None else {"content": body})).status_code

def with_pyreqwest(method, body):
    with pyreqwest.client.SyncClientBuilder().build() as client:
        client.get(server + "/first").build().send().bytes()
        request = client.request(method, server + "/order")
        return (request if body is None else request.body_bytes(body)).build().send().status

clients = {
    "libcurl": libcurl, "aiohttp": with_aiohttp, "requests": session_of(requests.Session, "data"),
    "niquests": session_of(niquests.Session, "data"), "HTTPX": session_of(httpx.Client, "content"),
    "primp": with_primp, "pyreqwest": with_pyreqwest,
}

def times(client, *arguments):
    """How often the server has carried out a call, and what the client says."""
    carried_out.clear()
    try:
        told = client(*arguments)
    except Exception as error:
        told = "error"
    return len(carried_out), told

calls = (("GET", None), ("POST", b"item=1"), ("PUT", b"item=1"), ("DELETE", None))
seen = {name: [times(client, *call) for call in calls] for name, client in clients.items()}
alone = times(libcurl, "POST", b"item=1", False)
print(pycurl.version.split()[1], "  times carried out, and what the client says, for", *(method for method, _ in calls))
for name, results in seen.items():
    print(f"    {name:10}", *results)
print("    libcurl, POST on a new connection", alone)
once, twice = (1, "error"), (2, 200)
as_found = alone == once and seen == {
    "libcurl": [twice] * 4, "aiohttp": [twice, once, twice, twice],
    **{name: [once] * 4 for name in ("requests", "niquests", "HTTPX", "primp", "pyreqwest")},
}
print("as found: libcurl sends POST twice" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
