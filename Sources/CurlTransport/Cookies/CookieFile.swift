import FoundationEssentials
import Glibc
import HTTPCore

/// The file of a cookie jar: read once, written as a whole.
struct CookieFile: Sendable {
    let path: String

    /// What the file holds; empty when there is none yet.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file that cannot be used.
    func read() throws(NetworkError) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        if file < 0 {
            let reason = errno
            let folder = URL(filePath: path).deletingLastPathComponent().path
            guard reason == ENOENT, access(folder, W_OK | X_OK) == 0 else {
                throw .invalidRequest(
                    "the cookie file \"\(path)\" cannot be used: \(String(cString: strerror(reason))); give a file in a "
                        + "folder that exists and may be written")
            }
            return ""
        }
        close(file)
        do {
            return String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        } catch {
            throw NetworkError(
                .invalidRequest, message: "the cookie file \"\(path)\" cannot be read", underlying: error)
        }
    }

    /// Puts new content in place of the old, whole or not at all. Returns 0, or the system's error.
    func write(_ text: String) -> CInt {
        // A link stays one, and what it names is replaced.
        let target = realpath(path, nil).map { name in
            defer { free(name) }
            return String(cString: name)
        }
        let path = target ?? path
        let aside = "\(path).\(getpid())-\(UInt64.random(in: 0 ... .max)).new"
        let file = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { return errno }
        var code = Self.write(Array(text.utf8), to: file)
        if code == 0, fsync(file) != 0 { code = errno }
        if close(file) != 0, code == 0 { code = errno }
        if code == 0, rename(aside, path) != 0 { code = errno }
        if code != 0 { unlink(aside) }
        return code
    }

    private static func write(_ bytes: [UInt8], to file: CInt) -> CInt {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Glibc.write(file, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return count < 0 ? errno : EIO }
                rest = rest.dropFirst(count)
            }
            return 0
        }
    }
}
