#!/usr/bin/env bash
# Guess:    an exporter of telemetry counts a batch as sent when the collector has accepted it. A redirect is followed, as the
#           HTTP client below it would do, or is a failure; and a collector that says that it threw spans away is heard.
# Version:  opentelemetry-exporter-otlp-proto-http 1.45.2 with opentelemetry-exporter-otlp-common 0.66b2 and requests 2.34.2,
#           from PyPI.
# Found:    each status from 200 to 399 is SUCCESS, and redirects are not followed: after 301, 307 and 308 the spans are gone,
#           without a line in the log. A 200 that says in partial_success that the only span was rejected, and why, is
#           SUCCESS without a line too. 400 and 501 are failures with a line, and 503 is repeated.
# Seen:     301, 307, 308   SUCCESS, the target is never asked, nothing logged
#           304, 300        SUCCESS, nothing logged
#           200, 1 of 1 rejected   SUCCESS, nothing logged
#           400             FAILURE, logged
# Matters:  a collector that moves from http to https, or behind a gateway that adds a slash, loses all traces, and no counter of
#           the service shows it. Somebody finds out when the trace is needed.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    opentelemetry-exporter-otlp-proto-http==1.45.2 opentelemetry-exporter-otlp-common==0.66b2 opentelemetry-sdk==1.45.2 \
    requests==2.34.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import http.server, importlib.metadata, logging, os, sys, threading
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.sdk.trace import TracerProvider

for name in [name for name in os.environ if name.startswith("OTEL_") or name.lower().endswith("_proxy")]:
    del os.environ[name]
asked, logged, accepted = [], [], []
partial = trace_service_pb2.ExportTraceServiceResponse()
partial.partial_success.rejected_spans = 1
partial.partial_success.error_message = "too old"

class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        asked.append(self.path)
        body = partial.SerializeToString() if self.path == "/rejects" else b""
        moved = self.path[1:].isdigit()
        if self.path == "/moved":
            accepted.append(self.path)
        self.send_response(int(self.path[1:]) if moved else 200)
        if moved and self.path.startswith("/3"):
            self.send_header("Location", "/moved")
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *arguments):
        pass

class Keeper(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())

logging.getLogger().setLevel(logging.DEBUG)
for name in ("urllib3", "requests"):
    logging.getLogger(name).setLevel(logging.CRITICAL)
logging.getLogger().addHandler(Keeper())
collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=collector.serve_forever, daemon=True).start()
tracer = TracerProvider().get_tracer("shop")

def export(path):
    """The outcome for one span, whether the collector was asked at the new address, and what the log says."""
    asked.clear()
    logged.clear()
    span = tracer.start_span("order")
    span.end()
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{collector.server_port}{path}", timeout=10)
    outcome = exporter.export([span]).name
    exporter.shutdown()
    return outcome, list(asked), list(logged)

packages = "opentelemetry-exporter-otlp-proto-http", "opentelemetry-exporter-otlp-common", "requests"
print(*(f"{name} {importlib.metadata.version(name)}" for name in packages))
seen = {}
for path in ("/good", "/301", "/307", "/308", "/300", "/304", "/rejects", "/400", "/501"):
    seen[path] = export(path)
    print(path, "->", *seen[path])
collector.shutdown()
lost = ("/301", "/307", "/308", "/300", "/304", "/rejects")
as_found = (
    all(seen[path] == ("SUCCESS", [path], []) for path in ("/good", *lost)) and not accepted
    and all(seen[path][0] == "FAILURE" and len(seen[path][2]) == 1 for path in ("/400", "/501"))
)
print("as found: a redirect counts as sent" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
