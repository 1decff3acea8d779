import CLibcurl
import FoundationEssentials
import HTTPCore
import Synchronization

/// The certificates that a manager trusts, read and parsed once for all its connections.
///
/// libcurl by itself keeps the parsed form of a file only when neither a folder nor certificates in memory are set
/// besides. Otherwise the 150 authorities of a system cost every fresh connection some 40 ms of processor time.
final class TrustStore: Sendable {
    private struct State {
        var store: CertificateStore?
        /// What the file was when it was read last, whether it could be used or not.
        var stamp: FileStamp?
        var isReading = false
    }

    /// Whether they are the application's own; then a fault is an error. Of the system's file what can be read counts.
    private let isOwn: Bool
    /// Certificates from memory.
    private let data: Data?
    private let file: String?
    /// Where OpenSSL looks for those of the system when there is no file of all.
    private let folder: String?
    private let warn: @Sendable (String) -> Void
    private let state = Mutex(State())

    /// The authorities of the configuration, which are read now, or the system's, which ``prepare()`` reads.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the setting.
    init(_ configuration: TLSConfiguration, warn: @escaping @Sendable (String) -> Void) throws(NetworkError) {
        data = configuration.caData
        self.warn = warn
        isOwn = configuration.caData != nil || configuration.caFile != nil
        if isOwn {
            // Still the same file when the process changes its folder.
            let isRelative = configuration.caFile?.hasPrefix("/") == false
            let start = isRelative ? FileManager.default.currentDirectoryPath + "/" : ""
            (file, folder) = (configuration.caFile.map { start + $0 }, nil)
            let (store, stamp) = try parse(contents())
            state.withLock {
                $0.store = store
                $0.stamp = stamp
            }
        } else {
            file = SystemAuthorities.file
            folder = file == nil ? SystemAuthorities.folder : nil
        }
    }

    /// The store for a connection that is opened now.
    ///
    /// Looks with one `stat` whether the file has changed. One that has is read on another thread, and counts for the
    /// connections that are opened afterwards: a slow disk or a long file stops no transfer.
    func storeForConnection() -> CertificateStore? {
        let now = file.flatMap(FileStamp.init(path:))
        let (store, hasChanged) = state.withLock { state in
            guard state.store != nil, !state.isReading, let now, now != state.stamp else { return (state.store, false) }
            state.isReading = true
            return (state.store, true)
        }
        if hasChanged { Task.detached { self.readAgain() } }
        return store ?? prepare()
    }

    /// Parses the system's certificates unless that was done, so that the engine's thread need not do it.
    @discardableResult
    func prepare() -> CertificateStore? {
        // Whoever comes meanwhile waits for the lock, instead of parsing them too.
        state.withLock { state in
            if state.store == nil, let (store, stamp) = try? parse(contents()) {
                state.store = store
                state.stamp = stamp
            }
            return state.store
        }
    }

    private func readAgain() {
        var stamp: FileStamp?
        var store: CertificateStore?
        do throws(NetworkError) {
            // It is there again when it has been replaced.
            if let contents = try contents() {
                stamp = contents.stamp
                store = try parse(contents).0
            }
        } catch {
            warn("\(error.message); those that were read before it changed still count")
        }
        state.withLock { state in
            state.isReading = false
            if let stamp { state.stamp = stamp }
            if let store { state.store = store }
        }
    }

    private func contents() throws(NetworkError) -> SettingsFile? {
        guard let file else { return nil }
        return isOwn ? try SettingsFile(file, setting: "tls.caFile") : try? SettingsFile(file, setting: "the system's")
    }

    private func parse(_ contents: SettingsFile?) throws(NetworkError) -> (CertificateStore, FileStamp?) {
        guard let store = CertificateStore() else { throw EngineFailure.noResources("memory for certificates") }
        if let data { try add(data, to: store, "tls.caData") }
        if let contents, let file { try add(contents.data, to: store, "tls.caFile \"\(file)\"") }
        if let folder { store.add(folder: folder) }
        return (store, contents?.stamp)
    }

    private func add(_ pem: Data, to store: CertificateStore, _ place: String) throws(NetworkError) {
        do throws(CertificateStore.Problem) {
            try store.add(pem)
        } catch {
            guard isOwn else { return }
            throw .invalidRequest("\(place) \(error.reason)")
        }
    }
}

/// Where the system keeps the certificates of the authorities it trusts.
private enum SystemAuthorities {
    /// The file that libcurl was built to use, or one of those that distributions have.
    static var file: String? {
        let usual = [
            "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
            "/etc/ssl/cert.pem",
        ]
        return (builtIn(\.cainfo).map { [$0] + usual } ?? usual).first { FileStamp(path: $0) != nil }
    }

    /// The folder that libcurl was built to use, or that of most distributions.
    static var folder: String { builtIn(\.capath) ?? "/etc/ssl/certs" }

    private static func builtIn(_ path: KeyPath<curl_version_info_data, UnsafePointer<CChar>?>) -> String? {
        curl_version_info(CURLVERSION_TENTH)?.pointee[keyPath: path].map { String(cString: $0) }
    }
}
