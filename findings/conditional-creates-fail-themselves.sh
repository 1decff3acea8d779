#!/usr/bin/env bash
# Guess:    "create this object only if there is none" (If-None-Match: *, ifGenerationMatch=0) is how a client takes a lock or
#           makes a commit. A client that repeats lost calls by itself does not repeat this one, or looks after a 412 whether the
#           object is its own: it has just sent it.
# Version:  boto3 1.43.117, s3fs 2026.9.0 with aiobotocore 3.10.0, obstore 0.12.1 (S3 and Azure), opendal 0.47.12 with its
#           RetryLayer, google-cloud-storage 3.17.1, azure-storage-blob 12.31.1; PyPI.
# Found:    all seven repeat it, and report that the object exists already: AlreadyExistsError, FileExistsError, PreconditionFailed.
#           It is the one that they have written.
# Seen:     a server that stores the first upload and closes the connection without a response
#                                    with the condition                  without
#           boto3                    ClientError PreconditionFailed      written at the second time
#           s3fs                     FileExistsError                     written at the second time
#           obstore, S3 and Azure    AlreadyExistsError                  written at the second time
#           opendal                  ConditionNotMatch                   written at the second time
#           azure-storage-blob       ResourceExistsError                 written at the second time
#           google-cloud-storage     PreconditionFailed                  written at the second time
# Matters:  who has the lock believes that another one has it, and nobody frees it; a commit that stands counts as lost and is made
#           again. "Exists already" after a repeat says nothing: read the object, and put a name of one's own into it.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    boto3==1.43.117 s3fs==2026.9.0 aiobotocore==3.10.0 obstore==0.12.1 opendal==0.47.12 google-cloud-storage==3.17.1 \
    azure-storage-blob==12.31.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

env -u HTTP_PROXY -u http_proxy -u HTTPS_PROXY -u https_proxy AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null \
    "$work/venv/bin/python" -W ignore - <<'PYTHON'
import http.server, json, os, sys, threading
import boto3, obstore, opendal, s3fs
from azure.storage.blob import BlobClient, LinearRetry
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from obstore.store import AzureStore, S3Store
from opendal.layers import RetryLayer

stored, uploads = {}, []
exists = '<?xml version="1.0"?><Error><Code>{}</Code><Message>{}</Message><Condition>If-None-Match</Condition></Error>'

class Store(http.server.BaseHTTPRequestHandler):
    """Loses the response to the first upload of an object, which it has stored."""
    protocol_version = "HTTP/1.1"

    def answer(self, status, body="", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def upload(self):
        content, piece = b"", None
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while piece != b"":
                piece = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
                self.rfile.readline()
                content += piece
        else:
            content = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.split("?")[0]
        conditional = self.headers["If-None-Match"] == "*" or "ifGenerationMatch=0" in self.path
        uploads.append(conditional)
        if path not in stored:
            stored[path] = content
            self.close_connection = True
        elif not conditional:
            stored[path] = content
            self.answer(201 if "x-ms-version" in self.headers else 200, "{}" if self.command == "POST" else "", ETag='"1"',
                        Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT", Content_Type="application/json")
        elif self.command == "POST":
            self.answer(412, json.dumps({"error": {"code": 412, "message": "conditionNotMet"}}), Content_Type="application/json")
        elif "x-ms-version" in self.headers:
            error = exists.format("BlobAlreadyExists", "The specified blob already exists.")
            self.answer(409, error, x_ms_error_code="BlobAlreadyExists", Content_Type="application/xml")
        else:
            message = "At least one of the pre-conditions you specified did not hold"
            self.answer(412, exists.format("PreconditionFailed", message), Content_Type="application/xml")

    def do_GET(self):
        self.answer(404)

    do_PUT = do_POST = upload
    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_REGION="us-east-1", AWS_DEFAULT_REGION="us-east-1")
plain = {"allow_http": True}

def with_boto3(once):
    client = boto3.client("s3", endpoint_url=url, config=Config(s3={"addressing_style": "path"}))
    client.put_object(Bucket="locks", Key="a", Body=b"mine", **({"IfNoneMatch": "*"} if once else {}))

def with_s3fs(once):
    files = s3fs.S3FileSystem(key="a", secret="b", endpoint_url=url, skip_instance_cache=True)
    files.pipe_file("locks/a", b"mine", mode="create" if once else "overwrite")

def with_obstore(once):
    store = S3Store("locks", endpoint=url, region="us-east-1", client_options=plain, virtual_hosted_style_request=False)
    obstore.put(store, "a", b"mine", mode="create" if once else "overwrite")

def with_obstore_azure(once):
    store = AzureStore("locks", account_name="some", account_key="YWJj", endpoint=url, client_options=plain)
    obstore.put(store, "a", b"mine", mode="create" if once else "overwrite")

def with_opendal(once):
    files = opendal.Operator("s3", bucket="locks", endpoint=url, region="us-east-1").layer(RetryLayer(max_times=3))
    files.write("a", b"mine", **({"if_not_exists": True} if once else {}))

def with_azure(once):
    blob = BlobClient(
        f"{url}/some", "locks", "a", credential={"account_name": "some", "account_key": "YWJj"},
        retry_policy=LinearRetry(backoff=0, random_jitter_range=0),
    )
    blob.upload_blob(b"mine", overwrite=not once)

def with_google(once):
    client = storage.Client("some", credentials=AnonymousCredentials(), client_options={"api_endpoint": url})
    client.bucket("locks").blob("a").upload_from_string(b"mine", **({"if_generation_match": 0} if once else {}))

def create(client, once):
    stored.clear()
    uploads.clear()
    try:
        client(once)
        result = "written"
    except Exception as error:
        result = type(error).__name__
    assert all(b"mine" in content for content in stored.values()) and len(stored) == 1
    assert set(uploads) == {once}
    return result, len(uploads)

clients = {
    "boto3": with_boto3, "s3fs": with_s3fs, "obstore": with_obstore, "obstore, Azure": with_obstore_azure, "opendal": with_opendal,
    "azure-storage-blob": with_azure, "google-cloud-storage": with_google,
}
seen = {name: (create(client, True), create(client, False)) for name, client in clients.items()}
for name, (once, always) in seen.items():
    print(f"{name:22} with the condition {once}, without {always}")
written = ("written", 2)
as_found = seen == {
    "boto3": (("ClientError", 2), written), "s3fs": (("FileExistsError", 2), written),
    "obstore": (("AlreadyExistsError", 2), written), "obstore, Azure": (("AlreadyExistsError", 2), written),
    "opendal": (("ConditionNotMatch", 2), written), "azure-storage-blob": (("ResourceExistsError", 2), written),
    "google-cloud-storage": (("PreconditionFailed", 2), written),
}
print("as found: one's own object is in the way" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
