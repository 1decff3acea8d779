#!/usr/bin/env bash
# Guess:    a WARC file holds what was received: the final response, whose body comes out as the client got it. A body that was
#           cut off is marked (WARC-Truncated), and one content has one WARC-Payload-Digest, so that it is stored once.
# Version:  warcio 1.8.1 (capture_http with requests 2.34.2), FastWARC 2.0.1, from PyPI; Wget 1.21.3 (Debian 12) --warc-file.
# Found:    warcio records a 100 Continue as the response: its body is the header and body of the real one. It reads a trailer as
#           the end of the body, also from Wget's files; FastWARC with auto_decode fails there, and the file cannot be read any
#           further. Neither writer marks a cut body: it has a digest that is right. Both count the chunk sizes in, so that one
#           content in other pieces has another digest.
# Seen:     what the client got      warcio records and reads               Wget records, warcio reads
#           200 after a 100          100, "HTTP/1.1 200 OK ... page"        200, "page"
#           "page" and a trailer     "page0", and part of the trailer       "page0", and part of the trailer
#           4 bytes of 100           4 bytes, not truncated, digest right   the same
#           "page" in 1, 2 pieces    two digests                            two digests
# Matters:  an archive or a test that replays such a file gives a page that no one has received, and what is not whole counts as
#           proven by its digest. A form that was sent with Expect has no response; nothing is stored once.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    warcio==1.8.1 FastWARC==2.0.1 requests==2.34.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root wget=1.21.3-1+deb12u1 \
    && dpkg -x wget_*.deb root && root/usr/bin/wget --version) >&2; then
    echo "wget could not be downloaded, or does not run here" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import http.server, io, os, subprocess, sys, threading
from warcio.capture_http import capture_http
import fastwarc.warc, requests, warcio.archiveiterator, warcio.warcwriter

work = sys.argv[1]

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_expect_100(self):
        self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        if self.path == "/cut":
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"page")
            self.close_connection = True
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"2\r\npa\r\n2\r\nge\r\n" if self.path == "/two" else b"4\r\npage\r\n")
        self.wfile.write(b"0\r\nX-Check: 1\r\n\r\n" if self.path == "/trailer" else b"0\r\n\r\n")

    def log_message(self, *arguments):
        pass

class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        pass

server = QuietServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"

def with_warcio(path):
    fields = {"Expect": "100-continue"} if path == "/expect" else {}
    writer = warcio.warcwriter.BufferWARCWriter(gzip=False)
    with capture_http(writer), requests.Session() as session:
        session.trust_env = False
        try:
            assert session.post(base + path, data=b"form", headers=fields, timeout=30).content == b"page"
        except requests.exceptions.ChunkedEncodingError:
            assert path == "/cut"
    return writer.get_contents()

def with_wget(path):
    file = f"{work}/{path[1:]}"
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    subprocess.run(
        [f"{work}/root/usr/bin/wget", "-q", "-t1", "-T30", "-O", f"{file}.out", "--no-config", "--no-warc-compression",
         f"--warc-file={file}", "--post-data=form", *(["--header=Expect: 100-continue"] if path == "/expect" else []),
         base + path],
        env=environment, cwd=work,
    )
    with open(f"{file}.out", "rb") as output:
        assert output.read() == b"page"
    with open(f"{file}.warc", "rb") as archive:
        return archive.read()

def read(data):
    for record in warcio.archiveiterator.ArchiveIterator(io.BytesIO(data), check_digests=True):
        if record.rec_type == "response":
            field = record.rec_headers.get_header
            body = record.content_stream().read()
            marked, right = field("WARC-Truncated"), record.digest_checker.passed
            return record.http_headers.get_statuscode(), body, marked, right, field("WARC-Payload-Digest")

def read_fast(data):
    kinds = fastwarc.warc.WarcRecordType.response
    bodies = []
    try:
        for record in fastwarc.warc.ArchiveIterator(io.BytesIO(data), record_types=kinds, auto_decode="all"):
            bodies.append(record.reader.read())
    except OSError as error:
        bodies.append(type(error).__name__)
    return bodies

as_found = True
for name, write in (("warcio", with_warcio), ("Wget", with_wget)):
    files = {path: write(path) for path in ("/one", "/two", "/expect", "/trailer", "/cut")}
    records = {path: read(data) for path, data in files.items()}
    for path, (status, body, marked, right, digest) in records.items():
        print(f"{name:6} {path:8} {status} {body!r}, truncated: {marked}, digest right: {right}")
    print(f"{name:6} digests of one content: {records['/one'][4]}, {records['/two'][4]}")
    fast = read_fast(files["/one"] + files["/trailer"] + files["/two"])
    print(f"{name:6} FastWARC reads of a file with /one, /trailer and /two {fast}")
    expect = records["/expect"]
    early = expect[0] == "100" and expect[1].startswith(b"HTTP/1.1 200 OK\r\n")
    as_found = (
        as_found and early == (name == "warcio") and (early or expect[:2] == ("200", b"page"))
        and records["/one"][:2] == records["/two"][:2] == ("200", b"page") and records["/one"][4] != records["/two"][4]
        and records["/trailer"][1].startswith(b"page0\r\n") and records["/cut"][:4] == ("200", b"page", None, True)
        and fast == [b"page", b"page", "OSError"]
    )
server.shutdown()
print("as found: the record is not the response" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
