public import HTTPCore

extension DomainTable {
    /// The settings of a row of the table. `defaults`, a domain and a server each have their own; a request takes each
    /// setting from the last of the three that sets it, and from the manager when none does.
    ///
    /// ```swift
    /// var row = try table.domain("shop")
    /// row.settings.timeout = .seconds(5)
    /// row.settings.origin(of: "timeout")       // .code
    /// ```
    ///
    /// The settings of a request (``RequestOptions/Values``) are properties of this type, too.
    @dynamicMemberLookup
    public struct RouteSettings: Sendable {
        /// The settings of the requests.
        public var options = RequestOptions()
        /// When a request is retried, and after which delay.
        public var retry = RetrySettings()
        /// How event streams are read, and whether they are opened again.
        public var events = EventSettings()
        /// Which parameters go into the query, and how arrays are written there.
        public var query = QuerySettings()
        /// What a document says of the call.
        package var documented = DocumentedSettings()
        /// The authorities, client certificate, oldest version and pins of connections.
        public var tls = TLSSettings()
        /// The limits of the row's calls. A call passes those of its server row, of its domain and of the manager; `defaults`
        /// sets those of each domain. If a server row has limits that set no number, the limits of the domain do not apply
        /// to its calls. Default `nil`, as for all settings: not set here.
        public var limits: RequestLimits?
        /// When requests to a failing host are held back. The circuit of a server row counts its own calls alone.
        public var circuit: RequestLimits.CircuitChoice?
        /// The cache policy, without its time to live.
        public var cache: CacheChoice?
        /// How long a stored response may be used.
        public var ttl: CachePolicy.TimeToLive?
        /// How dates are written and read.
        public var dates: Coding.Dates?
        /// How the names of properties become the names of members.
        public var keys: Coding.Keys?
        /// How decimals are written and read.
        public var decimals: Coding.Decimals?
        /// Whether responses come from a source other than the server.
        public var simulation: SimulationRule?
        /// The envelope around the data in responses, with its success codes.
        public var envelope: EnvelopeChoice?
        /// Where responses that are not a success report their failure.
        public var errors: ErrorChoice?
        /// Where a page of a list says which one is next.
        public var pages: Choice<Paging>?
        /// How a job that takes longer than a request is followed.
        public var poll: Choice<Polling>?
        /// How a file is uploaded so that the upload can go on.
        public var uploads: Choice<ResumableUpload>?
        /// How tokens are got by OAuth 2.0, in place of the manager's authenticator.
        public var oauth2: OAuth2Rule?
        /// Parameters that are ignored when a cached response is looked up: timestamps, nonces.
        public var volatileParameters: [String]?
        /// Header fields that hold secrets, in addition to the manager's; those of all rows count.
        public var secretHeaders: [String]?
        /// Header fields, merged field by field; a `nil` value removes a field that a broader row sets. Default none.
        public var headers = HTTPHeaders()
        /// Parameters that every call sends unless it sets them itself, merged one by one. Default none.
        public var parameters: [String: JSONValue] = [:]

        private var record: Record?

        /// The settings as they were read or merged, and what set them. A value that differs now was set in code.
        private final class Record: Sendable {
            let settings: RouteSettings
            let origins: [String: SettingOrigin]

            init(_ settings: RouteSettings, _ origins: [String: SettingOrigin]) {
                self.settings = settings
                self.origins = origins
            }
        }

        /// Creates settings in which nothing is set.
        public init() {}

        /// A setting of the requests.
        public subscript<Value>(dynamicMember setting: WritableKeyPath<RequestOptions.Values, Value>) -> Value {
            get { options[dynamicMember: setting] }
            set { options[dynamicMember: setting] = newValue }
        }

        /// What set a value; `nil` when nothing did.
        ///
        /// - Parameter key: a key as in the table and in `explain`: `timeout`, `retry.firstWait`, `headers.X-App`.
        public func origin(of key: String) -> SettingOrigin? {
            if let known = RowKey[key] { return origin(of: known) }
            let parts = key.split(separator: ".", maxSplits: 1).map(String.init)
            switch (parts.first, parts.last) {
            case ("secretHeaders", _):
                return secretHeaders == nil ? nil : recorded(key, where: { $0.secretHeaders == secretHeaders }) ?? .code
            case ("headers", let name?):
                guard let field = headers.fields.first(where: { $0.name.equalsIgnoringASCIICase(name) }) else {
                    return nil
                }
                return origin(of: field)
            case ("parameters", let name?):
                guard let value = parameters[name] else { return nil }
                return recorded(key, where: { $0.parameters[name] == value }) ?? .code
            default: return nil
            }
        }

        func origin(of key: RowKey) -> SettingOrigin? {
            recorded(key.settingName, where: { key.areEqual($0, self) }) ?? (key.isSet(self) ? .code : nil)
        }

        func origin(of field: HTTPHeaders.Field) -> SettingOrigin {
            let isSame = { (settings: RouteSettings) in
                settings.headers.fields.contains {
                    $0.name.equalsIgnoringASCIICase(field.name) && $0.value == field.value
                }
            }
            return recorded("headers.\(field.name.lowercased())", where: isSame) ?? .code
        }

