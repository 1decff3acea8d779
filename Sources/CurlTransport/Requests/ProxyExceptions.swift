import HTTPCore

/// The hosts that are reached without the proxy: `NO_PROXY`, read as libcurl reads it (`CURLOPT_NOPROXY`).
///
/// It is decided here and not in libcurl because the guard against private addresses has to know whether an address is
/// the server's or the proxy's, which libcurl before 8.7 does not tell.
///
/// Names and addresses with commas or spaces between; a name stands for itself and all below it, with or without a dot
/// before it; an address may be a range (`10.0.0.0/8`); `*` alone stands for everything.
struct ProxyExceptions: Sendable {
    private var matchesAll = false
    private var names: [String] = []
    private var ranges: [AddressRange] = []

    init(_ text: String) {
        if text.allSatisfy({ $0 == " " || $0 == "*" }), text.contains("*") { matchesAll = true }
        for entry in text.split(whereSeparator: { $0 == "," || $0 == " " || $0 == "\t" }) {
            let bare = entry.hasPrefix("[") && entry.hasSuffix("]") ? entry.dropFirst().dropLast() : entry
            if let range = AddressRange(String(bare)) {
                ranges.append(range)
            } else {
                var name = entry.lowercased()
                if name.hasPrefix(".") { name.removeFirst() }
                if name.hasSuffix(".") { name.removeLast() }
                if !name.isEmpty { names.append(name) }
            }
        }
    }

    /// Whether a host is reached directly.
    func contains(_ host: String) -> Bool {
        if matchesAll { return true }
        guard !(names.isEmpty && ranges.isEmpty) else { return false }
        if let address = IPAddress(host: host) { return ranges.contains { $0.contains(address) } }
        var name = host.lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        return names.contains { name == $0 || name.hasSuffix("." + $0) }
    }
}
