import FoundationEssentials
import Glibc
import Synchronization
import Testing

/// A one-time event that tests can wait for.
package final class Event: Sendable {
    private struct State {
        var hasHappened = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    package func happen() {
        let waiters = state.withLock { state in
            state.hasHappened = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    package var hasHappened: Bool { state.withLock(\.hasHappened) }

    package func wait() async {
        await withCheckedContinuation { continuation in
            let hasHappened = state.withLock { state in
                if !state.hasHappened { state.waiters.append(continuation) }
                return state.hasHappened
            }
            if hasHappened { continuation.resume() }
        }
    }
}

/// A thread-safe value.
package final class Box<Value: Sendable>: Sendable {
    private let storage: Mutex<Value>

    package init(_ value: Value) { storage = Mutex(value) }

    package var value: Value { storage.withLock { $0 } }

    package func change(_ body: (inout Value) -> Void) { storage.withLock { body(&$0) } }
}

/// The resources of this process, as reported by the kernel.
package enum ProcessFacts {
    /// Resident memory in bytes.
    package static var residentBytes: Int {
        let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
        guard fields.count > 1, let pages = Int(fields[1]) else {
            Issue.record("the resident memory cannot be read")
            return 0
        }
        return pages * Int(getpagesize())
    }

    /// The open descriptors with their targets, such as `7=socket:[1234]`.
    package static var descriptors: Set<String> {
        let path = "/proc/self/fd"
        let numbers = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        return Set(
            numbers.compactMap { number in
                // Listing the folder opened one descriptor, which is closed by now.
                guard let name = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(path)/\(number)") else {
                    return nil
                }
                return "\(number)=\(name)"
            })
    }

    /// The number of threads with a name.
    package static func threads(named name: String) -> Int {
        let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return tasks.count { task in
            let text = try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)
            return text?.dropLast() == name[...]
        }
    }
}
