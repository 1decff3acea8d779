import LATRealtime

extension CentralRequestManager {
    /// Returns a manager with one domain, `d`, and the given JSON5 in its rows.
    static func make(
        _ baseURL: String, domain: String = "", servers: String = "", _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        let text = "{ domains: { d: { baseURL: \"\(baseURL)\", \(domain) } }, servers: { \(servers) } }"
        let table = try DomainTable(json5: text, environment: nil)
        return try make {
            $0.domains = table
            change(&$0)
        }
    }
}

extension EventStream {
    /// Reads the stream to its end.
    func all() async throws -> [Element] {
        var all: [Element] = []
        for try await element in self { all.append(element) }
        return all
    }
}

extension EventStream where Element == ServerSentEvent {
    /// The data of all events, and the error that ended them.
    func outcome() async -> (data: [String], error: NetworkError?) {
        var data: [String] = []
        do {
            for try await event in self { data.append(event.data) }
            return (data, nil)
        } catch {
            return (data, error as? NetworkError)
        }
    }
}

/// Waits that are over at once, for tests that are not about time.
extension Reconnection {
    static let quick = Reconnection(firstWait: .milliseconds(1), longestWait: .milliseconds(2))
}

extension WebSocket {
    /// Reads the messages to their end.
    func all() async throws -> [Message] {
        var all: [Message] = []
        for try await message in messages { all.append(message) }
        return all
    }
}
