import FoundationEssentials
import LATTesting
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test when `openssl` cannot make certificates.
    package static var needsOpenSSL: Self {
        .enabled(if: TestCertificates.shared != nil, "needs openssl; scripts/setup --tests installs it")
    }
}

/// Certificates made by `openssl` once per test run; most are named after their fault.
package final class TestCertificates: Sendable {
    /// `nil` without `openssl`.
    package static let shared: TestCertificates? = try? TestCertificates()

    /// Whether `client-old.p12` exists. An openssl without legacy ciphers cannot make it.
    package static let hasOldArchive =
        shared.map { FileManager.default.fileExists(atPath: $0.path("client-old.p12")) } ?? false

    private let directory: TemporaryDirectory
    /// The pin of the server's key, `sha256//…`.
    package let pin: String

    /// The authority of all certificates but "stranger" and "alone".
    package var authority: String { path("ca.pem") }
    /// The certificate and key for localhost, 127.0.0.1 and *.example.org.
    package var server: String { path("server.pem") }

    package func path(_ name: String) -> String { directory.path(of: name) }

    private init() throws {
        directory = try TemporaryDirectory()
        try directory.write(Data(Self.script.utf8), to: "make.sh")
        pin =
            try ChildProcess.run("bash", ["-eu", "make.sh"], in: directory.path)
            .split(whereSeparator: \.isNewline).last { $0.hasPrefix("sha256//") }.map(String.init) ?? ""
    }

    /// Makes NAME.pem, with certificate and key, for every server certificate.
    private static let script = """
        key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$1.key" 2>/dev/null ||
            openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$1.key"; }
        authority() {
            key "$1"
            openssl req -x509 -new -key "$1.key" -sha256 -days 3 -subj "/CN=Test $1" -out "$1.pem" \\
                -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
        }
        # sign NAME AUTHORITY NAMES FROM TO
        sign() {
            key "$1"
            openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
            : >"$1.index"; echo "unique_subject = no" >"$1.index.attr"; openssl rand -hex 8 >"$1.serial"
            mkdir -p "$1.new"
            cat >"$1.cnf" <<CONFIG
        [ca]
        default_ca = own
        [own]
        database = $1.index
        serial = $1.serial
        new_certs_dir = $1.new
        default_md = sha256
        policy = any
        x509_extensions = ext
        [any]
        commonName = supplied
        [ext]
        subjectAltName = $3
        CONFIG
            openssl ca -batch -notext -config "$1.cnf" -in "$1.csr" -cert "$2.pem" -keyfile "$2.key" \\
                -startdate "$4" -enddate "$5" -out "$1.crt"
            cat "$1.crt" "$1.key" >"$1.pem"
        }
        ours="DNS:localhost,IP:127.0.0.1,DNS:*.example.org"
        authority ca
        authority other
        sign server ca "$ours" 20200101000000Z 20991231000000Z
        sign expired ca "$ours" 20200101000000Z 20210101000000Z
        sign future ca "$ours" 20980101000000Z 20991231000000Z
        sign elsewhere ca "DNS:elsewhere.example.org" 20200101000000Z 20991231000000Z
        sign stranger other "$ours" 20200101000000Z 20991231000000Z
        sign client ca "DNS:client.example.org" 20200101000000Z 20991231000000Z
        key alone
        openssl req -x509 -new -key alone.key -sha256 -days 3 -subj "/CN=localhost" -addext "subjectAltName=$ours" \\
            -out alone.crt
        cat alone.crt alone.key >alone.pem
        openssl pkey -in client.key -aes256 -passout pass:secret -out client-locked.key
        openssl pkcs12 -export -in client.crt -inkey client.key -certfile ca.pem -passout pass:secret -out client.p12
        openssl pkcs12 -export -in client.crt -inkey client.key -passout pass: -out client-open.p12
        openssl pkcs12 -export -in client.crt -inkey client.key -passout pass:secret -nomac -out client-nomac.p12
        openssl pkcs12 -export -in client.crt -inkey client.key -passout pass: -nomac -keypbe NONE -certpbe NONE \\
            -out client-plain.p12
        openssl pkcs12 -export -legacy -certpbe PBE-SHA1-RC2-40 -in client.crt -inkey client.key -passout pass:secret \\
            -out client-old.p12 || true
        # OCSP responses about the server's certificate: good and revoked from its authority, good from another one.
        openssl ocsp -issuer ca.pem -cert server.crt -reqout server.ocsp
        state() { openssl ocsp -index server.index -CA ca.pem -rsigner "$2.pem" -rkey "$2.key" -reqin server.ocsp \\
            -respout "$1.ocsp" -ndays 2; }
        state good ca
        state forged other
        openssl ca -batch -config server.cnf -revoke server.crt -cert ca.pem -keyfile ca.key
        state revoked ca
        printf 'sha256//%s\\n' "$(openssl pkey -in server.key -pubout -outform DER | openssl dgst -sha256 -binary | base64)"
        """
}

/// `openssl s_server` on a free port, which answers every request with a page about the connection.
package final class TLSServer: Sendable {
    package let port: Int
    private let process: ChildProcess

    /// - Parameters:
    ///   - certificate: The name of one of ``TestCertificates``.
    ///   - port: 0 for a free one.
    package init(_ certificate: String = "server", _ options: [String] = [], port given: Int = 0) async throws {
        guard let certificates = TestCertificates.shared else {
            throw ChildProcess.Failure(description: "openssl could not make certificates")
        }
        process = try ChildProcess(
            "openssl",
            ["s_server", "-accept", "127.0.0.1:\(given)", "-www", "-cert", certificates.path("\(certificate).pem")]
                + options)
        port = try await process.awaitOutput("a port") { output in
            // Without an address, as openssl writes it, the port is the given one.
            if given > 0 { return output.contains("ACCEPT") ? given : nil }
            return output.split(whereSeparator: \.isNewline).first { $0.hasPrefix("ACCEPT ") && $0.contains(":") }
                .flatMap { $0.split(separator: ":").last }.flatMap { Int($0) }
        }
    }

    package func url(_ host: String = "localhost") -> String { "https://\(host):\(port)/" }
}
