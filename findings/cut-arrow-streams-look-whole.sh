#!/usr/bin/env bash
# Guess:    an Arrow stream ends with an end mark of 8 bytes, which each writer writes, so that a reader can tell a stream that broke
#           off between two batches. A writer whose block ends with an exception does not write it. An Avro file that broke off
#           between two blocks is told by its readers, too.
# Version:  pyarrow 26.0.1, polars 2.1.0, nanoarrow 0.9.0 and arro3-io 0.9.1; fastavro 1.13.1 and avro 1.12.2; from PyPI.
# Found:    all four readers of Arrow take the end of the bytes for the end mark, and give the batches before it as the table. The
#           writers of pyarrow write the mark, or the footer of a file, while an exception passes through their `with`, so that it
#           would tell nothing. Avro has neither a mark nor a count: all three readers give the blocks before. polars does so one
#           byte later as well.
# Seen:     10 batches of 100 rows, cut behind the fifth          500 rows, four times; 20 bytes later an error, four times
#           pyarrow, ValueError behind the fifth batch            stream: 500 rows and the end mark; file: 500 rows and the footer
#           Avro, 1000 records, cut behind the fifth of 12 blocks 438 records, three times; a byte later polars 438, others an error
# Matters:  the responses of many databases are Arrow streams. Where the length of the response is not known to HTTP (it ends with
#           the connection) or a worker behind a proxy dies, half of a table is a table, and a job that counts, sums or replaces
#           by it succeeds.
# Everything is in a temporary folder with a venv of its own, without a network. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check pyarrow==26.0.1 polars==2.1.0 \
    nanoarrow==0.9.0 arro3-io==0.9.1 fastavro==1.13.1 avro==1.12.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import io, sys

import arro3.io, avro.datafile, avro.io, fastavro, nanoarrow, polars, pyarrow

table = pyarrow.table({"row": list(range(1000))})
batches = table.to_batches(max_chunksize=100)
end_mark = b"\xff\xff\xff\xff\0\0\0\0"

def written(new, count, fails):
    """What a writer has written, and where each batch ends."""
    sink, ends = io.BytesIO(), []
    try:
        with new(sink, table.schema) as writer:
            for batch in batches[:count]:
                writer.write_batch(batch)
                ends.append(sink.tell())
            if fails:
                raise ValueError("the source ended early")
    except ValueError:
        pass
    return sink.getvalue(), ends

arrow = {
    "pyarrow": lambda data: pyarrow.ipc.open_stream(data).read_all().num_rows,
    "polars": lambda data: polars.read_ipc_stream(io.BytesIO(data)).height,
    "nanoarrow": lambda data: sum(len(part) for part in nanoarrow.ArrayStream.from_readable(io.BytesIO(data)).iter_chunks()),
    "arro3": lambda data: sum(batch.num_rows for batch in arro3.io.read_ipc_stream(io.BytesIO(data))),
}
of_avro = {
    "fastavro": lambda data: sum(1 for _ in fastavro.reader(io.BytesIO(data))),
    "avro": lambda data: sum(1 for _ in avro.datafile.DataFileReader(io.BytesIO(data), avro.io.DatumReader())),
    "polars": lambda data: polars.read_avro(io.BytesIO(data)).height,
}

def outcomes(readers, data):
    result = {}
    for name, read in readers.items():
        try:
            result[name] = read(data)
        except Exception:
            result[name] = "error"
    return result

whole, ends = written(pyarrow.ipc.new_stream, 10, False)
failed, _ = written(pyarrow.ipc.new_stream, 5, True)
failed_file, _ = written(pyarrow.ipc.new_file, 5, True)
if not whole.endswith(end_mark) or set(outcomes(arrow, whole).values()) != {1000}:
    print("the whole stream is not as it should be", file=sys.stderr)
    sys.exit(2)
schema = fastavro.parse_schema({
    "type": "record", "name": "record", "fields": [{"name": "number", "type": "int"}, {"name": "text", "type": "string"}]})
sink = io.BytesIO()
fastavro.writer(sink, schema, [{"number": number, "text": "x" * 20} for number in range(1000)], sync_interval=2000)
sink.seek(0)
blocks = [block.offset + block.size for block in fastavro.block_reader(sink)]
found = {
    "Arrow, cut between batches": outcomes(arrow, whole[:ends[4]]),
    "Arrow, cut in a batch": outcomes(arrow, whole[:ends[4] + 20]),
    "Arrow stream of a writer that raised": outcomes(arrow, failed),
    "Avro, cut between blocks": outcomes(of_avro, sink.getvalue()[:blocks[4]]),
    "Avro, cut a byte later": outcomes(of_avro, sink.getvalue()[:blocks[4] + 1]),
}
for case, result in found.items():
    print(f"{case:37}", *(f"{name} {rows}" for name, rows in result.items()))
file_rows = pyarrow.ipc.open_file(failed_file).read_all().num_rows
print(f"{'Arrow file of a writer that raised':37} pyarrow {file_rows};",
      "the stream ends with the end mark" if failed.endswith(end_mark) else "the stream has no end mark")
part = dict.fromkeys(arrow, 500)
as_found = file_rows == 500 and failed.endswith(end_mark) and len(blocks) == 12 and found == {
    "Arrow, cut between batches": part, "Arrow, cut in a batch": dict.fromkeys(arrow, "error"),
    "Arrow stream of a writer that raised": part, "Avro, cut between blocks": dict.fromkeys(of_avro, 438),
    "Avro, cut a byte later": {"fastavro": "error", "avro": "error", "polars": 438},
}
print("as found: a part is a table" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
