import CurlTransport
import HTTPCore
import Synchronization

/// The origins to which a manager sends the secret fields that its header provider and authenticator set.
///
/// These are the origins of the base URL, of the table's domains with their mirrors, and
/// ``CentralRequestManager/Configuration/credentialOrigins``. A manager with none of these sends to every origin.
final class CredentialScope: Sendable {
    /// The fields that hold credentials, in addition to those that a row declares.
    let secrets: Secrets

    private let named: [String]
    private let baseURL: @Sendable () -> String?
    private let table: @Sendable () -> DomainTable?
    private let state = Mutex(State())

    private struct State {
        /// The table and base URL that the origins were computed from.
        var snapshot: TableSnapshot?
        var baseURL: String?
        /// `nil` for every origin.
        var origins: Set<String>?
        /// The result by scheme and authority, as they are written.
        var known: [Substring: Bool] = [:]
        var isMade = false
    }

    init(
        secrets: Secrets, named: [String], baseURL: @escaping @Sendable () -> String?,
        table: @escaping @Sendable () -> DomainTable?
    ) {
        self.secrets = secrets
        self.named = named
        self.baseURL = baseURL
        self.table = table
    }

    /// Whether a URL may receive credentials.
    func includes(_ url: String, of call: Call) -> Bool {
        // A simulated request is sent nowhere, or to a server that the app has chosen.
        if call.details.simulation != nil { return true }
        // A server that has led the call to another origin chooses its URLs from then on.
        if call.request.context.hasLeftOrigin { return false }
        let snapshot = table()?.current
        let baseURL = baseURL()
        return state.withLock { state in
            if !state.isMade || state.snapshot !== snapshot || state.baseURL != baseURL {
                let own = [baseURL].compactMap { $0 } + (snapshot?.baseURLs ?? []) + named
                state = State(
                    snapshot: snapshot, baseURL: baseURL,
                    origins: own.isEmpty ? nil : Set(own.map(URLReference.httpForm).compactMap(URLReference.origin)),
                    isMade: true)
            }
            guard let origins = state.origins else { return true }
            let authority = Self.authority(of: url)
            if let isKnown = state.known[authority] { return isKnown }
            let isIncluded = URLReference.origin(of: url).map(origins.contains) ?? false
            if state.known.count >= 1_024 { state.known = [:] }
            state.known[Substring(String(authority))] = isIncluded
            return isIncluded
        }
    }

    /// Scheme and authority as they are written: the part before the path.
    private static func authority(of url: String) -> Substring {
        // The authority of a socket is its path.
        if UnixAddress.isOne(url) { return url.prefix { $0 != "?" && $0 != "#" } }
        let bytes = url.utf8
        guard let slash = bytes.firstIndex(of: UInt8(ascii: "/")), bytes[slash...].starts(with: "//".utf8)
        else { return url[...] }
        let start = bytes.index(slash, offsetBy: 2)
        let end = bytes[start...].firstIndex { $0 == 0x2F || $0 == 0x3F || $0 == 0x23 || $0 == 0x5C } ?? bytes.endIndex
        return url[..<end]
    }
}
