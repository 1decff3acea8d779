#!/usr/bin/env bash
# Guess:    a generator of clients sends query parameters as the document says: "explode: false" as one list with commas, and
#           "style: deepObject" as name[key]=value. What it cannot do it refuses or warns of.
# Version:  openapi-python-client 0.29.1 from PyPI, an OpenAPI 3.1 document of one operation.
# Found:    the generated client ignores both, without a warning: arrays are always repeated, and the keys of an object become
#           parameters of their own, without its name. If two objects share a key, the second overwrites the first.
# Seen:     ids [1, 2], explode: false             specified  ids=1,2               sent  ids=1&ids=2
#           filter {"page": 7}, deepObject         specified  filter[page]=7        sent  page=7
#           filter {"page": 7}, sort {"page": 8}   specified  both                  sent  page=8
# Matters:  a server that has been tried with such a client only may know nothing of what its own document says, and reads no
#           filter from a client that follows it.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    openapi-python-client==0.29.1 httpx==0.28.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import http.server, json, subprocess, sys, threading, urllib.parse

work = sys.argv[1]

def of_page(name):
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}}
    return {"name": name, "in": "query", "style": "deepObject", "explode": True, "schema": schema}

numbers = {"type": "array", "items": {"type": "integer"}}
parameters = [{"name": "ids", "in": "query", "explode": False, "schema": numbers}, of_page("filter"), of_page("sort")]
answers = {"200": {"description": "done", "content": {"application/json": {"schema": {"type": "object"}}}}}
document = {
    "openapi": "3.1.0", "info": {"title": "Shop", "version": "1"},
    "paths": {"/things": {"get": {"operationId": "list_things", "parameters": parameters, "responses": answers}}},
}
with open(f"{work}/shop.json", "w") as file:
    json.dump(document, file)
made = subprocess.run(
    [f"{work}/venv/bin/openapi-python-client", "generate", "--path", f"{work}/shop.json", "--output-path", f"{work}/client",
     "--meta", "none"], capture_output=True, text=True,
)
said = made.stdout + made.stderr
if made.returncode != 0:
    print(said, file=sys.stderr)
    sys.exit(2)
sys.path.insert(0, work)
from client import Client
from client.api.default import list_things
from client.models import ListThingsFilter, ListThingsSort

asked = []

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(urllib.parse.unquote(self.path.partition("?")[2]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = Client(base_url=f"http://127.0.0.1:{server.server_port}")
list_things.sync_detailed(client=client, ids=[1, 2])
list_things.sync_detailed(client=client, filter_=ListThingsFilter(page=7))
list_things.sync_detailed(client=client, filter_=ListThingsFilter(page=7), sort=ListThingsSort(page=8))
server.shutdown()
warned = any(word in said for word in ("style", "explode", "deepObject"))
print("sent:", *asked, sep="\n    ")
print("the generator", "warned" if warned else "did not warn")
as_found = asked == ["ids=1&ids=2", "page=7", "page=8"] and not warned
print("as found: style and explode are ignored" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
