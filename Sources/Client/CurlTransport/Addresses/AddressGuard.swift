internal import HTTPCore

/// Decides which addresses may be connected to (``EngineConfiguration/blocksPrivateAddresses``). A pure value without I/O.
struct AddressGuard: Sendable {
    private var allowedRanges: [AddressRange] = []
    private var allowedHosts: Set<String> = []
    /// Suffixes of `*.example.org` entries, without the star: `.example.org`.
    private var allowedSuffixes: [String] = []

    init(allowing allowed: [String]) throws(NetworkError) {
        for entry in allowed {
            let name = HostName.bare(entry)
            if let range = AddressRange(entry) {
                allowedRanges.append(range)
            } else if name.hasPrefix("*."), Self.isName(name.dropFirst(2)) {
                allowedSuffixes.append(String(name.dropFirst()))
            } else if Self.isName(name[...]) {
                allowedHosts.insert(name)
            } else {
                throw .invalidRequest(
                    "allowedPrivateAddresses: \"\(entry)\" cannot be allowed; write an address (10.1.2.3), a "
                        + "range (10.0.0.0/8) or a name (intranet.example.org, *.example.org)")
            }
        }
    }

    /// Returns why a connection to an address is refused; `nil` when it is allowed.
    ///
    /// - Parameter host: The host of the URL, which may be allowed by name.
    func refusal(of address: IPAddress, host: String) -> NetworkError.AddressRule? {
        guard let rule = address.rule, !isAllowed(host: host) else { return nil }
        return allowedRanges.contains { $0.contains(address) } ? nil : rule
    }

    /// Returns why a request through a proxy is refused; `nil` when its host is allowed, or is a name that does not
    /// show whether its addresses are private.
    func refusal(ofProxiedHost host: String) -> NetworkError.AddressRule? {
        guard let rule = NetworkError.AddressRule.ofHost(host), !isAllowed(host: host) else { return nil }
        if let address = IPAddress(host: host), allowedRanges.contains(where: { $0.contains(address) }) { return nil }
        return rule
    }

    private func isAllowed(host: String) -> Bool {
        guard !(allowedHosts.isEmpty && allowedSuffixes.isEmpty) else { return false }
        let name = HostName.bare(host)
        return allowedHosts.contains(name) || allowedSuffixes.contains { name.hasSuffix($0) && name.count > $0.count }
    }

    /// Whether a text is a host name and not an address in any notation; addresses are allowed as ranges.
    private static func isName(_ text: Substring) -> Bool {
        !text.isEmpty && IPAddress(host: String(text)) == nil && !text.hasPrefix(".")
            && text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && !":/?#[]@*\\%".utf8.contains($0) }
    }

    static func error(_ rule: NetworkError.AddressRule, address: String, host: String) -> NetworkError {
        // `allowedPrivateAddresses` cannot name a Unix domain socket.
        let advice =
            rule == .unixSocket
            ? "To use one, turn blocksPrivateAddresses off" : "To allow it, add it to allowedPrivateAddresses"
        let place = address == host ? address : "\(address), the address of \(host),"
        return NetworkError(
            .addressBlocked(rule),
            message: "\(place) is not an address of the public internet (\(rule.rawValue)), and blocksPrivateAddresses "
                + "is on; nothing was sent there. \(advice)")
    }
}
