import Foundation
import Platform

/// A copy of a descriptor that this process has open, like those that a child process has until it starts its program. It is
/// closed with this value.
package final class CopiedDescriptor: Sendable {
    private let descriptor: CInt

    /// Copies the first descriptor that meets a condition.
    package init(where isMeant: (CInt) -> Bool) throws {
        let descriptors = SystemFiles(root: "").names(in: "/proc/self/fd").compactMap { CInt($0) }
        guard let original = descriptors.first(where: isMeant) else { throw Overdue(description: "no such descriptor") }
        descriptor = dup(original)
    }

    /// Copies the descriptor of an open file.
    package convenience init(path: String) throws {
        try self.init {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path
        }
    }

    deinit { close(descriptor) }
}
