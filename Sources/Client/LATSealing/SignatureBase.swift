import CurlTransport
import FoundationEssentials
import HTTPCore

/// A component of a message that a signature covers (RFC 9421 §2): a header field, or something derived from the message.
struct SignatureComponent: Hashable, Sendable {
    /// Why a component, or its value, cannot be used; the end of a sentence with the next step.
    struct Problem: Error, Equatable {
        let reason: String
    }

    /// A name in lower case.
    let name: String
    let parameters: StructuredField.Parameters

    static let derived = [
        "@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query", "@query-param",
        "@status",
    ]

    /// Reads a component as `@method`, `content-type`, `@query-param;name="Pet"` or `priority;key="u";req`.
    init(_ text: String) throws(Problem) {
        let name = text.prefix { $0 != ";" }
        let parameters = text.dropFirst(name.count)
        guard let member = StructuredField.item("\"\(name.lowercased())\"\(parameters)") else {
            throw Problem(
                reason: "the component \(Self.quoted(text)) cannot be read; write a name and parameters, as in "
                    + "@query-param;name=\"page\"")
        }
        try self.init(member)
    }

    init(_ member: StructuredField.Member) throws(Problem) {
        guard case .string(let name) = member.value, name == name.lowercased() else {
            throw Problem(reason: "a component is not a text in lower case")
        }
        self.name = name
        parameters = member.parameters
        let title = Self.quoted(name)
        if name.hasPrefix("@") {
            guard Self.derived.contains(name) else {
                throw Problem(
                    reason: "there is no component \(title); use the name of a header field, or "
                        + Self.derived.joined(separator: ", "))
            }
        } else if !HTTPMethod(name).isToken {
            throw Problem(reason: "\(title) is not the name of a header field; use letters, digits and hyphens")
        }
        let isField = !name.hasPrefix("@")
        for key in parameters.keys {
            switch (key, parameters[key]) {
            case ("req", .boolean(true)) where name != "@status": break
            case ("sf", .boolean(true)) where isField: break
            case ("bs", .boolean(true)) where isField && parameters["sf"] == nil && parameters["key"] == nil: break
            case ("key", .string) where isField: break
            case ("name", .string) where name == "@query-param": break
            case ("tr", _):
                throw Problem(
                    reason:
                        "the component \(title) is of the trailer (tr), which is not supported; sign the header alone")
            default:
                throw Problem(
                    reason: "the component \(title) cannot have the parameter \(Self.quoted(key)) so; "
                        + (isField
                            ? "a field has sf, bs, key=\"member\" and req, and bs stands alone"
                            : "only @query-param has name=\"…\", and all but @status have req"))
            }
        }
        if name == "@query-param", parameters["name"] == nil {
            throw Problem(reason: "the component @query-param lacks its name; write @query-param;name=\"page\"")
        }
    }

    /// The component as it is written in `Signature-Input`.
    var member: StructuredField.Member { StructuredField.Member(.value(.string(name)), parameters) }
    var text: String { member.text ?? name }
    var isOfRequest: Bool { parameters["req"] != nil }

    /// Whether two components are the same, in whatever order their parameters are written (RFC 9421 §2).
    static func == (lhs: SignatureComponent, rhs: SignatureComponent) -> Bool {
        lhs.name == rhs.name && lhs.parameters.keys.count == rhs.parameters.keys.count
            && lhs.parameters.keys.allSatisfy { lhs.parameters[$0] == rhs.parameters[$0] }
    }

    func hash(into hasher: inout Hasher) { hasher.combine(name) }

    static func quoted(_ text: String) -> String { URLText.visible("\"\(text)\"") }
}

/// A message whose components are signed.
struct SignedMessage {
    var request: HTTPRequest?
    /// The status and the fields of a response.
    var response: (status: Int, headers: HTTPHeaders)?

    /// The text that is signed (RFC 9421 §2.5).
    ///
    /// - Parameter parameters: the inner list of `Signature-Input`, as text.
    func signatureBase(
        _ components: [SignatureComponent], _ parameters: String
    ) throws(SignatureComponent.Problem) -> String {
        var lines: [String] = []
        for (index, component) in components.enumerated() {
            guard !components[..<index].contains(component) else {
                throw .init(reason: "the component \(component.text) is there twice; remove one")
            }
            let value = try value(of: component)
            guard !value.utf8.contains(where: { $0 == 0x0A || $0 == 0x0D }) else {
                throw .init(reason: "the value of \(component.text) has a line break; remove it")
            }
            lines.append("\(component.text): \(value)")
        }
        return (lines + ["\"@signature-params\": \(parameters)"]).joined(separator: "\n")
    }

