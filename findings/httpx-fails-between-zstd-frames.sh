#!/usr/bin/env bash
# Guess:    a zstd body of several frames (RFC 8878 §3: frames "can be appended and decoded" one after the other) is decoded whole, or
#           it is not: in what pieces it arrives from the network makes no difference.
# Version:  httpx 0.28.1 with zstandard 0.25.0; urllib3 2.8.0, httpx2 2.16.2, niquests 3.21.2 and aiohttp 3.14.5 with backports.zstd
#           1.8.0 or zstandard; PyPI.
# Found:    httpx decodes several frames when each piece ends inside of one. When a frame ends where a piece of the network ends, the
#           next piece fails with DecodingError("cannot use a decompressobj multiple times"). The other four decode all.
# Seen:     two frames, with 0.2 seconds between two pieces          httpx            the others
#           both frames in one piece                                 both             both
#           each piece ends inside of a frame                        both             both
#           one frame in each piece                                  DecodingError    both
#           a skippable frame alone, then a frame                    DecodingError    the frame
# Matters:  a server that ends a frame with each message, or puts parts together that were compressed before, ends its pieces just
#           there: it works on loopback, in tests with one write, and for short bodies, and fails with a slow network.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    httpx==0.28.1 zstandard==0.25.0 urllib3==2.8.0 httpx2==2.16.2 niquests==3.21.2 aiohttp==3.14.5 backports.zstd==1.8.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, http.server, struct, sys, threading, time
import aiohttp, httpx, httpx2, niquests, urllib3, zstandard

text = b"what the server sends; " * 20
frame = zstandard.ZstdCompressor().compress(text)
skippable = struct.pack("<II", 0x184D2A50, 4) + b"note"
bodies = {
    "in one piece": [frame + frame], "pieces end inside": [frame[:9], frame[9:] + frame[:9], frame[9:]],
    "a frame in each piece": [frame, frame], "a skippable one first": [skippable, frame],
}

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Encoding", "zstd")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for piece in list(bodies.values())[int(self.path[1:])]:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                time.sleep(0.2)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def log_message(self, *arguments):
        pass

class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        pass

server = QuietServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

async def with_aiohttp(url):
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.read()

clients = {
    "httpx": lambda url: httpx.get(url).content, "httpx2": lambda url: httpx2.get(url).content,
    "urllib3": lambda url: urllib3.request("GET", url).data, "niquests": lambda url: niquests.get(url).content,
    "aiohttp": lambda url: asyncio.run(with_aiohttp(url)),
}

def read(client, index):
    try:
        body = client(f"http://127.0.0.1:{server.server_port}/{index}")
    except Exception as error:
        return type(error).__name__
    return body.count(text) if body == text * body.count(text) else "other bytes"

seen = {name: [read(client, index) for index in range(len(bodies))] for name, client in clients.items()}
server.shutdown()
for name, found in seen.items():
    print(f"{name:9}", dict(zip(bodies, found)))
as_found = seen == {name: [2, 2, "DecodingError", "DecodingError"] if name == "httpx" else [2, 2, 2, 1] for name in clients}
print("as found: the pieces of the network make the difference" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
