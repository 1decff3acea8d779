"""Makes the tables of Documentation/Errors.md from the source.

    errors_table.py          writes the tables between their markers
    errors_table.py --check  prints a line for each table that is not the one of the source, and changes nothing

A kind of error has its comment in NetworkErrorKind.swift: the first paragraph says when it happens, the one that begins with
"Next step:" what to do. RetryStage.swift says which kinds are repeated, and RequestReport.swift has the exit codes.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "Documentation/Errors.md"
KINDS = "Sources/Client/HTTPCore/Errors/NetworkErrorKind.swift"
RULES = "Sources/Client/HTTPCore/Options/AddressRule.swift"
RETRY = "Sources/Client/LATClient/Retry/RetryStage.swift"
CODES = "Tools/lat/Request/RequestReport.swift"
CODE_NAMES = "Tools/lat/Terminal/Console.swift"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def find(pattern, path):
    found = re.search(pattern, read(path), re.DOTALL)
    if not found:
        sys.exit(f"error: {path} has nothing like {pattern}; adapt scripts/lib/errors_table.py to it")
    return found.group(1)


def cases(path, enum):
    """The cases of an enum: name, payload, and the paragraphs of the comment."""
    body = find(r"\n    public enum " + enum + r"\b[^\n]*\{\n(.*?)\n    \}", path)
    found, comment = [], []
    for line in body.split("\n"):
        line = line.strip()
        if line.startswith("///"):
            comment.append(line[3:].strip())
        elif line.startswith("case "):
            name, _, payload = line[5:].rstrip(")").partition("(")
            paragraphs = [" ".join(part.split("\n")) for part in "\n".join(comment).split("\n\n")]
            found.append((name, payload, paragraphs))
            comment = []
    return found


def cell(text):
    """Text of a comment in a table: links become code."""
    text = re.sub(r"``(?:\w+/)*(\w+)``", r"`\1`", text)
    return text.replace("|", "\\|").rstrip(".")


def next_step(paragraphs, name):
    steps = [text.removeprefix("Next step: ") for text in paragraphs if text.startswith("Next step: ")]
    if len(steps) != 1:
        sys.exit(f"error: the comment of {name} in {KINDS} has {len(steps)} paragraphs that begin with Next step:, not 1")
    return steps[0]


def exit_codes():
    """The exit code of lat for each kind, and the one of all others."""
    values = dict(re.findall(r"static let (\w+) = ExitCode\(rawValue: (\d+)\)", read(CODE_NAMES)))
    values["interrupted"] = "130"
    body = find(r"init\(_ error: NetworkError\) \{\n\s*switch error\.kind \{(.*?)\n        \}", CODES)
    codes = {}
    for names, code in re.findall(r"case ([^:]+): self = \.(\w+)", body):
        for name in re.findall(r"\.(\w+)", names):
            codes[name] = values[code]
    return codes, values[find(r"init\(_ error: NetworkError\).*?default: self = \.(\w+)", CODES)]


def kind_table():
    repeated = find(r"return switch error\.kind \{\s*case ([^:]*): true", RETRY)
    repeated = {name.strip().removeprefix(".") for name in re.split(r",\s*(?![^(]*\))", repeated)}
    codes, other = exit_codes()
    lines = ["| kind | when | next step | repeated | `lat` exits with |", "|--|--|--|--|--|"]

    def add(name, paragraphs, kind):
        if kind == "httpStatus":
            again = "[some](#which-failures-are-repeated)"
        else:
            again = "yes" if name in repeated else "no"
        when, step = cell(paragraphs[0]), cell(next_step(paragraphs, name))
        lines.append(f"| `{name}` | {when} | {step} | {again} | {codes.get(kind, other)} |")

    for name, payload, paragraphs in cases(KINDS, "Kind"):
        if payload in ("TLSFailure", "TimeoutPhase"):
            for reason, _, reasons in cases(KINDS, payload):
                add(f"{name}(.{reason})", reasons, name)
        elif payload == "AddressRule":
            add(f"{name}(rule)", paragraphs, name)
        else:
            add(f"{name}({payload.split(':')[0]}:)" if payload else name, paragraphs, name)
    return lines


def rule_table():
    lines = ["| rule | addresses |", "|--|--|"]
    for name, _, paragraphs in cases(RULES, "AddressRule"):
        lines.append(f"| `{name}` | {cell(' '.join(paragraphs))} |")
    return lines


def main():
    is_check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not is_check:
        sys.exit("error: usage: errors_table.py [--check]")
    page = read(PAGE)
    made = page
    for name, lines in (("kinds", kind_table()), ("rules", rule_table())):
        pattern = re.compile(rf"(<!-- {name}:[^\n]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not pattern.search(made):
            sys.exit(f"error: {PAGE} has no markers <!-- {name}: … --> and <!-- end of {name} -->")
        table = "\n" + "\n".join(lines) + "\n\n"
        previous = made
        made = pattern.sub(lambda found: found.group(1) + table + found.group(2), made)
        if is_check and made != previous:
            print(f"{PAGE}: the table of {name}")
    if not is_check and made != page:
        with open(os.path.join(ROOT, PAGE), "w", encoding="utf-8") as file:
            file.write(made)


main()
