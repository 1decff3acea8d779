import HTTPCore

/// A method and a path with placeholders: `GET`, `/users/{id}/files/*`.
struct RoutePattern: Sendable {
    private enum Segment: Sendable, Equatable {
        case literal(String)
        case parameter(String)
        /// The rest of the path, at least one segment.
        case rest
    }

    private let method: String?
    private let segments: [Segment]
    /// The path when it has no placeholders and can be compared as a whole.
    private let literalPath: String?

    /// - Parameters:
    ///   - method: `*` matches any. Compared byte for byte.
    ///   - path: Its segments are literal (compared decoded), `{name}`, or, at the end, `*`.
    init(method: String, path: String) {
        self.method = method == "*" ? nil : method
        let parts = RoutePattern.parts(of: path[...])
        segments = parts.enumerated().map { index, part in
            if part == "*", index == parts.count - 1 { return .rest }
            if part.hasPrefix("{"), part.hasSuffix("}"), part.count > 2 {
                return .parameter(String(part.dropFirst().dropLast()))
            }
            return .literal(part.percentDecoded())
        }
        let isLiteral = segments.allSatisfy { if case .literal = $0 { true } else { false } }
        literalPath = isLiteral ? path : nil
    }

    /// The decoded values of the placeholders, or `nil` when the request does not match.
    func match(method: String, path: Substring) -> [String: String]? {
        if let own = self.method, own != method { return nil }
        if let literalPath, literalPath == path { return [:] }
        let parts = RoutePattern.parts(of: path)
        var parameters: [String: String] = [:]
        for (index, segment) in segments.enumerated() {
            guard index < parts.count else { return nil }
            switch segment {
            case .literal(let text):
                guard parts[index].percentDecoded() == text else { return nil }
            case .parameter(let name):
                parameters[name] = parts[index].percentDecoded()
            case .rest:
                parameters["*"] = parts[index...].map { $0.percentDecoded() }.joined(separator: "/")
                return parameters
            }
        }
        return parts.count == segments.count ? parameters : nil
    }

    private static func parts(of path: Substring) -> [Substring] {
        let relative = path.utf8.first == UInt8(ascii: "/") ? path.dropFirst() : path
        return relative.split(separator: "/", omittingEmptySubsequences: false)
    }
}
