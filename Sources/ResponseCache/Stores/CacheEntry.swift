public import FoundationEssentials
public import HTTPCore

/// A stored response without its body: what was asked, what was answered, and when.
public struct CacheEntry: Sendable {
    /// What it is found by.
    public var key: CacheKey
    /// The method of the request.
    public var method: String
    /// The URL of the request, without user information and fragment.
    public var url: String
    /// The name of the domain's row, if the request had one.
    public var domain: String?
    /// The name of the server's row, if the request had one.
    public var server: String?
    /// The user whose it is; `nil` for everybody's.
    public var partition: String?

    /// The status code of the answer.
    public var status: Int
    /// The reason phrase of the answer.
    public var reason: String
    /// The header fields of the answer, in order, without those that must not be stored (RFC 9111 §3.1).
    public var headers: HTTPHeaders
    /// When the request was sent, by the wall clock.
    public var requestTime: Date
    /// When the answer came, by the wall clock.
    public var responseTime: Date
    /// When it was used last, by the wall clock: sliding times to live count from here.
    public var lastUse: Date
    /// Whether it was found to be expired once. A clock that is put back does not make it fresh again.
    public var isExpired = false
    /// Whether it is kept when room is made.
    public var isPinned = false
    /// The names of the request's fields that `Vary` selects, in lower case, sorted.
    public var varyFields: [String] = []

    /// The bytes of the body. Known once it was written.
    public var bodyByteCount: Int64 = 0
    /// Where it was found. A store sets it when it hands the entry out.
    public var tier = Tier.memory

    /// The body, while it waits to be written.
    var waitingBody: Data?

    /// What the store that gave it out noted on it.
    var mark = StorageMark()

    /// Where an entry was found.
    public enum Tier: String, Hashable, Sendable {
        /// In the memory of the process.
        case memory
        /// On disk.
        case disk
    }

    /// An entry for the answer to a request.
    public init(
        key: CacheKey, method: String, url: String, status: Int, reason: String = "", headers: HTTPHeaders,
        requestTime: Date, responseTime: Date
    ) {
        self.key = key
        self.method = method
        self.url = url
        self.status = status
        self.reason = reason
        self.headers = headers
        self.requestTime = requestTime
        self.responseTime = responseTime
        lastUse = responseTime
    }
}
