import Dispatch
import FoundationEssentials
import Glibc
import LATNetworking

/// Checks the steps of a request one after the other, and stops at the first failure.
struct DoctorExamination: Sendable {
    private let url: String?
    private let timeout: Duration
    private let engine: CurlTransport
    /// A transport without a proxy, for checks of direct connections.
    private let direct: CurlTransport
    private let host: String
    private let port: Int
    private let isSecure: Bool

    /// - Throws: ``NetworkError`` for an unusable URL or setting.
    init(url: String?, timeout: Duration, configuration: CentralRequestManager.Configuration) throws {
        self.url = url
        self.timeout = timeout
        engine = try CurlTransport(configuration: configuration.engine)
        var without = configuration.engine
        without.proxy = .direct
        direct = try CurlTransport(configuration: without)
        guard let url else {
            (host, port, isSecure) = ("", 0, false)
            return
        }
        guard let origin = URLReference.origin(of: url), let colon = origin.lastIndex(of: ":"),
            let port = Int(origin[origin.index(after: colon)...])
        else {
            throw NetworkError(
                .invalidRequest,
                message: "\"\(SafeText.line(url))\" has no usable host or port; write https://HOST:PORT/")
        }
        isSecure = origin.hasPrefix("https:")
        self.port = port
        // The zone of an IPv6 address is written `%25eth0` in a URL, and `%eth0` elsewhere (RFC 6874 §2).
        host = origin[..<colon].drop { $0 != "/" }.dropFirst(2).filter { $0 != "[" && $0 != "]" }
            .replacing("%25", with: "%")
    }

    /// The steps, each as soon as it is done.
    var steps: AsyncStream<DoctorStep> {
        AsyncStream { continuation in
            let work = Task {
                await examine { continuation.yield($0) }
                continuation.finish()
            }
            continuation.onTermination = { _ in work.cancel() }
        }
    }

    private func examine(_ tell: (DoctorStep) -> Void) async {
        func passes(_ step: DoctorStep) -> Bool {
            tell(step)
            return step.outcome != .failure
        }
        tell(Self.libcurl(LibcurlInfo.current))
        tell(Self.network(NetworkInterface.all))
        guard let url else { return tell(Self.proxies(ProcessInfo.processInfo.environment)) }
        let connection = await engine.connect(for: request(url))
        if let proxy = connection.proxy {
            guard passes(Self.proxy(proxy, connection)) else { return }
        } else {
            let (step, addresses) = await name()
            guard passes(step), passes(await connections(to: addresses)) else { return }
        }
        if isSecure {
            guard passes(await tls(url, connection)) else { return }
        } else if let error = connection.error {
            let advice = "it worked a moment ago; run this again, and check the load of the network"
            return tell(DoctorStep(name: "connect", outcome: .failure, finding: error.message, advice: advice))
        }
        for step in await http(url) { tell(step) }
    }

    private func request(_ url: String) -> HTTPRequest {
        var request = HTTPRequest("GET", url)
        request.timeout = timeout
        request.connectTimeout = timeout
        return request
    }

    // MARK: This machine

    static func libcurl(_ facts: LibcurlInfo) -> DoctorStep {
        DoctorStep(
            name: "libcurl", outcome: facts.tls == nil ? .warning : .good,
            finding: facts.version + (facts.tls.map { " with \($0)" } ?? " without TLS"),
            details: ["has " + facts.features.joined(separator: ", ")]
                + (facts.missing.isEmpty ? [] : ["lacks " + facts.missing.joined(separator: ", ")])
                + facts.consequences.map { lack in
                    "without \(lack.feature): " + lack.effect
                        + (lack.refused.map { "; refused: " + ErrorWords().replaced($0) } ?? "")
                },
            advice: facts.tls == nil ? "https needs a libcurl with TLS; install libcurl4" : nil)
    }

    static func network(_ interfaces: [NetworkInterface]) -> DoctorStep {
        let running = interfaces.filter(\.isRunning)
        let details = running.filter { $0.kind != .loopback }.map {
            "\($0.name): \($0.kind.rawValue)" + ($0.hasDefaultRoute ? ", default route" : "")
        }
        if let first = running.first(where: \.hasDefaultRoute) {
            return DoctorStep(name: "network", finding: "\(first.kind.rawValue), by \(first.name)", details: details)
        }
        return DoctorStep(
            name: "network", outcome: .warning,
            finding: running.contains { $0.kind != .loopback } ? "no default route" : "only loopback",
            details: details, advice: "servers elsewhere need a default route; check ip route")
    }

