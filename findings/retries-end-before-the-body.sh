#!/usr/bin/env bash
# Guess:    a client that is told to repeat a GET when the connection breaks, and that returns the whole body, repeats it when the
#           connection breaks in the body: to the caller it is one call. urllib3's Retry with read=5 says "read errors".
# Version:  requests 2.34.2 with urllib3 2.8.0, niquests 3.21.2, HTTPX 0.28.1 with httpx-retries 0.6.0, aiohttp 3.14.5 with
#           aiohttp-retry 2.9.1, boto3 1.43.117, minio 7.2.20, google-cloud-storage 3.17.1; PyPI.
# Found:    requests and niquests (with Retry(5, read=5)), httpx-retries, aiohttp-retry, boto3 and minio repeat nothing after the
#           header: one call, one error. urllib3 itself, with the same Retry, repeats it, and google-cloud-storage asks for the
#           rest. HTTPX's own HTTPTransport(retries=5) is for connecting only.
# Seen:     a server whose first response ends after half of the body, with Content-Length and chunked
#           urllib3, google-cloud-storage                              the whole body, 2 calls
#           requests, niquests, HTTPX, httpx-retries, aiohttp-retry,
#           boto3, minio                                               an error, 1 call
#           aiohttp-retry, with a callback that reads the body         the whole body, 2 calls
# Matters:  long bodies are where connections break. What the tests of retries show, a refused connection and a 503, is not what
#           happens in a tunnel or at a restart of the server; a caller who trusts the adapter has no retry there.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    requests==2.34.2 urllib3==2.8.0 niquests==3.21.2 httpx==0.28.1 httpx-retries==0.6.0 aiohttp==3.14.5 aiohttp-retry==2.9.1 \
    boto3==1.43.117 minio==7.2.20 google-cloud-storage==3.17.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null "$work/venv/bin/python" -W ignore - <<'PYTHON'
import asyncio, http.server, os, sys, threading
import aiohttp, boto3, httpx, minio, niquests, requests, urllib3
from aiohttp_retry import ExponentialRetry, RetryClient
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from httpx_retries import Retry, RetryTransport
from niquests.packages.urllib3.util import Retry as NiquestsRetry
from requests.adapters import HTTPAdapter

for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(name, None)
size = 100_000
calls = []

class Server(http.server.BaseHTTPRequestHandler):
    """Ends its first response after half of the body."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if "projection" not in self.path:  # what google-cloud-storage asks beside, about the bucket
            calls.append(self.path)
        cut_off = len(calls) == 1
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        body = bytes(size // 2 if cut_off else size - start)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header(*(("Transfer-Encoding", "chunked") if self.server.chunked else ("Content-Length", str(size - start))))
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body) if self.server.chunked else body)
        if cut_off:
            self.close_connection = True
        elif self.server.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
host = f"127.0.0.1:{server.server_port}"
url = f"http://{host}/bucket/file"

def with_urllib3():
    return urllib3.PoolManager(retries=urllib3.Retry(5, read=5, backoff_factor=0.01)).request("GET", url).data

def with_requests():
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=urllib3.Retry(5, read=5, backoff_factor=0.01)))
    return session.get(url).content

def with_niquests():
    return niquests.Session(retries=NiquestsRetry(5, read=5, backoff_factor=0.01)).get(url).content

def with_httpx():
    return httpx.Client(transport=httpx.HTTPTransport(retries=5)).get(url).content

def with_httpx_retries():
    return httpx.Client(transport=RetryTransport(retry=Retry(total=5, backoff_factor=0.01))).get(url).content

async def read_it(response):
    await response.read()
    return True

async def with_aiohttp(callback):
    options = ExponentialRetry(attempts=5, start_timeout=0.01, exceptions={aiohttp.ClientError}, evaluate_response_callback=callback)
    async with RetryClient(retry_options=options) as client, client.get(url) as response:
        return await response.read()

def with_boto3():
    client = boto3.client(
        "s3", endpoint_url=f"http://{host}", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 5}),
    )
    return client.get_object(Bucket="bucket", Key="file")["Body"].read()

def with_minio():
    return minio.Minio(host, "a", "b", secure=False, region="us-east-1").get_object("bucket", "file").data

def with_google():
    client = storage.Client("some", credentials=AnonymousCredentials(), client_options={"api_endpoint": f"http://{host}"})
    return client.bucket("bucket").blob("file").download_as_bytes()

clients = {
    "urllib3": with_urllib3, "google-cloud-storage": with_google,
    "aiohttp-retry, callback": lambda: asyncio.run(with_aiohttp(read_it)),
    "requests": with_requests, "niquests": with_niquests, "HTTPX": with_httpx, "httpx-retries": with_httpx_retries,
    "aiohttp-retry": lambda: asyncio.run(with_aiohttp(None)), "boto3": with_boto3, "minio": with_minio,
}
repeating = {"urllib3", "google-cloud-storage", "aiohttp-retry, callback"}

def read(client):
    calls.clear()
    try:
        body = client()
        return "whole" if len(body) == size else f"{len(body)} bytes", len(calls)
    except Exception as error:
        return "error", len(calls), type(error).__name__

seen = {}
for name, client in clients.items():
    for server.chunked in (False, True):
        seen[name, server.chunked] = read(client)
    print(f"{name:24}", *(seen[name, chunked] for chunked in (False, True)))
as_found = {key: result[:2] for key, result in seen.items()} == {
    (name, chunked): ("whole", 2) if name in repeating else ("error", 1) for name in clients for chunked in (False, True)
}
print("as found: no retry in the body" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
