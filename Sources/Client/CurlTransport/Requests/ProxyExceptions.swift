internal import HTTPCore

/// The hosts that are reached without a proxy: `NO_PROXY`, in libcurl's notation (`CURLOPT_NOPROXY`).
///
/// The engine applies these exceptions itself instead of passing them to libcurl, because the guard against private
/// addresses must know whether an address is the server's or the proxy's, and libcurl before 8.7 does not say.
///
/// Names and addresses are separated by commas or spaces. A name also matches all names below it, with or without a
/// leading dot. An address may be a range (`10.0.0.0/8`). `*` alone matches everything.
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
                let name = HostName.bare(String(entry.hasPrefix(".") ? entry.dropFirst() : entry))
                if !name.isEmpty { names.append(name) }
            }
        }
    }

    /// Whether a host is reached without a proxy.
    func contains(_ host: String) -> Bool {
        if matchesAll { return true }
        guard !(names.isEmpty && ranges.isEmpty) else { return false }
        if let address = IPAddress(host: host) { return ranges.contains { $0.contains(address) } }
        let name = HostName.bare(host)
        return names.contains { name == $0 || name.hasSuffix("." + $0) }
    }
}
