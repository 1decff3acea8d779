import FoundationEssentials
import HTTPCore

/// Composes requests from address, parameters, files and body.
enum RequestBuilder {
    /// Puts parameters, files and body into a request.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for content that cannot be combined.
    static func put(_ content: RequestContent, into request: inout HTTPRequest) throws(NetworkError) {
        request.body = content.body
        if !content.files.isEmpty {
            try setParts(content.files, content.members ?? EncodedMembers(), on: &request)
        } else if let body = content.body {
            try setBody(body, content.members, on: &request)
        } else if let members = content.members {
            if request.method.encodesParametersInQuery {
                appendQuery(members, to: &request)
            } else {
                request.body = try self.body(members, content.encoding)
            }
        }
    }

    /// Returns parameters as the members of a JSON object.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the parameter that cannot be encoded.
    static func encoded(_ parameters: Parameters, by rules: CodingRules?) throws(NetworkError) -> EncodedMembers {
        do {
            return try EncodedMembers(parameters: parameters, by: JSONValueEncoder(rules: rules))
        } catch {
            throw doesNotEncode(error)
        }
    }

    /// The same for parameters whose coding is not known yet.
    static func deferred(_ parameters: Parameters) throws(NetworkError) -> EncodedMembers {
        do {
            return try EncodedMembers(deferring: parameters)
        } catch {
            throw doesNotEncode(error)
        }
    }

    /// Completes members whose coding was not known, except for their names.
    static func coded(_ members: EncodedMembers, by rules: CodingRules?) throws(NetworkError) -> EncodedMembers {
        do {
            return try members.coded(by: rules)
        } catch {
            throw doesNotEncode(error)
        }
    }

    /// Returns the properties of an entity as the members of a JSON object; their coding is not known yet.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` when they cannot be encoded, or do not encode to an object.
    static func properties(of entity: any Encodable, _ advice: String) throws(NetworkError) -> EncodedMembers {
        let text: String
        do {
            if let members = try EncodedMembers(deferring: entity) { return members }
            text = try JSONValueEncoder().encode(entity).description
        } catch {
            throw doesNotEncode(error)
        }
        throw .invalidRequest("\(type(of: entity)) encodes to \(text.prefix(40)), not to an object; \(advice)")
    }

    static func doesNotEncode(_ error: any Error) -> NetworkError {
        let reason =
            if case EncodingError.invalidValue(_, let context) = error { context.debugDescription } else { "\(error)" }
        return NetworkError(.invalidRequest, message: "the parameters cannot be encoded: \(reason)", underlying: error)
    }

    // MARK: Addresses

    /// Returns the URL itself when it is absolute, otherwise the base URL joined with the path by exactly one slash.
    static func absoluteURL(_ url: String, base: String?) -> String {
        guard let base, !base.isEmpty, !isAbsolute(url) else { return url }
        return join(base, url)
    }

    /// Joins a path to a base URL, which keeps its own path and query. The path's query follows the base's.
    static func join(_ base: String, _ path: String) -> String {
        let fragmentless = base.prefix { $0 != "#" }
        var stem = Substring(fragmentless.prefix { $0 != "?" })
        let baseQuery = fragmentless.dropFirst(stem.count).dropFirst()
        guard !path.isEmpty else { return String(fragmentless) }
        if path.first == "?" {
            return ParameterEncoder.appending(query: String(path.dropFirst()), to: String(fragmentless))
        }
        while stem.last == "/" { stem.removeLast() }
        let joined = stem + "/" + path.drop { $0 == "/" }
        guard !baseQuery.isEmpty else { return String(joined) }
        let ownQueryStart = joined.firstIndex { $0 == "?" || $0 == "#" } ?? joined.endIndex
        let rest = joined[ownQueryStart...]
        let separator = rest.first == "?" ? "&" : ""
        return joined[..<ownQueryStart] + "?" + baseQuery + separator + (rest.first == "?" ? rest.dropFirst() : rest)
    }

    /// Whether a URL starts with a scheme and `://`.
    static func isAbsolute(_ url: String) -> Bool {
        guard let end = url.firstRange(of: "://") else { return false }
        let scheme = url[..<end.lowerBound]
        return !scheme.isEmpty
            && scheme.utf8.allSatisfy { byte in
                (0x61...0x7A).contains(byte | 0x20) || (0x30...0x39).contains(byte) || byte == 0x2B || byte == 0x2D
                    || byte == 0x2E
            }
    }

    // MARK: Bodies

    private static func appendQuery(_ members: EncodedMembers, to request: inout HTTPRequest) {
        request.url = ParameterEncoder.appending(query: members.queryText, to: request.url)
    }

    private static func body(
        _ members: EncodedMembers, _ encoding: ParameterEncoding
    ) throws(NetworkError) -> HTTPBody {
        switch encoding {
        case .form: return .data(Data(members.queryText.utf8), contentType: encoding.contentType)
        case .json:
            do {
                return .data(try members.jsonData(), contentType: encoding.contentType)
            } catch {
                throw doesNotEncode(error)
            }
        }
    }

    private static func setBody(
        _ body: HTTPBody, _ members: EncodedMembers?, on request: inout HTTPRequest
    ) throws(NetworkError) {
        switch body.content {
        case .parameters(let encoding):
            request.body = try self.body(members ?? EncodedMembers(), encoding)
        case .multipart:
            try setParts([], members ?? EncodedMembers(), on: &request)
        case .encoded, .data, .file, .stream:
            // The call has a body of its own, so the parameters go into the query.
            if let members { appendQuery(members, to: &request) }
        }
    }

    private static func setParts(
        _ files: [UploadFile], _ members: EncodedMembers, on request: inout HTTPRequest
    ) throws(NetworkError) {
        var parts = files
        switch request.body?.content {
        case nil, .parameters: break
        case .multipart(let ownParts): parts = ownParts + files
        case .encoded, .data, .file, .stream:
            throw .invalidRequest(
                "a call has either files or a body; put the body into one more UploadFile, or drop one")
        }
        guard request.method != .get, request.method != .head else {
            throw .invalidRequest("a \(request.method) request carries no files; use POST, PUT or PATCH")
        }
        let fields = members.fields.map { UploadFile(name: $0.name, value: $0.value ?? "") }
        request.body = .multipart(fields + parts)
    }
}

/// The content of the query or the body, not yet encoded.
struct RequestContent: Sendable {
    var members: EncodedMembers?
    var files: [UploadFile] = []
    var body: HTTPBody?
    var encoding: ParameterEncoding
}
