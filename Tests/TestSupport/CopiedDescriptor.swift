import Glibc

/// A copy of a descriptor that this process has open, like those that a child process has until it starts its program. It is
/// closed with this value.
package final class CopiedDescriptor: Sendable {
    private let descriptor: CInt

    /// Copies the first descriptor that meets a condition. Its target is the path of a file, or such as `socket:[1234]`.
    package init(where isMeant: (_ descriptor: CInt, _ target: Substring) -> Bool) throws {
        let original = ProcessFacts.descriptors.lazy
            .map { $0.split(separator: "=", maxSplits: 1) }
            .compactMap { parts in CInt(parts[0]).map { ($0, parts[1]) } }
            .first { isMeant($0, $1) }
        guard let original else { throw Overdue(description: "no such descriptor") }
        descriptor = dup(original.0)
    }

    /// Copies the descriptor of an open file.
    package convenience init(path: String) throws { try self.init { $1 == path } }

    deinit { close(descriptor) }
}
