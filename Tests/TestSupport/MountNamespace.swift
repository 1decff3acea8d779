import Dispatch
import Glibc
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test when this process may not make mount namespaces.
    package static var needsMountNamespaces: Self {
        .enabled(
            if: MountNamespace.isPermitted,
            "needs the right to mount file systems in a namespace of its own (root or CAP_SYS_ADMIN)")
    }
}

/// A mount namespace, in which file systems are mounted without a change for other threads and processes. The threads that
/// are created in it belong to it. It ends when they have ended.
package enum MountNamespace {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    /// The arguments of unshare(1) that make a namespace for a program.
    package static let command = [ChildProcess.path(of: "unshare") ?? "unshare", "--mount", "--propagation", "private"]

    package static let isPermitted: Bool =
        (try? ChildProcess.run("unshare", ["--mount", "mount", "-t", "tmpfs", "none", "/mnt"], in: "/")) != nil

    /// Runs `body` on a new thread in a new namespace.
    package static func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) throws -> Result {
        try OwnThread.run {
            typealias Unshare = @convention(c) (CInt) -> CInt
            // CLONE_NEWNS
            guard let symbol = dlsym(nil, "unshare"), unsafeBitCast(symbol, to: Unshare.self)(0x2_0000) == 0 else {
                throw Failure(description: "a mount namespace is not permitted: \(String(cString: strerror(errno)))")
            }
            // A mount would otherwise appear in the namespace of the process, too.
            try ChildProcess.run("mount", ["--make-rprivate", "/"], in: "/")
            return try body()
        }
    }

    /// Mounts an empty tmpfs of this thread's namespace on a folder.
    package static func mount(on folder: String, size: String = "1m") throws {
        try ChildProcess.run("mount", ["-t", "tmpfs", "-o", "size=\(size)", "none", folder], in: "/")
    }

    package static func unmount(_ folder: String) throws { try ChildProcess.run("umount", [folder], in: "/") }
}

/// Runs a function that blocks beside the tasks, which have one thread per core: one that waits stops others.
package func aside<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue(label: "aside").async { continuation.resume(with: Swift.Result { try body() }) }
    }
}

/// A thread for one function, for namespaces, which belong to threads.
enum OwnThread {
    static func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) throws -> Result {
        let outcome = Box<Swift.Result<Result, any Error>?>(nil)
        let work = Work { outcome.change { $0 = Swift.Result { try body() } } }
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { box in
                if let box { Unmanaged<Work>.fromOpaque(box).takeRetainedValue().run() }
                return nil
            }, Unmanaged.passRetained(work).toOpaque())
        guard code == 0 else { throw MountNamespace.Failure(description: "the thread could not be created") }
        pthread_join(thread, nil)
        guard let result = outcome.value else {
            throw MountNamespace.Failure(description: "the thread ended without a result")
        }
        return try result.get()
    }

    private final class Work: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
}
