import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import Testing

/// Values that closures of several threads gather.
final class Log<Element: Sendable>: Sendable {
    private let storage = Mutex<[Element]>([])

    var elements: [Element] { storage.withLock { $0 } }
    var count: Int { storage.withLock { $0.count } }

    func append(_ element: Element) { storage.withLock { $0.append(element) } }
}

/// Tells when it is let go of: what captures it is gone then.
final class Sentinel: Sendable {
    private let onRelease: @Sendable () -> Void

    init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }

    deinit { onRelease() }
}

/// An event that happens once and that tests wait for.
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
    /// A manager with some settings changed.
    static func make(_ change: (inout Configuration) -> Void = { _ in }) throws -> CentralRequestManager {
        var configuration = Configuration()
        configuration.proxy = .none
        change(&configuration)
        return try CentralRequestManager(configuration: configuration)
    }
}

/// Waits for something that nobody announces: looks again and again, for half a minute at most. Whatever is awaited may
/// need the threads meanwhile.
func eventually(
    isolation: isolated (any Actor)? = #isolation, sourceLocation: SourceLocation = #_sourceLocation,
    _ isSo: () async throws -> Bool
) async throws {
    for _ in 0..<15_000 {
        if try await isSo() { return }
        try await Task.sleep(for: .milliseconds(2))
    }
    Issue.record("it has not come about in half a minute", sourceLocation: sourceLocation)
}

/// The error that a call ends with; records an issue when it ends well.
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

/// The addresses of the servers that the test script starts.
enum TestServers {
    static let httpbin = ProcessInfo.processInfo.environment["LAT_TEST_HTTPBIN"]
    static let forms = ProcessInfo.processInfo.environment["LAT_TEST_FORMS"]
    static let nginxHTTPS = ProcessInfo.processInfo.environment["LAT_TEST_NGINX_HTTPS"]
    static let nginxHTTP = ProcessInfo.processInfo.environment["LAT_TEST_NGINX_HTTP"]
    static let certificateAuthority = ProcessInfo.processInfo.environment["LAT_TEST_CA"]
}
