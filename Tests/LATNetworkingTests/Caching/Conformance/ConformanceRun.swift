import FoundationEssentials
import LATNetworking
import LATTesting
import ResponseCache
import Synchronization
import TestSupport
import Testing

/// Where responses are stored while a suite runs.
enum StoreKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case memory, disk, tiered
    /// Two managers on one folder that take turns, so that each must find what the other stored.
    case twoManagers
    /// As `twoManagers`, with the second manager in another process.
    case twoProcesses

    var testDescription: String { rawValue }

    func store(in folder: String) throws -> any CacheStore {
        guard self != .memory else { return MemoryStore() }
        var options = DiskStore.Options()
        options.minimumFreeBytes = 0
        let disk = try DiskStore(directory: folder, options: options)
        return self == .disk ? disk : TieredStore(memory: MemoryStore(), disk: disk)
    }
}

/// A server and one or more managers that take turns and share a store.
final class CacheBench: Sendable {
    let server: MockServer
    let clock = TestClock()
    private let managers: [CentralRequestManager]
    private let process: CacheProcess?
    private let directory: TemporaryDirectory
    private let turn = Mutex(0)

    init(_ kind: StoreKind, _ mode: CacheMode = .private) throws {
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "cache")
        server = try MockServer()
        self.directory = directory
        managers = try (0..<(kind == .twoManagers ? 2 : 1)).map { [clock] _ in
            try CentralRequestManager.caching(.http, clock) {
                $0.cacheStore = try? kind.store(in: folder)
                $0.cacheMode = mode
            }
        }
        process = kind == .twoProcesses ? try CacheProcess(folder, mode) : nil
    }

    /// Sends a request through the manager whose turn it is, after all pending writes are stored.
    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await flush()
        let turn = nextTurn(of: managers.count + (process == nil ? 0 : 1))
        if let process, turn == managers.count { return try await process.send(request, at: clock.now) }
        return try await managers[turn].send(request)
    }

    /// Returns the cache of this process's next manager, after all pending writes are stored.
    func cache() async throws -> CentralRequestManager.Cache {
        try await flush()
        return managers[nextTurn(of: managers.count)].cache
    }

    private func flush() async throws {
        for manager in managers { try await manager.cache.flush() }
        try await process?.flush()
    }

    private func nextTurn(of count: Int) -> Int {
        turn.withLock { turn in
            turn += 1
            return turn % count
        }
    }

    func shutdown() async { for manager in managers { await manager.shutdown() } }
}

/// Runs a case with ``CachePolicy/http``, under a path of its own.
struct ConformanceRun {
    private final class Desk: Sendable {
        struct State {
            var count = 0
            /// The request received for each exchange.
            var requests: [Int: RecordedRequest] = [:]
        }

        let state = Mutex(State())
    }

    let test: ConformanceCase
    private let bench: CacheBench
    private let desk = Desk()

    init(_ test: ConformanceCase, on bench: CacheBench) {
        self.test = test
        self.bench = bench
    }

    private var clock: TestClock { bench.clock }
    private var path: String { "/\(test.id.filter { $0 != "=" && $0 != " " })" }

    /// Returns the first unmet expectation, or `nil` when there is none.
    func failure() async throws -> String? {
        let server = bench.server
        server.fallback { [test, clock, desk, path] request in Self.reply(to: request, test, path, clock, desk) }
        for (index, exchange) in test.exchanges.enumerated() {
            let before = server.requestCount
            var request = HTTPRequest(exchange.method, server.url(path + exchange.path))
            request.redirects = .none
            request.decompresses = false
            for field in exchange.requestFields { request.headers.append(field.name, value(of: field)) }
            request.headers["Exchange"] = "\(index)"
            if exchange.method != "GET", exchange.method != "HEAD" { request.body = .text("abc") }
            var outcome: Result<HTTPResponse, NetworkError>
            do {
                outcome = .success(try await bench.send(request))
            } catch let error as NetworkError {
                outcome = .failure(error)
            }
            // The background refresh arrives at an unknown time.
            if test.id.hasPrefix("stale-while"), case .success(let response) = outcome, response.source == .stale {
                try await server.waitForRequests(before + 1)
                try await settle(server.url(path + exchange.path))
            }
            if let complaint = complaint(index, exchange, outcome, desk.state.withLock { $0.requests[index] }) {
                return "exchange \(index + 1): \(complaint)"
            }
            clock.advance(by: exchange.seconds)
        }
        return nil
    }

