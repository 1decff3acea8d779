#!/usr/bin/env bash
# Guess:    a library that reads a file at a URL in pieces, as it is asked for them, keeps the strong ETag of the first response, and
#           raises an error when the file has changed: If-Match is there for that, and a Last-Modified comes with each piece.
# Version:  fsspec 2026.9.0, obstore 0.12.1 (object_store of Rust), opendal 0.47.12, pyarrow 26.0.1, httpio 0.3.0, remfile 0.1.15,
#           smart_open 9.0.2, s3fs 2026.9.0; PyPI. The server sends a strong ETag with each response and obeys If-Match.
# Found:    only smart_open asks for the version that it has opened, and not with S3; s3fs does with S3, and fsspec does not with HTTP. All
#           others send nothing but Range, do not look at the ETag of the answer, and give bytes of two versions as one file. httpio
#           takes 200 from a server without ranges for the piece: 8000000 bytes when the last 100 were asked for.
# Seen:     the first 100 bytes, a new version of the same length, then the last 100 bytes
#                            HTTP                          S3
#           fsspec, s3fs     old and new                   OSError: Precondition Failed
#           smart_open       412 Precondition Failed       old and new
#           obstore          old and new                   old and new
#           opendal          old and new                   old and new
#           pyarrow          old and new (by fsspec)       old and new
#           httpio, remfile  old and new
# Matters:  Parquet, Zarr, HDF5 and ZIP are read like this: an index of the old version, then bytes of the new one at its offsets. What has
#           no checksum is read without an error, as other numbers.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    fsspec==2026.9.0 s3fs==2026.9.0 aiohttp==3.14.5 obstore==0.12.1 opendal==0.47.12 pyarrow==26.0.1 httpio==0.3.0 remfile==0.1.15 \
    smart_open==9.0.2 requests==2.34.2 boto3; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import http.server, os, re, sys, threading

os.environ.update(
    HOME=sys.argv[1], AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
)
import boto3, fsspec, httpio, obstore, opendal, pyarrow.fs, remfile, s3fs, smart_open
from obstore.store import HTTPStore, S3Store

length = 8_000_000
served = {}

def serve_version(letter, ranges=True):
    served.update(body=letter * length, tag=f'"{letter.decode()}"', ranges=ranges)

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body, tag = served["body"], served["tag"]
        if self.headers["If-Match"] not in (None, tag):
            error = b"<?xml version='1.0'?><Error><Code>PreconditionFailed</Code><Message>Another version</Message></Error>"
            self.send_response(412)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(error)))
            self.end_headers()
            self.wfile.write(error)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "") if served["ranges"] else None
        first, last = 0, length - 1
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or last), last)
        self.send_response(206 if asked else 200)
        self.send_header("ETag", tag)
        self.send_header("Last-Modified", "Mon, 02 Nov 2026 00:00:00 GMT" if tag == '"a"' else "Mon, 09 Nov 2026 00:00:00 GMT")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{length}")
        self.end_headers()
        if self.command == "GET":
            try:
                self.wfile.write(body[first:last + 1])
            except OSError:
                pass

    do_GET = do_HEAD = answer

    def log_message(self, *arguments):
        pass

class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass

server = QuietServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"
url = f"{base}/bucket/file"
plain = {"client_options": {"allow_http": True}}

readers = {
    "fsspec HTTP": lambda: fsspec.filesystem("http").open(url),
    "smart_open HTTP": lambda: smart_open.open(url, "rb"),
    "obstore HTTP": lambda: obstore.open_reader(HTTPStore.from_url(f"{base}/bucket", **plain), "file", buffer_size=1_000_000),
    "opendal HTTP": lambda: opendal.Operator("http", endpoint=f"{base}/bucket").open("file", "rb"),
    "pyarrow HTTP": lambda: pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("http"))).open_input_file(url),
    "httpio HTTP": lambda: httpio.open(url),
    "remfile HTTP": lambda: remfile.File(url),
    "s3fs S3": lambda: s3fs.S3FileSystem(endpoint_url=base).open("bucket/file", "rb", block_size=1_000_000),
    "smart_open S3": lambda: smart_open.open(
        "s3://bucket/file", "rb", transport_params={"client": boto3.client("s3", endpoint_url=base)},
    ),
    "obstore S3": lambda: obstore.open_reader(S3Store("bucket", endpoint=base, **plain), "file", buffer_size=1_000_000),
    "opendal S3": lambda: opendal.Operator("s3", endpoint=base, bucket="bucket", region="us-east-1").open("file", "rb"),
    "pyarrow S3": lambda: pyarrow.fs.S3FileSystem(
        endpoint_override=base, access_key="none", secret_key="none",
    ).open_input_file("bucket/file"),
}

def read(make):
    serve_version(b"a")
    file = make()
    first = bytes(file.read(100))
    serve_version(b"b")
    try:
        file.seek(length - 100)
        last = bytes(file.read(100))
    except Exception as error:
        return type(error).__name__ if "412" not in str(error) else "412"
    return "old and new" if (first, last) == (b"a" * 100, b"b" * 100) else f"{first[:1]} {last[:1]}"

def read_without_ranges():
    serve_version(b"a", ranges=False)
    file = httpio.open(url)
    file.seek(length - 100)
    return len(file.read(100))

seen = {name: read(make) for name, make in readers.items()}
seen["httpio, no ranges"] = read_without_ranges()
for name, found in seen.items():
    print(f"{name:18}", found)
expected = {name: "old and new" for name in readers} | {
    "smart_open HTTP": "412", "s3fs S3": "OSError", "httpio, no ranges": length,
}
print("as found: two versions are one file" if seen == expected else "the behaviour has changed")
sys.stdout.flush()
os._exit(0 if seen == expected else 1)
PYTHON
