/// A setting of ``RequestOptions``, by name. What handles all settings alike is made from this list.
package struct OptionKey: Sendable {
    typealias Values = RequestOptions.Values

    /// The name of the property.
    package let name: String
    package let roles: Roles
    /// Sets the setting of the first values to that of the second, where they set it.
    let set: @Sendable (inout Values, Values) -> Void
    let areEqual: @Sendable (Values, Values) -> Bool
    let hash: @Sendable (Values, inout Hasher) -> Void
    private let isSetIn: @Sendable (Values) -> Bool
    /// Writes the setting for an outbox, and reads it; `nil` for one that cannot be kept.
    let keeping: (write: @Sendable (Values) -> JSONValue?, read: @Sendable (inout Values, JSONValue) -> Void)?

    private init<Value: Setting>(
        _ name: String, _ path: WritableKeyPath<Values, Value> & Sendable, _ roles: Roles = [],
        kept form: KeptForm<Value>? = nil, areEqual: @escaping @Sendable (Value, Value) -> Bool = { $0 == $1 }
    ) {
        self.name = name
        self.roles = roles
        set = { if $1[keyPath: path].isSet { $0[keyPath: path] = $1[keyPath: path].over($0[keyPath: path]) } }
        self.areEqual = { areEqual($0[keyPath: path], $1[keyPath: path]) }
        hash = { $0[keyPath: path].hash(into: &$1) }
        isSetIn = { $0[keyPath: path].isSet }
        keeping = form.map { form in
            ({ form.write($0[keyPath: path]) }, { $0[keyPath: path] = form.read($1) })
        }
    }

    /// What a setting is for.
    package struct Roles: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The engine uses it for a transfer. The others are for the stages above it.
        package static let transfer = Roles(rawValue: 1)
        /// It can change the response, so requests with different values are never the same one.
        package static let response = Roles(rawValue: 2)
        /// It only matters to a call whose caller waits for it, or an outbox keeps it elsewhere.
        static let immediate = Roles(rawValue: 4)
    }

    package func isSet(in options: RequestOptions) -> Bool { isSetIn(options.storage.values) }

    /// All settings. `retryPolicy` is before `retries`, which it sets.
    package static let all: [OptionKey] = [
        OptionKey("timeout", \.timeout, [.transfer, .response], kept: .time),
        OptionKey("connectTimeout", \.connectTimeout, .transfer, kept: .time),
        OptionKey("idleTimeout", \.idleTimeout, .transfer, kept: .time),
        OptionKey("deadline", \.deadline, kept: .time),
        OptionKey("headers", \.headers, .immediate),
        OptionKey("replacesGlobalHeaders", \.replacesGlobalHeaders, .response, kept: .flag),
        OptionKey("cachePolicy", \.cachePolicy, [.response, .immediate]),
        OptionKey("staleAfter", \.staleAfter, [.response, .immediate]),
        OptionKey("cacheStatus", \.cacheStatus, [.response, .immediate]),
        OptionKey("usesDictionaries", \.usesDictionaries, [.response, .immediate]),
        OptionKey("cachesUnsafeMethods", \.cachesUnsafeMethods, .immediate),
        OptionKey("cachePartition", \.cachePartition, .immediate) { $0.hasSameBytes(as: $1) },
        OptionKey("parameterEncoding", \.parameterEncoding, kept: .encoding),
        OptionKey("coding", \.coding, .immediate),
        OptionKey("retryPolicy", \.retryPolicy, .immediate),
        OptionKey("retries", \.retries, .immediate),
        OptionKey("hedge", \.hedge, .immediate),
        OptionKey("redirects", \.redirects, .response),
        OptionKey("decompresses", \.decompresses, [.transfer, .response], kept: .flag),
        OptionKey("digests", \.digests, [.transfer, .response], kept: .digests),
        OptionKey("contentCoding", \.contentCoding, .transfer, kept: .coding),
        OptionKey("trailers", \.trailers, [.transfer, .response]),
        OptionKey("authentication", \.authentication, [.transfer, .response]),
        OptionKey("authenticator", \.authenticator, .response, kept: .authenticator),
        OptionKey("sealing", \.sealing, .response, kept: .sealing),
        OptionKey("signer", \.signer, .response, kept: .signer),
        OptionKey("priority", \.priority, kept: .priority),
        OptionKey("waitsForConnectivity", \.waitsForConnectivity, .immediate),
        OptionKey("version", \.version, [.transfer, .response]),
        OptionKey("unixSocketPath", \.unixSocketPath, [.transfer, .response], kept: .text) { $0.hasSameBytes(as: $1) },
        OptionKey("proxy", \.proxy, [.transfer, .response]),
        OptionKey("maxConnectionsPerHost", \.maxConnectionsPerHost, .transfer, kept: .count),
        OptionKey("addresses", \.addresses, .transfer, kept: .addresses),
        OptionKey("tls", \.tls, [.transfer, .response]),
        OptionKey("maxBodySize", \.maxBodySize, [.transfer, .response], kept: .number),
        OptionKey("maxReceiveRate", \.maxReceiveRate, .transfer, kept: .number),
        OptionKey("maxSendRate", \.maxSendRate, .transfer, kept: .number),
        OptionKey("streamsBody", \.streamsBody, [.transfer, .immediate]),
        OptionKey("acceptedStatuses", \.acceptedStatuses, kept: .statuses),
        OptionKey("tag", \.tag, kept: .text),
        OptionKey("duplicates", \.duplicates, .immediate),
        OptionKey("isBarrier", \.isBarrier, .immediate),
        OptionKey("ignoresLimits", \.ignoresLimits, kept: .flag),
        OptionKey("chaos", \.chaos, [.response, .immediate]),
        OptionKey("traceParent", \.traceParent, .immediate),
        OptionKey("userInfo", \.userInfo, .immediate),
        OptionKey("observers", \.observers, .immediate),
    ]
}

