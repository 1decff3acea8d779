"""An HTTPS server on a free loopback port, for the tests: origin.py CERTIFICATE.

Prints `port N`, then `connection` for each handshake and `request METHOD TARGET` for each request. It responds with the
fields of the request, one `Name: value` on each line. The query sets response headers, `header=NAME:VALUE` (repeatable), and
the status, `status=N`. With `lose=1`, a request with Alt-Used gets no response.
"""

import http.server
import ssl
import sys
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        self.request.do_handshake()
        print("connection", flush=True)
        super().setup()

    def do_GET(self):
        print("request", self.command, self.path, flush=True)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if "lose" in query and "Alt-Used" in self.headers:
            self.close_connection = True
            return
        content = "".join(f"{name}: {value}\n" for name, value in self.headers.items()).encode()
        self.send_response(int(query.get("status", ["200"])[0]))
        for header in query.get("header", []):
            self.send_header(*header.split(":", 1))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_POST = do_OPTIONS = do_GET

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        pass


server = Server(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print("port", server.server_port, flush=True)
server.serve_forever()
