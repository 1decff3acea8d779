import Cryptography
package import FoundationEssentials
package import HTTPCore

/// Who asks: what of a request tells its sender's answers from those of others.
///
/// The answer to a request with credentials is for whoever has the same ones, unless the server says `public`, or the app
/// names the partition that the answer belongs to. One to a request without any is for everybody whom `Vary` lets have it.
package struct RequestIdentity: Hashable, Sendable {
    /// Stands among ``CacheEntry/varyFields`` for the credentials of the request. Not a name that a field could have.
    static let field = ":credentials"

    /// The user as the app names it; credentials do not count then. `nil` for none.
    package var partition: String?
    /// A keyed digest of the credentials; `nil` when there are none, or they do not count.
    package private(set) var credentials: String?
    /// What the cookie jar adds to the request; `nil` for nothing.
    package private(set) var cookies: String?
    /// Whether there are other credentials than `Authorization`.
    private var hasOtherCredentials = false

    /// Everybody.
    package static let everybody = RequestIdentity()

    private init() {}

    /// The sender of a request.
    ///
    /// - Parameters:
    ///   - partition: the user as the app names it.
    ///   - secretFields: which fields hold credentials.
    ///   - cookies: what the cookie jar adds.
    ///   - key: keeps credentials from being guessed by their digest.
    package init(
        of request: HTTPRequest, partition: String?, secretFields: SecretHeaders, cookies: String?, key: () -> Data
    ) {
        self.partition = partition
        self.cookies = cookies
        guard partition == nil else { return }
        var digest = KeyDigest()
        var isEmpty = true
        if !request.headers.hasNoFields {
            for field in request.headers.fields {
                guard let value = field.value,
                    secretFields.contains(field.name) || request.secretHeaders.contains(field.name)
                else { continue }
                digest.add(field.name.lowercased(), value)
                isEmpty = false
                if !field.name.equalsIgnoringASCIICase("Authorization") { hasOtherCredentials = true }
            }
        }
        if let cookies {
            digest.add(":jar", cookies)
            isEmpty = false
            hasOtherCredentials = true
        }
        if let authentication = request.authentication {
            digest.add(":authentication", authentication.secretText)
            isEmpty = false
        }
        if !isEmpty { credentials = digest.text(key: key()) }
    }

    /// The fields that select an answer to this sender, ``VaryRule/fields(of:)`` and, where they count, the credentials.
    package func varyFields(_ fields: [String], of headers: HTTPHeaders, _ mode: CacheMode = .private) -> [String] {
        guard credentials != nil, !VaryRule.matchesNothing(fields), !isForEverybody(CacheControl(headers, mode)) else {
            return fields
        }
        return (fields + [Self.field]).sorted()
    }

    /// Whether an answer to this sender is for others too: the server says `public`, or speaks to a shared cache (§3.5).
    /// `must-revalidate` lets it answer others as far as `Authorization` goes; of cookies it says nothing.
    private func isForEverybody(_ control: CacheControl) -> Bool {
        control.isPublic || control.sharedMaxAge != nil || control.allowsAuthorization && !hasOtherCredentials
    }
}

extension Authentication {
    /// Scheme, user and secret, for comparing only.
    fileprivate var secretText: String {
        switch self {
        case .bearer(let token): "bearer\u{0}\(token)"
        case .basic(let user, let password): "basic\u{0}\(user)\u{0}\(password)"
        case .digest(let user, let password): "digest\u{0}\(user)\u{0}\(password)"
        case .any(let user, let password): "any\u{0}\(user)\u{0}\(password)"
        }
    }
}
