import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// A wall clock that stands still until a test moves it.
final class TestClock: Sendable {
    private let time: Mutex<Date>

    init(_ time: Date = Date(timeIntervalSince1970: 1_800_000_000)) { self.time = Mutex(time) }

    var now: Date {
        get { time.withLock { $0 } }
        set { time.withLock { $0 = newValue } }
    }

    func advance(by seconds: Double) { time.withLock { $0 += seconds } }
}

extension CentralRequestManager {
    /// Returns a manager with a memory cache and a test clock.
    static func caching(
        _ policy: CachePolicy, _ clock: TestClock = TestClock(), _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try make {
            $0.cachePolicy = policy
            $0.cacheStorage = .memory
            $0.cacheClock = { clock.now }
            // Look-ups must not time out on a slow machine.
            $0.cacheLookUpTimeout = .seconds(30)
            change(&$0)
        }
    }
}

extension MockServer {
    /// Returns a server whose body and `Count` field are the number of the request.
    static func counting(_ headers: HTTPHeaders = [:], status: Int = 200) throws -> MockServer {
        let server = try MockServer()
        server.count(headers, status: status)
        return server
    }

    /// Responds with the number of the request and these fields from now on.
    func count(_ headers: HTTPHeaders = [:], status: Int = 200) {
        let count = Mutex(requestCount)
        fallback { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            var reply = MockReply.text("\(number)", status: status).header("Count", "\(number)")
            for (name, value) in headers { reply = reply.header(name, value) }
            return reply
        }
    }
}

/// Sends and receives content as it is.
struct PassingSealer: Sealer {
    func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest {
        SealedRequest(method: request.method, body: body, headers: [:])
    }

    func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) async throws -> OpenedReply? {
        OpenedReply(body: body)
    }
}