        private func recorded(_ key: String, where isUnchanged: (RouteSettings) -> Bool) -> SettingOrigin? {
            guard let record, let origin = record.origins[key], isUnchanged(record.settings) else { return nil }
            return origin
        }

        /// These settings with a record of what set them.
        func recorded(_ origins: [String: SettingOrigin]) -> RouteSettings {
            guard !origins.isEmpty else { return self }
            var settings = self
            settings.record = nil
            settings.record = Record(settings, origins)
            return settings
        }

        /// What set each header, by its name in lower case.
        package var originOfHeaders: [String: SettingOrigin] {
            headers.fields.reduce(into: [:]) { origins, field in
                origins[field.name.lowercased()] = field.value == nil ? nil : origin(of: field)
            }
        }

        /// The words of `cache` in the table.
        public enum CacheChoice: String, Hashable, Sendable, CaseIterable {
            /// ``CachePolicy/networkOnly``.
            case networkOnly
            /// ``CachePolicy/writeOnly``.
            case writeOnly
            /// ``CachePolicy/cacheOnly``.
            case cacheOnly
            /// ``CachePolicy/cacheElseNetwork(_:)`` with the row's time to live.
            case cacheElseNetwork
            /// ``CachePolicy/cacheThenNetwork``.
            case cacheThenNetwork
            /// ``CachePolicy/networkElseCache``.
            case networkElseCache
            /// ``CachePolicy/http``.
            case http
        }

        /// The cache policy with its time to live; `nil` when no row sets one. ``CacheChoice/cacheElseNetwork`` without a
        /// time to live keeps responses forever.
        public var cachePolicy: CachePolicy? {
            switch cache {
            case nil: nil
            case .networkOnly: .networkOnly
            case .writeOnly: .writeOnly
            case .cacheOnly: .cacheOnly
            case .cacheElseNetwork: .cacheElseNetwork(ttl ?? .forever)
            case .cacheThenNetwork: .cacheThenNetwork
            case .networkElseCache: .networkElseCache
            case .http: .http
            }
        }

        /// Returns these settings over others: a setting that is unset here comes from the other.
        func over(_ other: RouteSettings) -> RouteSettings {
            var merged = other
            merged.options = options.over(other.options)
            var origins: [String: SettingOrigin] = [:]
            for key in RowKey.all where !key.isShort {
                let own = origin(of: key)
                if own != nil { key.copy(&merged, self) }
                origins[key.name] = own ?? other.origin(of: key)
            }
            // Both say how a token is got, so the narrower row decides.
            if oauth2 != nil, options.authenticator == .automatic {
                (merged.options.authenticator, origins["authenticator"]) = (.automatic, nil)
            }
            // With a file nothing is fetched, so a narrower address replaces it.
            if tls.crlURL != nil, tls.crlFile == nil { (merged.tls.crlFile, origins["tls.crlFile"]) = (nil, nil) }
            let secrets = (other.secretHeaders ?? []) + (secretHeaders ?? [])
            merged.secretHeaders = secrets.isEmpty ? nil : secrets
            merged.headers = other.headers.merging(headers)
            merged.parameters = other.parameters.merging(parameters) { _, own in own }
            for settings in [other, self] {
                if let origin = settings.origin(of: "secretHeaders") { origins["secretHeaders"] = origin }
                for field in settings.headers.fields {
                    origins["headers.\(field.name.lowercased())"] = settings.origin(of: field)
                }
                for name in settings.parameters.keys {
                    origins["parameters.\(name)"] = settings.origin(of: "parameters.\(name)")
                }
            }
            return merged.recorded(origins)
        }
    }

    /// A rule of a row, or none, whatever the broader rows say.
    public enum Choice<Rule: Hashable & Sendable>: Hashable, Sendable {
        /// No rule: `null` in the table.
        case off
        /// This one.
        case rule(Rule)

        /// The rule; `nil` for ``off``.
        public var rule: Rule? {
            if case .rule(let rule) = self { rule } else { nil }
        }
    }

    /// Whether responses have an envelope with a success code: `envelope` of the table.
    public enum EnvelopeChoice: Hashable, Sendable {
        /// No envelope, whatever the broader rows say, so that no code is checked: `envelope: null`.
        case none
        /// An envelope with these parts.
        case rule(Envelope.Rule)
    }

    /// Whether responses that are not a success report a failure in their content: `errors` of the table.
    public enum ErrorChoice: Hashable, Sendable {
        /// Not so, whatever the broader rows say: `errors: null`.
        case none
        /// In these places.
        case rule(Envelope.ErrorRule)
    }

    /// A source of responses other than the server: `simulation` of the table.
    public enum SimulationRule: Hashable, Sendable {
        /// The server, whatever the broader rows say: `simulation: null`.
        case off
        /// Files of a directory, after a delay.
        case directory(String, delay: Duration?)
        /// Another base URL, after a delay.
        case baseURL(String, delay: Duration?)
    }
}
