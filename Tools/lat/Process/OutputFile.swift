import Glibc
import Platform

/// A file that appears under its name only when it is complete.
///
/// The bytes go into a temporary file beside the target, which is then renamed. An existing target that is not a
/// regular file (`/dev/null`, a named pipe) is written to directly.
final class OutputFile {
    /// The name as given.
    let name: String
    private let target: String
    private let temporary: String?
    let output: Output
    private var isOpen = true

    /// Makes the temporary file, or opens a target that is not a regular file.
    ///
    /// - Parameter option: What named it, for messages.
    /// - Throws: ``UsageError`` when nothing can be written there.
    init(_ name: String, of option: String = "--output") throws(UsageError) {
        self.name = name
        // Follows symbolic links, or the rename would replace the link instead of the file.
        let path = realpath(name, nil)
        defer { free(path) }
        target = path.map { String(cString: $0) } ?? name
        var status = stat()
        let exists = stat(target, &status) == 0
        if exists, status.st_mode & S_IFMT == S_IFDIR {
            throw UsageError("\(option) \"\(name)\" is a directory; name a file in it")
        }
        let isReplaced = !exists || status.st_mode & S_IFMT == S_IFREG
        temporary = isReplaced ? Self.temporaryName(beside: target) : nil
        let flags = isReplaced ? O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC : O_WRONLY | O_CLOEXEC
        let descriptor = open(temporary ?? target, flags, 0o666)
        guard descriptor >= 0 else {
            let reason = SystemError().text
            throw UsageError(
                "\(option) \"\(name)\" cannot be written (\(reason)); name a file in a folder you may write to")
        }
        if exists, isReplaced { fchmod(descriptor, status.st_mode & 0o7777) }
        output = Output(descriptor: descriptor, name: name)
        if let temporary { Interrupts.register(temporary) }
    }

    /// Whether nothing was written.
    var isEmpty: Bool {
        var status = stat()
        return fstat(output.descriptor, &status) == 0 && status.st_size == 0
    }

    /// Writes a text as a whole, or nothing of it.
    func append(_ text: String) throws(Output.Failure) {
        let end = lseek(output.descriptor, 0, SEEK_CUR)
        do throws(Output.Failure) {
            try output.write(text)
        } catch {
            ftruncate(output.descriptor, end)
            throw error
        }
    }

    /// Renames the complete file to its name.
    func complete() throws(Output.Failure) {
        guard isOpen else { return }
        isOpen = false
        let isClosed = close(output.descriptor) == 0
        guard let temporary else { return }
        defer { Interrupts.unregister(temporary) }
        if isClosed, rename(temporary, target) == 0 { return }
        let failure = output.failure(errno)
        unlink(temporary)
        throw failure
    }

    /// Deletes an incomplete file. Does nothing after ``complete()``.
    func discard() {
        guard isOpen else { return }
        isOpen = false
        close(output.descriptor)
        if let temporary {
            unlink(temporary)
            Interrupts.unregister(temporary)
        }
    }

    deinit { discard() }

    private static func temporaryName(beside target: String) -> String {
        let end = target.lastIndex(of: "/").map { target.index(after: $0) } ?? target.startIndex
        let suffix = String(UInt32.random(in: .min ... .max), radix: 36)
        // A name may have 255 bytes, so a long one is cut to leave room for the suffix.
        let stem = String(decoding: target[end...].utf8.prefix(200), as: UTF8.self)
        return target[..<end] + ".\(stem).\(suffix).part"
    }
}
