#!/usr/bin/env bash
# Guess:    the SDK of a service repeats a POST only with an idempotency key, or where nothing was sent (RFC 9110 §9.2.2): what
#           it makes costs money. Who retries sends a key, and who sends a key retries.
# Version:  openai 3.57.0, cloudflare 5.9.0, linode_api4 5.48.0, slack_sdk 3.48.0, stripe 16.1.0, hcloud 2.27.0, from PyPI.
# Found:    openai and cloudflare send a POST three times, after a lost answer and after a 500, without a key. linode_api4 sends
#           it six times after a lost answer, and slack_sdk twice. stripe sends a key and repeats nothing. hcloud does neither.
# Seen:     POSTs that the server got, with a lost answer / with a 500
#           openai 3 / 3   cloudflare 3 / 3   linode_api4 6 / 1   slack_sdk 2 / 1   stripe 1 / 1 with a key   hcloud 1 / 1
# Matters:  a job is started three times, a machine is made six times, a message is posted twice, and the program sees one error.
#           A proxy in between that answers 502 or 504 after its timeout is enough.
# So here:  a POST is repeated only where nothing was sent, or with an Idempotency-Key (`idempotencyKey` of the request).
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check openai==3.57.0 \
    cloudflare==5.9.0 linode_api4==5.48.0 slack_sdk==3.48.0 stripe==16.1.0 hcloud==2.27.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import http.server, sys, threading

import cloudflare, hcloud, linode_api4, openai, slack_sdk, stripe

seen = []
answers = False


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen.append(self.headers.get("Idempotency-Key"))
        if not answers:
            self.close_connection = True
            return
        data = b'{"error": {"message": "later", "code": "later"}, "errors": [], "success": false}'
        self.send_response(500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"
calls = {
    "openai": lambda: openai.OpenAI(api_key="x", base_url=origin).fine_tuning.jobs.create(model="m", training_file="f"),
    "cloudflare": lambda: cloudflare.Cloudflare(api_token="x", base_url=origin).zones.create(
        account={"id": "a"}, name="example.test"),
    "linode_api4": lambda: linode_api4.LinodeClient("x", base_url=origin).linode.instance_create("type", "region"),
    "slack_sdk": lambda: slack_sdk.WebClient("x", base_url=origin + "/").chat_postMessage(channel="c", text="x"),
    "stripe": lambda: stripe.StripeClient("x", base_addresses={"api": origin}).v1.charges.create(
        {"amount": 1, "currency": "eur"}),
    "hcloud": lambda: hcloud.Client(token="x", api_endpoint=origin).ssh_keys.create(name="x", public_key="y"),
}
found = {}
for name, call in calls.items():
    counts = []
    for answers in (False, True):
        seen.clear()
        try:
            call()
        except Exception:
            pass
        counts += [len(seen), all(seen)]
    found[name] = tuple(counts)
    print(f"{name:12} lost answer: {counts[0]} POSTs, 500: {counts[2]}, with a key: {counts[1] and counts[3]}")
expected = {
    "openai": (3, False, 3, False), "cloudflare": (3, False, 3, False), "linode_api4": (6, False, 1, False),
    "slack_sdk": (2, False, 1, False), "stripe": (1, True, 1, True), "hcloud": (1, False, 1, False),
}
sys.exit(0 if found == expected else 1)
PYTHON