    static func proxies(_ environment: [String: String]) -> DoctorStep {
        let names = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"]
        let set = names.filter { environment[$0]?.isEmpty == false }
        return DoctorStep(
            name: "proxy", finding: set.isEmpty ? "none is set" : "set by \(set.joined(separator: ", "))")
    }

    // MARK: Connection

    private static func proxy(_ proxy: String, _ connection: ConnectionReport) -> DoctorStep {
        var step = DoctorStep(name: "proxy", finding: proxy, duration: connection.latency)
        if let address = connection.address { step.details = ["reached at \(address), port \(connection.port)"] }
        guard let error = connection.error, Reachability.UnreachableReason(connection) != .tls else { return step }
        step.outcome = .failure
        step.details.append(error.message)
        step.advice =
            switch Reachability.UnreachableReason(connection) {
            case .dns: "the proxy cannot resolve the name; check it for a typo"
            case .refused, .network, .timeout: "the proxy cannot reach the server; ask its operator"
            default: "check the proxy's address and credentials, or use none: --proxy \"\""
            }
        return step
    }

    /// Resolves the name; an address needs no look-up.
    private func name() async -> (DoctorStep, [String]) {
        let start = ContinuousClock.now
        let result = await NameLookup.addresses(of: host)
        var step = DoctorStep(name: "name", finding: host, duration: ContinuousClock.now - start)
        switch result {
        case .success(let addresses):
            step.details = addresses == [host] ? [] : [addresses.joined(separator: ", ")]
            return (step, addresses)
        case .failure(let failure):
            step.outcome = .failure
            step.finding = "\(host): \(failure.message)"
            let servers = NameLookup.servers
            let names = servers.isEmpty ? "none in /etc/resolv.conf" : servers.joined(separator: ", ")
            step.details = ["name servers: \(names)"]
            step.advice =
                failure.isTemporary
                ? "no name server answers; check whether they can be reached, and /etc/resolv.conf"
                : "check the name for a typo; if it is right, its name server does not have it"
            return (step, [])
        }
    }

    static func url(of address: String, _ port: Int) -> String {
        let host = address.contains(":") ? "[\(address.replacing("%", with: "%25"))]" : address
        return "http://\(host):\(port)/"
    }

    /// Connects to each of the first four addresses separately. A connection to the name would hide an address that
    /// does not respond: it would only take longer.
    private func connections(to addresses: [String]) async -> DoctorStep {
        var reports: [(address: String, report: ConnectionReport)] = []
        for address in addresses.prefix(4) {
            reports.append((address, await direct.connect(for: request(Self.url(of: address, port)))))
        }
        let good = reports.filter { $0.report.error == nil }
        var step = DoctorStep(name: "tcp", finding: "port \(port)")
        step.details = reports.map { address, report in
            if let latency = report.latency { return "\(address): connected in \(Quantity.duration(latency))" }
            return "\(address): \(Reachability.UnreachableReason(report)?.rawValue ?? "other")"
        }
        if let first = good.first {
            step.finding = "\(first.address), port \(port)"
            step.duration = first.report.latency
            if let local = first.report.localAddress { step.details.append("from \(local)") }
            if good.count < reports.count {
                step.outcome = .warning
                step.advice =
                    "an address that does not answer slows connections down; repair the server or remove its DNS record"
            }
            return step
        }
        step.outcome = .failure
        step.advice =
            switch reports.first.flatMap({ Reachability.UnreachableReason($0.report) }) {
            case .refused: "nothing listens on port \(port); is the server running, and is the port right?"
            case .timeout: "no answer: a firewall drops the packets, or the machine is off; try from elsewhere"
            case .network: "there is no route; check ip route, and whether the server is on this network"
            default: reports.first?.report.error?.message ?? "the name has no address"
            }
        return step
    }

    private func tls(_ url: String, _ connection: ConnectionReport) async -> DoctorStep {
        var step = DoctorStep(name: "tls", finding: "the certificate is trusted")
        if let tls = connection.timings.tls, let connect = connection.timings.connect { step.duration = tls - connect }
        var certificates = connection.certificates
        if let error = connection.error {
            step.outcome = .failure
            step.finding = error.message
            step.duration = nil
            if certificates.isEmpty {
                // This connection is only for reading the certificate. Nothing is sent over it.
                var options = ConnectionOptions()
                options.verifiesCertificate = false
                certificates = await engine.connect(for: request(url), options: options).certificates
            }
            step.advice = CertificateAdvice.next(after: error, certificates.first, host: host)
        }
        if let own = certificates.first {
            step.details += CertificateAdvice.facts(of: own)
            if step.outcome == .good, let advice = CertificateAdvice.ofExpiry(own, now: .now) {
                step.outcome = .warning
                step.advice = advice
            }
        }
        return step
    }

