import Cryptography
import FoundationEssentials
import Glibc
import HTTPCore

/// Composes requests from address, parameters, files and body.
package enum RequestBuilder {
    /// Puts parameters, files and body into a request. Without files, parameters go into the query if the call has a
    /// body that cannot hold them, or no body and a method that encodes them there.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for content that cannot be combined.
    static func put(_ content: RequestContent, into request: inout HTTPRequest) throws(NetworkError) {
        request.body = content.body
        var members = content.members ?? EncodedMembers()
        var isWhole = false
        let hasBody =
            switch content.body?.content {
            case .parameters, .multipart: true
            case nil, .encoded, .data, .file, .stream: !request.method.encodesParametersInQuery
            }
        if let rule = content.query, rule.takesAll || !rule.names.isEmpty, hasBody {
            let inQuery = rule.takesAll ? members : members.only(Array(rule.names))
            request.url = ParameterEncoder.appending(query: inQuery.queryText(by: rule), to: request.url)
            for name in inQuery.object.keys { members.remove(name) }
            isWhole = rule.takesAll
        }
        guard content.files.isEmpty else { return try setParts(content.files, members, content.query, on: &request) }
        switch content.body?.content {
        case .multipart:
            try setParts([], members, content.query, on: &request)
        case .parameters(let encoding):
            request.body = try body(members, encoding, content.query)
        case nil where !request.method.encodesParametersInQuery:
            if content.members != nil, !isWhole { request.body = try body(members, content.encoding, content.query) }
        case nil, .encoded, .data, .file, .stream:
            request.url = ParameterEncoder.appending(query: members.queryText(by: content.query), to: request.url)
        }
    }

    /// Returns parameters as the members of a JSON object.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the parameter that cannot be encoded.
    static func encoded(_ parameters: Parameters, by rules: CodingRules?) throws(NetworkError) -> EncodedMembers {
        try encoding { try EncodedMembers(parameters: parameters, by: JSONValueEncoder(rules: rules)) }
    }

    /// The same as ``encoded(_:by:)`` for parameters whose coding is not known yet.
    static func deferred(_ parameters: Parameters) throws(NetworkError) -> EncodedMembers {
        try encoding { try EncodedMembers(deferring: parameters) }
    }

    /// Applies the coding to members that were made without it, except to their names.
    static func coded(_ members: EncodedMembers, by rules: CodingRules?) throws(NetworkError) -> EncodedMembers {
        try encoding { try members.coded(by: rules) }
    }

    /// Returns the properties of an entity as the members of a JSON object; their coding is not known yet.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` when they cannot be encoded, or do not encode to an object.
    package static func properties(of entity: any Encodable, _ advice: String) throws(NetworkError) -> EncodedMembers {
        if let members = try encoding({ try EncodedMembers(deferring: entity) }) { return members }
        let text = try encoding { try JSONValueEncoder().encode(entity).description }
        throw .invalidRequest("\(type(of: entity)) encodes to \(text.prefix(40)), not to an object; \(advice)")
    }

    /// Returns what an encoder makes. Its error becomes ``NetworkError/Kind/invalidRequest``.
    private static func encoding<Value>(_ encode: () throws -> Value) throws(NetworkError) -> Value {
        do {
            return try encode()
        } catch {
            let reason =
                if case EncodingError.invalidValue(_, let context) = error { context.debugDescription } else {
                    "\(error)"
                }
            throw NetworkError(
                .invalidRequest, message: "the parameters cannot be encoded: \(reason)", underlying: error)
        }
    }

    // MARK: Addresses

    /// Returns the URL itself when it is absolute or there is no base URL, otherwise ``join(_:_:)`` of both.
    package static func absoluteURL(_ url: String, base: String?) -> String {
        guard let base, !base.isEmpty, !URLParts(url).isAbsolute else { return url }
        return URLParts.join(base, url)
    }

    // MARK: Bodies

    private static func body(
        _ members: EncodedMembers, _ encoding: ParameterEncoding, _ rule: ParameterEncoding.QueryRule?
    ) throws(NetworkError) -> HTTPBody {
        switch encoding {
        case .form: return .data(Data(members.queryText(by: rule).utf8), contentType: encoding.contentType)
        case .json:
            return .data(try self.encoding { try members.jsonData() }, contentType: encoding.contentType)
        }
    }

    private static func setParts(
        _ files: [UploadFile], _ members: EncodedMembers, _ rule: ParameterEncoding.QueryRule?,
        on request: inout HTTPRequest
    ) throws(NetworkError) {
        var parts = files
        switch request.body?.content {
        case nil, .parameters: break
        case .multipart(let ownParts): parts = ownParts + files
        case .encoded, .data, .file, .stream:
            throw .invalidRequest(
                "a call has either files or a body; leave one of them out, or put the body into one more UploadFile")
        }
        guard request.method != .get, request.method != .head else {
            throw .invalidRequest("a \(request.method) request carries no files; use POST, PUT or PATCH")
        }
        let fields = members.fields(by: rule).map { field in
            var part = UploadFile(name: field.name, value: field.value ?? "")
            if field.isJSON { part.contentType = ParameterEncoding.json.contentType }
            return part
        }
        request.body = .multipart(fields + parts)
    }
}

/// The content of the query or the body, not yet encoded.
struct RequestContent: Sendable {
    var members: EncodedMembers?
    var files: [UploadFile] = []
    var body: HTTPBody?
    var encoding: ParameterEncoding
    /// How the row divides the parameters between query and body; `nil` for the rules of the method.
    var query: ParameterEncoding.QueryRule?
}

/// The digest of a whole file.
package enum FileDigest {
    /// The digest as lowercase hexadecimal digits. Otherwise like ``bytes(_:_:in:failure:)``.
    package static func hexadecimal(
        _ path: String, _ algorithm: MessageDigest.Algorithm, failure: (_ path: String) -> NetworkError
    ) throws(NetworkError) -> String {
        MessageDigest.hexadecimal(try bytes(path, algorithm, failure: failure))
    }

    /// The digest.
    ///
    /// - Parameters:
    ///   - range: The part of the file. Default `nil`: all of it.
    ///   - failure: Makes the error for a file that cannot be read, from `errno`.
    package static func bytes(
        _ path: String, _ algorithm: MessageDigest.Algorithm, in range: Range<Int64>? = nil,
        failure: (_ path: String) -> NetworkError
    ) throws(NetworkError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
        var digest = MessageDigest(algorithm)
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var left = range.map { Int64($0.count) } ?? .max
        if let range, lseek(descriptor, off_t(range.lowerBound), SEEK_SET) < 0 { throw failure(path) }
        while left > 0 {
            let count = read(descriptor, &buffer, Int(min(Int64(buffer.count), left)))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(path) }
            guard !Task.isCancelled else { throw NetworkError(.cancelled, message: "the task was cancelled") }
            if count == 0 { break }
            left -= Int64(count)
            buffer.withUnsafeBytes { digest.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
        return try bytes(of: digest, algorithm)
    }

    package static func text(
        of digest: consuming MessageDigest, _ algorithm: MessageDigest.Algorithm
    ) throws(NetworkError) -> String {
        MessageDigest.hexadecimal(try bytes(of: digest, algorithm))
    }

    private static func bytes(
        of digest: consuming MessageDigest, _ algorithm: MessageDigest.Algorithm
    ) throws(NetworkError) -> [UInt8] {
        do {
            return try digest.finalize()
        } catch {
            throw NetworkError(
                .unsupported, message: "libcrypto does not support \(algorithm.rawValue); give a SHA-256 instead",
                underlying: error)
        }
    }
}
