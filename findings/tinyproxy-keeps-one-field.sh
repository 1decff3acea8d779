#!/usr/bin/env bash
# Guess:    a forward proxy passes each field line on, in both directions; at most it joins lines of one name with a comma, and
#           never Set-Cookie (RFC 9110 §5.3).
# Version:  tinyproxy 1.11.1 (Debian 12, tinyproxy-bin 1.11.1-2.1+deb12u1).
# Found:    it keeps the first line of each name and drops the others, in requests and in responses.
# Seen:                               sent                                    arrives
#           Set-Cookie                session=1 | csrf=2 | theme=3            session=1
#           Cache-Control             max-age=60 | private                    max-age=60
#           Vary                      Accept-Encoding | Cookie                Accept-Encoding
#           WWW-Authenticate          Negotiate | Basic realm="a"             Negotiate
#           Link                      </1>; rel=prev | </3>; rel=next         </1>; rel=prev
#           Accept, in the request    text/html | application/json            text/html
# Matters:  through it a login loses cookies, a list ends at its first page, a client does not see the one challenge that it could
#           answer, and a cache behind it may store for all what is private and vary by one field too few.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root tinyproxy-bin=1.11.1-2.1+deb12u1 &&
    dpkg -x tinyproxy-bin_*.deb root) >&2; then
    echo "tinyproxy could not be downloaded" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import http.client, http.server, socket, subprocess, sys, threading, time

work = sys.argv[1]
sent = {
    "Set-Cookie": ["session=1", "csrf=2", "theme=3"], "Cache-Control": ["max-age=60", "private"],
    "Vary": ["Accept-Encoding", "Cookie"], "WWW-Authenticate": ["Negotiate", 'Basic realm="a"'],
    "Link": ["</1>; rel=prev", "</3>; rel=next"],
}
accepted = ["text/html", "application/json"]
arrived = []

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        arrived.append(self.headers.get_all("Accept"))
        self.send_response(401)
        for name, lines in sent.items():
            for line in lines:
                self.send_header(name, line)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

def fetch(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("GET", f"http://127.0.0.1:{server.server_port}/")
    for kind in accepted:
        connection.putheader("Accept", kind)
    connection.endheaders()
    response = connection.getresponse()
    response.read()
    connection.close()
    return {name: response.headers.get_all(name) for name in sent} | {"Accept, in the request": arrived.pop()}

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with open(f"{work}/proxy.conf", "w") as file:
    file.write(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nLogLevel Critical\nMaxClients 10\n")
proxy = subprocess.Popen(
    [f"{work}/root/usr/bin/tinyproxy", "-d", "-c", f"{work}/proxy.conf"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
try:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        print("the proxy did not start", file=sys.stderr)
        sys.exit(2)
    direct, seen = fetch(server.server_port), fetch(port)
finally:
    proxy.terminate()
    proxy.wait()
for name, lines in direct.items():
    print(f"{name}: {' | '.join(lines)} -> {' | '.join(seen[name])}")
whole = sent | {"Accept, in the request": accepted}
as_found = direct == whole and seen == {name: lines[:1] for name, lines in whole.items()}
print("as found: the first line of each name" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
