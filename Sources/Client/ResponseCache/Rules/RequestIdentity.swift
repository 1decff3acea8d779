import Cryptography
package import FoundationEssentials
package import HTTPCore

/// The sender of a request, as far as it decides which stored responses the request may use.
///
/// The response to a request with credentials is for requests with the same credentials, unless the server says `public`
/// or, in a shared cache, another directive of RFC 9111 §3.5, or the app names a partition. The response to a
/// request without credentials is for every request that `Vary` selects.
package struct RequestIdentity: Hashable, Sendable {
    /// The element of ``CacheEntry/varyFields`` that stands for the credentials. No field can have this name.
    package static let field = ":credentials"

    /// The user as named by the app, which replaces the credentials; `nil` for none.
    package var partition: String?
    /// A keyed digest of the credentials; `nil` without credentials, or with a partition.
    package private(set) var credentials: String?
    /// The cookies that the cookie jar adds to the request; `nil` for none.
    package private(set) var cookies: String?
    /// Whether there are credentials other than `Authorization`.
    private var hasOtherCredentials = false

    package static let everybody = RequestIdentity()

    private init() {}

    /// The sender of a request.
    ///
    /// - Parameters:
    ///   - secrets: The list of the fields that hold credentials.
    ///   - manager: What is no field: the client certificate, the signer.
    ///   - key: The secret key of the digest, so that credentials cannot be guessed from it.
    package init(
        of request: HTTPRequest, partition: String?, secrets: Secrets, cookies: String?, manager: [String] = [],
        key: () -> Data
    ) {
        self.partition = partition
        self.cookies = cookies
        guard partition == nil else { return }
        var digest = KeyDigest()
        if !request.headers.hasNoFields {
            for field in request.headers.fields {
                // A signature differs for each request, so the signer's identity stands for it.
                guard let value = field.value, !request.context.signatureFields.contains(field.name.lowercased()),
                    secrets.contains(header: field.name) || request.context.rowSecrets.contains(header: field.name)
                else { continue }
                digest.add(field.name.lowercased(), value)
                if !field.name.equalsIgnoringASCIICase("Authorization") { hasOtherCredentials = true }
            }
        }
        if let cookies {
            digest.add(":jar", cookies)
            hasOtherCredentials = true
        }
        if let authentication = request.authentication {
            digest.add(":authentication", authentication.secretText)
        }
        for credential in manager {
            digest.add(":manager", credential)
            hasOtherCredentials = true
        }
        if !digest.isEmpty { credentials = digest.text(key: key()) }
    }

    /// The fields that select a response to this sender: ``VaryRule/fields(of:)`` and, when they matter, the credentials.
    package func varyFields(_ fields: [String], of headers: HTTPHeaders, _ mode: CacheMode = .private) -> [String] {
        guard credentials != nil, !VaryRule.matchesNothing(fields), !isForEverybody(CacheControl(headers, mode)) else {
            return fields
        }
        return (fields + [Self.field]).sorted()
    }

    /// Whether a response to this sender is for others too: it says `public`, or `s-maxage` in a shared cache (§3.5). In
    /// a shared cache `must-revalidate` suffices too if `Authorization` is the only credential, since §3.5 ignores cookies.
    private func isForEverybody(_ control: CacheControl) -> Bool {
        control.isPublic || control.sharedMaxAge != nil || control.allowsAuthorization && !hasOtherCredentials
    }
}

extension Authentication {
    /// Scheme, user and secret, for comparison only.
    fileprivate var secretText: String {
        switch self {
        case .bearer(let token): "bearer\u{0}\(token)"
        case .basic(let user, let password): "basic\u{0}\(user)\u{0}\(password)"
        case .digest(let user, let password): "digest\u{0}\(user)\u{0}\(password)"
        case .any(let user, let password): "any\u{0}\(user)\u{0}\(password)"
        }
    }
}
