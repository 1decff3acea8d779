#!/usr/bin/env bash
# Guess:    CURLINFO_RETRY_AFTER ("returns the Retry-After retry delay") is the number of seconds that the server sent, so that a
#           client which obeys it comes back when it was told to.
# Version:  libcurl 8.23.0 in pycurl 7.49.0, from PyPI.
# Found:    the value is cut to 21600 seconds (6 hours), for seconds and for dates, and nothing says that it was cut. A quota
#           that opens again tomorrow looks like one that opens in 6 hours.
# Seen:     Retry-After: 21600   21600
#           Retry-After: 21601   21600
#           Retry-After: 86400   21600
#           a date in a day      21600
# Matters:  a client that trusts the value calls a server up to four times a day which has asked for rest; the field itself has
#           to be read instead.
#
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check pycurl==7.49.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import email.utils, http.server, sys, threading, time
import pycurl

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    value = ""

    def do_GET(self):
        self.send_response(503)
        self.send_header("Retry-After", Handler.value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()

def retry_after(value):
    Handler.value = value
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://127.0.0.1:{server.server_port}/")
    curl.setopt(pycurl.TIMEOUT, 10)
    curl.perform()
    seconds = curl.getinfo(pycurl.RETRY_AFTER)
    print(f"Retry-After: {value:30} {seconds}")
    return seconds

print(pycurl.version)
tomorrow = email.utils.formatdate(time.time() + 86_400, usegmt=True)
seen = [retry_after(value) for value in ("120", "21600", "21601", "86400", tomorrow)]
server.shutdown()
as_found = seen == [120, 21_600, 21_600, 21_600, 21_600]
print("as found: no delay is longer than six hours" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
