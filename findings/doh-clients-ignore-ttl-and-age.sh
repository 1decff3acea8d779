#!/usr/bin/env bash
# Guess:    libcurl's 60 seconds for names are for getaddrinfo(), which tells no TTL; with DNS over HTTPS it reads the answer itself
#           and keeps it for its TTL. A DoH client takes the Age of the response off the TTL, and asks with the id 0, so that
#           HTTP caches can answer (RFC 8484 §4.1 and §5.1, a SHOULD and a MUST).
# Version:  pycurl 7.49.0 with libcurl 8.23.0, dnspython 2.9.2 with httpx 0.28.1; PyPI.
# Found:    libcurl keeps an answer of DoH for 60 seconds, or what DNS_CACHE_TIMEOUT says, whatever its TTL is: 0, 1 or 300. dnspython
#           gives an answer that a cache has held for 290 of 300 seconds a TTL of 300, and its GET has another URL each time.
# Seen:     libcurl    TTL 0, second call after 1 second            asks once
#                      TTL 1, second call after 3 seconds           asks once
#                      TTL 300, timeout of 1, after 3 seconds       asks twice
#           dnspython  TTL 300 and Age: 290                         300 seconds in the answer and in its cache
#                      GET of one question, twice                   two URLs, ids not 0
# Matters:  an address that moves (TTL 0 or 1 says so) is called for a minute after it has moved, with the resolver that was to be
#           the modern one. Behind an HTTP cache dnspython's answers live up to twice their time, and its GETs never hit.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    pycurl==7.49.0 'dnspython[doh]==2.9.2' httpx==0.28.1 h2==4.4.1 trustme==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import base64, http.server, os, ssl, sys, threading, time, urllib.parse
import dns.flags, dns.message, dns.nameserver, dns.query, dns.rdatatype, dns.resolver, dns.rrset
import pycurl, trustme

work = sys.argv[1]
for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(name, None)
ttl, questions, urls = 0, [], []

class Resolver(http.server.BaseHTTPRequestHandler):
    """Knows one address for each name; also the server that is called by name."""
    protocol_version = "HTTP/1.1"

    def answer(self, message, **fields):
        query = dns.message.from_wire(message)
        questions.append((dns.rdatatype.to_text(query.question[0].rdtype), query.id))
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        if questions[-1][0] == "A":
            response.answer.append(dns.rrset.from_text(query.question[0].name, ttl, "IN", "A", "127.0.0.1"))
        self.send(response.to_wire(), "application/dns-message", **fields)

    def send(self, body, kind, **fields):
        self.send_response(200)
        for name, value in (fields | {"Content-Type": kind, "Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])), **self.server.fields)

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if "dns" not in query:
            self.send(b"", "text/plain")
            return
        urls.append(self.path)
        self.answer(base64.urlsafe_b64decode(query["dns"][0] + "=="), **self.server.fields)

    def log_message(self, *arguments):
        pass

class Server(http.server.ThreadingHTTPServer):
    fields = {}

    def handle_error(self, *arguments):
        pass

secure, plain, aged = (Server(("127.0.0.1", 0), Resolver) for _ in range(3))
aged.fields = {"Cache-Control": "max-age=300", "Age": "290"}
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
trustme.CA().issue_cert("localhost").configure_cert(context)
secure.socket = context.wrap_socket(secure.socket, server_side=True)
for server in (secure, plain, aged):
    threading.Thread(target=server.serve_forever, daemon=True).start()

def questions_of_libcurl(name, seconds, pause, timeout=None):
    """How often libcurl asks for the address of a name in two calls."""
    global ttl
    ttl = seconds
    questions.clear()
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://{name}:{plain.server_port}/")
    curl.setopt(pycurl.DOH_URL, f"https://127.0.0.1:{secure.server_port}/dns-query")
    curl.setopt(306, 0)  # CURLOPT_DOH_SSL_VERIFYPEER
    curl.setopt(307, 0)  # CURLOPT_DOH_SSL_VERIFYHOST
    curl.setopt(pycurl.FRESH_CONNECT, True)
    curl.setopt(pycurl.PROXY, "")
    curl.setopt(pycurl.TIMEOUT, 20)
    if timeout:
        curl.setopt(pycurl.DNS_CACHE_TIMEOUT, timeout)
    curl.perform()
    time.sleep(pause)
    curl.perform()
    curl.close()
    return questions.count(("A", 0))

def with_dnspython():
    global ttl
    ttl = 300
    url = f"http://127.0.0.1:{aged.server_port}/dns-query"
    version = dns.query.HTTPVersion.H1
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [dns.nameserver.DoHNameserver(url, http_version=version)]
    resolver.cache = dns.resolver.Cache()
    answer = resolver.resolve("aged.example.", "A")
    left = round(answer.expiration - time.time())
    questions.clear()
    for _ in range(2):
        dns.query.https(dns.message.make_query("aged.example.", "A"), url, post=False, http_version=version)
    return answer.rrset.ttl, left, len(set(urls)), [identifier for _, identifier in questions]

seen = {
    "TTL 0, after 1 second": questions_of_libcurl("zero.example", 0, 1),
    "TTL 1, after 3 seconds": questions_of_libcurl("one.example", 1, 3),
    "TTL 300, timeout 1, after 3 seconds": questions_of_libcurl("long.example", 300, 3, 1),
}
for name, count in seen.items():
    print(f"libcurl, {name}: asks {count} times")
in_answer, in_cache, different, identifiers = with_dnspython()
print(f"dnspython, Age 290 of 300: TTL {in_answer}, {in_cache} seconds in its cache; {different} URLs, ids {identifiers}")
as_found = list(seen.values()) == [1, 1, 2] and in_answer == 300 and in_cache >= 299 and different == 2 and all(identifiers)
print("as found: neither TTL nor Age counts" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
