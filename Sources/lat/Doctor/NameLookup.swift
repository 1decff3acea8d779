import Dispatch
import Glibc

/// Asks the system's resolver for the addresses of a name.
enum NameLookup {
    struct Failure: Error {
        /// The resolver's own words.
        let message: String
        /// Whether no name server answered, rather than one that does not know the name.
        let isTemporary: Bool
    }

    /// The addresses in the order the system prefers them, each once.
    static func addresses(of host: String) async -> Result<[String], Failure> {
        await withCheckedContinuation { continuation in
            // It blocks, at worst for as long as resolv.conf says.
            DispatchQueue(label: "lat.lookup").async { continuation.resume(returning: look(host)) }
        }
    }

    private static func look(_ host: String) -> Result<[String], Failure> {
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

    /// The name servers that `/etc/resolv.conf` names.
    static var servers: [String] {
        guard let file = fopen("/etc/resolv.conf", "re") else { return [] }
        defer { fclose(file) }
        var servers: [String] = []
        var buffer = [CChar](repeating: 0, count: 1_024)
        while fgets(&buffer, Int32(buffer.count), file) != nil {
            let line = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let words = line.split(whereSeparator: \.isWhitespace)
            if words.count > 1, words[0] == "nameserver" { servers.append(String(words[1])) }
        }
        return servers
    }
}
