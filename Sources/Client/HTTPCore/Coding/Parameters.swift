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
/// A nested literal of mixed types needs `as JSONValue`, or with variables `as JSONValue.Object`. Without it the compiler
/// fails, without a reason.
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
    /// brackets (`a%5Bb%5D=1`), which a query must not contain. A space is `%20`, which every form parser accepts. Only the comma
    /// between elements is not escaped, so that it differs from one in an element (RFC 6570 §3.2.8).
    package var queryText: String { queryText(by: nil) }

    /// The query in which arrays and objects are written as a rule says.
    package func queryText(by rule: ParameterEncoding.QueryRule?) -> String {
        var query: [UInt8] = []
        query.reserveCapacity(list.count * 32)
        forEachField(by: rule) { name, value, _ in
            if !query.isEmpty { query.append(UInt8(ascii: "&")) }
            query.append(contentsOf: name.percentEncodedComponent.utf8)
            guard let value else { return }
            query.append(UInt8(ascii: "="))
            let separator = value.separator == "," ? "," : value.separator.percentEncodedComponent
            let texts = value.elements.lazy.map(\.percentEncodedComponent)
            query.append(contentsOf: texts.joined(separator: separator).utf8)
        }
        return String(decoding: query, as: UTF8.self)
    }

    /// The members as the fields of a multipart form, with the order and names of ``queryText(by:)``, not escaped. A null has
    /// no value. Objects in an array that is `repeated` are fields of JSON ("Considerations for multipart Content" of
    /// OpenAPI 3).
    package func fields(
        by rule: ParameterEncoding.QueryRule?
    ) -> [(name: String, value: String?, isJSON: Bool)] {
        var fields: [(name: String, value: String?, isJSON: Bool)] = []
        forEachField(by: rule, isMultipart: true) {
            fields.append(($0, $1.map { $0.elements.joined(separator: $0.separator) }, $2))
        }
        return fields
    }

    private func forEachField(
        by rule: ParameterEncoding.QueryRule?, isMultipart: Bool = false,
        _ body: (String, FieldWriter.Value?, Bool) -> Void
    ) {
        withoutActuallyEscaping(body) { body in
            let writer = FieldWriter(rule: rule, isMultipart: isMultipart, body: body)
            for member in list { writer.add(member.value, named: member.name, isNested: false) }
        }
    }
}

/// Writes values as fields, whose names say where in objects and arrays a scalar was.
private struct FieldWriter {
    let rule: ParameterEncoding.QueryRule?
    let isMultipart: Bool
    let body: (_ name: String, _ value: Value?, _ isJSON: Bool) -> Void

    /// A text, or elements that one value joins.
    struct Value {
        let elements: [String]
        var separator = ""
    }

    private func write(_ name: String, _ text: String?, _ isJSON: Bool) {
        body(name, text.map { Value(elements: [$0]) }, isJSON)
    }

    /// - Parameter isNested: Whether the name has brackets.
    func add(_ value: JSONValue, named name: String, isNested: Bool = true) {
        switch value {
        case .object(let object):
            let members = EncodedMembers.list(of: object)
            let style = rule?.styles[name]
            if style == .json { return write(name, value.description, true) }
            if let style, join(members.flatMap { [.string($0.name), $0.value] }, style, name) { return }
            for member in members {
                if style == .repeated {
                    add(member.value, named: member.name, isNested: false)
                } else {
                    add(member.value, named: "\(name)[\(member.name)]")
                }
            }
        case .array(let elements): add(elements, named: name, isNested: isNested)
        case .null: write(name, nil, false)
        case .bool, .string, .int, .double, .decimal: write(name, value.fieldText, false)
        }
    }

    private func add(_ elements: [JSONValue], named name: String, isNested: Bool) {
        let arrays = rule?.arrays ?? .brackets
        // The same name twice is a list for few servers if it has brackets already.
        let style = rule?.styles[name] ?? (isNested && arrays == .repeated ? .brackets : arrays)
        if style == .json { return write(name, JSONValue.array(elements).description, true) }
        if join(elements, style, name) { return }
        let each = style == .brackets ? name + "[]" : name
        if (style == .brackets && arrays == .brackets) || elements.allSatisfy(\.isScalar) {
            for element in elements { add(element, named: each) }
        } else if isMultipart, style == .repeated {
            for element in elements {
                if element.isScalar { add(element, named: name) } else { write(name, element.description, true) }
            }
        } else {
            // Without its number, nobody knows where an element ends.
            for (index, element) in elements.enumerated() { add(element, named: "\(name)[\(index)]") }
        }
    }

    /// Writes scalars as one value. Returns `false` for other values, and a style that does not join.
    private func join(_ values: [JSONValue], _ style: ParameterEncoding.Arrays, _ name: String) -> Bool {
        guard let separator = style.separator else { return false }
        let texts = values.compactMap(\.fieldText)
        guard texts.count == values.count else { return false }
        if !texts.isEmpty { body(name, Value(elements: texts, separator: separator), false) }
        return true
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

    fileprivate var isScalar: Bool {
        switch self {
        case .array, .object: false
        case .null, .bool, .string, .int, .double, .decimal: true
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
