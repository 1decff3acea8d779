import Cryptography
import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform

/// The place of a download: its folder, its name, and the files beside it while it is incomplete.
struct DownloadTarget: Sendable {
    let folder: String
    /// The name of the file; `nil` while the server may still choose it.
    let name: String?
    /// The name if the server chooses none.
    let fallbackName: String
    private let given: String
    /// The path of the incomplete file.
    let part: String
    let journal: String

    /// Checks the target before anything is sent.
    ///
    /// - Parameters:
    ///   - path: A file, or a folder in which the file gets its name from the server or the URL.
    ///   - identity: The identity of the content, which keeps two downloads into one folder apart.
    /// - Throws: ``NetworkError/Kind/storage`` if the folder is missing or not writable, or the target is not a regular file.
    init(_ path: String, url: String, identity: String) throws(NetworkError) {
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw .invalidRequest("\"\(URLText.visible(path))\" cannot be a download's target; name a file or a folder")
        }
        var link = stat()
        if lstat(path, &link) == 0, link.st_mode & S_IFMT == S_IFLNK, link.st_uid != geteuid(), link.st_uid != 0 {
            throw DownloadFiles.ofAnother(path)
        }
        // Symbolic links are resolved, because the final rename would otherwise replace the link instead of the file.
        let resolved = PathParts.resolved(path) ?? path
        var status = stat()
        let exists = stat(resolved, &status) == 0
        if !exists, errno == ENAMETOOLONG { throw DownloadFiles.system("created", path) }
        fallbackName = FileName.url(url)
        given = path
        if exists, status.st_mode & S_IFMT == S_IFDIR {
            folder = resolved
            name = nil
            let digest = (try? MessageDigest.of(Data(identity.utf8), .sha256)).map(MessageDigest.hexadecimal) ?? ""
            part = Self.join(folder, "\(fallbackName).\(digest.prefix(12)).part")
        } else {
            if exists, status.st_mode & S_IFMT != S_IFREG { throw DownloadFiles.notRegular(path) }
            let parts = PathParts(resolved)
            guard !parts.name.isEmpty else { throw DownloadFiles.missingFolder(path, isFolder: false) }
            folder = parts.folder
            name = parts.name
            part = Self.join(folder, Self.stem(parts.name) + ".part")
        }
        journal = part + ".journal"
        try Self.check(folder)
    }

    func path(serverName: String?) -> String { Self.join(folder, name ?? serverName ?? fallbackName) }

    /// The path of the complete file as the caller gave it, if the caller named the file.
    func shownPath(serverName: String?) -> String { name == nil ? path(serverName: serverName) : given }

    /// The free bytes of the file system for this user; `nil` if unknown.
    var freeSpace: Int64? {
        var system = statvfs()
        guard statvfs(folder, &system) == 0 else { return nil }
        let free = UInt64(system.f_bavail).multipliedReportingOverflow(by: UInt64(system.f_frsize))
        return free.overflow ? .max : Int64(clamping: free.partialValue)
    }

    enum Existing {
        case nothing
        case file(mode: mode_t, size: Int64)
        case other
    }

    static func existing(at path: String) -> Existing {
        var status = stat()
        guard stat(path, &status) == 0 else { return .nothing }
        return status.st_mode & S_IFMT == S_IFREG ? .file(mode: status.st_mode, size: Int64(status.st_size)) : .other
    }

    /// Renames the `.part` file to its final name atomically.
    ///
    /// - Parameter replaces: Whether an existing file may be replaced.
    func appear(as path: String, replaces: Bool) throws(NetworkError) {
        if !replaces {
            if link(part, path) == 0 {
                unlink(part)
                return AtomicFile.synchronizeFolder(folder)
            }
            if errno == EEXIST { throw DownloadFiles.exists(path) }
            // The file system has no hard links: check first, then rename.
            guard case .nothing = Self.existing(at: path) else { throw DownloadFiles.exists(path) }
        }
        guard rename(part, path) == 0 else { throw DownloadFiles.system("created", path) }
        AtomicFile.synchronizeFolder(folder)
    }

    /// Whether the `.part` file is that of a download. Other programs use the suffix, too, but only a download has a journal
    /// beside it. In a folder, the name has a digest.
    func isOwn(_ file: PartFile) -> Bool {
        var status = stat()
        return name == nil || file.size == 0 || lstat(journal, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    /// Writes a journal without content, which shows that the `.part` file is that of a download.
    func startJournal() throws(NetworkError) {
        try DownloadFiles.write(Data(), to: journal, synchronizes: false)
    }

    /// Removes the `.part` file and its journal.
    func discard(_ file: PartFile) {
        // Should the process die before the next lines, an empty file needs no journal.
        try? file.truncate(to: 0)
        AtomicFile.remove(journal)
        unlink(part)
    }

    // MARK: Private

    private static func check(_ folder: String) throws(NetworkError) {
        var status = stat()
        guard stat(folder, &status) == 0 else { throw DownloadFiles.missingFolder(folder, isFolder: false) }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw DownloadFiles.missingFolder(folder, isFolder: true) }
        guard access(folder, W_OK | X_OK) == 0 else { throw DownloadFiles.notWritable(folder) }
    }

    /// A name that leaves room for the suffix `.part.journal.new`.
    private static func stem(_ name: String) -> String {
        let bytes = Array(name.utf8)
        guard bytes.count > 255 - 18 else { return name }
        let digest = (try? MessageDigest.of(Data(bytes), .sha256)).map(MessageDigest.hexadecimal) ?? ""
        return String(decoding: bytes.prefix(200), as: UTF8.self).filter { $0 != "\u{FFFD}" } + ".\(digest.prefix(12))"
    }

    private static func join(_ folder: String, _ name: String) -> String {
        folder.hasSuffix("/") ? folder + name : folder + "/" + name
    }
}

extension DownloadTarget {
    /// What to do about an existing file. The caller knows the name in the path and that at the end of the URL, but not another
    /// one that the server chose.
    func existingFile(_ options: DownloadOptions, serverName: String?) -> DownloadOptions.ExistingFile {
        let isUnexpected = name == nil && serverName != nil && serverName != fallbackName
        return options.chosenExistingFile ?? (isUnexpected ? .fail : .overwrite)
    }

    /// Whether the existing file is kept, so that nothing is downloaded.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` if the file must not exist.
    func isKept(_ options: DownloadOptions, serverName: String?) throws(NetworkError) -> Bool {
        let path = path(serverName: serverName)
        switch (existingFile(options, serverName: serverName), Self.existing(at: path)) {
        case (_, .nothing), (.overwrite, .file): return false
        case (_, .other): throw DownloadFiles.notRegular(path)
        case (.fail, .file): throw DownloadFiles.exists(path)
        case (.skip, .file):
            guard let expected = options.digest else { return true }
            let found = try FileDigest.hexadecimal(path, expected.algorithm.function) {
                DownloadFiles.system("read", $0)
            }
            return found == expected.hexadecimal.lowercased()
        }
    }
}
