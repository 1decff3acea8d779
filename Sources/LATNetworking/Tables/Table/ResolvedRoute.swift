import DomainTableFormat
public import HTTPCore

extension DomainTable {
    /// The route of a call: the addresses to try, the path, and the merged settings of all rows.
    ///
    /// ```swift
    /// let route = try table.resolve(server: "user.detail")
    /// route.method                                // GET
    /// route.settings.timeout                      // the server's, else the domain's, else the defaults'
    /// try route.url(["id": "a b"])                // https://app.example.org/api/v1/users/a%20b
    /// ```
    public struct ResolvedRoute: Sendable {
        private let storage: Storage

        private final class Storage: Sendable {
            let server: ServerName?
            let domain: DomainName
            let path: String
            let row: ServerRow
            let bases: [RouteBase]
            let settings: RouteSettings
            /// For each base URL, the whole URL with its parameters.
            let templates: [PathTemplate]
            let pathParameters: [String]
            let isAbsolute: Bool
            let key: String

            init(
                server: ServerName?, domain: DomainName, row: ServerRow, bases: [RouteBase],
                settings: RouteSettings
            ) throws(PathTemplate.Problem) {
                let path = row.path ?? ""
                isAbsolute = HTTPAddress.isAbsolute(path)
                let own = RouteBase(url: path, role: .base, origin: row.$path.origin ?? .code)
                pathParameters = try PathTemplate(path).parameters
                self.bases = isAbsolute ? [own] : bases
                var templates: [PathTemplate] = []
                for base in bases where !isAbsolute {
                    templates.append(try PathTemplate(RequestBuilder.join(base.url, path)))
                }
                self.templates = isAbsolute ? [try PathTemplate(path)] : templates
                key = ([domain.rawValue] + self.bases.map(\.url)).joined(separator: " ")
                self.server = server
                self.domain = domain
                self.path = path
                self.row = row
                self.settings = settings
            }
        }

        init(
            server: ServerName?, domain: DomainName, row: ServerRow, bases: [RouteBase],
            settings: RouteSettings
        ) throws(PathTemplate.Problem) {
            storage = try Storage(
                server: server, domain: domain, row: row, bases: bases, settings: settings)
        }

        /// The server; `nil` for a route made from a domain and a path.
        public var server: ServerName? { storage.server }
        /// The domain.
        public var domain: DomainName { storage.domain }
        /// The method of the row; `nil` when it has none.
        public var method: HTTPMethod? { storage.row.method }
        /// The path with its parameters, `v1/users/{id}`.
        public var path: String { storage.path }
        /// The names of the path's parameters, in order, without duplicates.
        public var pathParameters: [String] { storage.pathParameters }
        /// The URLs that the path is joined to, in the order in which they are tried: the base URL, then its mirrors. For a
        /// path that is an absolute URL, only that URL.
        public var baseURLs: [String] { storage.bases.map(\.url) }
        /// The merged settings of `defaults`, domain and server, each with its origin.
        public var settings: RouteSettings { storage.settings }
        /// The pins of the domain; empty for none.
        public var pins: [String] { settings.tls.pins ?? [] }
        /// Whether the path is an absolute URL, so that the domain's base URLs are not used.
        public var isAbsolute: Bool { storage.isAbsolute }

        /// The domain and its base URLs in one text, so that failed addresses are forgotten when the row changes.
        var key: String { storage.key }

        var bases: [RouteBase] { storage.bases }
        var row: ServerRow { storage.row }

        /// Returns the whole URL.
        ///
        /// - Parameters:
        ///   - parameters: the unescaped values of the path's parameters; others are ignored.
        ///   - index: the index in ``baseURLs``. Default 0.
        /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter with a missing or empty value, for values that
        ///   would make a segment `.` or `..`, and for an index out of range.
        public func url(_ parameters: [String: String] = [:], base index: Int = 0) throws(NetworkError) -> String {
            guard storage.templates.indices.contains(index) else {
                throw .invalidRequest(
                    "\(subject) has \(storage.templates.count) base URLs; index \(index) is out of range")
            }
            return try storage.templates[index].filled(with: PathValues(parameters), of: subject)
        }

        func url(_ values: PathValues, base index: Int) throws(NetworkError) -> String {
            try storage.templates[index].filled(with: values, of: subject)
        }

        private var subject: String {
            if let server { "the server \"\(server)\"" } else { "the path \(QuotedText.of(path)) of \"\(domain)\"" }
        }
    }
}

extension PathTemplate {
    /// Returns the text with its parameters filled in, percent-encoded.
    ///
    /// - Parameter subject: the owner of the path, for messages; `nil` when it has no name.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter with a missing or empty value, and for values
    ///   that would make a segment `.` or `..`.
    func filled(with values: PathValues, of subject: @autoclosure () -> String?) throws(NetworkError) -> String {
        if pieces.count == 1, case .literal(let text) = pieces[0] { return text }
        var text = ""
        text.reserveCapacity(128)
        var mayBeDots = false
        for piece in pieces {
            switch piece {
            case .literal(let literal): text += literal
            case .parameter(let name):
                guard let value = values[name] else {
                    let near = NearestName.of(name, among: values.list.map(\.name).sorted())
                    let advice = near.map { "; did you mean {\($0)}?" } ?? "; give the entity a property \"\(name)\""
                    throw .invalidRequest("the path parameter {\(name)}\(Self.owner(subject())) has no value\(advice)")
                }
                guard !value.isEmpty else {
                    throw .invalidRequest(
                        "the path parameter {\(name)}\(Self.owner(subject())) is empty, which would change the path; give a value"
                    )
                }
                if value.utf8.allSatisfy({ $0 == UInt8(ascii: ".") }) { mayBeDots = true }
                text += value.percentEncodedComponent
            }
        }
        // Only values can make such a segment: no valid template has one, and `%2E` in a value becomes `%252E`.
        guard !mayBeDots || Self.dotSegment(Array(text.utf8)) == nil else {
            throw .invalidRequest(
                "the values of the path parameters\(Self.owner(subject())) make the segment \"..\" or \".\", which would change the path; "
                    + "give other values")
        }
        return text
    }

    private static func owner(_ subject: String?) -> String { subject.map { " of \($0)" } ?? "" }
}

/// The unescaped values of a path's parameters, by name.
struct PathValues: Sendable {
    private(set) var list: [(name: String, value: String)] = []

    init() {}

    init(_ values: [String: String]) { list = values.map { ($0.key, $0.value) } }

    subscript(name: String) -> String? { list.first { $0.name == name }?.value }

    /// Removes the values of a path's parameters from the members.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a value that is not a text, number or Boolean.
    init(_ names: [String], from members: inout EncodedMembers) throws(NetworkError) {
        for name in names {
            guard let value = members.remove(name) else { continue }
            switch value {
            case .string(let text): list.append((name, text))
            case .int, .double, .decimal, .bool: list.append((name, value.description))
            case .null, .array, .object:
                throw .invalidRequest("the path parameter {\(name)} is \(value), not a text, number or Boolean")
            }
        }
    }
}
