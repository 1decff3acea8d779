#!/usr/bin/env bash
# Guess:    a client that reads a list page by page ends where the service says so: no next cursor, no next link. A page without
#           entries that names a next one is only a page whose entries were filtered out or have expired.
# Version:  cloudflare 5.9.0, stripe 16.1.0, PyGithub 2.10.0, Mastodon.py 2.3.3, python-gitlab 8.6.0, slack_sdk 3.48.0, from PyPI.
# Found:    the first four ask for the empty page and end there, without an error, although it names the next one (cursor,
#           has_more and next_page, Link with rel=next). python-gitlab and slack_sdk read on.
# Seen:     pages [1, 2], [], [3, 4]
#           cloudflare [1, 2]   stripe (search) [1, 2]   PyGithub [1, 2]   Mastodon.py [1, 2]
#           python-gitlab [1, 2, 3, 4]   slack_sdk [1, 2, 3, 4]
# Matters:  Workers KV says itself that a page of keys may be empty while there are more, so a program that removes or copies
#           all keys misses the rest, and nobody hears of it.
# So here:  a list whose way on is a cursor, an address or a link ends where there is none, however many entries a page has.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check cloudflare==5.9.0 \
    stripe==16.1.0 PyGithub==2.10.0 Mastodon.py==2.3.3 python-gitlab==8.6.0 slack_sdk==3.48.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import http.server, json, sys, threading, urllib.parse

import cloudflare, github, gitlab, mastodon, slack_sdk, stripe

pages = [[1, 2], [], [3, 4]]
requests = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        parameters = dict(urllib.parse.parse_qsl(query + "&" + body))
        number = int(parameters.get("cursor") or parameters.get("page") or parameters.get("max_id") or 0)
        requests.append(self.path)
        after = number + 1 if number + 1 < len(pages) else None
        entries = [{"id": entry, "name": str(entry)} for entry in pages[number]]
        answer, fields = entries, {}
        if path.startswith("/client/"):
            answer = {"success": True, "errors": [], "messages": [], "result": entries, "result_info": {"cursor": str(after or "")}}
        elif path.startswith("/v1/"):
            answer = {"object": "search_result", "url": path, "data": entries, "has_more": bool(after), "next_page": after and str(after)}
        elif path.startswith("/slack/"):
            answer = {"ok": True, "channels": entries, "response_metadata": {"next_cursor": str(after or "")}}
        elif after:
            name = "max_id" if path.endswith("/favourites") else "page"
            fields["Link"] = f'<http://{self.headers["Host"]}{path}?{name}={after}>; rel="next"'
        data = json.dumps(answer).encode()
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **fields}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"
mastodon_client = mastodon.Mastodon(api_base_url=origin, access_token="x", version_check_mode="none")
lists = {
    "cloudflare": lambda: [
        key.name for key in cloudflare.Cloudflare(api_token="x", base_url=origin + "/client/v4").kv.namespaces.keys.list(
            "n", account_id="a")],
    "stripe": lambda: [
        customer.id for customer in stripe.StripeClient("x", base_addresses={"api": origin}).v1.customers.search(
            {"query": "name:'x'"}).auto_paging_iter()],
    "PyGithub": lambda: [
        repository.id for repository in github.Github(
            base_url=origin + "/github", auth=github.Auth.Token("x"), retry=None).get_repos()],
    "Mastodon.py": lambda: [status.id for status in mastodon_client.fetch_remaining(mastodon_client.favourites())],
    "python-gitlab": lambda: [
        project.id for project in gitlab.Gitlab(origin, private_token="x").projects.list(iterator=True)],
    "slack_sdk": lambda: [
        channel["id"] for page in slack_sdk.WebClient("x", base_url=origin + "/slack/").conversations_list()
        for channel in page["channels"]],
}
found = {}
for name, read in lists.items():
    requests.clear()
    found[name] = [int(entry) for entry in read()], len(requests)
    print(f"{name:14} {found[name][0]} with {found[name][1]} requests")
ends = ["cloudflare", "stripe", "PyGithub", "Mastodon.py"]
expected = {name: ([1, 2], 2) if name in ends else ([1, 2, 3, 4], 3) for name in lists}
sys.exit(0 if found == expected else 1)
PYTHON
