import CurlTransport
import HTTPCore
import Synchronization

/// The origins that a manager's credentials may go to: what its header provider and authenticator set of secret fields
/// is sent to these and to no other.
///
/// They are the manager's own: its base URL, the domains of its table with their mirrors, and those that the app names
/// (``CentralRequestManager/Configuration/credentialOrigins``). A manager with none of these sends them to every origin.
final class CredentialScope: Sendable {
    /// The fields that hold credentials, besides those that a row declares.
    let secrets: SecretHeaders

    private let named: [String]
    private let baseURL: @Sendable () -> String?
    private let table: @Sendable () -> DomainTable?
    private let state = Mutex(State())

    private struct State {
        /// What the origins were found in.
        var snapshot: TableSnapshot?
        var baseURL: String?
        /// `nil` for every origin.
        var origins: Set<String>?
        /// Whether an address is meant, by its scheme and authority as they are written.
        var known: [Substring: Bool] = [:]
        var isMade = false
    }

    init(
        secrets: SecretHeaders, named: [String], baseURL: @escaping @Sendable () -> String?,
        table: @escaping @Sendable () -> DomainTable?
    ) {
        self.secrets = secrets
        self.named = named
        self.baseURL = baseURL
        self.table = table
    }

    /// Whether credentials may go to a URL.
    func includes(_ url: String, of call: Call) -> Bool {
        // A server that stands in for the real one is the app's own choice.
        if call.details.simulation != nil { return true }
        let snapshot = table()?.current
        let baseURL = baseURL()
        return state.withLock { state in
            if !state.isMade || state.snapshot !== snapshot || state.baseURL != baseURL {
                let own = [baseURL].compactMap { $0 } + (snapshot?.baseURLs ?? []) + named
                state = State(
                    snapshot: snapshot, baseURL: baseURL,
                    origins: own.isEmpty ? nil : Set(own.compactMap(URLReference.origin)), isMade: true)
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

    /// Scheme and authority as they are written: what comes before the path.
    private static func authority(of url: String) -> Substring {
        let bytes = url.utf8
        guard var index = bytes.firstIndex(of: UInt8(ascii: "/")) else { return url[...] }
        index = bytes.index(after: index)
        guard index < bytes.endIndex, bytes[index] == UInt8(ascii: "/") else { return url[...] }
        let start = bytes.index(after: index)
        let end = bytes[start...].firstIndex { [0x2F, 0x3F, 0x23, 0x5C].contains($0) } ?? bytes.endIndex
        return url[..<end]
    }
}
