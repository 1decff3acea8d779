"""Checks HAR files by the schema of HAR 1.2 beside this script: check_har.py FILE..."""

import json
import pathlib
import sys

import jsonschema

schema = json.loads(pathlib.Path(__file__).with_name("har-1.2.schema.json").read_text(encoding="utf-8"))
validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
for path in sys.argv[1:]:
    document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    problems = [f"{path}: {error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    if problems:
        sys.exit("\n".join(problems))
    print(len(document["log"]["entries"]))
