import HTTPCore
import Synchronization

/// What the rooms of the corridor have to know of a request beside what is sent.
struct RequestContext: Sendable {
    /// The addresses that may be asked, the preferred one first: the domain's base and its mirrors, each with the path
    /// joined, without the parameters. Empty for a request that names its URL itself.
    var addresses: [String] = []
    /// What is remembered of mirrors, by domain and base URLs, so that a row that was changed begins anew.
    var mirrorKey = ""
    /// Headers of the domain and the server row, in that order.
    var rowHeaders = HTTPHeaders()
    /// Whether only the request's own headers are sent.
    var replacesGlobalHeaders = false
    /// Parameters, files and body that are put together for each attempt.
    var content: RequestContent?
    /// What was shown to the app's interceptors of the headers that are laid later; `nil` when there are none to see it.
    var preview: HeaderPreview?
    /// The query that the parameters made, once it is in the addresses.
    var ownQuery: String?
    /// Answers in the server's place.
    var simulation: Simulation?
    /// Fields the domain declares secret, beside the manager's.
    var secretHeaders: SecretHeaders = []
    /// The server's or entity's path, with its names in braces; for fixtures.
    var path: String?
    /// The same with the names filled: what comes after the base URL.
    var filledPath: String?
    /// The names of the table's rows, for the cache.
    var domain: String?
    var server: String?
    /// Parameters of the rows that do not count for the cache.
    var volatileParameters: Set<String> = []
    /// Whether an answer is a success to its envelope and judge, so that it may be stored; `nil` when there are none.
    var accepts: (@Sendable (HTTPResponse) -> Bool)?
    /// Is handed what the cache has before the network is asked.
    var deliversCached: (@Sendable (HTTPResponse) -> Void)?
    /// Takes the stale answer that stands in when all attempts have failed.
    var fallback: CacheFallback?
}

extension HTTPRequest {
    /// Whether all that is sent can be sent again, put together already or not.
    var isReplayable: Bool {
        let content = context.content
        return body?.isReplayable ?? true && content?.body?.isReplayable ?? true
            && content?.files.allSatisfy(\.isReplayable) ?? true
    }

    /// The context a face of this module gave the request; an empty one for a request made by hand.
    var context: RequestContext {
        get { attachment as? RequestContext ?? RequestContext() }
        set { attachment = newValue }
    }
}

/// Holds a stale answer while other attempts are made.
final class CacheFallback: Sendable {
    private let held = Mutex<HTTPResponse?>(nil)

    var response: HTTPResponse? { held.withLock { $0 } }

    func note(_ response: HTTPResponse) { held.withLock { $0 = response } }
}
