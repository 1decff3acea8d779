import CLibcurl
import Glibc
internal import HTTPCore
import Synchronization

/// A parsed `Strict-Transport-Security` field (RFC 6797 §6.1).
struct StrictTransportSecurity: Hashable {
    /// In seconds; 0 removes the host from the list.
    let maxAge: Int64
    let includesSubdomains: Bool

    /// Parses a value; `nil` when `max-age` is missing or not a number, or a directive occurs twice.
    init?(_ value: String) {
        var names = Set<String>()
        var maxAge: Int64?
        for part in FieldList.elements(of: value, separatedBy: UInt8(ascii: ";")) {
            let (name, value) = FieldList.parameter(part)
            guard names.insert(name).inserted else { return nil }
            guard name == "max-age" else { continue }
            guard let value, !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            maxAge = Int64(value) ?? .max
        }
        guard let maxAge else { return nil }
        self.maxAge = maxAge
        includesSubdomains = names.contains("includesubdomains")
    }
}

/// The hosts that require TLS. A pure value: the caller passes the time.
struct HSTSList: Hashable, Sendable {
    struct Entry: Hashable, Sendable {
        /// In seconds since 1970; the largest number means no expiry.
        var expires: Int64
        var includesSubdomains: Bool
    }

    private(set) var entries: [String: Entry] = [:]

    /// The maximum number of hosts. Those that expire first are dropped first.
    static let limit = 10_000

    /// Returns the name under which a host is stored; `nil` for an IP address, which HSTS excludes (RFC 6797 §8.1.1).
    static func name(of host: String) -> String? {
        let bare = HostName.bare(host)
        return bare.isEmpty || IPAddress(host: bare) != nil ? nil : bare
    }

    /// Returns the name of a host that was written by hand, in ASCII; `nil` for what is not the name of a host alone.
    private static func name(written host: String) -> String? {
        let isPlain = host.utf8.allSatisfy { byte in
            byte >= 0x80 || (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20) || byte == 0x2D
                || byte == 0x2E || byte == 0x5F
        }
        guard isPlain else { return nil }
        guard host.utf8.contains(where: { $0 >= 0x80 }) else { return name(of: host) }
        return (try? Target("https://\(host)/")).flatMap { name(of: $0.host) }
    }

    /// Whether the list contains a host, or a parent domain that includes subdomains.
    func covers(_ host: String, now: Int64) -> Bool {
        guard !entries.isEmpty, let name = Self.name(of: host) else { return false }
        if let entry = entries[name], entry.expires > now { return true }
        var rest = name[...]
        while let dot = rest.firstIndex(of: ".") {
            rest = rest[rest.index(after: dot)...]
            if let entry = entries[String(rest)], entry.includesSubdomains, entry.expires > now { return true }
        }
        return false
    }

    /// Stores a host's policy. Returns whether the file has to be written.
    mutating func note(_ policy: StrictTransportSecurity, of host: String, now: Int64) -> Bool {
        guard let name = Self.name(of: host) else { return false }
        guard policy.maxAge > 0 else { return entries.removeValue(forKey: name) != nil }
        let (sum, isTooMuch) = now.addingReportingOverflow(policy.maxAge)
        let entry = Entry(expires: isTooMuch ? .max : sum, includesSubdomains: policy.includesSubdomains)
        // Every response repeats the field, so a slightly later expiry alone does not cause a write.
        if let known = entries[name], known.includesSubdomains == entry.includesSubdomains, known.expires > now,
            entry.expires == .max
                ? known.expires == .max : abs(entry.expires - known.expires) < max(1, policy.maxAge / 100)
        {
            return false
        }
        add(name, entry, now: now)
        return true
    }

    mutating func add(_ name: String, _ entry: Entry, now: Int64) {
        if entries[name] == nil, entries.count >= Self.limit {
            entries = entries.filter { $0.value.expires > now }
            if entries.count >= Self.limit { makeRoom() }
        }
        entries[name] = entry
    }

