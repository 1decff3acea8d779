/// The rows of a table file. Every value has its source position.
package struct DomainTableFile: Sendable {
    /// The name of the file in messages.
    package var name: String
    package var defaults = SettingsEntry()
    /// The domains in file order.
    package var domains: [DomainEntry] = []
    /// The servers in file order.
    package var servers: [ServerEntry] = []

    /// The settings of all rows that have some, `defaults` first.
    var allSettings: [SettingsEntry] {
        [defaults] + domains.map(\.settings) + servers.filter(\.hasSettings).map(\.settings)
    }

    /// The result of reading a file.
    package struct Reading: Sendable {
        /// What could be read. It must not be used when there are errors.
        package var file: DomainTableFile
        /// The diagnostics in file order.
        package var diagnostics: [TableDiagnostic]

        package var errors: [TableDiagnostic] { diagnostics.filter { $0.severity == .error } }
    }

    /// Reads and checks a whole file.
    package static func read(_ bytes: [UInt8], name: String, files: AllowedFiles = .any) -> Reading {
        let document = JSON5Document(bytes, name: name)
        guard let root = document.root else {
            return Reading(file: DomainTableFile(name: name), diagnostics: document.diagnostics.inFileOrder)
        }
        var reader = TableReader(document.source)
        reader.readTable(root)
        let diagnostics =
            document.diagnostics + reader.diagnostics + reader.ending
            + files.diagnostics(of: reader.file, document.source)
        return Reading(file: reader.file, diagnostics: diagnostics.inFileOrder)
    }
}

