#!/usr/bin/env bash
# Guess:    a WebSocket server answers an offer of permessage-deflate as RFC 7692 says: it takes server_no_context_takeover by
#           naming it in the answer and keeping to it, or declines. A window of 8 bits, the smallest that the RFC allows, and a
#           parameter that it does not know are declined; the connection goes on without compression.
# Version:  Tornado 6.6.1 from PyPI, a WebSocketHandler with get_compression_options() returning {}.
# Found:    both *_no_context_takeover parameters vanish from the answer, and messages do use the window of the one before. A
#           window of 8 bits, or an unknown parameter with a value, is answered with 500 Internal Server Error.
# Seen:     permessage-deflate; server_no_context_takeover    101  permessage-deflate    the second message needs the first
#           permessage-deflate; server_max_window_bits=9      101  permessage-deflate; server_max_window_bits=9
#           permessage-deflate; server_max_window_bits=8      500
#           permessage-deflate; x-unknown=1                   500
# Matters:  a client that drops its window after each message because it asked for that fails at the second message. What counts
#           is the answer, not the offer. A client for small devices gets no connection at all.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check tornado==6.6.1; } >&2; then
    echo "tornado could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, base64, logging, os, socket, sys, threading, zlib
import tornado, tornado.httpserver, tornado.netutil, tornado.web, tornado.websocket

logging.disable(logging.CRITICAL)

class Echo(tornado.websocket.WebSocketHandler):
    def get_compression_options(self):
        return {}

    def on_message(self, message):
        self.write_message(message)

sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
port = sockets[0].getsockname()[1]

async def serve():
    tornado.httpserver.HTTPServer(tornado.web.Application([("/", Echo)])).add_sockets(sockets)
    await asyncio.Event().wait()

threading.Thread(target=asyncio.run, args=(serve(),), daemon=True).start()
text = b"the same text once more " * 8

def read(connection, count):
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise EOFError
        received += piece
    return received

def echo(connection):
    mask, compressor = os.urandom(4), zlib.compressobj(9, zlib.DEFLATED, -9)
    data = (compressor.compress(text) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]
    frame = bytes([0xC1, 0x80 | len(data)]) + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
    connection.sendall(frame)
    length = read(connection, 2)[1]
    return read(connection, length)

def alone(data):
    try:
        return zlib.decompressobj(-15).decompress(data + b"\0\0\xff\xff") == text
    except zlib.error:
        return False

def offer(extension):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: {extension}\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += read(connection, 1)
        lines = head.decode().split("\r\n")
        answer = [line.split(": ", 1)[1] for line in lines if line.lower().startswith("sec-websocket-extensions:")]
        status = int(lines[0].split()[1])
        messages = [alone(echo(connection)) for _ in range(2)] if status == 101 else None
    print(extension, "->", status, answer, "each message can be decoded alone:", messages)
    return status, answer, messages

print("tornado", tornado.version)
plain = "permessage-deflate"
as_found = (
    offer(plain) == (101, [plain], [True, False])
    and offer(f"{plain}; server_no_context_takeover; client_no_context_takeover") == (101, [plain], [True, False])
    and offer(f"{plain}; server_max_window_bits=9")[:2] == (101, [f"{plain}; server_max_window_bits=9"])
    and offer(f"{plain}; server_max_window_bits=8")[0] == offer(f"{plain}; x-unknown=1")[0] == 500
)
print("as found: parameters of the offer get lost" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
