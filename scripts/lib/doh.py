"""A DNS over HTTPS server (RFC 8484) on a free loopback port, for the tests: doh.py CERTIFICATE [ADDRESS [VERSION]].

Prints `port N`, then a line for each question. Every name has an A record with ADDRESS (default 127.0.0.1) and no others.
With the VERSION 1.2, TLS 1.3 is not spoken. The path selects the behaviour: /dns-query responds correctly, /hang never
responds, /html returns a page, /garbage returns bytes that are not a DNS message, and /none reports that the name does
not exist.
"""

import http.server
import ssl
import sys
import time

from dnslib import A, DNSRecord, QTYPE, RCODE, RR

address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = DNSRecord.parse(self.rfile.read(int(self.headers["Content-Length"])))
        print("asked", QTYPE[question.q.qtype], question.q.qname, flush=True)
        reply = question.reply()
        if self.path == "/hang":
            time.sleep(3600)
        if self.path == "/none":
            reply.header.rcode = RCODE.NXDOMAIN
        elif question.q.qtype == QTYPE.A:
            reply.add_answer(RR(question.q.qname, QTYPE.A, rdata=A(address), ttl=60))
        page, garbage = b"<html><body>Please log in</body></html>", b"\x00" * 7
        content = {"/html": page, "/garbage": garbage}.get(self.path, reply.pack())
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if content is page else "application/dns-message")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
if sys.argv[3:] == ["1.2"]:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print("port", server.server_port, flush=True)
server.serve_forever()
