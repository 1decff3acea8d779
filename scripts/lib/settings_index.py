"""Makes Documentation/Settings.md, the index of all settings, from the source.

    settings_index.py          writes the page
    settings_index.py --check  prints a line when the page is not the one of the source, and changes nothing

The settings of a manager are the properties of its configuration, those of a request the lines of OptionKey.all, the keys of
the table those of RowKey.all, and the options of the command those of `lat request`. A setting belongs to the section of a page
that names it most often.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "Documentation/Settings.md"
CONFIGURATION = "Sources/Client/LATClient/Central/Configuration.swift"
ENGINE = "Sources/Client/CurlTransport/Settings/EngineConfiguration.swift"
TLS = "Sources/Client/CurlTransport/Settings/TLSConfiguration.swift"
REQUEST_TLS = "Sources/Client/HTTPCore/Options/RequestTLS.swift"
OPTIONS = "Sources/Client/HTTPCore/Options/OptionKey.swift"
ROWS = "Sources/Client/DomainTables/Keys/RowKey.swift"
SCHEMA = "Sources/Client/DomainTables/Keys/TableSchema.swift"
COMMANDS = [
    "Tools/lat/Request/RequestOptions.swift", "Tools/lat/Request/ConnectionArguments.swift",
    "Tools/lat/Request/PageArguments.swift", "Tools/lat/Arguments/Command.swift",
]
PAGES = [
    "Calls", "Distributed", "Flow", "Caching", "Trust", "Connections", "Reachability", "SealedMessages", "Transfers",
    "Uploads", "Realtime", "Errors", "Inspecting", "Testing",
]
# Sections that list settings rather than explain them.
LISTS = {"Settings of a call", "The table", "At a glance", "Precedence"}

# Where one setting has two names: that of the key or the request, and that of the manager.
SAME = {
    "cache": "cachePolicy", "ttl": "cachePolicy", "circuit": "circuitBreaker", "dates": "coding", "keys": "coding",
    "decimals": "coding",
    "pins": "tls.pins", "sealing": "sealer", "observers": "accessories",
    "retry": "retryPolicy",
}
# Options of the command whose names are not those of their settings.
COMMAND = {
    "--ca": "tls.caFile", "--cert": "tls.clientCertificate", "--key": "tls.clientCertificate", "--pin": "tls.pins",
    "--key-password": "tls.clientCertificate", "--ocsp-stapling": "tls.requiresOCSPStapling", "--key-log": "tls.keyLog",
    "--insecure": "tls.verifiesCertificates", "--header": "headers", "--parameter": "parameters", "--retry": "retries",
    "--no-follow": "redirects", "--max-redirects": "redirects", "--user": "authentication", "--digest": "authentication",
    "--bearer": "authentication", "--cookies": "cookies", "--cache": "cachePolicy", "--http2": "version",
    "--http3": "version", "--http3-only": "version", "--unix-socket": "unixSocketPath", "--doh": "nameResolver",
    "--dns-servers": "nameResolver", "--interface": "connectionSource", "--local-port": "localPorts",
    "--happy-eyeballs": "happyEyeballsDelay", "--netrc-file": "netrc", "--limit-rate": "maxReceiveRate",
    "--trailer": "trailers", "--gzip": "contentCoding", "--form": "parameterEncoding", "--pages": "pages",
}
# Where another section than the one that explains a setting names it more often.
PLACES = {
    "cachePolicy": "Caching.md#the-policies", "cacheVersion": "Caching.md#the-store",
    "volatileParameters": "Caching.md#whose-responses", "blocksPrivateAddresses": "Trust.md#private-addresses",
    "domain": "Distributed.md#routes", "path": "Distributed.md#routes", "method": "Distributed.md#routes",
    "domains": "Distributed.md#the-table", "environments": "Distributed.md#environments",
    "mirrors": "Distributed.md#mirrors", "events": "Realtime.md#in-the-table", "tls.caFile": "Trust.md#tls",
    "contentCoding": "Connections.md#bodies", "trailers": "Connections.md#bodies", "secretHeaders": "Trust.md#secrets",
    "secrets": "Trust.md#secrets", "netrc": "Connections.md#credentials-from-a-netrc-file",
    "tls.requiresOCSPStapling": "Trust.md#revocation",
    "connectionLifetime": "Connections.md#which-connections-are-kept",
    "nameResolver": "Connections.md#names",
    "dnsCacheLifetime": "Connections.md#which-connections-are-kept",
}
# Settings of the manager that only a program of the SDK itself needs.
HIDDEN = {"engine"}

HEAD = """# Settings