/// The type of a setting: it knows whether it is set, and what it is over the value of a broader level.
package protocol Setting: Hashable, SendableMetatype {
    var isSet: Bool { get }
    /// This value, which is set, over that of a broader level.
    func over(_ broader: Self) -> Self
}

extension Setting {
    package func over(_ broader: Self) -> Self { self }
}

extension Optional: Setting where Wrapped: Hashable {
    package var isSet: Bool { self != nil }
}

extension RedirectPolicy: Setting {
    package var isSet: Bool { self != .automatic }
}

extension HTTPVersionPolicy: Setting {
    package var isSet: Bool { self != .automatic }
}

extension RequestOptions.AuthenticatorChoice: Setting {
    package var isSet: Bool { self != .automatic }
}

extension RequestOptions.Sealing: Setting {
    package var isSet: Bool { self != .automatic }
}

extension RequestOptions.SignerChoice: Setting {
    package var isSet: Bool { self != .automatic }
}

extension HTTPHeaders: Setting {
    package var isSet: Bool { !hasNoFields }

    package func over(_ broader: HTTPHeaders) -> HTTPHeaders { broader.merging(self) }
}

extension [String: JSONValue]: Setting {
    package var isSet: Bool { !isEmpty }
}

extension HTTPRequest.TLS: Setting {
    package var isSet: Bool {
        caFile != nil || clientCertificate != nil || minimumVersion != nil || pins != nil || crlFile != nil
            || crlURL != nil || revocation != nil
    }

    package func over(_ broader: HTTPRequest.TLS) -> HTTPRequest.TLS {
        var tls = HTTPRequest.TLS(
            caFile: caFile ?? broader.caFile, clientCertificate: clientCertificate ?? broader.clientCertificate,
            minimumVersion: minimumVersion ?? broader.minimumVersion, pins: pins ?? broader.pins)
        // With a file nothing is fetched, so a narrower address replaces it.
        tls.crlFile = crlFile ?? (crlURL == nil ? broader.crlFile : nil)
        tls.crlURL = crlURL ?? broader.crlURL
        tls.revocation = revocation ?? broader.revocation
        return tls
    }
}
