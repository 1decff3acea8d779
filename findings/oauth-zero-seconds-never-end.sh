#!/usr/bin/env bash
# Guess:    a token with "expires_in": 0 has run out as it arrives (RFC 6749 §5.1: the lifetime in seconds); the client fetches
#           another one before its next call, or says that it cannot. One second more or less makes no difference in kind.
# Version:  Authlib 1.9.10, oauthlib 4.0.1 with requests-oauthlib 2.0.0, from PyPI.
# Found:    both take 0 for "not told" and use the token for ever: Authlib's is_expired() is None, as without expires_in, and
#           oauthlib takes the field out of the token. With 1 both find out two seconds later, and with -1 as well.
# Seen:     expires_in    two seconds later: Authlib    oauthlib
#           1                            a new token    TokenExpiredError
#           0                            the old one    the old one
#           -1                           a new token    TokenExpiredError
# Matters:  a gateway that hands out tokens it has stored tells the rest of their time, which is 0 in the last second. From then
#           on each call of such a client ends with 401 until somebody starts it again.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    authlib==1.9.10 oauthlib==4.0.1 requests-oauthlib==2.0.0 requests==2.34.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

OAUTHLIB_INSECURE_TRANSPORT=1 AUTHLIB_INSECURE_TRANSPORT=1 "$work/venv/bin/python" - <<'PYTHON'
import http.server, importlib.metadata, json, sys, threading, time, warnings
import authlib.integrations.requests_client, oauthlib.oauth2, requests_oauthlib

warnings.simplefilter("ignore")
lifetime, handed_out, used = [0], [0], []

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, fields):
        body = json.dumps(fields).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        handed_out[0] += 1
        self.answer({"access_token": f"token{handed_out[0]}", "token_type": "Bearer", "expires_in": lifetime[0]})

    def do_GET(self):
        used.append(self.headers["Authorization"])
        self.answer({})

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"

def with_authlib():
    session = authlib.integrations.requests_client.OAuth2Session(
        "app", "not a real secret", token_endpoint=f"{origin}/token", grant_type="client_credentials", leeway=0,
    )
    session.fetch_token()
    return session

def with_oauthlib():
    session = requests_oauthlib.OAuth2Session(client=oauthlib.oauth2.BackendApplicationClient("app"))
    session.fetch_token(f"{origin}/token", client_id="app", client_secret="not a real secret")
    return session

def later(client, seconds):
    """Which token, counted from the first, is used two seconds after it came; or what went wrong."""
    lifetime[0], first = seconds, handed_out[0]
    try:
        session = client()
        time.sleep(2)
        session.get(f"{origin}/thing").raise_for_status()
    except Exception as error:
        return type(error).__name__
    return f"token {int(used[-1].removeprefix('Bearer token')) - first}"

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("authlib", "oauthlib", "requests-oauthlib")))
seen = {seconds: (later(with_authlib, seconds), later(with_oauthlib, seconds)) for seconds in (60, 1, 0, -1)}
server.shutdown()
for seconds, results in seen.items():
    print("expires_in", seconds, "-> Authlib:", results[0], "  oauthlib:", results[1])
as_found = seen == {
    60: ("token 1", "token 1"), 1: ("token 2", "TokenExpiredError"), 0: ("token 1", "token 1"),
    -1: ("token 2", "TokenExpiredError"),
}
print("as found: 0 seconds never end" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
