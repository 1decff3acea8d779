/// The parameters of a request by name.
///
/// ```swift
/// let parameters: Parameters = [
///     "q": "swift", "page": 2,          // anything Encodable: strings, numbers, dates, your own types
///     "skip": nil,                      // left out
///     "keep": JSONValue.null,           // sent as null in JSON, as a name without value in a query
///     "filter": ["year": 2025, "tags": ["a", "b"]] as JSONValue,
/// ]
/// ```
///
/// `GET`, `HEAD` and `DELETE` send parameters in the query. Every other method
/// sends them in the body, as JSON unless a form is chosen. In JSON they keep
/// their types and nesting. In a query or form, nesting becomes part of the
/// names, sorted: `filter[tags][]=a&filter[tags][]=b&filter[year]=2025`.
///
/// A nested literal of mixed types needs `as JSONValue`.
public typealias Parameters = [String: (any Encodable & Sendable)?]

extension EncodedMembers {
    /// The parameters as the members of a JSON object. `nil` is left out, ``JSONValue/null`` stays.
    ///
    /// - Throws: `EncodingError.invalidValue`, whatever the value itself threw. Its path begins with the parameter's name.
    package init(parameters: Parameters, by encoder: JSONValueEncoder = JSONValueEncoder()) throws {
        var object: [String: JSONValue] = [:]
        object.reserveCapacity(parameters.count)
        for (name, value) in parameters {
            guard let value else { continue }
            do {
                object[name] = try encoder.encodeIfPresent(value, at: [JSONKey(stringValue: name)])
            } catch {
                throw Self.failure(error, of: name)
            }
        }
        self.init(object)
    }

    /// The name replaces the value, which may be a secret and would be printed with the error.
    private static func failure(_ error: any Error, of name: String) -> EncodingError {
        let key = JSONKey(stringValue: name)
        guard case EncodingError.invalidValue(_, let context) = error else {
            return .invalidValue(
                name,
                .init(codingPath: [key], debugDescription: "parameter \(name): \(error)", underlyingError: error))
        }
        var path = context.codingPath
        if path.first?.stringValue != name { path.insert(key, at: 0) }
        let text = EncodingError.Context(codingPath: path, debugDescription: context.debugDescription).textWithPath
        return .invalidValue(name, .init(codingPath: path, debugDescription: "parameter \(text)"))
    }

    /// The members as the query of a URL, without `?`, or the body of a form, `application/x-www-form-urlencoded`.
    ///
    /// Members of objects are `name[member]`, sorted at every level. Elements of arrays are `name[]`, in their order. A
    /// null is a name without `=`. Empty arrays and objects are left out. Booleans are `true` and `false`, numbers their
    /// shortest exact text. All but the unreserved characters of RFC 3986 §2.3 are escaped in names and values, also
    /// brackets (`a%5Bb%5D=1`), which a query must not contain. A space is `%20`, which every form parser accepts.
    package var queryText: String { queryText(by: nil) }

    /// The query in which arrays are written as a rule says.
    package func queryText(by rule: ParameterEncoding.QueryRule?) -> String {
        var query: [UInt8] = []
        query.reserveCapacity(list.count * 32)
        Self.forEachField(of: list, in: nil, rule) { name, value in
            if !query.isEmpty { query.append(UInt8(ascii: "&")) }
            query.append(contentsOf: name.percentEncodedComponent.utf8)
            guard let value else { return }
            query.append(UInt8(ascii: "="))
            query.append(contentsOf: value.percentEncodedComponent.utf8)
        }
        return String(decoding: query, as: UTF8.self)
    }

    /// The members as the fields of a multipart form, with the order and names of ``queryText``, not escaped. A null has
    /// no value.
    package var fields: [(name: String, value: String?)] {
        var fields: [(name: String, value: String?)] = []
        Self.forEachField(of: list, in: nil, nil) { fields.append(($0, $1)) }
        return fields
    }

    private static func forEachField(
        of members: [Member], in parent: String?, _ rule: ParameterEncoding.QueryRule?,
        _ body: (_ name: String, _ value: String?) -> Void
    ) {
        for member in members {
            let name = parent.map { "\($0)[\(member.name)]" } ?? member.name
            forEachField(of: member.value, named: name, rule, body)
        }
    }

    private static func forEachField(
        of value: JSONValue, named name: String, _ rule: ParameterEncoding.QueryRule?,
        _ body: (_ name: String, _ value: String?) -> Void
    ) {
        switch value {
        case .object(let members): forEachField(of: list(of: members), in: name, rule, body)
        case .array(let elements):
            let style = rule.map { $0.styles[name] ?? $0.arrays } ?? .brackets
            if let separator = style.separator {
                let texts = elements.compactMap(\.fieldText)
                // Elements that are no scalars have no such form.
                if texts.count == elements.count {
                    if !texts.isEmpty { body(name, texts.joined(separator: separator)) }
                    return
                }
            }
            let each = style == .brackets ? name + "[]" : name
            for element in elements { forEachField(of: element, named: each, rule, body) }
        case .null: body(name, nil)
        case .bool, .string, .int, .double, .decimal: body(name, value.fieldText)
        }
    }
}

extension JSONValue {
    /// A scalar as the value of a field.
    fileprivate var fieldText: String? {
        switch self {
        case .bool(let value): value ? "true" : "false"
        case .string(let value): value
        case .int, .double, .decimal: numberText
        case .null, .array, .object: nil
        }
    }
}

/// Functions that add parameters to URLs.
package enum ParameterEncoder {
    /// Appends a query to that of a URL, before the fragment. An empty query changes nothing.
    package static func appending(query: String, to url: String) -> String {
        guard !query.isEmpty else { return url }
        // Works on bytes: a `?` followed by a combining mark is one `Character`.
        let bytes = url.utf8
        let end = bytes.firstIndex(of: UInt8(ascii: "#")) ?? bytes.endIndex
        let base = bytes[..<end]
        let isOpen = base.last == UInt8(ascii: "?") || base.last == UInt8(ascii: "&")
        let separator = !base.contains(UInt8(ascii: "?")) ? "?" : isOpen ? "" : "&"
        return String(url[..<end]) + separator + query + String(url[end...])
    }
}
