public import HTTPCore

extension HTTPResponse {
    /// What a server reports about a failure, in the standard form (RFC 9457).
    ///
    /// ```swift
    /// do {
    ///     _ = try await central.startRequest("POST", url)
    /// } catch let error as NetworkError {
    ///     if let problem = error.problem, problem.type == "https://api.example.org/problems/out-of-credit" {
    ///         print(problem.detail ?? "", problem.members["balance"]?.int ?? 0)
    ///     }
    /// }
    /// ```
    ///
    /// A member of another type than the RFC gives it counts as absent (§3.1).
    public struct Problem: Sendable, Hashable, CustomStringConvertible {
        /// The URI of the kind of problem, absolute; `about:blank` when the server gives none, so that the status alone says
        /// what happened.
        public var type: String
        /// A short summary, which is the same each time that the problem occurs.
        public var title: String?
        /// The status that the server set, which a proxy may have changed.
        public var status: Int?
        /// What happened this time.
        public var detail: String?
        /// The URI of this occurrence, as it was sent.
        public var instance: String?
        /// All other members.
        public var members: [String: JSONValue]

        /// Makes a problem.
        public init(
            type: String = "about:blank", title: String? = nil, status: Int? = nil, detail: String? = nil,
            instance: String? = nil, members: [String: JSONValue] = [:]
        ) {
            self.type = type
            self.title = title
            self.status = status
            self.detail = detail
            self.instance = instance
            self.members = members
        }

        /// Title, detail and type, as far as they are known, in one line without control characters.
        public var description: String {
            let words = [title, detail].compactMap { $0 }.filter { !$0.isEmpty }.joined(separator: ": ")
            let text = type == "about:blank" && !words.isEmpty ? words : words.isEmpty ? type : "\(words) (\(type))"
            return URLText.visible(text)
        }
    }

    /// The problem that the body describes; `nil` unless its media type is `application/problem+json` and it is a JSON object
    /// that was received whole.
    public var problem: Problem? {
        guard let type = headers["Content-Type"], MediaType.essence(of: type) == "application/problem+json",
            let object = try? json().object
        else { return nil }
        var problem = Problem(
            title: object["title"]?.string, status: object["status"]?.int, detail: object["detail"]?.string,
            instance: object["instance"]?.string, members: object)
        if let type = object["type"]?.string, !type.isEmpty {
            problem.type = URLParts(type).scheme == nil ? URLReference.resolve(type, against: url) ?? type : type
        }
        for name in ["type", "title", "status", "detail", "instance"] { problem.members[name] = nil }
        return problem
    }
}

extension NetworkError {
    /// The problem that the server reports in the body of its response (RFC 9457); `nil` when it reports none.
    public var problem: HTTPResponse.Problem? { response?.problem }
}
