import FoundationEssentials
import LATTesting

/// Two authorities by `openssl ca`: a root, and one below it that signs servers; with their revocation lists.
///
/// | file | |
/// |---|---|
/// | `root.pem`, `sub.pem`, `forger.pem` | the root, the one below, and one with the name of the latter and another key |
/// | `good.server`, `bad.server` | certificate, key and chain of servers; `bad` is revoked |
/// | `good.pem`, `bad.pem` | their certificates |
/// | `root.crl`, `sub.crl`, `sub.der` | the valid lists |
/// | `all.crl` | the root's later list, in which `sub` is revoked |
/// | `old.crl`, `future.crl`, `forged.crl` | lists of `sub`: expired, not valid yet, signed by the forger |
/// | `users.crl`, `authorities.crl`, `elsewhere.crl` | lists of `sub` with a scope: only servers, only authorities, another address |
/// | `delta.crl`, `indirect.crl`, `critical.crl` | lists of `sub` of kinds that are not supported |
/// | `endless.crl`, `later.crl` | lists of `sub` in which nothing is revoked: without `nextUpdate`, and valid for 30 days |
/// | `locked.crl`, `closed.crl` | the list of `sub`, encrypted with no pass phrase and with one |
/// | `many.crl` | the valid lists among six others |
package final class RevocationAuthority: Sendable {
    package let folder: TemporaryDirectory
    /// Serves the files.
    package let lists: MockServer

    package func path(_ name: String) -> String { folder.path(of: name) }

    /// A file of this folder.
    package func data(_ name: String) -> Data { folder.read(name) ?? Data() }

    /// The first certificate of a PEM file, in DER.
    package func der(_ name: String) -> [UInt8] {
        let lines = String(decoding: data(name), as: UTF8.self).split(separator: "\n")
            .drop { $0 != "-----BEGIN CERTIFICATE-----" }.dropFirst().prefix { !$0.hasPrefix("-----") }
        return Array(Data(base64Encoded: lines.joined()) ?? Data())
    }

    /// One whose certificates name no addresses of lists, made once. Nobody asks its server.
    package static let silent = Task { try await RevocationAuthority(points: []) }

    /// - Parameter points: Which addresses of lists the certificates name, `%` standing for `root` or `sub`. Default: `/%.crl`
    ///   of ``lists``. Empty for none.
    package init(points: [String] = ["/%.crl"]) async throws {
        folder = try TemporaryDirectory()
        lists = try MockServer()
        try folder.write(Data(Self.script.utf8), to: "make.sh")
        let urls = points.map { "URI:" + ($0.hasPrefix("/") ? lists.url("/").dropLast() + $0 : $0[...]) }
        try await ChildProcess.runAside("bash", ["-eu", "make.sh", urls.joined(separator: ",")], in: folder.path)
        lists.fallback { [folder] request in
            folder.read(String(request.path.dropFirst())).map { MockReply.data($0) } ?? .status(404)
        }
    }

    /// Starts `openssl s_server`.
    ///
    /// - Parameter chain: The certificates that it sends besides its own.
    package func server(_ name: String, chain: String = "sub.pem") async throws -> TLSServer {
        let file = path("\(name).server")
        return try await TLSServer("server", ["-cert", file, "-key", file, "-cert_chain", path(chain)])
    }

    private static let script = """
        points=$1
        key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$1.key" 2>/dev/null; }
        # config NAME: the settings of an authority
        config() {
            : >"$1.index"; echo "unique_subject = no" >"$1.index.attr"; openssl rand -hex 8 >"$1.serial"; mkdir -p "$1.new"
            cat >"$1.cnf" <<CONFIG
        [ca]
        default_ca = own
        [own]
        database = $1.index
        serial = $1.serial
        new_certs_dir = $1.new
        default_md = sha256
        default_days = 3
        default_crl_days = 3
        policy = any
        [any]
        commonName = supplied
        [server]
        subjectAltName = DNS:localhost,IP:127.0.0.1
        ${points:+crlDistributionPoints = ${points//%/$1}}
        [authority]
        basicConstraints = critical,CA:TRUE
        keyUsage = critical,keyCertSign,cRLSign
        ${points:+crlDistributionPoints = ${points//%/$1}}
        [users]
        issuingDistributionPoint = critical,onlyuser:TRUE
        [authorities]
        issuingDistributionPoint = critical,onlyCA:TRUE
        [elsewhere]
        issuingDistributionPoint = critical,@other
        [other]
        fullname = URI:http://127.0.0.1/other.crl
        [indirect]
        issuingDistributionPoint = critical,indirectCRL:TRUE
        [delta]
        2.5.29.27 = critical,DER:020101
        [critical]
        1.2.3.4 = critical,DER:0500
        CONFIG
        }
        # sign NAME AUTHORITY KIND
        sign() {
            key "$1"
            openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
            openssl ca -batch -notext -config "$2.cnf" -extensions "$3" -in "$1.csr" -cert "$2.pem" -keyfile "$2.key" \\
                -out "$1.pem"
        }
        # own NAME SUBJECT: an authority that signs itself
        own() {
            [ -f "$1.key" ] || key "$1"
            openssl req -x509 -new -key "$1.key" -sha256 -days 3 -subj "/CN=$2" -out "$1.pem" \\
                -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
        }
        # list FILE CONFIG SIGNER OPTION...
        list() { openssl ca -gencrl -config "$2.cnf" -cert "$3.pem" -keyfile "$3.key" -out "$1" "${@:4}"; }
        own root Root
        config root
        sign sub root authority
        config sub
        sign good sub server
        sign bad sub server
        openssl ca -batch -config sub.cnf -revoke bad.pem -cert sub.pem -keyfile sub.key
        list root.crl root root
        list sub.crl sub sub
        list old.crl sub sub -crl_lastupdate 20200101000000Z -crl_nextupdate 20200201000000Z
        list future.crl sub sub -crl_lastupdate 20980101000000Z -crl_nextupdate 20990101000000Z
        for kind in users authorities elsewhere indirect delta critical; do list "$kind.crl" sub sub -crlexts "$kind"; done
        own forger sub
        list forged.crl sub forger
        openssl ca -batch -config root.cnf -revoke sub.pem -cert root.pem -keyfile root.key
        list all.crl root root
        openssl crl -in sub.crl -outform DER -out sub.der
        config free
        list later.crl free sub -crldays 30
        # endless SIGNATURE: the settings of a list without an end, which `openssl ca` does not make
        endless() {
            cat >endless.cnf <<CONFIG
        [list]
        tbs = SEQUENCE:tbs
        algorithm = SEQUENCE:algorithm
        signature = FORMAT:HEX,BITSTRING:$1
        [tbs]
        version = INTEGER:1
        algorithm = SEQUENCE:algorithm
        issuer = SEQUENCE:issuer
        start = UTCTIME:200101000000Z
        [algorithm]
        type = OID:ecdsa-with-SHA256
        [issuer]
        name = SET:names
        [names]
        name = SEQUENCE:name
        [name]
        type = OID:commonName
        value = UTF8:sub
        CONFIG
        }
        endless 00
        openssl asn1parse -genstr SEQUENCE:tbs -genconf endless.cnf -noout -out endless.tbs
        endless "$(openssl dgst -sha256 -sign sub.key -r -hex endless.tbs | cut -d' ' -f1)"
        openssl asn1parse -genstr SEQUENCE:list -genconf endless.cnf -noout -out endless.der
        openssl crl -inform DER -in endless.der -out endless.crl
        # locked FILE PASSWORD: encrypts as any PEM can be (RFC 1421)
        locked() {
            vector=31323334353637383132333435363738
            secret=$(printf %s "${2}12345678" | openssl dgst -md5 -r | cut -c1-32)
            echo "-----BEGIN X509 CRL-----" >"$1"
            printf 'Proc-Type: 4,ENCRYPTED\\nDEK-Info: AES-128-CBC,%s\\n\\n' "$vector" >>"$1"
            openssl enc -aes-128-cbc -K "$secret" -iv "$vector" -in sub.der -base64 >>"$1"
            echo "-----END X509 CRL-----" >>"$1"
        }
        locked locked.crl ""
        locked closed.crl word
        cp forger.key stranger.key
        for number in 1 2 3; do
            own stranger "Stranger $number"
            list stranger.crl root stranger
            cat stranger.crl >>strangers.crl
        done
        cat root.crl sub.crl >both.crl
        cat strangers.crl both.crl strangers.crl >many.crl
        for name in good bad; do cat "$name.pem" sub.pem "$name.key" >"$name.server"; done
        """
}