/// The settings that `defaults`, domains and servers have in common. A server's settings take precedence over those of
/// its domain, and these over `defaults`.
package struct SettingsEntry: Sendable {
    package enum Cache: String, Sendable, CaseIterable {
        case networkOnly, writeOnly, cacheOnly, cacheElseNetwork, cacheThenNetwork, networkElseCache, http
    }

    package enum TimeToLive: Hashable, Sendable {
        case fixed(Duration)
        case sliding(Duration)
        case forever
    }

    package enum ParameterEncoding: String, Sendable, CaseIterable {
        case json, form
    }

    package enum Dates: Hashable, Sendable {
        case iso8601
        case unixSeconds
        case unixMilliseconds
        case secondsSince2001
        case pattern(String)
    }

    package enum Keys: String, Sendable, CaseIterable {
        case asDeclared, snakeCase
    }

    package enum Proxy: Hashable, Sendable {
        case environment
        case direct
        case url(String)
    }

    package enum Redirects: Hashable, Sendable {
        case automatic
        case none
        case follow(limit: Int)
    }

    package enum Simulation: Hashable, Sendable {
        case off
        case directory(String, delay: Duration?)
        case baseURL(String, delay: Duration?)
    }

    /// A name of one of the manager's authenticators or sealers.
    package enum Named: Hashable, Sendable {
        /// `sealer: null`: none, even if the manager or a row that this one inherits from has one.
        case none
        case named(String)
    }

    package enum Compression: String, Hashable, Sendable, CaseIterable {
        case gzip
        /// `compressBody: null`: no compression, even if a row that this one inherits from has one.
        case none
    }

    package enum TLSVersion: String, Sendable, CaseIterable {
        // swift-format-ignore: AlwaysUseLowerCamelCase
        case v1_2 = "1.2"
        // swift-format-ignore: AlwaysUseLowerCamelCase
        case v1_3 = "1.3"
    }

    /// The members of `retry` without `retries`.
    package struct Retry: Sendable {
        package var statuses: Located<Set<Int>>?
        package var firstWait: Located<Duration>?
        package var longestWait: Located<Duration>?
        package var longestRetryAfter: Located<Duration>?
        package var repeatsOnlyIdempotent: Located<Bool>?
    }

    package struct Events: Sendable {
        package var reconnect: Located<Bool>?
        package var firstWait: Located<Duration>?
        package var longestWait: Located<Duration>?
        package var attempts: Located<Int>?
        package var statuses: Located<Set<Int>>?
        package var endsAt: Located<String>?
        package var eventLimit: Located<Int>?
    }

    package struct TLS: Sendable {
        package var caFile: Located<String>?
        package var clientCertificate: Located<ClientCertificate>?
        package var minimumVersion: Located<TLSVersion>?
        package var pins: Located<[String]>?
    }

    package enum ClientCertificate: Hashable, Sendable {
        case pkcs12(file: String, Password)
        case pem(certificate: String, key: String, Password)
    }

    package enum Password: Hashable, Sendable {
        case none
        case text(String)
        /// The name of an environment variable.
        case variable(String)
    }

    /// `limits: null` makes a value without limits.
    package struct Limits: Hashable, Sendable {
        package var maxConcurrentRequests: Int?
        package var perSecond: Double?
        package var burst: Int?
    }

    package enum Circuit: Hashable, Sendable {
        /// `circuit: null`: none, even if the manager or a row that this one inherits from has one.
        case none
        case breaker(failures: Int?, pause: Duration?, statuses: Set<Int>?)
    }

    package enum EnvelopeChoice: Sendable {
        /// `envelope: null`: no envelope, even if a row that this one inherits from has one.
        case none
        case envelope(EnvelopeEntry)
    }

    package var timeout: Located<Duration>?
    package var connectTimeout: Located<Duration>?
    package var idleTimeout: Located<Duration>?
    package var maxConnectionsPerHost: Located<Int>?
    package var retries: Located<Int>?
    package var retry = Retry()
    package var events = Events()
    package var tls = TLS()
    package var limits: Located<Limits>?
    package var circuit: Located<Circuit>?
    package var cache: Located<Cache>?
    package var ttl: Located<TimeToLive>?
    package var parameterEncoding: Located<ParameterEncoding>?
    package var dates: Located<Dates>?
    package var keys: Located<Keys>?
    package var proxy: Located<Proxy>?
    package var redirects: Located<Redirects>?
    package var simulate: Located<Simulation>?
    package var envelope: Located<EnvelopeChoice>?
    package var volatileParameters: Located<[String]>?
    package var cachePartition: Located<String>?
    package var authenticator: Located<Named>?
    package var sealer: Located<Named>?
    package var compressBody: Located<Compression>?
    package var secretHeaders: Located<[String]>?
    /// A `nil` value removes the field.
    package var headers: [(name: String, value: Located<String?>)] = []
    package var parameters: [(name: String, value: Located<JSON5Node>)] = []

    package init() {}
}

/// The envelope of responses: the paths of their code, message and data, and the codes that mean success.
package struct EnvelopeEntry: Sendable {
    package enum Code: Hashable, Sendable {
        case number(JSON5Number)
        case text(String)
    }

    package var code: [String] = []
    package var message: [String]?
    package var data: [String]?
    package var success: [Code] = []
    package var messages: [(code: String, text: String)] = []
}

/// A row of `domains`.
package struct DomainEntry: Sendable {
    package var name: Located<String>
    package var baseURL: Located<String>?
    /// The URLs of each environment: its base URL, then its mirrors.
    package var environments: [(name: String, urls: Located<[String]>)] = []
    package var mirrors: Located<[String]>?
    package var settings = SettingsEntry()
}

/// A row of `servers`.
package struct ServerEntry: Sendable {
    package var name: Located<String>
    package var domain: Located<String>?
    package var path: Located<String>?
    package var method: Located<String>?
    package var allowsAbsolute: Located<Bool>?
    /// Empty, or the settings: most rows of a large table set none, and settings take some kilobytes.
    private var stored: [SettingsEntry] = []

    init(name: Located<String>) { self.name = name }

    package var hasSettings: Bool { !stored.isEmpty }

    package var settings: SettingsEntry {
        get { stored.first ?? SettingsEntry() }
        set { stored = [newValue] }
    }
}
