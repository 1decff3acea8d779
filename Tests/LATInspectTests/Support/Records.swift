import LATInspect
import Synchronization

/// Collects records.
final class Records: Sendable {
    private let records = Mutex<[CallRecord]>([])

    var all: [CallRecord] { records.withLock { $0 } }

    func recorder(_ bodies: BodyCapture = BodyCapture()) -> CallRecorder {
        CallRecorder(bodies: bodies) { [self] record in records.withLock { $0.append(record) } }
    }
}

extension CentralRequestManager {
    /// A manager with some settings.
    static func make(_ change: (inout Configuration) -> Void) throws -> CentralRequestManager {
        var configuration = Configuration()
        change(&configuration)
        return try CentralRequestManager(configuration: configuration)
    }
}