    func value(of component: SignatureComponent) throws(SignatureComponent.Problem) -> String {
        if let response, !component.isOfRequest {
            if component.name == "@status" { return "\(response.status)" }
            guard !component.name.hasPrefix("@") else {
                throw .init(
                    reason: "a response has no \(component.name); write \(component.name);req for its request's")
            }
            return try Self.value(of: component, in: response.headers)
        }
        guard component.isOfRequest == (response != nil), component.name != "@status" else {
            throw .init(
                reason: "the component \(component.text) is for the signatures of responses; leave it out for requests")
        }
        guard let request else {
            throw .init(
                reason: "the component \(component.text) is of the request, which is not known; give the request")
        }
        guard component.name.hasPrefix("@") else {
            return try Self.value(of: component, in: request.signedHeaders)
        }
        return try Self.derived(component, request)
    }

    private static func derived(
        _ component: SignatureComponent, _ request: HTTPRequest
    ) throws(SignatureComponent.Problem) -> String {
        let target = request.wireTarget
        let path = target.prefix { $0 != "?" }
        let scheme = (URLParts(request.url).scheme ?? "").lowercased()
        switch component.name {
        case "@method": return request.method.rawValue
        case "@scheme": return scheme
        case "@authority": return authority(request, scheme)
        case "@target-uri": return "\(scheme)://\(authority(request, scheme))\(target)"
        case "@request-target": return target
        case "@path": return String(path)
        case "@query": return path.count == target.count ? "?" : String(target.dropFirst(path.count))
        default: return try parameter(component, target.dropFirst(path.count + 1))
        }
    }

    /// The host in lower case, without the standard port (RFC 9421 §2.2.3).
    private static func authority(_ request: HTTPRequest, _ scheme: String) -> String {
        let host = request.wireHost.lowercased()
        let port = URLParts.standardPort(scheme).map { ":\($0)" } ?? ""
        return port.count > 1 && host.hasSuffix(port) ? String(host.dropLast(port.count)) : host
    }

    /// A parameter of the query (RFC 9421 §2.2.8). Its name is written as it is in the query, escaped.
    private static func parameter(
        _ component: SignatureComponent, _ query: Substring
    ) throws(SignatureComponent.Problem) -> String {
        guard case .string(let name) = component.parameters["name"] else { return "" }
        let values = query.formItems.filter { $0.name.formEscaped == name }.map(\.value)
        guard let value = values.first else {
            throw .init(
                reason:
                    "the query has no parameter \(SignatureComponent.quoted(name)); leave the component out, or send it"
            )
        }
        guard values.count == 1 else {
            throw .init(
                reason:
                    "the query has the parameter \(SignatureComponent.quoted(name)) \(values.count) times; sign @query")
        }
        return value.formEscaped
    }

    /// The value of a field (RFC 9421 §2.1).
    private static func value(
        of component: SignatureComponent, in headers: HTTPHeaders
    ) throws(SignatureComponent.Problem) -> String {
        let values = headers[values: component.name].map(\.trimmingFieldWhitespace)
        guard !values.isEmpty else {
            throw .init(
                reason: "the message has no field \(SignatureComponent.quoted(component.name)); set it, or leave it out"
            )
        }
        if component.parameters["bs"] != nil {
            return StructuredField.text(values.map { .init(.bytes(Array($0.utf8))) }) ?? ""
        }
        let joined = values.joined(separator: ", ")
        if case .string(let key) = component.parameters["key"] {
            guard let member = StructuredField.dictionary(joined)?[key], let text = member.text else {
                throw .init(
                    reason: "the field \(component.name) is no dictionary with a member "
                        + "\(SignatureComponent.quoted(key)); check both")
            }
            return text
        }
        guard component.parameters["sf"] != nil else { return joined }
        // A dictionary is read as such only when it is no list, since most fields are lists.
        if let list = StructuredField.list(joined), !dictionaries.contains(component.name),
            let text = StructuredField.text(list)
        {
            return text
        }
        guard let dictionary = StructuredField.dictionary(joined), let text = StructuredField.text(dictionary) else {
            throw .init(reason: "the field \(component.name) is no structured field; leave sf out")
        }
        return text
    }

    /// The registered fields that are dictionaries, and may look like lists.
    private static let dictionaries: Set<String> = [
        "accept-signature", "cache-control", "cdn-cache-control", "content-digest", "priority", "repr-digest",
        "signature",
        "signature-input", "want-content-digest", "want-repr-digest",
    ]
}

extension String {
    /// This text as `application/x-www-form-urlencoded` escapes it, with `%20` for a space (RFC 9421 §2.2.8).
    fileprivate var formEscaped: String {
        percentEncodedComponent.split(separator: "%2A", omittingEmptySubsequences: false).joined(separator: "*")
            .split(separator: "~", omittingEmptySubsequences: false).joined(separator: "%7E")
    }
}
