import LATNetworking

/// The options of `lat request` on connections and their speed.
struct ConnectionArguments {
    let resolver: EngineConfiguration.NameResolver?
    let ports: ClosedRange<Int>?
    let happyEyeballsDelay: Duration?
    let rate: Int64?
    let prewarm: Int
    let trailers: HTTPHeaders
    let certificate: ClientCertificate?
    /// Addresses by host and port.
    let addresses: [String: String]
    let connectTo: [String]
    let choice: RequestOptions.Addresses?
    let arguments: ParsedArguments

    /// - Parameter url: The URL of the request. `--resolve HOST:ADDRESS` applies to its port, 80 and 443.
    init(_ arguments: ParsedArguments, url: String) throws(UsageError) {
        self.arguments = arguments
        resolver = try Self.resolver(arguments)
        ports = try Self.ports(arguments)
        happyEyeballsDelay = try DurationArgument.parse(arguments, of: Self.happyEyeballs)
        rate = try Self.rate(arguments)
        prewarm = try arguments.number(Self.prewarm, 1...100) ?? 0
        trailers = try HeaderArgument.parse(arguments.values(Self.trailer), of: Self.trailer)
        certificate = try Self.certificate(arguments)
        addresses = try Self.addresses(arguments.values(Self.resolve), for: url)
        connectTo = try Self.connectTo(arguments.values(Self.connectToOption))
        choice = try arguments.choice(
            Self.addressesOption, "pickFirst, roundRobin or leastRequest")
    }

    var netrc: EngineConfiguration.NetrcPolicy {
        arguments.value(Self.netrcFile).map { .file($0) } ?? (arguments.contains(Self.netrc) ? .home : .off)
    }
    var hsts: String? { arguments.value(Self.hsts) }
    var altSvc: String? { arguments.value(Self.altSvc) }
    var authority: String? { arguments.value(Option.authority) }
    var isInsecure: Bool { arguments.contains(Self.insecure) }
    var pins: [String] { arguments.values(Self.pin) }
    var requiresStapling: Bool { arguments.contains(Self.ocspStapling) }

    /// Whether files are written besides the response.
    var keepsFiles: Bool { hsts != nil || altSvc != nil }

    func apply(to configuration: inout CentralRequestManager.Configuration) {
        if let resolver { configuration.nameResolver = resolver }
        configuration.connectionSource = arguments.value(Self.interface).map { text in
            IPAddress(text) == nil ? .interface(text) : .address(text)
        }
        configuration.localPorts = ports
        if let happyEyeballsDelay { configuration.happyEyeballsDelay = happyEyeballsDelay }
        configuration.netrc = netrc
        if let hsts { configuration.hsts = .file(hsts) }
        if let altSvc { configuration.altSvc = .file(altSvc) }
        configuration.tls.caFile = authority
        configuration.tls.requiresOCSPStapling = requiresStapling
        if let keyLog = arguments.value(Self.keyLog) { configuration.tls.keyLog = .file(path: keyLog) }
        configuration.tls.clientCertificate = certificate
        if isInsecure { configuration.tls.disableCertificateVerification() }
        configuration.resolve = addresses
        configuration.connectTo = connectTo
        configuration.maxConnectionsPerHost = max(configuration.maxConnectionsPerHost, prewarm)
    }

    func apply(to request: inout HTTPRequest) {
        request.maxReceiveRate = rate
        request.maxSendRate = rate
        request.addresses = choice
        if arguments.contains(Self.gzip) { request.contentCoding = .gzip }
        if arguments.contains(Self.anyDigest) { request.digests.checks = false }
        request.tls.pins = pins
        if !trailers.fields.isEmpty {
            request.trailers = HTTPRequest.Trailers(trailers.fields.map(\.name)) { [trailers] in trailers }
        }
    }
}

// MARK: Options