    /// Removes a tenth of the hosts at once, so that a full list is not searched for each new host.
    private mutating func makeRoom() {
        for (name, _) in entries.sorted(by: { $0.value.expires < $1.value.expires }).prefix(Self.limit / 10) {
            entries[name] = nil
        }
    }

    /// Adds a line of libcurl's file: `.example.org "20271231 23:59:59"`, with a leading dot to include subdomains.
    /// Returns `false` when it is malformed.
    mutating func add(line: Substring, now: Int64) -> Bool {
        let parts = line.split(separator: " ", maxSplits: 1)
        guard parts.count == 2 else { return false }
        let date = FieldList.unquoted(String(parts[1]))
        guard let expires = date == "unlimited" ? .max : StateDate.seconds(date) else { return false }
        let host = parts[0].hasPrefix(".") ? parts[0].dropFirst() : parts[0]
        guard let name = Self.name(written: String(host)) else { return false }
        if expires > now { add(name, Entry(expires: expires, includesSubdomains: host != parts[0]), now: now) }
        return true
    }

    /// Returns the text of the file.
    func text(now: Int64) -> String {
        entries.filter { $0.value.expires > now }.sorted { $0.key < $1.key }.reduce(
            into: "# HSTS cache in libcurl's format: https://curl.se/docs/hsts.html\n"
        ) { text, entry in
            let date = entry.value.expires > Self.lastDate ? "unlimited" : StateDate.text(entry.value.expires)
            text += "\(entry.value.includesSubdomains ? "." : "")\(entry.key) \"\(date)\"\n"
        }
    }

    /// The end of the year 9999, the latest date that the format can hold.
    private static let lastDate: Int64 = 253_402_300_799
}

/// The HSTS hosts of a manager: the preloaded ones and those learned from responses, with their file.
final class HSTSStore: Sendable {
    private let list: Mutex<HSTSList>
    private let preloaded: HSTSList
    private let learns: Bool
    private let file: StateFile?

    /// Makes the list and reads its file; `nil` when HSTS is off and no host is preloaded.
    init?(_ configuration: EngineConfiguration) throws(NetworkError) {
        guard configuration.hsts != .off || !configuration.hstsPreload.isEmpty else { return nil }
        learns = configuration.hsts != .off && configuration.tls.verifiesCertificates
        let now = Self.now
        var preloaded = HSTSList()
        for name in configuration.hstsPreload where !preloaded.add(line: "\(name) \"unlimited\"", now: now) {
            throw .invalidRequest(
                "hstsPreload: \"\(name)\" is not a host name; write example.org, or .example.org to include subdomains"
            )
        }
        self.preloaded = preloaded
        var list = HSTSList()
        if case .file(let path) = configuration.hsts {
            let file = StateFile(path, "hsts", warn: configuration.warn) { line in
                let name = line.drop { $0 == "." }.prefix { $0 != " " }
                return HSTSList.name(of: String(name))
            }
            try file.read(expecting: "example.org \"20271231 23:59:59\"") { list.add(line: $0, now: now) }
            self.file = file
        } else {
            file = nil
        }
        self.list = Mutex(list)
    }

    static var now: Int64 { Int64(time(nil)) }

    /// Returns the `https` URL that replaces an `http` one; `nil` when the `http` URL may be used.
    func secureURL(of target: Target) -> String? {
        guard !target.isSecure else { return nil }
        let now = Self.now
        guard preloaded.covers(target.host, now: now) || list.withLock({ $0.covers(target.host, now: now) }) else {
            return nil
        }
        return target.secureURL
    }

    /// Stores the first `Strict-Transport-Security` field of a response; others do not count (RFC 6797 §8.1).
    func note(_ headers: HTTPHeaders, of target: Target) {
        guard learns, target.isSecure, let value = headers["Strict-Transport-Security"],
            let policy = StrictTransportSecurity(value)
        else { return }
        let now = Self.now
        guard list.withLock({ $0.note(policy, of: target.host, now: now) }) else { return }
        file?.follow { [self] in list.withLock { $0 }.text(now: Self.now) }
    }

    func flush() async { await file?.flush() }
}