    // MARK: HTTP

    private func http(_ url: String) async -> [DoctorStep] {
        var request = request(url)
        // Only the head matters; the body is abandoned.
        request.streamsBody = true
        do {
            let sent = Date.now
            let response = try await engine.send(request)
            let received = Date.now
            var step = DoctorStep(
                name: "http", finding: "\(response.version) \(response.status) \(response.reason)",
                duration: response.timings.firstByte)
            for name in ["Server", "Location", "Content-Type", "WWW-Authenticate"] {
                if let value = response.headers[name] {
                    step.details.append("\(name): \(Secrets.standard.shown(value, of: name))")
                }
            }
            switch response.status {
            case 400...499:
                step.outcome = .refusal
                step.advice = "the connection works; check path, parameters and credentials"
            case 500...:
                step.outcome = .refusal
                step.advice = "the connection works, but the server, or one behind it, fails: check its log"
            default: break
            }
            return [step] + Self.clock(response.headers, between: sent, and: received)
        } catch {
            let message = (error as? NetworkError)?.message ?? "\(error)"
            return [
                DoctorStep(
                    name: "http", outcome: .failure, finding: message,
                    advice: "the connection opens but no response comes; does this port use HTTP?")
            ]
        }
    }

    /// Compares the clocks. The server sets `Date` between the request and the response, in whole seconds, or so many seconds
    /// before as a cache on the way says in `Age` (RFC 9111 §5.1).
    static func clock(_ headers: HTTPHeaders, between sent: Date, and received: Date) -> [DoctorStep] {
        guard let made = headers["Date"].flatMap(HTTPDate.parse) else { return [] }
        let date = made.addingTimeInterval(Double(headers["Age"].flatMap { UInt32($0) } ?? 0))
        let early = sent.timeIntervalSince(date) - 1
        let late = date.timeIntervalSince(received)
        let skew = max(early, late)
        guard skew > 1 else { return [DoctorStep(name: "clock", finding: "within two seconds of the server's")] }
        let words = "\(early > late ? "ahead of" : "behind") the server's by \(Quantity.duration(.seconds(skew)))"
        return [
            DoctorStep(
                name: "clock", outcome: skew > 60 ? .warning : .good, finding: words,
                advice: skew > 60
                    ? "certificates, signed requests and caches need correct clocks; set them by NTP" : nil)
        ]
    }
}

/// Asks the system's resolver for the addresses of a name.
enum NameLookup {
    struct Failure: Error {
        let message: String
        /// Whether no name server answered, as opposed to an unknown name.
        let isTemporary: Bool
    }

    /// The addresses in the system's order of preference, without duplicates.
    static func addresses(of host: String) async -> Result<[String], Failure> {
        await withCheckedContinuation { continuation in
            // The call blocks for as long as resolv.conf allows.
            DispatchQueue(label: "lat.lookup").async { continuation.resume(returning: lookUp(host)) }
        }
    }

    private static func lookUp(_ host: String) -> Result<[String], Failure> {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            return .failure(Failure(message: String(cString: gai_strerror(code)), isTemporary: code == EAI_AGAIN))
        }
        defer { freeaddrinfo(list) }
        var addresses: [String] = []
        var entry = list
        while let current = entry?.pointee {
            entry = current.ai_next
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let code = getnameinfo(
                current.ai_addr, current.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
            guard code == 0 else { continue }
            let address = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if !addresses.contains(address) { addresses.append(address) }
        }
        return .success(addresses)
    }

    /// The name servers in `/etc/resolv.conf`.
    static var servers: [String] {
        let text = String(decoding: FileManager.default.contents(atPath: "/etc/resolv.conf") ?? Data(), as: UTF8.self)
        let lines = text.split(whereSeparator: \.isNewline).map { $0.split(whereSeparator: \.isWhitespace) }
        return lines.filter { $0.count > 1 && $0[0] == "nameserver" }.map { String($0[1]) }
    }
}
