#!/usr/bin/env bash
# Guess:    a search that runs into the size limit of the server (500 entries in slapd, unless it is told otherwise) is a failure for
#           the client: it raises or returns False; at the latest with `raise_exceptions=True`. A search in pages gets all entries.
# Version:  ldap3 2.9.1 and ldaptor 21.2.0 from PyPI, slapd and ldapsearch 2.5.13 (Debian 12) with their defaults.
# Found:    `search()` of ldap3 returns True with 500 of 600 entries, with each strategy and with `raise_exceptions=True`.
#           slapd counts the limit over all pages: `paged_search()` and Reader end at 500 without an error as well. The only sign
#           is `connection.result`. ldaptor returns the 500 without any sign. ldapsearch exits with 4.
# Seen:     of 600 persons
#           ldap3 search, raise_exceptions, SAFE_SYNC   True, 500
#           ldap3 paged_search of 100, Reader           500
#           ldaptor LDAPEntry.search                    500
#           ldapsearch, also in pages                   exit code 4
# Matters:  a nightly sync of users takes those that it has not got for deleted: from the 501st on accounts are closed, in no order
#           that anybody knows. Up to 500 people every test is right.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { (cd "$work" && apt-get download -q -o APT::Sandbox::User=root slapd ldap-utils libldap-2.5-0 libltdl7 libodbc2 \
    && for package in *.deb; do dpkg -x "$package" root; done) \
    && python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check ldap3==2.9.1 ldaptor==21.2.0; \
    } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import os, socket, subprocess, sys, time

import ldap3
from ldaptor.protocols.ldap import ldapclient, ldapsyntax
from twisted.internet import defer, endpoints, reactor

work = sys.argv[1]
root, people, find = f"{work}/root", 600, "(objectClass=person)"
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
os.mkdir(f"{work}/database")
schemas = "".join(f"include {root}/etc/ldap/schema/{name}.schema\n" for name in ("core", "cosine"))
with open(f"{work}/slapd.conf", "w") as file:
    file.write(f"""{schemas}
modulepath {root}/usr/lib/ldap
moduleload back_mdb
database mdb
suffix "dc=example"
directory {work}/database
""")
with open(f"{work}/people.ldif", "w") as file:
    file.write("dn: dc=example\nobjectClass: dcObject\nobjectClass: organization\no: example\ndc: example\n\n")
    file.writelines(f"dn: cn=p{number},dc=example\nobjectClass: person\ncn: p{number}\nsn: x\n\n" for number in range(people))
environment = {**os.environ, "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu:{root}/usr/lib/ldap", "LDAPNOINIT": "1"}
filled = subprocess.run(
    [f"{root}/usr/sbin/slapadd", "-q", "-f", f"{work}/slapd.conf", "-l", f"{work}/people.ldif"], env=environment)
if filled.returncode != 0:
    sys.exit(2)
url = f"ldap://127.0.0.1:{port}"

def connected(**options):
    return ldap3.Connection(ldap3.Server("127.0.0.1", port=port), auto_bind=True, **options)

def searched(**options):
    connection = connected(**options)
    result = connection.search("dc=example", find, attributes=["cn"])
    if isinstance(result, tuple):
        return result[0], len(result[2]), result[1]["description"]
    return result, len(connection.entries), connection.result["description"]

def with_pages():
    pages = connected().extend.standard.paged_search("dc=example", find, attributes=["cn"], paged_size=100)
    return len(list(pages))

def with_reader():
    connection = connected()
    return len(list(ldap3.Reader(connection, ldap3.ObjectDef("person", connection), "dc=example").search_paged(100)))

def with_ldapsearch(*options):
    done = subprocess.run(
        [f"{root}/usr/bin/ldapsearch", "-x", "-LLL", "-H", url, "-b", "dc=example", *options, find, "cn"], env=environment,
        capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.count("dn: ")

def with_ldaptor():
    outcome = []

    @defer.inlineCallbacks
    def run():
        endpoint = endpoints.TCP4ClientEndpoint(reactor, "127.0.0.1", port)
        client = yield endpoints.connectProtocol(endpoint, ldapclient.LDAPClient())
        try:
            yield client.bind()
            entries = yield ldapsyntax.LDAPEntry(client, "dc=example").search(filterText=find, attributes=["cn"])
            outcome.append(len(entries))
        except Exception as error:
            outcome.append(type(error).__name__)
        client.transport.loseConnection()

    run().addBoth(lambda _: reactor.callLater(0, reactor.stop))
    reactor.run()
    return outcome[0]

server = subprocess.Popen(
    [f"{root}/usr/sbin/slapd", "-f", f"{work}/slapd.conf", "-h", url, "-d", "0"], env=environment, stderr=subprocess.DEVNULL)
try:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline or server.poll() is not None:
                print("slapd did not start", file=sys.stderr)
                sys.exit(2)
            time.sleep(0.05)
    found = {
        "ldap3 search": searched(), "ldap3 raise_exceptions": searched(raise_exceptions=True),
        "ldap3 SAFE_SYNC": searched(client_strategy=ldap3.SAFE_SYNC),
        "ldap3 RESTARTABLE": searched(client_strategy=ldap3.RESTARTABLE),
        "ldap3 paged_search": with_pages(), "ldap3 Reader": with_reader(), "ldaptor": with_ldaptor(),
        "ldapsearch": with_ldapsearch(), "ldapsearch pages": with_ldapsearch("-E", "pr=100/noprompt"),
    }
finally:
    server.terminate()
    server.wait()
for name, outcome in found.items():
    print(f"{name:23} {outcome}")
part = (True, 500, "sizeLimitExceeded")
as_found = found == {
    "ldap3 search": part, "ldap3 raise_exceptions": part, "ldap3 SAFE_SYNC": part, "ldap3 RESTARTABLE": part,
    "ldap3 paged_search": 500, "ldap3 Reader": 500, "ldaptor": 500, "ldapsearch": (4, 500),
    "ldapsearch pages": (4, 500),
}
print("as found: 500 of 600 are all" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
