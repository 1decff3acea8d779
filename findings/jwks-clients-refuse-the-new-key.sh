#!/usr/bin/env bash
# Guess:    a token with a `kid` that the client does not have makes it fetch the key set once more, so that it is valid a moment
#           after the issuer has published its key; Cache-Control of the set says how long it is kept, a redirect of its URL is
#           followed, and tokens of known keys are checked from memory meanwhile.
# Version:  PyJWT 2.15.1 (PyJWKClient), fastmcp 4.2.3 (JWTVerifier), pyjwt-key-fetcher 0.8.0; PyPI.
# Found:    none of the three fetches the set again before a time of its own is over since it got it last, and all ignore
#           Cache-Control: new tokens are refused as unknown for 30 seconds, or for 5 minutes. Only pyjwt-key-fetcher follows a
#           redirect. PyJWT holds a lock while it fetches: tokens of known keys wait as well, up to its timeout of 30 seconds.
# Seen:     the set has max-age=5; the new key comes 10 seconds after it was fetched
#                                                       PyJWT    fastmcp    pyjwt-key-fetcher
#           the new token is taken after                20 s     20 s       290 s
#           307 at the URL of the set                   fails    fails      followed
#           a known key, the issuer needs 2 seconds     2 s
# Matters:  an issuer that publishes a key and signs with it at once, or a service that restarts in the middle of a change, has
#           401 for everyone whose token is new, and a client that gets a fresh token after a 401 gets the same again.
# Everything is in a temporary folder with a venv of its own, on free loopback ports; the clock of the process is put forward.
# Exits with 0 if the behaviour is as above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check 'PyJWT[crypto]==2.15.1' \
    fastmcp==4.2.3 pyjwt-key-fetcher==0.8.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import asyncio, http.server, json, logging, sys, threading, time

ahead, wall, steady = 0, time.time, time.monotonic
time.time, time.monotonic = (lambda: wall() + ahead), (lambda: steady() + ahead)

import jwt, pyjwt_key_fetcher
from cryptography.hazmat.primitives.asymmetric import rsa
from fastmcp.server.auth.providers.jwt import JWTVerifier

logging.disable(logging.CRITICAL)
private = {name: rsa.generate_private_key(65537, 2048) for name in ("old", "new")}

class Issuer(http.server.BaseHTTPRequestHandler):
    keys, pause, fetches = ["old"], 0, 0

    def do_GET(self):
        if self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        Issuer.fetches += 1
        threading.Event().wait(self.pause)
        keys = []
        for name in self.keys:
            key = jwt.algorithms.RSAAlgorithm.to_jwk(private[name].public_key(), as_dict=True)
            key.pop("key_ops", None)
            keys.append(key | {"kid": name, "use": "sig", "alg": "RS256"})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "max-age=5")
        self.end_headers()
        self.wfile.write(json.dumps({"keys": keys}).encode())

    def log_message(self, *arguments):
        pass

issuer = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
threading.Thread(target=issuer.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{issuer.server_port}"
claims = {"sub": "someone", "iss": base, "aud": "shop", "exp": int(wall()) + 1_000_000}
tokens = {name: jwt.encode(claims, key, algorithm="RS256", headers={"kid": name}) for name, key in private.items()}
loop = asyncio.new_event_loop()

def with_pyjwt(url):
    client = jwt.PyJWKClient(url)
    return lambda token: jwt.decode(token, client.get_signing_key_from_jwt(token), algorithms=["RS256"], audience="shop")

def with_fastmcp(url):
    verifier = JWTVerifier(jwks_uri=url, algorithm="RS256", audience="shop")

    def check(token):
        if loop.run_until_complete(verifier.load_access_token(token)) is None:
            raise ValueError("refused")
    return check

def with_key_fetcher(url):
    async def make():
        return pyjwt_key_fetcher.AsyncKeyFetcher(static_issuer_config={base: {"jwks_uri": url}})

    fetcher = loop.run_until_complete(make())
    return lambda token: jwt.decode(token, **loop.run_until_complete(fetcher.get_key(token)), audience="shop")

def taken(check, name):
    try:
        check(tokens[name])
        return True
    except Exception:
        return False

def wait_for_the_new_key(make):
    global ahead
    Issuer.keys = ["old"]
    check = make(f"{base}/keys")
    if not taken(check, "old"):
        print("a right token is refused", file=sys.stderr)
        sys.exit(2)
    ahead += 10
    Issuer.keys = ["old", "new"]
    for waited in range(0, 1000, 10):
        if taken(check, "new"):
            return waited
        ahead += 10

def known_key_waits():
    global ahead
    check = with_pyjwt(f"{base}/keys")
    Issuer.keys, Issuer.pause = ["old"], 0
    check(tokens["old"])
    ahead += 60
    before, Issuer.pause = Issuer.fetches, 2
    other = threading.Thread(target=taken, args=(check, "new"))
    other.start()
    while Issuer.fetches == before:
        threading.Event().wait(0.01)
    begun = steady()
    check(tokens["old"])
    other.join()
    Issuer.pause = 0
    return steady() - begun

clients = {"PyJWT": with_pyjwt, "fastmcp": with_fastmcp, "pyjwt-key-fetcher": with_key_fetcher}
seen = {name: (wait_for_the_new_key(make), taken(make(f"{base}/moved"), "old")) for name, make in clients.items()}
for name, (waited, followed) in seen.items():
    print(f"{name:18} takes the new token after {waited} seconds, follows a redirect: {followed}")
waited = known_key_waits()
print(f"PyJWT: a token of a known key waits {waited:.1f} seconds for the set")
issuer.shutdown()
as_found = waited > 1.5 and seen == {"PyJWT": (20, False), "fastmcp": (20, False), "pyjwt-key-fetcher": (290, True)}
print("as found: new keys are refused" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
