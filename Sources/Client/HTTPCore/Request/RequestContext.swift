import Synchronization

/// What the pipeline notes about a request for the stages after it, and what the engine must know about its connection.
/// Copies share their storage until one of them changes.
@dynamicMemberLookup
@usableFromInline
package struct RequestContext: Sendable, Hashable {
    @usableFromInline var storage: Storage?

    @usableFromInline
    package struct Values: Sendable, Hashable {
        /// Whether the connection stays open, as that of an event stream does. It does not count towards the limits of
        /// connections.
        package var isLive = false
        /// Whether the request asks for another protocol on its connection (RFC 9110 §7.8), as that of a WebSocket does. The
        /// response 101 then has an ``HTTPResponse/output``.
        package var upgrades = false
        /// Whether the sender judges responses that are parts of the content itself.
        package var judgesParts = false
        /// Whether the request is sent on a new connection, which no other request uses.
        package var opensConnection = false
        /// The addresses that the requests for one response use, which avoid each other's; `nil` for a request that is alone.
        package var usedAddresses: UsedAddresses?
        /// The header fields of the table's rows. They take precedence over the manager's. A provider's and the request's own
        /// take precedence over them.
        package var rowHeaders = HTTPHeaders()
        /// The fields that the request's row declares secret, in addition to the manager's.
        package var rowSecrets = Secrets()
        /// Whether the request gets no credentials of files, and stays as it is where HSTS asks for TLS.
        package var isAnonymous = false
        /// How often the request has waited for revocation lists that a handshake lacked.
        package var listWaits = 0
        /// Whether a redirect has led to another origin than the one of the caller's URL.
        package var hasLeftOrigin = false
        /// The entry of an outbox whose request this is.
        package var entry: KeptEntry?
        /// The names of the fields that the manager's signer has added, in lower case. Their values differ each time.
        package var signatureFields: Set<String> = []
        /// The dictionary that the request offers for its response; `nil` for none.
        package var dictionary: CompressionDictionary?
    }

    // Sendable: written only while there is a single reference.
    @usableFromInline
    final class Storage: @unchecked Sendable {
        @exclusivity(unchecked) @usableFromInline var values: Values

        @usableFromInline init(_ values: Values) { self.values = values }

        @usableFromInline static let standard = Values()
    }

    /// An entry of an outbox: its number and that of the attempt, and what the boundary of a form is made of.
    package struct KeptEntry: Sendable, Hashable {
        let id: Int64
        let attempt: Int
        package let boundary: String?

        package init(id: Int64, attempt: Int, boundary: String?) {
            (self.id, self.attempt, self.boundary) = (id, attempt, boundary)
        }
    }

    package init() {}

    package subscript<Value>(dynamicMember value: WritableKeyPath<Values, Value>) -> Value {
        // Inlined, so that a look-up is a load and not one by a key path at run time.
        @inlinable get {
            guard let storage else { return Storage.standard[keyPath: value] }
            return storage.values[keyPath: value]
        }
        @inlinable set {
            if storage == nil || !isKnownUniquelyReferenced(&storage) {
                storage = Storage(storage?.values ?? Storage.standard)
            }
            storage?.values[keyPath: value] = newValue
        }
    }

    package var isStandard: Bool { storage == nil }

    /// Whether both share one storage, and so are equal.
    package func isSame(as other: RequestContext) -> Bool { storage === other.storage }

    @usableFromInline
    package static func == (lhs: RequestContext, rhs: RequestContext) -> Bool {
        lhs.isSame(as: rhs)
            || (lhs.storage?.values ?? Storage.standard) == (rhs.storage?.values ?? Storage.standard)
    }

    @usableFromInline
    package func hash(into hasher: inout Hasher) { hasher.combine(storage?.values ?? Storage.standard) }
}

/// The addresses that several requests for one response have used, as texts.
package final class UsedAddresses: Sendable, ComparedByIdentity {
    private let addresses = Mutex<Set<String>>([])

    package init() {}

    package var all: Set<String> { addresses.withLock { $0 } }

    package func insert(_ address: String) { addresses.withLock { _ = $0.insert(address) } }
}
