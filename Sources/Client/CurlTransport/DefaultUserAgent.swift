internal import HTTPCore
import Platform

/// The default `User-Agent` field: `LATNetworking/1.1 (Debian 12; x86_64)` (RFC 9110 §10.1.5).
enum DefaultUserAgent {
    /// Computed once per process.
    static let value: String = {
        let files = SystemFiles(root: "")
        return text(
            version: CurlTransport.version, release: files.text("etc/os-release") ?? files.text("usr/lib/os-release"),
            architecture: files.uname { $0.machine })
    }()

    /// - Parameter release: The content of os-release, if the file exists.
    static func text(version: String, release: String?, architecture: String?) -> String {
        let release = release.map { SystemRelease(parsing: $0) }
        let system = [release?.name ?? "Linux", release?.version].compactMap { $0 }.joined(separator: " ")
        let comment = [system, architecture].compactMap { $0.map(plain) }.filter { !$0.isEmpty }
        return "LATNetworking/\(version) (\(comment.joined(separator: "; ")))"
    }

    /// Removes the characters that a comment must escape, and the separator `;`.
    private static func plain(_ text: String) -> String {
        String(
            decoding: text.utf8.filter { byte in
                (0x20...0x7E).contains(byte) && !"()\\;".utf8.contains(byte)
            }, as: UTF8.self)
    }
}
