#!/usr/bin/env bash
# Guess:    `with open(…, "wb")` on an object store uploads when the block ends. A block that ends with an exception leaves no
#           object: what was there before stays, as a PUT that breaks off leaves it.
# Version:  s3fs 2026.9.0, pyarrow 26.0.1, opendal 0.47.12, cloudpathlib 0.26.0, smart-open 9.0.2 and obstore 0.12.1, from PyPI,
#           against the S3 of moto 5.2.5.
# Found:    the first four finish the upload while the exception passes, and put the part over the old object, be it a single PUT or
#           an upload in parts. ParquetWriter of pyarrow even writes the footer, so that the part is a valid table. s3fs does not
#           within `fs.transaction`. smart_open and obstore leave the old object and no open upload.
# Seen:     1 MB or 12 MB are written, then ValueError; what is there afterwards
#           s3fs, pyarrow, opendal, cloudpathlib         the 1 MB or 12 MB
#           pyarrow.parquet.ParquetWriter                a table that reads without an error, with the first rows
#           s3fs in a transaction, smart_open, obstore   the old object
# Matters:  an export whose source breaks off replaces yesterday's good file by a part of today's. Whoever reads it, or is notified
#           of the new object, gets a file that is in order, with an ETag and a checksum of its own.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check 'moto[server,s3]==5.2.5' \
    s3fs==2026.9.0 pyarrow==26.0.1 opendal==0.47.12 'cloudpathlib[s3]==0.26.0' 'smart-open[s3]==9.0.2' obstore==0.12.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

HOME="$work" TMPDIR="$work" "$work/venv/bin/python" -W ignore - <<'PYTHON'
import contextlib, gc, io, logging, os, sys

for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith("AWS_"):
        del os.environ[name]
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
origin = f"http://127.0.0.1:{port}"
os.environ |= {
    "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": origin,
    "AWS_EC2_METADATA_DISABLED": "true",
}
logging.disable()
import boto3, cloudpathlib, obstore, obstore.store, opendal, pyarrow, pyarrow.fs, pyarrow.parquet, s3fs, smart_open

s3 = boto3.client("s3")
s3.create_bucket(Bucket="exports")
old, rows = b"the object of yesterday", 1000

def with_s3fs(key):
    return s3fs.S3FileSystem(endpoint_url=origin, skip_instance_cache=True).open(f"exports/{key}", "wb")

@contextlib.contextmanager
def with_s3fs_transaction(key):
    files = s3fs.S3FileSystem(endpoint_url=origin, skip_instance_cache=True)
    with files.transaction, files.open(f"exports/{key}", "wb") as file:
        yield file

arrow_files = pyarrow.fs.S3FileSystem(endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1")

def with_pyarrow(key):
    return arrow_files.open_output_stream(f"exports/{key}")

def with_opendal(key):
    return opendal.Operator(
        "s3", bucket="exports", endpoint=origin, region="us-east-1", access_key_id="x", secret_access_key="x",
    ).open(key, "wb")

def with_cloudpathlib(key):
    return cloudpathlib.S3Client(endpoint_url=origin).CloudPath(f"s3://exports/{key}").open("wb")

def with_smart_open(key):
    return smart_open.open(f"s3://exports/{key}", "wb", transport_params={"client": s3})

def with_obstore(key):
    store = obstore.store.S3Store("exports", endpoint=origin, client_options={"allow_http": True}, region="us-east-1")
    return obstore.open_writer(store, key)

def left(key, write):
    """What is at the key when a writer that raises has ended."""
    s3.put_object(Bucket="exports", Key=key, Body=old)
    try:
        write()
        print(f"{key}: the exception is gone")
        sys.exit(1)
    except ValueError:
        pass
    gc.collect()
    if s3.list_multipart_uploads(Bucket="exports").get("Uploads"):
        return "an open upload"
    content = s3.get_object(Bucket="exports", Key=key)["Body"].read()
    return "old" if content == old else content

def written(opened, key, megabytes):
    def write():
        with opened(key) as file:
            for _ in range(megabytes):
                file.write(bytes(10**6))
            raise ValueError("the source ended early")

    content = left(key, write)
    return content if isinstance(content, str) else f"{len(content) / 10**6:g} MB"

def table():
    def write():
        part = pyarrow.table({"row": list(range(rows))})
        with pyarrow.parquet.ParquetWriter("exports/table", part.schema, filesystem=arrow_files) as writer:
            writer.write_table(part)
            raise ValueError("the source ended early")

    content = left("table", write)
    return content if isinstance(content, str) else f"{pyarrow.parquet.read_table(io.BytesIO(content)).num_rows} rows"

clients = (
    with_s3fs, with_s3fs_transaction, with_pyarrow, with_opendal, with_cloudpathlib, with_smart_open, with_obstore,
)
found = {}
for client in clients:
    name = client.__name__[5:]
    found[name] = [written(client, f"{name}-{size}", size) for size in (1, 12)]
    print(f"{name:18}", *found[name])
found["ParquetWriter"] = table()
print(f"{'ParquetWriter':18} {found['ParquetWriter']}")
part = ["1 MB", "12 MB"]
as_found = found == {
    "s3fs": part, "s3fs_transaction": ["old", "old"], "pyarrow": part, "opendal": part, "cloudpathlib": part,
    "smart_open": ["old", "old"], "obstore": ["old", "old"], "ParquetWriter": f"{rows} rows",
}
print("as found: a part replaces the old object" if as_found else "the behaviour has changed")
sys.stdout.flush()
# The threads of the server and the clients need not end in order.
os._exit(0 if as_found else 1)
PYTHON