extension ConnectionArguments {
    static let doh = Option(
        "--doh", value: "URL", help: "Resolves names over HTTPS: https://dns.example.org/dns-query."
    )
    static let dnsServers = Option(
        "--dns-servers", value: "LIST", help: "Uses these DNS servers, separated by commas. Needs c-ares.")
    static let interface = Option(
        "--interface", value: "NAME|ADDRESS", help: "Connects from a network interface or an address of this machine.")
    static let localPort = Option(
        "--local-port", value: "N[-M]", help: "Connects from this port, or the first free one of a range.")
    static let happyEyeballs = Option(
        "--happy-eyeballs", value: "TIME",
        help: "How long one of IPv6 and IPv4 is tried before the other is tried too. Default: 200ms.")
    static let netrc = Option("--netrc", help: "Takes the host's user and password from ~/.netrc.")
    static let netrcFile = Option(
        "--netrc-file", value: "FILE", help: "Takes the host's user and password from a netrc file.")
    static let hsts = Option(
        "--hsts", value: "FILE", help: "Uses TLS for hosts that ask for it (HSTS), and remembers them in the file.")
    static let altSvc = Option(
        "--alt-svc", value: "FILE", help: "Uses alternative services (Alt-Svc), and remembers them in the file.")
    static let limitRate = Option(
        "--limit-rate", value: "N[K|M|G]", help: "Limits the bytes per second, in each direction.")
    static let prewarm = Option("--prewarm", value: "N", help: "Opens N connections before the request is sent.")
    static let anyDigest = Option(
        "--any-digest", help: "Takes a body that does not agree with the digest of its response.")
    static let gzip = Option("--gzip", help: "Compresses the body. Use it only for servers that accept this.")
    static let resolve = Option(
        "--resolve", value: "HOST:PORT:ADDRESS", repeats: true,
        help: "Connects to this address for a host and port. HOST:ADDRESS, without a port, applies to ports 80 and 443 "
            + "and to that of the URL; write an IPv6 address in brackets there.")
    static let addressesOption = Option(
        "--addresses", value: "POLICY",
        help: "Which address of a name is connected to: pickFirst, roundRobin or leastRequest. Default: pickFirst.")
    static let connectToOption = Option(
        "--connect-to", value: "HOST:PORT:HOST2:PORT2", repeats: true,
        help: "Connects to HOST2 and PORT2 instead of HOST and PORT; an empty HOST or PORT matches any.")
    static let cert = Option(
        "--cert", value: "FILE", help: "Identifies this client by a certificate: PEM with its key, or .p12.")
    static let key = Option("--key", value: "FILE", help: "The key of --cert, when it is in a separate PEM file.")
    static let keyPassword = Option(
        "--key-password", value: "TEXT", help: "The password of the key, or of the .p12 file.")
    static let insecure = Option("--insecure", "-k", help: "Trusts any certificate. For servers of your own only.")
    static let pin = Option(
        "--pin", value: "sha256//BASE64", repeats: true,
        help: "Accepts only a server with this public key; several are alternatives.")
    static let ocspStapling = Option(
        "--ocsp-stapling", help: "Requires the server to prove that its certificate is not revoked.")
    static let keyLog = Option(
        "--key-log", value: "FILE", help: "Writes the TLS keys to a file, for Wireshark. They decrypt all traffic.")
    static let trailer = Option(
        "--trailer", value: "'K: V'", repeats: true,
        help: "A trailer field after the body, which is sent chunked over HTTP/1.1.")

    static let options = [
        doh, dnsServers, interface, localPort, happyEyeballs, netrc, netrcFile, hsts, altSvc, limitRate, prewarm, gzip,
        anyDigest,
        trailer, resolve, connectToOption, addressesOption, Option.authority, cert, key, keyPassword, insecure, pin,
        ocspStapling,
        keyLog,
    ]
}

// MARK: Arguments

