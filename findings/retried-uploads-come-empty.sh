#!/usr/bin/env bash
# Guess:    a client that repeats an upload by itself sends the same bytes again. It puts a file back to where it began, and for a
#           body that can be read once (a generator) it raises, as urllib3 and requests have an UnrewindableBodyError for.
# Version:  urllib3 2.8.0, requests 2.34.2, niquests 3.21.2, azure-core 1.41.0, httpx 0.28.1 with httpx-retries 0.6.0,
#           aiohttp 3.14.5, from PyPI.
# Found:    urllib3, requests, niquests and azure-core send a generator's upload again with an empty body, after a 503, after a
#           connection that was lost, and to where a 307 points, and report the 200 that this gets. urllib3 itself does that with
#           a file after a 307, too. httpx raises StreamConsumed. aiohttp refuses the 307; it repeats no lost PUT of a generator.
# Seen:     bytes that the server got for an upload of 100, first and second time (each with 200 for the caller)
#           after                                    503        no answer   307
#           generator: urllib3, requests, niquests   100, 0     100, 0      100, 0
#           generator: azure-core                    100, 0     100, 0      100, 0
#           file: urllib3                            100, 100   100, 100    100, 0
#           generator: httpx, aiohttp                an error
# Matters:  the object is there, it is empty, and the program has a 200 for it. Only a part of the uploads is so, those that had
#           to be repeated.
# So here:  a body that is a stream is sent once; only one that can be made anew (data, a file) is sent a second time.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check urllib3==2.8.0 \
    requests==2.34.2 niquests==3.21.2 azure-core==1.41.0 httpx==0.28.1 httpx-retries==0.6.0 aiohttp==3.14.5; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work/upload" <<'PYTHON'
import asyncio, collections, http.server, os, sys, threading, warnings

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
warnings.simplefilter("ignore")
import aiohttp, httpx, httpx_retries, niquests, requests, urllib3
import niquests.adapters
from azure.core import PipelineClient
from azure.core.pipeline.policies import RedirectPolicy, RetryPolicy
from azure.core.rest import HttpRequest

received = collections.defaultdict(list)

class Server(http.server.BaseHTTPRequestHandler):
    """Takes the second upload of a number, after the first one got a 503, no answer, or a 307."""
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        length = 0
        if self.headers["Transfer-Encoding"]:
            while size := int(self.rfile.readline(), 16):
                length += len(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        else:
            length = len(self.rfile.read(int(self.headers["Content-Length"])))
        _, fault, number = self.path.split("/")
        received[number].append(length)
        first = len(received[number]) == 1
        if first and fault == "lost":
            self.close_connection = True
            return
        self.send_response({"503": 503, "307": 307}[fault] if first else 200)
        if first and fault == "307":
            self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass

server = Quiet(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(sys.argv[1], "wb") as file:
    file.write(b"0123456789" * 10)

def generator():
    return (b"0123456789" for _ in range(10))

def opened():
    return open(sys.argv[1], "rb")

policy = urllib3.Retry(2, status_forcelist=[503])

def with_urllib3(url, body):
    return urllib3.PoolManager(retries=policy).request("PUT", url, body=body).status

def with_requests(url, body):
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=policy))
        return session.put(url, data=body).status_code

def with_niquests(url, body):
    with niquests.Session() as session:
        session.mount("http://", niquests.adapters.HTTPAdapter(
            max_retries=niquests.adapters.Retry(2, status_forcelist=[503])))
        return session.put(url, data=body).status_code

def with_azure_core(url, body):
    with PipelineClient(url, policies=[RedirectPolicy(), RetryPolicy(retry_backoff_factor=0)]) as client:
        return client.send_request(HttpRequest("PUT", url, content=body)).status_code

def with_httpx(url, body):
    with httpx.Client(transport=httpx_retries.RetryTransport(), follow_redirects=True) as client:
        return client.put(url, content=body).status_code

def with_aiohttp(url, body):
    async def pieces():
        for piece in body:
            yield piece

    async def put():
        async with aiohttp.ClientSession() as session, session.put(url, data=pieces()) as response:
            return response.status

    return asyncio.run(put())

found = {}

def try_out(client, body, faults):
    results = []
    for fault in faults:
        number = str(len(received))
        received[number] = []
        try:
            result = client(f"http://127.0.0.1:{server.server_port}/{fault}/{number}", body())
        except Exception as error:
            result = type(error).__name__
        results.append((*received[number], result))
    found[client.__name__[5:], body.__name__] = results
    print(f"{client.__name__[5:]:10} {body.__name__:9}", *results)

every = ("503", "lost", "307")
print("bytes that the server got, result       after", *every)
for client in (with_urllib3, with_requests, with_niquests, with_azure_core):
    try_out(client, generator, every)
    try_out(client, opened, every)
try_out(with_httpx, generator, every)
try_out(with_aiohttp, generator, ("lost", "307"))
empty, whole = (100, 0, 200), (100, 100, 200)
expected = {
    ("urllib3", "generator"): [empty] * 3, ("urllib3", "opened"): [whole, whole, empty],
    ("requests", "generator"): [empty] * 3, ("requests", "opened"): [whole] * 3,
    ("niquests", "generator"): [empty] * 3, ("niquests", "opened"): [whole] * 3,
    ("azure_core", "generator"): [empty] * 3, ("azure_core", "opened"): [whole] * 3,
    ("httpx", "generator"): [(100, "StreamConsumed")] * 3,
    ("aiohttp", "generator"): [(100, "ServerDisconnectedError"), (100, "ClientPayloadError")],
}
as_found = found == expected
print("as found: empty uploads with 200" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
