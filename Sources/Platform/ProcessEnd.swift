internal import Glibc
import Synchronization

/// What has something to do when the process ends.
package protocol EndsWithProcess: AnyObject, Sendable {
    /// The process ends by `exit` or by returning from `main`. Other threads still run; when this returns, they may not.
    func processEnds()
}

/// Tells objects of the end of the process.
package enum ProcessEnd {
    private struct Reference {
        weak var object: (any EndsWithProcess)?
    }

    private static let references = Mutex<[Reference]>([])
    /// Registered once, in this process: a child that was forked has none of its threads.
    private static let process: pid_t = {
        atexit { ProcessEnd.tellAll() }
        return getpid()
    }()

    /// Has an object told, as long as it is there.
    package static func tell(_ object: any EndsWithProcess) {
        _ = process
        references.withLock { references in
            references.removeAll { $0.object == nil }
            references.append(Reference(object: object))
        }
    }

    private static func tellAll() {
        guard process == getpid() else { return }
        for object in references.withLock({ $0.compactMap(\.object) }) { object.processEnds() }
    }
}
