internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

extension Cassette {
    /// Which parts of a request must equal the recorded ones, and which values may differ.
    ///
    /// ```swift
    /// var matching = Cassette.Matching()
    /// matching.headers = ["Accept-Language"]
    /// matching.varyingParameters = ["timestamp", "nonce"]
    /// ```
    ///
    /// Secrets never count, because they are not recorded. In the file, `{{name}}` may be written in place of a segment of a
    /// path, or of the value of a parameter, a field or a JSON member; it matches any value.
    public struct Matching: Sendable {
        /// Whether the method counts. Default `true`.
        public var method = true
        /// Whether the URL counts: scheme, host, port, path, and the query in any order of its names. Default `true`.
        public var url = true
        /// Whether the body counts: JSON and forms by their values, multipart by its parts without the boundary, all others
        /// byte by byte. Default `true`.
        public var body = true
        /// The header fields that count. Default none.
        public var headers: [String] = []
        /// The names of parameters, in queries, forms and JSON, whose values may differ. The values are recorded as
        /// `{{name}}`. Default none.
        public var varyingParameters: [String] = []
        /// Whether requests must come in the order of the file. Default `false`: only equal requests get their responses in
        /// that order, so that requests may run concurrently.
        public var order = false

        /// The default rules.
        public init() {}
    }
}

/// The parts of a request that count when it is compared.
struct ComparableRequest: Equatable {
    typealias Item = CassetteEntry.Field

    enum Body: Equatable {
        case none
        case json(JSONValue)
        case form([Item])
        case bytes(Data)
        case omitted(Int)
    }

    var method: String
    var origin: String
    var path: [String]
    var query: [Item]
    var headers: [Item]
    var body: Body

    init(_ request: CassetteEntry.Request, _ matching: Cassette.Matching) {
        let request = request.withoutNumbers
        method = matching.method ? request.method : ""
        let parts = Self.parts(of: request.url)
        origin = matching.url ? parts.origin : ""
        path = matching.url ? parts.path.split(separator: "/", omittingEmptySubsequences: false).map(String.init) : []
        query = matching.url ? Self.items(parts.query) : []
        let given = HTTPHeaders(request.headers)
        headers = matching.headers.flatMap { name in
            given[values: name].map { Item(name: name.lowercased(), value: $0) }
        }
        body = matching.body ? Self.body(request.body, given["Content-Type"]) : .none
    }

    private static func parts(of url: String) -> (origin: String, path: String, query: String) {
        let parts = URLParts(url)
        let path = parts.path.isEmpty ? "/" : String(parts.path)
        return (parts.beforePath.lowercased(), path, parts.query.map(String.init) ?? "")
    }

    /// The items of a query or form, sorted by name; those of one name stay in their order.
    private static func items(_ text: String) -> [Item] {
        text.split(separator: "&").map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return Item(name: String(pair[0]), value: pair.count > 1 ? String(pair[1]) : "")
        }.enumerated().sorted { ($0.element.name, $0.offset) < ($1.element.name, $1.offset) }.map(\.element)
    }

    private static func body(_ body: RecordedBody, _ type: String?) -> Body {
        switch body {
        case .none: return .none
        case .omitted(let count): return .omitted(count)
        case .bytes(let data):
            let type = type?.lowercased() ?? ""
            if type.hasPrefix("application/x-www-form-urlencoded") {
                return .form(items(String(decoding: data, as: UTF8.self)))
            }
            if type.contains("json") || type.isEmpty, let value = try? JSONValue(parsing: data) { return .json(value) }
            return .bytes(data)
        }
    }
}

extension ComparableRequest {
    /// Whether nothing differs from a recorded request.
    func matches(_ recorded: ComparableRequest) -> Bool {
        // Compares the paths before `differences`, which builds text: most paths differ.
        self == recorded
            || matchesPath(of: recorded) && differences(from: recorded).isEmpty
    }

    private func matchesPath(of recorded: ComparableRequest) -> Bool {
        path.count == recorded.path.count
            && zip(path, recorded.path).allSatisfy { $0 == $1 || Self.isWildcard($1) }
    }

    /// What differs from a recorded request, a line each; empty when they are equal.
    func differences(from recorded: ComparableRequest) -> [String] {
        var lines: [String] = []
        func compare(_ what: String, _ asked: String?, _ recorded: String?) {
            guard asked != recorded, !(asked != nil && Self.isWildcard(recorded)) else { return }
            lines.append("\(what): asked \(Self.shown(asked)), recorded \(Self.shown(recorded))")
        }
        compare("method", method, recorded.method)
        compare("server", origin, recorded.origin)
        if !matchesPath(of: recorded) {
            compare("path", path.joined(separator: "/"), recorded.path.joined(separator: "/"))
        }
        Self.compare(query, recorded.query) { compare("query \($0)", $1, $2) }
        Self.compare(headers, recorded.headers) { compare("header \($0)", $1, $2) }
        compareBodies(recorded.body, compare)
        return lines
    }

