import FoundationEssentials
import Glibc
internal import HTTPCore
import Platform

/// The file that the secrets of TLS connections are appended to, in the NSS format (`CLIENT_RANDOM …`).
final class TLSKeyLogFile: Sendable {
    private let descriptor: CInt

    /// Opens the file of a setting; `nil` when the setting names none.
    static func opened(for setting: TLSConfiguration.KeyLog, warn: (String) -> Void) throws(NetworkError)
        -> TLSKeyLogFile?
    {
        let path: String
        let place: String
        switch setting {
        case .off: return nil
        case .environment:
            guard let value = ProcessInfo.processInfo.environment["SSLKEYLOGFILE"], !value.isEmpty else { return nil }
            (path, place) = (value, "tls.keyLog: the environment's SSLKEYLOGFILE")
        case .file(let value): (path, place) = (value, "tls.keyLog")
        }
        guard OpenSSL.shared != nil else {
            throw NetworkError(
                .unsupported,
                message: "tls.keyLog: this libcurl does not use OpenSSL 3; set .\(TLSConfiguration.KeyLog.off)")
        }
        let file = try TLSKeyLogFile(path, place)
        warn("the keys of all TLS connections are written to \(path): anyone with that file can decrypt the traffic")
        return file
    }

    private init(_ path: String, _ place: String) throws(NetworkError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0o600)
        guard descriptor >= 0 else { throw Self.unusable(path, place, SystemError().text) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw Self.unusable(path, place, "it is not a regular file")
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Appends a line in a single write, so that lines of several processes do not mix.
    func append(_ line: UnsafePointer<CChar>) {
        var bytes = Array(UnsafeBufferPointer(start: line, count: strlen(line)))
        bytes.append(CChar(UInt8(ascii: "\n")))
        _ = write(descriptor, bytes, bytes.count)
    }

    private static func unusable(_ path: String, _ place: String, _ reason: String) -> NetworkError {
        .invalidRequest(
            "\(place) \"\(path)\" cannot be written: \(reason); give the path of a file in a folder of this user")
    }
}