extension ConnectionArguments {
    private static func resolver(_ arguments: ParsedArguments) throws(UsageError) -> EngineConfiguration.NameResolver? {
        try arguments.refuse(doh, with: dnsServers)
        if let url = arguments.value(doh) { return .https(url) }
        return arguments.value(dnsServers).map { list in
            .servers(list.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        }
    }

    private static func certificate(_ arguments: ParsedArguments) throws(UsageError) -> ClientCertificate? {
        guard let path = arguments.value(cert) else {
            for option in [key, keyPassword] where arguments.contains(option) {
                throw UsageError("\(option.name) needs a certificate; add \(cert.name) FILE")
            }
            return nil
        }
        let password = arguments.value(keyPassword)
        guard path.lowercased().hasSuffix(".p12") || path.lowercased().hasSuffix(".pfx") else {
            return .pem(certificate: path, key: arguments.value(key) ?? path, password: password)
        }
        guard !arguments.contains(key) else {
            throw UsageError("\(key.name) is not for \(SafeText.line(path)), which has its key in it; leave it out")
        }
        return .pkcs12(path: path, password: password ?? "")
    }

    private static func addresses(_ values: [String], for url: String) throws(UsageError) -> [String: String] {
        var addresses: [String: String] = [:]
        for value in values {
            let parts = value.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            let isWhole = parts.count == 3 && UInt16(parts[1]) != nil
            let address = String(value.drop { $0 != ":" }.dropFirst(isWhole ? parts[1].count + 2 : 1))
            let isAddress = address.split(separator: ",", omittingEmptySubsequences: false).allSatisfy { part in
                let isBracketed = part.hasPrefix("[") && part.hasSuffix("]")
                return IPAddress(String(isBracketed ? part.dropFirst().dropLast() : part)) != nil
            }
            guard !parts[0].isEmpty, isAddress else {
                throw UsageError(
                    "\(resolve.name) \"\(SafeText.line(value))\" does not end with an IP address; write "
                        + "HOST:PORT:ADDRESS, such as example.org:443:127.0.0.1")
            }
            let port = URLReference.origin(of: url)?.split(separator: ":").last ?? "80"
            for port in isWhole ? [parts[1]] : ["80", "443", port] { addresses["\(parts[0]):\(port)"] = address }
        }
        return addresses
    }

    private static func connectTo(_ values: [String]) throws(UsageError) -> [String] {
        for value in values where value.count(where: { $0 == ":" }) < 3 {
            throw UsageError(
                "\(connectToOption.name) \"\(SafeText.line(value))\" is not of the form HOST:PORT:HOST2:PORT2; write "
                    + "::127.0.0.1:8080 for any host and port")
        }
        return values
    }

    private static func ports(_ arguments: ParsedArguments) throws(UsageError) -> ClosedRange<Int>? {
        guard let text = arguments.value(localPort) else { return nil }
        let numbers = text.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count <= 2, let first = numbers[0], let last = numbers[numbers.count - 1], first > 0,
            first <= last,
            last < 65_536
        else {
            throw UsageError(
                "\(localPort.name) \"\(SafeText.line(text))\" is not a port from 1 to 65535; write 4000 or 4000-4100")
        }
        return first...last
    }

    private static func rate(_ arguments: ParsedArguments) throws(UsageError) -> Int64? {
        guard let text = arguments.value(limitRate) else { return nil }
        let units: [Character: Int64] = ["K": 1 << 10, "M": 1 << 20, "G": 1 << 30]
        let unit = text.last.flatMap { units[Character($0.uppercased())] }
        guard let number = Int64(unit == nil ? text : String(text.dropLast())), number > 0,
            case let (rate, isTooMuch) = number.multipliedReportingOverflow(by: unit ?? 1), !isTooMuch
        else {
            throw UsageError(
                "\(limitRate.name) \"\(SafeText.line(text))\" is not a number of bytes; write 500K, 2M or a number above 0"
            )
        }
        return rate
    }
}
