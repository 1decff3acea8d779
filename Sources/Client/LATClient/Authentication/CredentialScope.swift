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
            return URLReference.origin(of: url).map(origins.contains) ?? false
        }
    }
}
