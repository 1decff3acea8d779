import CLibcurl
import FoundationEssentials
internal import HTTPCore
import Synchronization

/// An alternative service of an origin, from its `Alt-Svc` field (RFC 7838 §3).
struct AlternativeService: Hashable, Sendable {
    /// The ALPN name of the protocol: `h2`, `h3`, `http/1.1`.
    var protocolName: String
    /// The host as in a URL.
    var host: String
    var port: Int
    /// When it expires, in seconds since 1970.
    var expires: Int64
    /// Whether it remains valid after a change of the network.
    var persists: Bool

    /// The field line `Alt-Used` (RFC 7838 §5).
    var usedField: String { "Alt-Used: \(host)\(port == 443 ? "" : ":\(port)")" }

    /// The ALPN name of HTTP/3 (RFC 9114 §3.1).
    static let http3 = "h3"

    /// Whether it has the host and port of the origin itself.
    func isOrigin(of target: Target) -> Bool { "https://\(host):\(port)".lowercased() == target.origin.lowercased() }
}

/// The alternative services of each origin. A pure value: the caller passes the time.
struct AlternativeList: Sendable {
    /// Services by origin, such as `https://example.org:443`, in the server's order.
    private(set) var services: [String: [AlternativeService]] = [:]
    /// The services that failed, and until when they are skipped, in seconds since 1970.
    private var broken: [Broken: Int64] = [:]

    private struct Broken: Hashable {
        let origin: String
        let protocolName: String
        let host: String
        let port: Int

        init(_ origin: String, _ service: AlternativeService) {
            (self.origin, protocolName) = (origin, service.protocolName)
            (host, port) = (service.host, service.port)
        }
    }

    /// The maximum number of origins, and of services of an origin. Of more, the first ones are kept.
    static let (limit, serviceLimit) = (1000, 16)
    /// The longest lifetime, and the highest age of a response, in seconds.
    static let longestAge: UInt64 = 100 * 365 * 86_400
    /// How long a failed service is skipped, in seconds.
    static let pause: Int64 = 300

    /// Returns the first usable service of an origin that speaks one of the protocols.
    func alternative(for target: Target, speaking protocols: Set<String>, now: Int64) -> AlternativeService? {
        guard !services.isEmpty else { return nil }
        let origin = target.origin.lowercased()
        return services[origin]?.first { service in
            service.expires > now && protocols.contains(service.protocolName)
                && broken[Broken(origin, service)].map { $0 <= now } ?? true
        }
    }

    /// Stores the value of an `Alt-Svc` field, which replaces all earlier services of the origin (RFC 7838 §3). Returns
    /// whether the list has changed.
    ///
    /// - Parameter age: The response's age in seconds, which reduces the lifetimes (§3.1).
    mutating func note(_ value: String, of target: Target, age: Int64 = 0, now: Int64) -> Bool {
        // The file has no form for a zone.
        guard target.zone == nil else { return false }
        let origin = target.origin.lowercased()
        if value.trimmingPrefix(" ").lowercased() == "clear" { return services.removeValue(forKey: origin) != nil }
        let parsed = FieldList.elements(of: value).prefix(Self.serviceLimit).compactMap {
            Self.service($0, of: target, age: age, now: now)
        }
        guard !parsed.isEmpty else { return false }
        let known = services[origin] ?? []
        let isKnown =
            known.count == parsed.count
            && zip(known, parsed).allSatisfy { old, new in
                (old.protocolName, old.host, old.port) == (new.protocolName, new.host, new.port)
                    && old.persists == new.persists && old.expires > now
                    && abs(new.expires - old.expires) < max(1, (new.expires - now) / 100)
            }
        guard !isKnown else { return false }
        if known.isEmpty, services.count >= Self.limit { makeRoom(now) }
        services[origin] = parsed
        return true
    }

    private mutating func makeRoom(_ now: Int64) {
        services = services.filter { $0.value.contains { $0.expires > now } }
        guard services.count >= Self.limit else { return }
        func end(_ list: [AlternativeService]) -> Int64 { list.map(\.expires).max() ?? 0 }
        // A tenth at once, so that a full list is not searched for each new origin.
        for (origin, _) in services.sorted(by: { end($0.value) < end($1.value) }).prefix(Self.limit / 10) {
            services[origin] = nil
        }
    }

    /// Parses one element: `h2="alt.example.org:443"; ma=86400; persist=1`.
    private static func service(
        _ text: String, of target: Target, age: Int64, now: Int64
    ) -> AlternativeService? {
        let parts = FieldList.elements(of: text, separatedBy: UInt8(ascii: ";"))
        // The name is a token (RFC 7838 §3); white space in it would corrupt the file.
        guard let first = parts.first, let equals = first.firstIndex(of: "="), first[..<equals].utf8.isToken else {
            return nil
        }
        let name = first[..<equals].replacing("%2F", with: "/").lowercased()
        let authority = FieldList.unquoted(String(first[first.index(after: equals)...]))
        guard let colon = authority.lastIndex(of: ":"),
            let port = UInt16(authority[authority.index(after: colon)...]), port > 0
        else { return nil }
        let host = authority[..<colon].isEmpty ? target.host : String(authority[..<colon])
        guard isHost(host) else { return nil }
        var lifetime = 86_400 as Int64
        var persists = false
        for part in parts.dropFirst() {
            let (name, value) = FieldList.parameter(part)
            if name == "ma", let value, let number = UInt64(value) {
                lifetime = Int64(min(number, longestAge))
            }
            if name == "persist" { persists = value == "1" }
        }
        return AlternativeService(
            protocolName: name, host: host, port: Int(port), expires: now + max(0, lifetime - age),
            persists: persists)
    }

