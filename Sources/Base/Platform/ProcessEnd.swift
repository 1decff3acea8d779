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

/// Writes text to a terminal or a pipe, for people to read.
package enum TextOutput {
    /// The terminals whose current line is one that changes.
    private static let changing = Mutex<Set<Int32>>([])
    private static let clear = "\r\u{1B}[K"

    /// Shows a line of a terminal that changes, such as a spinner, in place of the one before; `nil` clears it. A text that is
    /// written meanwhile takes its place.
    package static func show(line: String?, on descriptor: Int32) {
        changing.withLock { changing in
            if line == nil { changing.remove(descriptor) } else { changing.insert(descriptor) }
            send(clear + (line ?? ""), to: descriptor)
        }
    }

    /// Writes the whole text, with as few calls as the system needs, so that lines of several threads do not mix. A pipe that
    /// nobody empties for a second loses the rest; failures are ignored, since standard error may be closed.
    package static func write(_ text: String, to descriptor: Int32) {
        // The lock is not held while the text is written, because a full pipe may take a second.
        let clears = changing.withLock { $0.remove(descriptor) != nil }
        send((clears ? clear : "") + text, to: descriptor)
    }

    private static func send(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                bytes = bytes.dropFirst(count)
            } else if errno == EAGAIN {
                var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard poll(&wait, 1, 1_000) > 0 else { return }
            } else if errno != EINTR {
                return
            }
        }
    }
}

/// The folders of a user in which a program keeps files of its own (XDG Base Directory Specification).
package enum UserFolder: Sendable {
    /// For files that may be lost: `$XDG_CACHE_HOME`, else `~/.cache`.
    case cache
    /// For files that must survive a restart: `$XDG_STATE_HOME`, else `~/.local/state`.
    case state

    /// The program's part of the folder; `nil` when neither the variable nor `HOME` has an absolute path, and for an empty
    /// program name.
    package func path(environment: [String: String], program: String) -> String? {
        let (variable, standard) =
            switch self {
            case .cache: ("XDG_CACHE_HOME", ".cache")
            case .state: ("XDG_STATE_HOME", ".local/state")
            }
        // The specification says to ignore a relative path.
        let base = environment[variable].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? "\($0)/\(standard)" : nil }
        guard let base = base ?? home, !program.isEmpty else { return nil }
        return base.hasSuffix("/") ? base + program : "\(base)/\(program)"
    }
}

/// A shared library that is loaded when it is first needed instead of linked, so that an app needs no package more to be built.
package struct DynamicLibrary {
    private let handle: UnsafeMutableRawPointer

    /// Loads a library, which stays loaded; `nil` where it is missing.
    package init?(_ name: String) {
        guard let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { return nil }
        self.handle = handle
    }

    /// A function of the library; `nil` where it has none of this name.
    ///
    /// - Parameter type: its type, with the convention of C.
    package func function<Function>(_ name: String, as type: Function.Type) -> Function? {
        dlsym(handle, name).map { unsafeBitCast($0, to: type) }
    }
}
