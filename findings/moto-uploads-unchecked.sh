#!/usr/bin/env bash
# Guess:    a mock of S3 that reports checksums compares them: an object or a part whose Content-MD5 or x-amz-checksum-sha256 is that
#           of other bytes is BadDigest, as S3 answers; and If-Range with another tag gives the whole object (RFC 9110 §13.1.5).
# Version:  moto 5.2.5 as a server, boto3 1.44.8.
# Found:    PutObject, UploadPart and CompleteMultipartUpload take any checksum with 200, and keep the bytes. Wrong ETags and unknown
#           parts are refused, so it looks strict. A range with an If-Range of another version is 206.
# Seen:     PutObject, wrong SHA-256      200
#           UploadPart, wrong MD5         200
#           Complete, wrong SHA-256       200
#           GET bytes=0-3, If-Range of another tag    206
# Matters:  a test that says "damaged uploads are noticed" passes only because the client compares by itself, or not at all; a
#           resumed download that mixes two versions passes, too.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check 'moto[server,s3]==5.2.5' boto3==1.44.8; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import base64, hashlib, http.client, socket, subprocess, sys, time
import boto3, botocore

work = sys.argv[1]
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = subprocess.Popen(
    [f"{work}/venv/bin/moto_server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def digest(name): return base64.b64encode(hashlib.new(name, b"other bytes").digest()).decode()

def tried(name, call):
    try:
        status = call()["ResponseMetadata"]["HTTPStatusCode"]
    except botocore.exceptions.ClientError as error:
        status = error.response["Error"]["Code"]
    print(name, status)
    return status

try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        sys.exit(2)
    s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id="id", aws_secret_access_key="key",
                      region_name="us-east-1")
    s3.create_bucket(Bucket="bucket")
    place = {"Bucket": "bucket", "Key": "file"}
    found = [tried("PutObject, wrong SHA-256", lambda: s3.put_object(**place, Body=b"data", ChecksumSHA256=digest("sha256")))]
    upload = {**place, "UploadId": s3.create_multipart_upload(**place)["UploadId"]}
    found.append(tried("UploadPart, wrong MD5", lambda: s3.upload_part(
        **upload, PartNumber=1, Body=b"data", ContentMD5=digest("md5"))))
    tag = s3.upload_part(**upload, PartNumber=1, Body=b"data")["ETag"]
    found.append(tried("Complete, wrong ETag", lambda: s3.complete_multipart_upload(
        **upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": '"0"'}]})))
    found.append(tried("Complete, wrong SHA-256", lambda: s3.complete_multipart_upload(
        **upload, ChecksumSHA256=digest("sha256"), MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/bucket/file", headers={"Range": "bytes=0-3", "If-Range": '"another version"'})
    found.append(connection.getresponse().status)
    print("GET, If-Range of another tag", found[-1])
finally:
    server.terminate()
    server.wait()
as_found = found == [200, 200, "InvalidPart", 200, 206]
print("as found: checksums and If-Range are not looked at" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