    /// Waits until the refreshed response is stored. The clock stands still, so its response time is now.
    private func settle(_ url: String) async throws {
        try await eventually("the refreshed response") {
            try await !bench.cache().entries(.url(url)).contains { $0.responseTime < clock.now }
        }
    }

    // MARK: The server

    private static func reply(
        to request: RecordedRequest, _ test: ConformanceCase, _ path: String, _ clock: TestClock, _ desk: Desk
    ) -> MockReply {
        let index = request.headers["Exchange"].flatMap(Int.init) ?? 0
        let count = desk.state.withLock { state in
            state.count += 1
            state.requests[index] = request
            return state.count
        }
        let exchange = test.exchanges[index]
        if exchange.isDisconnected { return .noReply }
        var status = exchange.status
        if index > 0 { status = validated(status, exchange, request, test.exchanges[index - 1], clock) }
        let hasBody = status != 204 && status != 304
        var reply = MockReply(status: status, reason: nil, headers: [:])
        if hasBody { reply.body = .bytes(Data((exchange.body ?? "body").utf8)) }
        reply = reply.header("Server-Count", "\(count)")
        if let interim = exchange.interimStatus { reply = reply.withInterim(interim, headers: ["Link": "</a.css>"]) }
        for field in exchange.fields {
            var value = HTTPDate.value(of: field, clock.now)
            if exchange.hasOwnLocations, field.name.hasSuffix("Location") { value = path + value }
            reply = reply.header(field.name, value)
        }
        return reply
    }

    /// Returns 304 when the request has the expected condition, 599 when it has not.
    private static func validated(
        _ status: Int, _ exchange: Exchange, _ request: RecordedRequest, _ previous: Exchange, _ clock: TestClock
    ) -> Int {
        func last(_ name: String) -> String? {
            previous.fields.first { $0.name == name }?.text
        }
        switch exchange.expectation {
        case .etagValidated:
            return request.headers["If-None-Match"] == last("ETag") && last("ETag") != nil ? 304 : 599
        case .lastModifiedValidated:
            return request.headers["If-Modified-Since"] != nil ? 304 : 599
        default:
            return status
        }
    }

    // MARK: Judging

    private func complaint(
        _ index: Int, _ exchange: Exchange, _ outcome: Result<HTTPResponse, NetworkError>, _ seen: RecordedRequest?
    ) -> String? {
        guard case .success(let response) = outcome else {
            return exchange.expectation == .fails ? nil : "no response: \(outcome)"
        }
        let isFromServer = seen != nil && response.source == .network
        switch exchange.expectation {
        case .cached where isFromServer: return "not from the cache"
        case .notCached where !isFromServer: return "from the cache (\(response.source))"
        case .etagValidated where seen?.headers["If-None-Match"] == nil: return "no If-None-Match"
        case .lastModifiedValidated where seen?.headers["If-Modified-Since"] == nil: return "no If-Modified-Since"
        case .fails: return "a response instead of a failure: \(response.status) \(response.source)"
        default: break
        }
        let status = exchange.expectedStatus ?? exchange.status
        if response.status != status { return "status \(response.status), not \(status)" }
        if let text = exchange.expectedText, response.text != text {
            return "body \(response.text ?? "nil"), not \(text)"
        }
        for (name, value) in exchange.expectedFields
        where response.headers[values: name].joined(separator: ", ") != value {
            return "\(name) is \(response.headers[values: name]), not \(value)"
        }
        for name in exchange.missingFields where response.headers.contains(name) { return "\(name) is present" }
        for (name, value) in exchange.expectedRequestFields where seen?.headers[name] != value {
            return "the request's \(name) is \(seen?.headers[name] ?? "nil"), not \(value)"
        }
        if let minimum = exchange.minimumAge, (response.headers["Age"].flatMap(Int.init) ?? -1) < minimum {
            return "Age is \(response.headers["Age"] ?? "nil"), less than \(minimum)"
        }
        return nil
    }

    private func value(of field: CaseField) -> String { HTTPDate.value(of: field, clock.now) }
}

extension HTTPDate {
    static func value(of field: CaseField, _ now: Date) -> String {
        guard let seconds = field.seconds else { return field.text ?? "" }
        let date = now.addingTimeInterval(Double(seconds))
        guard field.isRFC850 else { return format(date) }
        let words = format(date).split(separator: " ")
        let weekdays = [
            "Sun": "Sunday", "Mon": "Monday", "Tue": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday",
            "Fri": "Friday", "Sat": "Saturday",
        ]
        let weekday = weekdays[String(words[0].dropLast())] ?? ""
        return "\(weekday), \(words[1])-\(words[2])-\(words[3].suffix(2)) \(words[4]) GMT"
    }
}
