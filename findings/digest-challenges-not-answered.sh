#!/usr/bin/env bash
# Guess:    a client that can do Digest answers a server that offers it: among other schemes, with a newer algorithm above an
#           older one (one that is not understood "should be ignored", RFC 7616 §3.3), with a list of qop, with a quote in the realm.
# Version:  requests 2.34.2, niquests 3.21.2, httpx 0.28.1, httpx2 2.16.2, aiohttp 3.14.5, libcurl 8.23.0 in pycurl 7.49.0; all
#           from PyPI.
# Found:    each of the six misses something else that is valid, and none of them does all.
# Seen:     the challenge                        ends with 401 or an error
#           Basic, then Digest                   aiohttp
#           SHA-512-256, then SHA-256            httpx (KeyError), httpx2, aiohttp (errors)
#           another algorithm, then MD5          the same, and libcurl
#           qop="auth-int, auth"                 requests, niquests; not with "auth, auth-int"
#           realm="a \"b\""                      requests, niquests, httpx, httpx2: they send the quote unescaped
#           algorithm=SHA-256-sess               requests, niquests (ValueError)
# Matters:  a server that adds a better algorithm in front, as RFC 7616 §3.7 wants, or Basic for old clients, locks clients out that
#           could log in the day before. The order of the lines decides who.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    requests==2.34.2 niquests==3.21.2 httpx==0.28.1 httpx2==2.16.2 aiohttp==3.14.5 pycurl==7.49.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, hashlib, http.server, importlib.metadata, os, re, sys, threading
import aiohttp, httpx, httpx2, niquests, pycurl, requests

for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]
hashes = {"MD5": "md5", "SHA-256": "sha256", "SHA-512-256": "sha512_256"}
realm, challenges = "", []

def parameters(field):
    """The parameters of a Digest header, with quoted strings undone."""
    found = re.findall(r'([\w*]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s,"]+))', field)
    return {name.lower(): re.sub(r"\\(.)", r"\1", quoted) or token for name, quoted, token in found}

def is_right(field, method, path):
    given = parameters(field.removeprefix("Digest "))
    algorithm, session, _ = given.get("algorithm", "MD5").upper().partition("-SESS")
    def digest(*parts):
        return hashlib.new(hashes[algorithm], ":".join(parts).encode()).hexdigest()
    secret = digest("user", realm, "password")
    if session:
        secret = digest(secret, given["nonce"], given["cnonce"])
    asked = digest(method, path, digest("")) if given["qop"] == "auth-int" else digest(method, path)
    proof = digest(secret, given["nonce"], given["nc"], given["cnonce"], given["qop"], asked)
    return given["realm"] == realm and given["response"] == proof

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        field = self.headers["Authorization"] or ""
        right = field.startswith("Digest ") and is_right(field, "GET", self.path)
        self.send_response(200 if right else 401)
        for challenge in [] if right else challenges:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

async def status_with_aiohttp(url):
    async with aiohttp.ClientSession(middlewares=(aiohttp.DigestAuthMiddleware("user", "password"),)) as session:
        async with session.get(url, timeout=aiohttp.ClientTimeout(20)) as response:
            return response.status

def status_with_libcurl(url):
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.HTTPAUTH, pycurl.HTTPAUTH_DIGEST)
    curl.setopt(pycurl.USERPWD, "user:password")
    curl.setopt(pycurl.PROXY, "")
    curl.setopt(pycurl.TIMEOUT, 20)
    curl.perform()
    return curl.getinfo(pycurl.RESPONSE_CODE)

def status_with(module, login):
    return lambda url: module.get(url, auth=login("user", "password"), timeout=20).status_code

clients = {
    "requests": status_with(requests, requests.auth.HTTPDigestAuth),
    "niquests": status_with(niquests, niquests.auth.HTTPDigestAuth),
    "httpx": status_with(httpx, httpx.DigestAuth),
    "httpx2": status_with(httpx2, httpx2.DigestAuth),
    "aiohttp": lambda url: asyncio.run(status_with_aiohttp(url)),
    "libcurl": status_with_libcurl,
}

def tried(call, url):
    try:
        return call(url)
    except Exception as error:
        return type(error).__name__

def digest(nonce, more, name="shop"):
    return f'Digest realm="{name}", nonce="{nonce}", {more}'

old, new, newer = (f'qop="auth", algorithm={name}' for name in ("MD5", "SHA-256", "SHA-512-256"))
cases = {
    "MD5": ("shop", [digest("n1", old)], ""),
    "SHA-256, then MD5": ("shop", [digest("n1", new), digest("n2", old)], ""),
    'qop="auth, auth-int"': ("shop", [digest("n1", 'qop="auth, auth-int"')], ""),
    "Digest, then Basic": ("shop", [digest("n1", old), 'Basic realm="shop"'], ""),
    "Basic, then Digest": ("shop", ['Basic realm="shop"', digest("n1", old)], "aiohttp"),
    "SHA-512-256, then SHA-256": ("shop", [digest("n1", newer), digest("n2", new)], "httpx httpx2 aiohttp"),
    "another, then MD5": (
        "shop", [digest("n1", 'qop="auth", algorithm=SHA3-256'), digest("n2", old)], "httpx httpx2 aiohttp libcurl",
    ),
    'qop="auth-int, auth"': ("shop", [digest("n1", 'qop="auth-int, auth"')], "requests niquests"),
    "a quote in the realm": ('a "b"', [digest("n1", old, r"a \"b\"")], "requests niquests httpx httpx2"),
    "SHA-256-sess": ("shop", [digest("n1", 'qop="auth", algorithm=SHA-256-sess')], "requests niquests"),
}
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/orders?from=1"
print(*(f"{name} {importlib.metadata.version(name)}" for name in clients if name != "libcurl"), pycurl.version.split()[1])
as_found = True
for name, (realm, challenges, expected) in cases.items():
    results = {client: tried(call, url) for client, call in clients.items()}
    failed = {client: result for client, result in results.items() if result != 200}
    print(name, "-> fails:", failed or "none")
    as_found = as_found and " ".join(failed) == expected
server.shutdown()
print("as found: each client misses another valid challenge" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