    private static func isHost(_ text: String) -> Bool {
        (try? Target("https://\(text)/"))?.host.lowercased() == text.lowercased()
    }

    /// Skips a service for a while because it could not be used.
    mutating func setAside(_ service: AlternativeService, of target: Target, now: Int64) {
        broken = broken.filter { $0.value > now }
        broken[Broken(target.origin.lowercased(), service)] = now + Self.pause
    }

    /// Drops the services that do not persist, after a change of the network (RFC 7838 §2.2). Returns whether any was dropped.
    mutating func forgetUnlessPersisting() -> Bool {
        let before = services
        services = services.compactMapValues { list in
            let kept = list.filter(\.persists)
            return kept.isEmpty ? nil : kept
        }
        broken.removeAll()
        return services != before
    }

    // MARK: The file

    /// Adds a line of libcurl's file: `h1 example.org 443 h2 alt.example.org 443 "20271231 23:59:59" 0 0`. Returns
    /// `false` when it is malformed.
    mutating func add(line: Substring, now: Int64) -> Bool {
        let words = line.split(separator: " ")
        guard words.count == 10, let sourcePort = UInt16(words[2]), let port = UInt16(words[5]), port > 0,
            let expires = StateDate.seconds(FieldList.unquoted("\(words[6]) \(words[7])")),
            let persists = Int(words[8]), Self.isHost(String(words[1])), Self.isHost(String(words[4]))
        else { return false }
        guard expires > now else { return true }
        let origin = "https://\(words[1].lowercased()):\(sourcePort)"
        let count = services[origin]?.count ?? 0
        guard count < Self.serviceLimit else { return true }
        if count == 0, services.count >= Self.limit { makeRoom(now) }
        services[origin, default: []].append(
            AlternativeService(
                protocolName: words[3] == "h1" ? "http/1.1" : String(words[3]), host: String(words[4]), port: Int(port),
                expires: expires, persists: persists != 0))
        return true
    }

    func text(now: Int64) -> String {
        var text = "# Alt-Svc cache in libcurl's format: https://curl.se/docs/alt-svc.html\n"
        for (origin, list) in services.sorted(by: { $0.key < $1.key }) {
            guard let colon = origin.lastIndex(of: ":") else { continue }
            let host = origin[..<colon].dropFirst("https://".count)
            for service in list where service.expires > now {
                let name = service.protocolName == "http/1.1" ? "h1" : service.protocolName
                text +=
                    "h1 \(host) \(origin[origin.index(after: colon)...]) \(name) \(service.host) \(service.port) "
                    + "\"\(StateDate.text(service.expires))\" \(service.persists ? 1 : 0) 0\n"
            }
        }
        return text
    }
}

/// The alternative services of a manager's origins, with their file.
final class AlternativeServices: Sendable {
    private let list: Mutex<AlternativeList>
    private let learns: Bool
    private let file: StateFile?
    /// The protocols that an alternative may have. HTTP/3 is handled separately (``OriginStore``).
    static let protocols: Set<String> =
        GlobalCurl.has(CURL_VERSION_HTTP2) ? ["h2", "http/1.1"] : ["http/1.1"]

    /// Makes the list and reads its file; `nil` when the setting is off.
    init?(_ configuration: EngineConfiguration) throws(NetworkError) {
        guard configuration.altSvc != .off else { return nil }
        learns = configuration.tls.verifiesCertificates
        var list = AlternativeList()
        if case .file(let path) = configuration.altSvc {
            // All services of an origin are announced at once.
            let file = StateFile(path, "altSvc", warn: configuration.warn) { line in
                line.split(separator: " ").prefix(3).joined(separator: " ")
            }
            let now = HSTSStore.now
            let form = "h1 example.org 443 h2 alt.example.org 443 \"20271231 23:59:59\" 0 0"
            try file.read(expecting: form) { list.add(line: $0, now: now) }
            self.file = file
        } else {
            file = nil
        }
        self.list = Mutex(list)
    }

    /// Returns a service of an origin that speaks one of the protocols, given by their ALPN names.
    func alternative(for target: Target, speaking protocols: Set<String>) -> AlternativeService? {
        guard target.isSecure else { return nil }
        let now = HSTSStore.now
        return list.withLock { $0.alternative(for: target, speaking: protocols, now: now) }
    }

    func note(_ response: HTTPResponse, of target: Target) {
        // A 421 comes from a server that is not authoritative for the origin (RFC 7838 §6).
        guard learns, target.isSecure, response.status != 421 else { return }
        let values = response.headers[values: "Alt-Svc"]
        guard !values.isEmpty else { return }
        let now = HSTSStore.now
        let age = response.headers["Age"].flatMap(UInt64.init) ?? 0
        change {
            $0.note(
                values.joined(separator: ", "), of: target, age: Int64(min(age, AlternativeList.longestAge)), now: now)
        }
    }

    func setAside(_ service: AlternativeService, of target: Target) {
        let now = HSTSStore.now
        list.withLock { $0.setAside(service, of: target, now: now) }
    }

    func networkHasChanged() { change { $0.forgetUnlessPersisting() } }

    private func change(_ body: (inout AlternativeList) -> Bool) {
        guard list.withLock({ body(&$0) }) else { return }
        file?.follow { [self] in list.withLock { $0 }.text(now: HSTSStore.now) }
    }

    func flush() async { await file?.flush() }
}
