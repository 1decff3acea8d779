import FoundationEssentials
import Glibc
import Synchronization

/// A new folder in the system's temporary folder. It is removed with its contents when this value is released, and at
/// the latest when the process ends with `exit`.
///
/// ```swift
/// let directory = try TemporaryDirectory()
/// let path = try directory.write(Data("hello".utf8), to: "greeting.txt")
/// let big = try directory.writePattern(byteCount: 1 << 30, to: "big.bin")
/// ```
public final class TemporaryDirectory: Sendable {
    /// The absolute path, without a slash at the end.
    public let path: String

    /// Makes the folder, accessible to its owner only.
    ///
    /// - Throws: ``MockServerError`` when that fails.
    public init() throws {
        var base = FileManager.default.temporaryDirectory.path
        if base.hasSuffix("/") { base.removeLast() }
        var template = Array((base + "/LATTesting-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else { throw MockServerError.systemCall("mkdtemp in \(base)") }
        path = template.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        _ = Self.existing.withLock { $0.insert(path) }
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
        _ = Self.existing.withLock { $0.remove(path) }
    }

    /// The folders to remove at the end of the process, such as those of values that are never released.
    private static let existing: Mutex<Set<String>> = {
        atexit {
            let paths = TemporaryDirectory.existing.withLock { $0 }
            for path in paths { try? FileManager.default.removeItem(atPath: path) }
        }
        return Mutex([])
    }()

    /// Returns the path of an item in the folder, which need not exist.
    public func path(of name: String) -> String { path + "/" + name }

    /// Writes a file, and makes the folders above it.
    ///
    /// - Returns: Its path.
    /// - Throws: The system's error.
    @discardableResult
    public func write(_ data: Data, to name: String) throws -> String {
        let file = try prepare(name)
        try data.write(to: URL(filePath: file))
        return file
    }

    /// Writes a file of this many bytes of ``MockPattern``, with constant memory.
    ///
    /// - Returns: Its path.
    /// - Throws: ``MockServerError`` when the file cannot be written.
    @discardableResult
    public func writePattern(byteCount: Int64, to name: String) throws -> String {
        let file = try prepare(name)
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw MockServerError.systemCall("open \(file)") }
        defer { close(descriptor) }
        var offset: Int64 = 0
        while offset < byteCount {
            let count = MockPattern.withBytes(at: offset, limit: byteCount - offset) {
                Glibc.write(descriptor, $0.baseAddress, $0.count)
            }
            guard count > 0 else { throw MockServerError.systemCall("write \(file)") }
            offset += Int64(count)
        }
        return file
    }

    /// Returns the bytes of a file, `nil` when there is none.
    public func read(_ name: String) -> Data? { FileManager.default.contents(atPath: path(of: name)) }

    /// The relative paths of all files and folders inside, sorted.
    public var contents: [String] {
        let found = try? FileManager.default.subpathsOfDirectory(atPath: path)
        return (found ?? []).sorted()
    }

    private func prepare(_ name: String) throws -> String {
        let file = path(of: name)
        if let slash = file.lastIndex(of: "/") {
            try FileManager.default.createDirectory(
                atPath: String(file[..<slash]), withIntermediateDirectories: true)
        }
        return file
    }
}
