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

    private init<Value: Setting>(
        _ name: String, _ path: WritableKeyPath<Values, Value> & Sendable, _ roles: Roles = [],
        areEqual: @escaping @Sendable (Value, Value) -> Bool = { $0 == $1 }
    ) {
        self.name = name
        self.roles = roles
        set = { if $1[keyPath: path].isSet { $0[keyPath: path] = $1[keyPath: path].over($0[keyPath: path]) } }
        self.areEqual = { areEqual($0[keyPath: path], $1[keyPath: path]) }
        hash = { $0[keyPath: path].hash(into: &$1) }
        isSetIn = { $0[keyPath: path].isSet }
    }

    /// What a setting is for.
    package struct Roles: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The engine uses it for a transfer. The others are for the stages above it.
        package static let transfer = Roles(rawValue: 1)
        /// It can change the response, so requests with different values are never the same one.
        package static let response = Roles(rawValue: 2)
    }

    package func isSet(in options: RequestOptions) -> Bool { isSetIn(options.storage.values) }

    /// All settings. `retryPolicy` is before `retries`, which it sets.
    package static let all: [OptionKey] = [
        OptionKey("timeout", \.timeout, [.transfer, .response]),
        OptionKey("connectTimeout", \.connectTimeout, .transfer),
        OptionKey("idleTimeout", \.idleTimeout, .transfer),
        OptionKey("deadline", \.deadline),
        OptionKey("headers", \.headers),
        OptionKey("replacesGlobalHeaders", \.replacesGlobalHeaders, .response),
        OptionKey("cachePolicy", \.cachePolicy, .response),
        OptionKey("staleAfter", \.staleAfter, .response),
        OptionKey("cachesUnsafeMethods", \.cachesUnsafeMethods),
        OptionKey("cachePartition", \.cachePartition) { $0.hasSameBytes(as: $1) },
        OptionKey("parameterEncoding", \.parameterEncoding),
        OptionKey("coding", \.coding),
        OptionKey("retryPolicy", \.retryPolicy),
        OptionKey("retries", \.retries),
        OptionKey("redirects", \.redirects, .response),
        OptionKey("decompresses", \.decompresses, [.transfer, .response]),
        OptionKey("digests", \.digests, [.transfer, .response]),
        OptionKey("contentCoding", \.contentCoding, .transfer),
        OptionKey("trailers", \.trailers, [.transfer, .response]),
        OptionKey("authentication", \.authentication, [.transfer, .response]),
        OptionKey("authenticator", \.authenticator, .response),
        OptionKey("sealing", \.sealing, .response),
        OptionKey("signer", \.signer, .response),
        OptionKey("priority", \.priority),
        OptionKey("waitsForConnectivity", \.waitsForConnectivity),
        OptionKey("version", \.version, [.transfer, .response]),
        OptionKey("unixSocketPath", \.unixSocketPath, [.transfer, .response]) { $0.hasSameBytes(as: $1) },
        OptionKey("proxy", \.proxy, [.transfer, .response]),
        OptionKey("maxConnectionsPerHost", \.maxConnectionsPerHost, .transfer),
        OptionKey("tls", \.tls, [.transfer, .response]),
        OptionKey("maxBodySize", \.maxBodySize, [.transfer, .response]),
        OptionKey("maxReceiveRate", \.maxReceiveRate, .transfer),
        OptionKey("maxSendRate", \.maxSendRate, .transfer),
        OptionKey("streamsBody", \.streamsBody, .transfer),
        OptionKey("acceptedStatuses", \.acceptedStatuses),
        OptionKey("tag", \.tag),
        OptionKey("duplicates", \.duplicates),
        OptionKey("isBarrier", \.isBarrier),
        OptionKey("ignoresLimits", \.ignoresLimits),
        OptionKey("traceParent", \.traceParent),
        OptionKey("userInfo", \.userInfo),
        OptionKey("observers", \.observers),
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
    package var isSet: Bool { caFile != nil || clientCertificate != nil || minimumVersion != nil || pins != nil }

    package func over(_ broader: HTTPRequest.TLS) -> HTTPRequest.TLS {
        HTTPRequest.TLS(
            caFile: caFile ?? broader.caFile, clientCertificate: clientCertificate ?? broader.clientCertificate,
            minimumVersion: minimumVersion ?? broader.minimumVersion, pins: pins ?? broader.pins)
    }
}
