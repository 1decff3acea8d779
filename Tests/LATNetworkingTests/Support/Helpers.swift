import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import Testing

/// A thread-safe list of values.
final class Log<Element: Sendable>: Sendable {
    private let storage = Mutex<[Element]>([])

    var elements: [Element] { storage.withLock { $0 } }
    var count: Int { storage.withLock { $0.count } }

    func append(_ element: Element) { storage.withLock { $0.append(element) } }

    /// Breaks a retain cycle through this list.
    func removeAll() { storage.withLock { $0 = [] } }
}

/// Calls a closure when it is released, which shows that nothing captures it any more.
final class Sentinel: Sendable {
    private let onRelease: @Sendable () -> Void

    init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }

    deinit { onRelease() }
}

/// A one-time event that tests can wait for.
final class Signal: Sendable {
    private struct State {
        var isRaised = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    var isRaised: Bool { state.withLock(\.isRaised) }

    func raise() {
        let waiters = state.withLock { state in
            state.isRaised = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isRaised = state.withLock { state in
                if !state.isRaised { state.waiters.append(continuation) }
                return state.isRaised
            }
            if isRaised { continuation.resume() }
        }
    }
}

extension CentralRequestManager {
    /// Returns a manager with changed settings and without a proxy.
    static func make(_ change: (inout Configuration) -> Void = { _ in }) throws -> CentralRequestManager {
        var configuration = Configuration()
        configuration.proxy = .none
        change(&configuration)
        return try CentralRequestManager(configuration: configuration)
    }
}

/// Returns the error that a call throws, and records an issue when the call succeeds.
func failure<T>(
    of call: () async throws -> T, sourceLocation: SourceLocation = #_sourceLocation
) async -> NetworkError? {
    do {
        _ = try await call()
        Issue.record("the call succeeded", sourceLocation: sourceLocation)
    } catch let error as NetworkError {
        return error
    } catch {
        Issue.record("not a NetworkError: \(error)", sourceLocation: sourceLocation)
    }
    return nil
}

/// The URLs of the servers that the test script starts.
enum TestServers {
    static let httpbin = ProcessInfo.processInfo.environment["LAT_TEST_HTTPBIN"]
    static let forms = ProcessInfo.processInfo.environment["LAT_TEST_FORMS"]
    static let nginxHTTPS = ProcessInfo.processInfo.environment["LAT_TEST_NGINX_HTTPS"]
    static let nginxHTTP = ProcessInfo.processInfo.environment["LAT_TEST_NGINX_HTTP"]
    static let certificateAuthority = ProcessInfo.processInfo.environment["LAT_TEST_CA"]
}
