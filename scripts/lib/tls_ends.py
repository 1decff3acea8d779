"""An HTTPS server, and HTTPS proxy, whose connections end in several ways, for the tests: tls_ends.py CERTIFICATE [1.2].

Prints `port N`, then `request TARGET` for each request. The path is /END/VERSION/KIND. END: `notice` closes with close_notify,
`silent` without, `record` in the middle of the last record. VERSION: of HTTP. KIND: `plain` and `gzip` are ended by the
connection, `digest` has a digest, `cut` the digest of a longer body; `length` leaves the connection open.
"""

import base64
import gzip
import hashlib
import socket
import ssl
import sys
import threading

BODY = b"name,amount\nanna,100\nbert,2"
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
if "1.2" in sys.argv[2:]:
    context.maximum_version = ssl.TLSVersion.TLSv1_2


class Connection:
    def __init__(self, sock):
        self.sock, self.input, self.output = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.input, self.output, server_side=True)

    def flush(self):
        self.sock.sendall(self.output.read())

    def run(self, step):
        """Repeats a step of TLS until it needs no more input."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.flush()
                data = self.sock.recv(65536)
                if not data:
                    raise EOFError from None
                self.input.write(data)

    def serve(self):
        self.run(self.tls.do_handshake)
        self.flush()
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                data = self.run(lambda: self.tls.read(65536))
                if not data:
                    return
                head += data
            target = head.split(b" ")[1].decode()
            print("request", target, flush=True)
            end, version, kind = target.split("/")[-3:]
            body = gzip.compress(BODY) if kind == "gzip" else BODY
            digest = base64.b64encode(hashlib.sha256(BODY + (b"1" if kind == "cut" else b"")).digest()).decode()
            fields = {
                "plain": "",
                "gzip": "Content-Encoding: gzip\r\n",
                "length": f"Content-Length: {len(BODY)}\r\nConnection: keep-alive\r\n",
            }.get(kind, f"Content-Digest: sha-256=:{digest}:\r\n")
            head = f"HTTP/{version} 200 OK\r\nContent-Type: text/csv\r\nCache-Control: max-age=600\r\n{fields}\r\n"
            self.tls.write(head.encode() + body[:9])
            self.flush()
            self.tls.write(body[9:])
            if end == "record":
                return self.sock.sendall(self.output.read()[:-5])
            self.flush()
            if kind == "length":
                continue
            if end == "notice":
                try:
                    self.tls.unwrap()
                except ssl.SSLWantReadError:
                    self.flush()
            return


def serve(sock):
    try:
        Connection(sock).serve()
        # Closing with unread bytes would reset the connection.
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(10)
        while sock.recv(65536):
            pass
    except (OSError, EOFError):
        pass
    finally:
        sock.close()


listener = socket.create_server(("127.0.0.1", 0), backlog=64)
print("port", listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
