import CLibcurl
import FoundationEssentials
import Glibc
import HTTPCore

/// The cookies of an engine: libcurl's own jar, which all handles share, and the file it is kept in.
///
/// Made on the caller's thread, then touched by the engine's only.
final class CookieStore {
    private let handle: UnsafeMutableRawPointer
    private let path: String?
    private let warn: @Sendable (String) -> Void
    /// What is in the file.
    private var saved = ""
    private var hasWarned = false
    /// A response may have changed the jar since it was written.
    var mayHaveChanged = false

    /// Whether changes have to be written.
    var isPersistent: Bool { path != nil }

    /// Puts a jar into a share, with what the file holds.
    ///
    /// - Throws: ``NetworkError/Kind/unsupported`` when libcurl cannot tell a public suffix,
    ///   ``NetworkError/Kind/invalidRequest`` for a file that cannot be used.
    init(
        _ policy: CookiePolicy, share: UnsafeMutableRawPointer, warn: @escaping @Sendable (String) -> Void
    ) throws(NetworkError) {
        guard GlobalCurl.has(CURL_VERSION_PSL) else {
            throw NetworkError(
                .unsupported,
                message: "cookies need a libcurl with libpsl: without it any site could set cookies for all of .com; "
                    + "use one that has it, or cookies = .off")
        }
        if case .file(let path) = policy { self.path = path } else { path = nil }
        self.warn = warn
        _ = lat_share_setopt_long(share, CURLSHOPT_SHARE, Int(CURL_LOCK_DATA_COOKIE.rawValue))
        _ = lat_share_setopt_long(share, CURLSHOPT_SHARE, Int(CURL_LOCK_DATA_PSL.rawValue))
        guard let handle = curl_easy_init() else { throw EngineFailure.noResources("memory for a libcurl handle") }
        self.handle = handle
        _ = lat_setopt_pointer(handle, CURLOPT_SHARE, share)
        if let path { try load(path) }
    }

    deinit { curl_easy_cleanup(handle) }

    // MARK: The jar

    /// All that have not expired.
    var lines: [String] {
        var list: UnsafeMutablePointer<curl_slist>?
        guard lat_getinfo_slist(handle, CURLINFO_COOKIELIST, &list) == CURLE_OK else { return [] }
        defer { curl_slist_free_all(list) }
        var lines: [String] = []
        var next = list
        while let item = next {
            if let data = item.pointee.data { lines.append(String(cString: data)) }
            next = item.pointee.next
        }
        return lines
    }

    func add(_ line: String) {
        _ = lat_setopt_string(handle, CURLOPT_COOKIELIST, line)
        mayHaveChanged = true
    }

    func removeAll() {
        _ = lat_setopt_string(handle, CURLOPT_COOKIELIST, "ALL")
        mayHaveChanged = true
    }

    // MARK: The file

    private func load(_ path: String) throws(NetworkError) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        if file < 0 {
            let reason = errno
            let folder = URL(filePath: path).deletingLastPathComponent().path
            guard reason == ENOENT, access(folder, W_OK | X_OK) == 0 else {
                throw .invalidRequest(
                    "the cookie file \"\(path)\" cannot be used: \(String(cString: strerror(reason))); give a file in a "
                        + "folder that exists and may be written")
            }
            return
        }
        close(file)
        let data: Data
        do {
            data = try Data(contentsOf: URL(filePath: path))
        } catch {
            throw NetworkError(
                .invalidRequest, message: "the cookie file \"\(path)\" cannot be read", underlying: error)
        }
        saved = String(decoding: data, as: UTF8.self)
        for line in saved.split(whereSeparator: \.isNewline) where NetscapeCookie.cookie(line) != nil {
            _ = lat_setopt_string(handle, CURLOPT_COOKIELIST, String(line))
        }
    }

    /// Writes the file when what belongs into it has changed: aside, then renamed, so that it is whole at every moment.
    func save() {
        mayHaveChanged = false
        guard let path else { return }
        let kept = lines.filter { NetscapeCookie.cookie($0)?.expires != nil }.sorted()
        let text = kept.reduce(into: "# Netscape HTTP Cookie File\n") { $0 += $1 + "\n" }
        guard text != saved, !(kept.isEmpty && saved.isEmpty) else { return }
        guard write(text, to: path) else {
            let reason = String(cString: strerror(errno))
            if !hasWarned {
                warn("the cookie file \"\(path)\" cannot be written: \(reason); cookies are kept in memory")
            }
            hasWarned = true
            return
        }
        saved = text
        hasWarned = false
    }

    private func write(_ text: String, to path: String) -> Bool {
        // A link stays one, and what it names is replaced.
        let target = realpath(path, nil).map { name in
            defer { free(name) }
            return String(cString: name)
        }
        let path = target ?? path
        let aside = "\(path).\(getpid())-\(UInt(bitPattern: ObjectIdentifier(self))).new"
        let file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { return false }
        var bytes = text.utf8CString.dropLast().map { UInt8(bitPattern: $0) }[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            bytes = bytes.dropFirst(count)
        }
        let isWritten = bytes.isEmpty
        let reason = errno
        close(file)
        if isWritten, rename(aside, path) == 0 { return true }
        if !isWritten { errno = reason }
        let failure = errno
        unlink(aside)
        errno = failure
        return false
    }
}
