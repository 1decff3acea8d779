import CurlTransport
import HTTPCore
import Synchronization

/// Goes to the next address of a domain when one cannot be connected to, remembers that for a while, and returns to the
/// first when the while is over.
final class MirrorRoom: Room {
    /// How long an address is passed over after no connection to it came about.
    private let memory: Duration
    private let clock = ContinuousClock()
    private let states = Mutex<[String: MirrorState]>([:])

    init(memory: Duration) { self.memory = memory }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        // An interceptor of the app that names another address means that one.
        guard request.url == call.request.url else { return try await chain.proceed(request) }
        let key = call.details.row?.mirrorKey ?? ""
        let order = change(key) { $0.order(of: call.details.addresses.count, at: clock.now) }
        var failures: [NetworkError] = []
        var standIn: HTTPResponse?
        for index in order {
            var attempt = request
            attempt.url = try call.url(atAddress: index)
            do {
                let response = try await chain.proceed(attempt)
                guard let failure = response.standsInFor else {
                    change(key) { $0.succeeded(index) }
                    return response
                }
                standIn = response
                throw failure
            } catch let error as NetworkError where mayGoOn(after: error, call) {
                change(key) { $0.failed(index, at: clock.now) }
                failures.append(error)
            } catch {
                guard let standIn else { throw error }
                return standIn
            }
        }
        if let standIn { return standIn }
        guard let first = failures.first else { return try await chain.proceed(request) }
        throw first.counting(attempts: failures.count)
    }

    private func mayGoOn(after error: NetworkError, _ call: Call) -> Bool {
        call.isReplayable && !call.isCancelled && call.sent.allows(.mirror, after: .failure(error))
    }

    private func change<Result>(_ key: String, _ change: (inout MirrorState) -> Result) -> Result {
        states.withLock { states in
            // Rows that were changed leave states behind that nobody asks for any more.
            if states.count > 1_024 { states = states.filter { !$0.value.isIdle } }
            return change(&states[key, default: MirrorState(memory: memory)])
        }
    }
}
