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
    /// A manager with a cache in memory and a clock of the test's.
    static func caching(
        _ policy: CachePolicy, _ clock: TestClock = TestClock(), _ change: (inout Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try make {
            $0.cachePolicy = policy
            $0.cacheStorage = .memory
            $0.cacheClock = { clock.now }
            // A machine under load is not what is tested.
            $0.cacheLookUpTimeout = .seconds(30)
            change(&$0)
        }
    }
}

extension MockServer {
    /// A server that counts: its body, and the field `Count`, say which request it is.
    static func counting(_ headers: HTTPHeaders = [:], status: Int = 200) throws -> MockServer {
        let server = try MockServer()
        server.count(headers, status: status)
        return server
    }

    /// Answers from now on with these fields.
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
