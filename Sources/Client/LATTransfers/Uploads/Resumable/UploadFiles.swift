import Cryptography
import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform

/// The journal of an upload and the file that locks it, in the folder of the uploaded file or one that the app has named.
final class UploadFiles: Sendable {
    /// A digest of what is uploaded where, by which a journal is known.
    let identity: String
    private let lock: PartFile
    private let lockPath: String
    private let journalPath: String
    /// The journal of an upload that still has to be removed from the server, once another one has begun.
    private let removalPath: String
    /// Whether the journal is in the folder of the file.
    private let isBeside: Bool

    /// Locks the upload.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` if the folder cannot be used, or the same upload is running.
    init(_ order: UploadOrder) throws(NetworkError) {
        let folder: String
        (identity, folder, lockPath) = Self.names(of: order)
        journalPath = lockPath + ".journal"
        removalPath = lockPath + ".removal"
        isBeside = order.upload.journalFolder == nil
        do throws(NetworkError) {
            lock = try PartFile(path: lockPath, target: order.path, inUse: Self.inUse)
        } catch {
            throw access(folder, W_OK | X_OK) == 0 ? error : Self.placed(error, isBeside)
        }
    }

    private static func placed(_ error: NetworkError, _ isBeside: Bool) -> NetworkError {
        guard isBeside else { return error }
        return error.adding("an upload keeps its journal beside the file unless journalFolder names another folder")
    }

    private static func names(of order: UploadOrder) -> (identity: String, folder: String, lockPath: String) {
        let path = PathParts.resolved(order.path) ?? order.path
        let parts = PathParts(path)
        let user = order.request.transferUser
        let text = ([order.upload.style.rawValue, path] + order.identity + user).joined(separator: "\n")
        let identity = (try? MessageDigest.of(Data(text.utf8), .sha256)).map(MessageDigest.hexadecimal) ?? text
        let folder = order.upload.journalFolder ?? parts.folder
        // Leaves room for the suffixes within the 255 bytes of a name.
        let stem = parts.name.utf8.count <= 200 ? parts.name + "." : ""
        return (identity, folder, "\(folder)/\(stem)\(identity.prefix(12)).upload")
    }

    private static func inUse(_ path: String) -> NetworkError {
        NetworkError(
            .storage, message: "\(URLText.visible(path)) is being uploaded to this address already; wait for it")
    }

    /// The journal of an earlier run; `nil` without a usable one.
    var journal: UploadJournal? { Self.journal(journalPath, identity) }

    /// The journal that was set aside.
    var removal: UploadJournal? { Self.journal(removalPath, identity) }

    /// The journal that an earlier run of an upload has left; `nil` without a usable one.
    static func journal(of order: UploadOrder) -> UploadJournal? {
        let names = names(of: order)
        return journal(names.lockPath + ".journal", names.identity)
    }

    private static func journal(_ path: String, _ identity: String) -> UploadJournal? {
        DownloadFiles.read(path).flatMap { UploadJournal(decoding: $0) }.flatMap { $0.identity == identity ? $0 : nil }
    }

    func write(_ journal: UploadJournal) throws(NetworkError) {
        let data: Data
        do {
            data = try journal.encoded()
        } catch {
            throw NetworkError(.storage, message: "the journal cannot be encoded: \(error)", underlying: error)
        }
        do throws(NetworkError) { try DownloadFiles.write(data, to: journalPath) } catch {
            throw Self.placed(error, isBeside)
        }
        AtomicFile.synchronizeFolder(PathParts(journalPath).folder)
    }

    func removeJournal() { AtomicFile.remove(journalPath) }

    func removeRemoval() { AtomicFile.remove(removalPath) }

    /// Makes room for the journal of another upload.
    func setAsideJournal() { rename(journalPath, removalPath) }

    /// Releases the lock. The file goes first, as another upload checks that it has locked the file at the path.
    func unlock() {
        unlink(lockPath)
        lock.unlock()
    }
}

extension HTTPRequest {
    /// Who sends the request: another user does not continue a transfer. Tokens are left out, because they change.
    var transferUser: [String] {
        let user =
            switch self.authentication {
            case .basic(let user, _), .digest(let user, _), .any(let user, _): user
            case .bearer, nil: ""
            }
        return [self.cachePartition ?? "", user]
    }
}
