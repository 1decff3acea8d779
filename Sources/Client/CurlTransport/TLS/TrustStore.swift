import CLibcurl
import FoundationEssentials
internal import HTTPCore
import Platform
import Synchronization

/// The certificates that a manager trusts, read and parsed once for all its connections.
///
/// libcurl itself caches a parsed file only when neither a CA folder nor certificates in memory are set besides it.
/// Without a cache, parsing a system's 150 authorities costs each fresh connection some 40 ms of processor time.
final class TrustStore: Sendable {
    private struct State {
        var store: CertificateStore?
        /// The file's stamp at the last read, whether that succeeded or failed.
        var stamp: FileStamp?
        var isReading = false
    }

    /// Whether the app chose the certificates. If so, a malformed one is an error; if not, those before it are used.
    private let isOwn: Bool
    /// The app's certificates in memory.
    private let data: Data?
    private let file: String?
    /// The folder where OpenSSL looks up the system's certificates when there is no bundle file.
    private let folder: String?
    private let warn: @Sendable (String) -> Void
    private let state = Mutex(State())
    /// The largest changed file that is read before the connection continues. Larger ones are read in the background.
    private static let sizeReadAtOnce: Int64 = 64 << 10

    /// Reads the configuration's authorities. If it has none, ``prepare()`` reads the system's later.
    init(_ configuration: TLSConfiguration, warn: @escaping @Sendable (String) -> Void) throws(NetworkError) {
        data = configuration.caData
        self.warn = warn
        isOwn = configuration.caData != nil || configuration.caFile != nil
        if isOwn {
            (file, folder) = (configuration.caFile.map(PathParts.absolute), nil)
            let parsed = try parse(contents())
            state.withLock { ($0.store, $0.stamp) = parsed }
        } else {
            file = SystemAuthorities.file
            folder = file == nil ? SystemAuthorities.folder : nil
        }
    }

    /// Returns the store for a connection that is about to be opened.
    ///
    /// A call of `stat` shows whether the file has changed. A changed file of the app is read at once and counts for this
    /// connection. The system's, or a long one, is read on another thread, so that parsing it delays no transfer, and is
    /// used for connections opened afterwards.
    func storeForConnection() -> CertificateStore? {
        let now = file.flatMap(FileStamp.init(path:))
        let (store, hasChanged) = state.withLock { state in
            guard state.store != nil, !state.isReading, let now, now != state.stamp else { return (state.store, false) }
            state.isReading = true
            return (state.store, true)
        }
        guard hasChanged, let now else { return store ?? prepare() }
        if isOwn, now.size <= Self.sizeReadAtOnce {
            readAgain(now)
            return state.withLock(\.store)
        }
        Task.detached { self.readAgain(now) }
        return store
    }

    /// Parses the system's certificates unless they are parsed already. An early call saves the engine's thread that work.
    @discardableResult
    func prepare() -> CertificateStore? {
        // Parsing under the lock keeps other threads from parsing too.
        state.withLock { state in
            if state.store == nil, let parsed = try? parse(contents()) { (state.store, state.stamp) = parsed }
            return state.store
        }
    }

    /// - Parameter seen: The file's stamp, recorded even if the file cannot be read, so that it is read once for each change.
    private func readAgain(_ seen: FileStamp) {
        var stamp = seen
        var store: CertificateStore?
        do throws(NetworkError) {
            // The system's file may be missing while it is being replaced; that is no error.
            if let contents = try contents() {
                stamp = contents.stamp
                store = try parse(contents).0
            }
        } catch {
            warn("\(error.message); the certificates that were read before remain in use")
        }
        state.withLock { state in
            state.isReading = false
            state.stamp = stamp
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

/// The places where the system keeps its trusted certificates.
private enum SystemAuthorities {
    /// The file that libcurl was built to use, or else the usual one of a distribution.
    static var file: String? {
        let usual = [
            "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
            "/etc/ssl/cert.pem",
        ]
        return (builtIn(\.cainfo).map { [$0] + usual } ?? usual).first { FileStamp(path: $0) != nil }
    }

    /// The folder that libcurl was built to use, or else the usual one of distributions.
    static var folder: String { builtIn(\.capath) ?? "/etc/ssl/certs" }

    private static func builtIn(_ path: KeyPath<curl_version_info_data, UnsafePointer<CChar>?>) -> String? {
        (GlobalCurl.info?.pointee[keyPath: path]).map { String(cString: $0) }
    }
}