    private func compareBodies(_ recorded: Body, _ compare: (String, String?, String?) -> Void) {
        switch (body, recorded) {
        case (.form(let asked), .form(let recorded)):
            Self.compare(asked, recorded) { compare("form \($0)", $1, $2) }
        case (.json(let asked), .json(let recorded)):
            if let difference = Self.difference(asked, recorded, "") {
                compare(
                    "body\(difference.path.isEmpty ? "" : " at \(difference.path)")", difference.asked?.description,
                    difference.recorded?.description)
            }
        default:
            guard body != recorded else { return }
            let summaries = (asked: Self.summary(body), recorded: Self.summary(recorded))
            guard summaries.asked == summaries.recorded, case .bytes(let asked) = body,
                case .bytes(let recorded) = recorded
            else { return compare("body", summaries.asked, summaries.recorded) }
            // The summary of bytes that are not text has only their count, so the first difference is shown.
            let index = zip(asked, recorded).enumerated().first { $1.0 != $1.1 }?.offset ?? 0
            compare("body from byte \(index) on", Self.hexadecimal(asked, index), Self.hexadecimal(recorded, index))
        }
    }

    private static func compare(_ asked: [Item], _ recorded: [Item], _ report: (String, String?, String?) -> Void) {
        var rest = asked
        for item in recorded {
            if let index = rest.firstIndex(where: { $0.name == item.name }) {
                report(item.name, rest.remove(at: index).value, item.value)
            } else {
                report(item.name, nil, item.value)
            }
        }
        for item in rest { report(item.name, item.value, nil) }
    }

    /// The first difference of two JSON values: its path, and both values there.
    private static func difference(
        _ asked: JSONValue, _ recorded: JSONValue, _ path: String
    ) -> (path: String, asked: JSONValue?, recorded: JSONValue?)? {
        if let text = recorded.string, isWildcard(text) { return nil }
        if let asked = asked.object, let recorded = recorded.object {
            for name in Set(asked.keys).union(recorded.keys).sorted() {
                let inner = path.isEmpty ? name : "\(path).\(name)"
                guard let one = asked[name], let other = recorded[name] else {
                    return (inner, asked[name], recorded[name])
                }
                if let found = difference(one, other, inner) { return found }
            }
            return nil
        }
        if let asked = asked.array, let recorded = recorded.array, asked.count == recorded.count {
            for (index, (one, other)) in zip(asked, recorded).enumerated() {
                if let found = difference(one, other, "\(path)[\(index)]") { return found }
            }
            return nil
        }
        return asked == recorded ? nil : (path, asked, recorded)
    }

    /// Whether a recorded value matches any value. In URLs, its braces may be percent-encoded.
    private static func isWildcard(_ text: String?) -> Bool {
        guard let text else { return false }
        return text.hasPrefix("{{") && text.hasSuffix("}}") || text.hasPrefix("%7B%7B") && text.hasSuffix("%7D%7D")
    }

    private static func shown(_ text: String?) -> String {
        guard let text else { return "nothing" }
        return text.count <= 120 ? "\"\(text)\"" : "\"\(text.prefix(120))…\""
    }

    /// Some bytes from an index on.
    private static func hexadecimal(_ data: Data, _ index: Int) -> String {
        data.dropFirst(index).prefix(16).map { String($0, radix: 16) }.joined(separator: " ")
    }

    /// Bodies that differ may begin with the same bytes, so the text also has their sizes.
    private static func summary(_ body: Body) -> String? {
        switch body {
        case .none: nil
        case .omitted(let count): "\(count) bytes that were not recorded"
        case .json(let value): value.description
        case .form(let items): items.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
        case .bytes(let data):
            "\(data.count) bytes" + (YAMLText.printable(data).map { ": \($0)" } ?? "")
        }
    }
}

extension CassetteEntry.Request {
    /// The request with `***` for every stand-in, since secrets do not count.
    fileprivate var withoutNumbers: CassetteEntry.Request {
        func plain(_ text: String) -> String {
            text.utf8.firstRange(of: Secrets.placeholder.utf8) == nil && text.utf8.firstRange(of: "%2A".utf8) == nil
                ? text : StandIns.pieces(of: text).map { $0.isStandIn ? Secrets.placeholder : $0.text }.joined()
        }
        var request = self
        request.url = plain(url)
        for index in headers.indices { request.headers[index].value = plain(headers[index].value) }
        if case .bytes(let data) = body, let text = String(validating: data, as: UTF8.self) {
            request.body = .bytes(Data(plain(text).utf8))
        } else if case .bytes(let data) = body {
            request.body = .bytes(data.withoutStandInNumbers)
        }
        return request
    }
}

extension Data {
    /// The bytes with `***` for every stand-in.
    fileprivate var withoutStandInNumbers: Data {
        var (shown, rest) = (Data(), self[...])
        while let stars = rest.firstRange(of: Data(Secrets.placeholder.utf8)) {
            shown += rest[..<stars.upperBound]
            // More stars tell how the secret is written.
            rest = rest[stars.upperBound...].drop { $0 == UInt8(ascii: "*") }.drop { (0x30...0x39).contains($0) }
        }
        return shown + rest
    }
}
