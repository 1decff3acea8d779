import Dispatch
import FoundationEssentials

/// A queue of the store's own, on which it calls SQLite and the file system.
///
/// Not the tasks' own threads: there are only as many of those as processors, and a call that waits for a disk, or for
/// another process, would hold up what has nothing to do with the cache. A change of threads costs some ten
/// microseconds each way, so a hit makes one: what is read for the look-up brings small bodies along.
struct Lane: Sendable {
    let queue: DispatchQueue

    init(_ name: String, concurrent: Bool = false) {
        queue = DispatchQueue(
            label: "LATNetworking.cache.\(name)", qos: .userInitiated, attributes: concurrent ? .concurrent : [])
    }

    /// Does something there and gives what came of it.
    func run<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}

/// A thing that only one queue touches.
///
/// `@unchecked Sendable`: whoever takes the value out does so on that queue.
struct Confined<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
