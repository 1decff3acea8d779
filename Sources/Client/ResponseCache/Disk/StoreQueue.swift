import Dispatch
import FoundationEssentials

/// A dispatch queue of the store, on which it calls SQLite and the file system.
///
/// Swift's concurrent executor has only as many threads as processors, so a call that waits for a disk or another process
/// would block unrelated tasks. A switch of threads costs about ten microseconds each way. A look-up also reads small bodies,
/// so that a hit needs only one switch.
struct StoreQueue: Sendable {
    let queue: DispatchQueue

    init(_ name: String, concurrent: Bool = false) {
        queue = DispatchQueue(
            label: "LATNetworking.cache.\(name)", qos: .userInitiated, attributes: concurrent ? .concurrent : [])
    }

    func run<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}

/// A value that only one queue uses, or only the holder of one lock, which makes `@unchecked Sendable` true.
struct Confined<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