All settings by name: the property of the manager's `configuration` or of a `request`, the key of a row of the
[table](Distributed.md#the-table), the option of [`lat`](Command.md#options), and the section that explains it. An entity sets
the properties of a request, by a method of the same name or by `setting(_:_:)`.

"""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def properties(path, opening):
    """The public properties of a type, whose body ends at the bracket below its first letter."""
    text = read(path)
    start = text.index(opening)
    indent = start - text.rindex("\n", 0, start) - 1
    body = text[start:].split("\n" + " " * indent + "}\n")[0]
    return re.findall(r"\n" + " " * (indent + 4) + r"public var (\w+)", body)


def sections():
    """Each section of the pages: the page, the title, and its text."""
    found = []
    for page in PAGES:
        parts = re.split(r"(?m)^##+ (.*)$", read(f"Documentation/{page}.md"))
        found.append((page, None, parts[0]))
        found += [(page, parts[index], parts[index + 1]) for index in range(1, len(parts), 2)]
    return found


def anchor(title):
    text = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
    return text.replace(" ", "-")


def place(names, known):
    """A link to the section that has the names most often."""
    best = None
    for page, title, text in known:
        quoted = sum(len(re.findall(r"`[^`\n]*\b" + re.escape(name) + r"\b[^`\n]*`", text)) for name in names)
        dotted = sum(len(re.findall(r"\w\." + re.escape(name) + r"\b", text)) for name in names)
        score = (quoted + dotted) * (0.1 if title in LISTS or title is None or page == "Errors" else 1)
        if score and (best is None or score > best[0]):
            best = (score, page, title)
    if best is None:
        return None
    _, page, title = best
    return f"[{title or page}]({page}.md{'#' + anchor(title) if title else ''})"


def linked(target, known):
    """A link to a section, which has to be there."""
    for page, title, _ in known:
        if title and target == f"{page}.md#{anchor(title)}":
            return f"[{title}]({target})"
    sys.exit(f"error: there is no section {target}; adapt scripts/lib/settings_index.py")


def page():
    rows = {}

    def add(kind, name, shown):
        base = SAME.get(name, name)
        if base.startswith("retry."):
            base = "retryPolicy" if base != "retry.retries" else "retries"
        values = rows.setdefault(base, {}).setdefault(kind, [])
        if shown not in values:
            values.append(shown)

    manager = [name for name in properties(CONFIGURATION, "public struct Configuration") if name not in HIDDEN]
    manager += properties(ENGINE, "public struct EngineConfiguration")
    for name in manager:
        add("manager", name, f"`{name}`")
    for name in properties(TLS, "public struct TLSConfiguration"):
        add("manager", f"tls.{name}", f"`tls.{name}`")
    add("manager", "tls.verifiesCertificates", "`tls.disableCertificateVerification()`")
    for name in re.findall(r'OptionKey\("(\w+)"', read(OPTIONS)):
        add("request", name, "`accessories`" if name == "observers" else f"`{name}`")
    for name in properties(REQUEST_TLS, "public struct TLS"):
        add("request", f"tls.{name}", f"`tls.{name}`")
    keys = re.findall(r'RowKey\(\s*"([\w.]+)"', read(ROWS))
    keys += re.findall(r'\(\s*"(\w+)",\s*"[^"]*(?:\\"[^"]*)*",\s*ValueForm', read(SCHEMA))
    keys += re.findall(r'definition\(\s*"(\w+)", "', read(SCHEMA))
    keys += [name for name in ("headers", "parameters", "secretHeaders") if name not in keys]
    for name in keys:
        add("table", name, f"`{name}`")
    text = "".join(read(path) for path in COMMANDS)
    options = re.findall(r'Option\(\s*"(--[\w-]+)"', text)
    missing = [option for option in COMMAND if option not in options]
    if missing:
        sys.exit(f"error: lat request has no {', '.join(missing)}; adapt scripts/lib/settings_index.py to it")
    names = {re.sub(r"(?<!^)([A-Z]+)", lambda m: "-" + m[1].lower(), name).lower(): name for name in rows}
    for option in options:
        setting = COMMAND.get(option) or names.get(option[2:])
        if setting in rows:
            add("lat", setting, f"`{option}`")

    known = sections()
    lines = [HEAD, "| setting | manager | request | table | `lat` | page |\n", "|---|---|---|---|---|---|\n"]
    lost = []
    for name in sorted(rows, key=str.lower):
        row = rows[name]
        words = {name} | {value.strip("`") for values in row.values() for value in values if value[1] != "-"}
        name_of_group = name if name in PLACES else name.split(".")[0]
        link = linked(PLACES[name_of_group], known) if name_of_group in PLACES else place({word.removesuffix("()") for word in words}, known)
        if link is None and "." in name:
            link = place({name.split(".")[0]}, known)
        if link is None:
            lost.append(name)
        cells = [", ".join(row.get(kind, [])) for kind in ("manager", "request", "table", "lat")]
        lines.append(f"| **{name}** | {' | '.join(cells)} | {link or ''} |\n")
    if lost:
        sys.exit(f"error: no page of Documentation names {', '.join(lost)}; write a sentence about each")
    return "".join(lines)


if __name__ == "__main__":
    made = page()
    path = os.path.join(ROOT, PAGE)
    if "--check" in sys.argv:
        if not os.path.exists(path) or read(PAGE) != made:
            print(f"{PAGE}: the index of settings is not that of the source")
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)
