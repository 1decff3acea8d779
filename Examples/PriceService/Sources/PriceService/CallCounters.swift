import LATNetworking
import Synchronization

/// Counts calls by their tag, in the text form of Prometheus. All it needs is ``RequestAccessory``, through which a
/// manager tells of every call, attempt and repetition. The handler runs as a part of the call, so it only counts.
final class CallCounters: RequestAccessory, CustomStringConvertible {
    private let counts = Mutex<[String: Int]>([:])

    func handle(_ event: CallEvent) {
        let call = event.call.tag ?? "other"
        switch event.kind {
        case .answered(_, let response): count("answers_total{call=\"\(call)\",status=\"\(response.status)\"}")
        case .failed: count("attempts_failed_total{call=\"\(call)\"}")
        case .retrying: count("retries_total{call=\"\(call)\"}")
        case .finished(.success(let response)): count("calls_total{call=\"\(call)\",from=\"\(response.source)\"}")
        case .finished(.failure(let error)): count("calls_failed_total{call=\"\(call)\",kind=\"\(error.kind)\"}")
        default: break
        }
    }

    subscript(name: String) -> Int { counts.withLock { $0[name] ?? 0 } }

    var description: String {
        counts.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: "\n") }
    }

    private func count(_ name: String) { counts.withLock { $0[name, default: 0] += 1 } }
}
