internal import Glibc
import Synchronization

/// An object that does work when the process ends.
package protocol ProcessExitObserver: AnyObject, Sendable {
    /// Called when the process ends by `exit` or by returning from `main`. Other threads still run until this returns.
    func processWillExit()
}

/// Notifies objects when the process ends.
package enum ProcessEnd {
    private struct Reference {
        weak var object: (any ProcessExitObserver)?
        /// The same object, when it is kept.
        var kept: (any ProcessExitObserver)?
    }

    private static let references = Mutex<[Reference]>([])
    /// The process that registered the handler. A forked child inherits the handler but none of the threads.
    private static let process: pid_t = {
        atexit { ProcessEnd.notifyAll() }
        return getpid()
    }()

    /// Registers an object.
    ///
    /// - Parameter isKept: Whether the object is retained until ``remove(_:)``. For work that must be done even if the
    ///   object is referenced by nothing else when the process ends. Default `false`.
    package static func register(_ object: any ProcessExitObserver, isKept: Bool = false) {
        _ = process
        references.withLock { references in
            references.removeAll { $0.object == nil }
            references.append(Reference(object: object, kept: isKept ? object : nil))
        }
    }

    package static func remove(_ object: any ProcessExitObserver) {
        references.withLock { $0.removeAll { $0.object === object } }
    }

    private static func notifyAll() {
        guard process == getpid() else { return }
        for object in references.withLock({ $0.compactMap(\.object) }) { object.processWillExit() }
    }
}
