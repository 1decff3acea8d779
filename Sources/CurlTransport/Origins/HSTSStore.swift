import CLibcurl
import FoundationEssentials
import Glibc
import HTTPCore
import Synchronization

/// `Strict-Transport-Security` as it was sent (RFC 6797 §6.1).
struct StrictTransportSecurity: Hashable {
    /// In seconds; 0 takes the host off the list.
    let maxAge: Int64
    let includesSubdomains: Bool

    /// `nil` for a value that says nothing: without `max-age`, with one that is no number, with a directive twice.
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

/// The hosts that are spoken to over TLS only. A value: it is told the time.
struct HSTSList: Hashable, Sendable {
    struct Entry: Hashable, Sendable {
        /// In seconds since 1970; the largest number for no end.
        var expires: Int64
        var includesSubdomains: Bool
    }

    private(set) var entries: [String: Entry] = [:]

    /// The most hosts that are kept; the one that ends first makes room.
    static let limit = 10_000

    /// The name under which a host is kept; `nil` for an address, to which this does not apply (RFC 6797 §8.1.1).
    static func name(of host: String) -> String? {
        let name = host.lowercased()
        let bare = name.hasSuffix(".") ? String(name.dropLast()) : name
        return bare.isEmpty || IPAddress(host: bare) != nil ? nil : bare
    }

    /// Whether a host, or with its subdomains one above it, is on the list.
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

    /// Takes over what a host says of itself. Returns whether that changed anything worth writing down.
    mutating func note(_ policy: StrictTransportSecurity, of host: String, now: Int64) -> Bool {
        guard let name = Self.name(of: host) else { return false }
        guard policy.maxAge > 0 else { return entries.removeValue(forKey: name) != nil }
        let (sum, isTooMuch) = now.addingReportingOverflow(policy.maxAge)
        let entry = Entry(expires: isTooMuch ? .max : sum, includesSubdomains: policy.includesSubdomains)
        // Every answer repeats the field: one second more is no reason to write.
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
            if entries.count >= Self.limit, let first = entries.min(by: { $0.value.expires < $1.value.expires }) {
                entries[first.key] = nil
            }
        }
        entries[name] = entry
    }

    /// A line of libcurl's file: `.example.org "20271231 23:59:59"`, the dot for the subdomains too.
    mutating func add(line: Substring, now: Int64) -> Bool {
        let parts = line.split(separator: " ", maxSplits: 1)
        guard parts.count == 2 else { return false }
        let date = FieldList.unquoted(String(parts[1]))
        guard let expires = date == "unlimited" ? .max : StateDate.seconds(date) else { return false }
        let host = parts[0].hasPrefix(".") ? parts[0].dropFirst() : parts[0]
        guard let name = Self.name(of: String(host)) else { return false }
        if expires > now { add(name, Entry(expires: expires, includesSubdomains: host != parts[0]), now: now) }
        return true
    }

    /// The content of the file.
    func text(now: Int64) -> String {
        entries.filter { $0.value.expires > now }.sorted { $0.key < $1.key }.reduce(
            into: "# HSTS cache in libcurl's format: https://curl.se/docs/hsts.html\n"
        ) { text, entry in
            let date = entry.value.expires > Self.lastDate ? "unlimited" : StateDate.text(entry.value.expires)
            text += "\(entry.value.includesSubdomains ? "." : "")\(entry.key) \"\(date)\"\n"
        }
    }

    /// The end of the year 9999: later dates do not fit the format.
    private static let lastDate: Int64 = 253_402_300_799
}

/// The list of a manager, with the app's own entries and the file.
final class HSTSStore: Sendable {
    private let list: Mutex<HSTSList>
    private let preloaded: HSTSList
    private let learns: Bool
    private let file: StateFile?

    /// `nil` when there is nothing to do.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file or name that cannot be used.
    init?(_ configuration: EngineConfiguration) throws(NetworkError) {
        guard configuration.hsts != .off || !configuration.hstsPreload.isEmpty else { return nil }
        learns = configuration.hsts != .off && configuration.tls.verifiesCertificates
        let now = Self.now
        var preloaded = HSTSList()
        for name in configuration.hstsPreload where !preloaded.add(line: "\(name) \"unlimited\"", now: now) {
            throw .invalidRequest(
                "hstsPreload: \"\(name)\" is not the name of a host; write example.org, or .example.org for all below too"
            )
        }
        self.preloaded = preloaded
        var list = HSTSList()
        if case .file(let path) = configuration.hsts {
            let file = StateFile(path, "hsts", warn: configuration.warn)
            for (number, line) in try file.lines() where !list.add(line: line, now: now) {
                throw file.malformed(number, "example.org \"20271231 23:59:59\"")
            }
            self.file = file
        } else {
            file = nil
        }
        self.list = Mutex(list)
    }

    static var now: Int64 { Int64(time(nil)) }

    /// The `https` URL that is to be asked in place of an `http` one; `nil` when it may be asked itself.
    func secureURL(of target: Target) -> String? {
        guard !target.isSecure else { return nil }
        let now = Self.now
        guard preloaded.covers(target.host, now: now) || list.withLock({ $0.covers(target.host, now: now) }) else {
            return nil
        }
        return target.secureURL
    }

    /// Reads what an answer says of its host.
    func note(_ headers: HTTPHeaders, of target: Target) {
        guard learns, target.isSecure, let value = headers.first("Strict-Transport-Security"),
            let policy = StrictTransportSecurity(value)
        else { return }
        let now = Self.now
        guard list.withLock({ $0.note(policy, of: target.host, now: now) }) else { return }
        file?.follow { [self] in list.withLock { $0 }.text(now: Self.now) }
    }

    func flush() async { await file?.flush() }
}

extension HTTPHeaders {
    /// The value of the first field of a name, alone: RFC 6797 §8.1 has no other count.
    fileprivate func first(_ name: String) -> String? {
        hasNoFields ? nil : fields.first { $0.name.equalsIgnoringASCIICase(name) }?.value
    }
}
