#!/usr/bin/env bash
# Guess:    the client of a database repeats a read whose answer was lost, but no insert without an id of its own: the row may be
#           there already. It reports an error, as a client over the database's own protocol does.
# Version:  elasticsearch 9.5.1, opensearch-py 3.2.0, trino 0.340.0, typesense 2.1.1, python-arango 8.3.7, pyrqlite 2.2.3,
#           meilisearch 0.43.0 and crate 2.3.0, from PyPI, against a server that speaks their HTTP.
# Found:    the first six send the insert again on a new connection and report one success, also the bulk helpers of the first two.
#           trino and typesense do so after a timeout as well, while the server still works on it; elasticsearch and opensearch-py
#           have an option for that, which is off. meilisearch and crate repeat nothing.
# Seen:     rows that the server has inserted, of one insert that the client reports as done (or as failed)
#                                          answer lost   503 after the insert    answer later than the timeout
#           elasticsearch, also bulk       2             2                       1 (failed)
#           opensearch-py, also bulk       2             2                       1 (failed)
#           trino INSERT                   2             2                       2
#           typesense                      2             2                       2
#           python-arango                  2             1 (failed)              1 (failed)
#           pyrqlite INSERT                2             1 (failed)              no timeout
#           meilisearch, crate             1 (failed)    1 (failed)              1 (failed)
# Matters:  a proxy in front that restarts or answers 503 doubles an order or a sum, and the program that sent it has seen a success.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check elasticsearch==9.5.1 \
    opensearch-py==3.2.0 trino==0.340.0 typesense==2.1.1 python-arango==8.3.7 pyrqlite==2.2.3 meilisearch==0.43.0 crate==2.3.0; \
    } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import http.server, json, logging, os, sys, threading, time

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
logging.disable()
import arango, crate.client, elasticsearch, elasticsearch.helpers, meilisearch, opensearchpy, opensearchpy.helpers
import pyrqlite.dbapi2, trino, typesense

inserted, fault = [], None
bulk = {"took": 1, "errors": False, "items": [{"index": {"_index": "i", "_id": "1", "status": 201, "result": "created"}}]}
statement = {
    "id": "q", "infoUri": "http://db.example/q", "updateType": "INSERT", "data": [[1]],
    "columns": [{"name": "rows", "type": "bigint", "typeSignature": {"rawType": "bigint", "arguments": []}}],
    "stats": {"state": "FINISHED", "queued": False, "scheduled": True, "nodes": 1, "totalSplits": 1, "queuedSplits": 0,
        "runningSplits": 0, "completedSplits": 1, "cpuTimeMillis": 1, "wallTimeMillis": 1, "queuedTimeMillis": 0,
        "elapsedTimeMillis": 1, "processedRows": 1, "processedBytes": 1, "physicalInputBytes": 0, "peakMemoryBytes": 0,
        "spilledBytes": 0},
}
task = {"taskUid": 1, "indexUid": "i", "status": "enqueued", "type": "documentAdditionOrUpdate",
    "enqueuedAt": "2026-01-01T00:00:00Z"}

class Database(http.server.BaseHTTPRequestHandler):
    """Carries out each insert. The first one has a fault behind that."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if b"row one" in body:
            inserted.append(self.path)
            if len(inserted) == 1:
                if fault == "lost":
                    self.close_connection = True
                    return
                if fault == "late":
                    time.sleep(2.5)
        if "/_bulk" in self.path:
            answer = bulk
        elif self.path.startswith("/v1/statement"):
            answer = statement
        elif "/documents" in self.path and self.path.startswith("/indexes"):
            answer = task
        elif "/_sql" in self.path:
            answer = {"cols": [], "rows": [[]], "rowcount": 1, "duration": 1}
        elif "/db/execute" in self.path:
            answer = {"results": [{"last_insert_id": 1, "rows_affected": 1}]}
        else:
            answer = {"_index": "i", "_id": "1", "_key": "1", "_rev": "1", "id": "1", "result": "created", "_version": 1,
                "version": {"number": "9.5.1", "build_flavor": "default"}, "tagline": "You Know, for Search"}
        if b"row one" in body and len(inserted) == 1 and fault == "503":
            self.answer(503, {"message": "busy"})
        else:
            self.answer(200, answer)

    def answer(self, status, content):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_POST

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *arguments):
        pass

server = Quiet(("127.0.0.1", 0), Database)
threading.Thread(target=server.serve_forever, daemon=True).start()
port = server.server_port
url = f"http://127.0.0.1:{port}"
row, sql = {"text": "row one"}, "INSERT INTO t VALUES ('row one')"

def with_cursor(connection):
    cursor = connection.cursor()
    cursor.execute(sql)
    return cursor

calls = {
    "elasticsearch": lambda: elasticsearch.Elasticsearch(url, request_timeout=1).index(index="i", document=row),
    "elasticsearch bulk": lambda: elasticsearch.helpers.bulk(
        elasticsearch.Elasticsearch(url, request_timeout=1), [{"_index": "i", **row}]),
    "opensearch-py": lambda: opensearchpy.OpenSearch(url, timeout=1).index(index="i", body=row),
    "opensearch-py bulk": lambda: opensearchpy.helpers.bulk(opensearchpy.OpenSearch(url, timeout=1), [{"_index": "i", **row}]),
    "trino": lambda: with_cursor(trino.dbapi.connect(host="127.0.0.1", port=port, user="u", request_timeout=1)).fetchall(),
    "typesense": lambda: typesense.Client({
        "nodes": [{"host": "127.0.0.1", "port": str(port), "protocol": "http"}], "api_key": "x", "connection_timeout_seconds": 1,
    }).collections["c"].documents.create(row),
    "python-arango": lambda: arango.ArangoClient(hosts=url, request_timeout=1).db("d", verify=False).collection("c").insert(row),
    "pyrqlite": lambda: with_cursor(pyrqlite.dbapi2.connect(host="127.0.0.1", port=port)),
    "meilisearch": lambda: meilisearch.Client(url, timeout=1).index("i").add_documents([row]),
    "crate": lambda: with_cursor(crate.client.connect(url, timeout=1)),
}
found = {}
for name, call in calls.items():
    found[name] = []
    for fault in ("lost", "503", "late"):
        inserted.clear()
        try:
            call()
            outcome = "done"
        except Exception:
            outcome = "failed"
        found[name].append((len(inserted), outcome))
    print(f"{name:19}", *(f"{count} {outcome:8}" for count, outcome in found[name]), flush=True)
twice, once = (2, "done"), (1, "failed")
expected = {
    "elasticsearch": [twice, twice, once], "elasticsearch bulk": [twice, twice, once],
    "opensearch-py": [twice, twice, once], "opensearch-py bulk": [twice, twice, once],
    "trino": [twice, twice, twice], "typesense": [twice, twice, twice], "python-arango": [twice, once, once],
    "pyrqlite": [twice, once, (1, "done")], "meilisearch": [once, once, once], "crate": [once, once, once],
}
as_found = found == expected
print("as found: rows are inserted twice" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
