import FoundationEssentials
import Glibc
internal import HTTPCore
import Platform

/// The file of a cookie jar, read once and always written whole.
struct CookieFile: Sendable {
    let path: String

    /// Returns the content of the file; empty when there is no file yet.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file that cannot be used.
    func read() throws(NetworkError) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        if file < 0 {
            let reason = errno
            let folder = URL(filePath: path).deletingLastPathComponent().path
            guard reason == ENOENT, access(folder, W_OK | X_OK) == 0 else {
                throw .invalidRequest(
                    "the cookie file \"\(path)\" cannot be used: \(SystemError(code: reason).text); give a file in a "
                        + "folder that exists and may be written")
            }
            return ""
        }
        close(file)
        do {
            return String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        } catch {
            throw NetworkError(
                .invalidRequest,
                message: "the cookie file \"\(path)\" cannot be read; name another, or set cookies = .memory",
                underlying: error)
        }
    }

    /// Replaces the file atomically. Returns 0, or the system's error.
    func write(_ text: String) -> CInt {
        do throws(SystemError) {
            try AtomicFile.write(text.utf8, to: path, isShared: true)
            return 0
        } catch {
            return error.code
        }
    }
}
