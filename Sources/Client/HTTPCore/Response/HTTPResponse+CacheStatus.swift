extension HTTPResponse {
    /// What one of the caches between server and caller did with the request: a member of `Cache-Status` (RFC 9211).
    ///
    /// ```swift
    /// for cache in response.cacheStatus { print(cache) }       // ExampleCDN: hit, fresh for 376 s
    /// ```
    public struct CacheStatus: Hashable, Sendable {
        /// The name of the cache.
        public var cache: String
        /// Whether the cache answered without asking further (`hit`).
        public var isHit: Bool
        /// Why it asked further (`fwd`): `bypass`, `method`, `uri-miss`, `vary-miss`, `miss`, `request`, `stale`, `partial`.
        public var forward: String?
        /// The status that it was answered with (`fwd-status`).
        public var forwardStatus: Int?
        /// For how many seconds its response was still fresh (`ttl`); negative for a stale one.
        public var timeToLive: Int?
        /// Whether it stored the response (`stored`).
        public var isStored: Bool?
        /// Whether the request shared the response to another one (`collapsed`).
        public var isCollapsed: Bool?
        /// The key of the response in the cache (`key`).
        public var key: String?
        /// What else it says (`detail`).
        public var detail: String?

        /// Makes a status; what is not given is not said.
        public init(
            cache: String, isHit: Bool = false, forward: String? = nil, forwardStatus: Int? = nil,
            timeToLive: Int? = nil, isStored: Bool? = nil, isCollapsed: Bool? = nil, key: String? = nil,
            detail: String? = nil
        ) {
            (self.cache, self.isHit, self.forward, self.forwardStatus) = (cache, isHit, forward, forwardStatus)
            (self.timeToLive, self.isStored, self.isCollapsed) = (timeToLive, isStored, isCollapsed)
            (self.key, self.detail) = (key, detail)
        }
    }

    /// What the caches on the way did, the one next to the server first. Empty without `Cache-Status`, and when the field
    /// cannot be read.
    public var cacheStatus: [CacheStatus] { CacheStatus.all(in: headers[values: "Cache-Status"]) }
}

extension HTTPResponse.CacheStatus {
    /// The members of the field. Parameters that are unknown or have another type are ignored (RFC 9211 §2).
    package static func all(in values: [String]) -> [Self] {
        guard !values.isEmpty else { return [] }
        return (StructuredField.list(values.joined(separator: ", ")) ?? []).compactMap(Self.init)
    }

    private init?(_ member: StructuredField.Member) {
        guard let name = Self.text(member.value) else { return nil }
        let parameters = member.parameters
        self.init(
            cache: name, isHit: parameters["hit"] == .boolean(true), forward: Self.text(parameters["fwd"]),
            forwardStatus: Self.number(parameters["fwd-status"]), timeToLive: Self.number(parameters["ttl"]),
            isStored: Self.flag(parameters["stored"]), isCollapsed: Self.flag(parameters["collapsed"]),
            key: Self.text(parameters["key"]), detail: Self.text(parameters["detail"]))
    }

    private static func text(_ value: StructuredField.Value?) -> String? {
        switch value {
        case .string(let text), .token(let text): text
        default: nil
        }
    }

    private static func number(_ value: StructuredField.Value?) -> Int? {
        if case .integer(let number) = value { Int(number) } else { nil }
    }

    private static func flag(_ value: StructuredField.Value?) -> Bool? {
        if case .boolean(let flag) = value { flag } else { nil }
    }

    /// The member as it is written; `nil` if the name is not ASCII.
    package var field: String? {
        var parameters = StructuredField.Parameters()
        if isHit { parameters["hit"] = .boolean(true) }
        parameters["fwd"] = forward.map { .token($0) }
        parameters["fwd-status"] = forwardStatus.map { .integer(Int64($0)) }
        parameters["ttl"] = timeToLive.map { .integer(Int64($0)) }
        parameters["stored"] = isStored.map { .boolean($0) }
        parameters["collapsed"] = isCollapsed.map { .boolean($0) }
        parameters["key"] = key.map { .string($0) }
        parameters["detail"] = detail.map { .string($0) }
        return StructuredField.text([StructuredField.Member(.value(.string(cache)), parameters)])
    }
}

extension HTTPResponse.CacheStatus: CustomStringConvertible {
    /// One line: `ExampleCDN: hit, fresh for 376 s`.
    public var description: String {
        var parts: [String] = []
        if isHit { parts.append("hit") }
        if let forward { parts.append("asked further (\(forward))") }
        if let forwardStatus { parts.append("was answered with \(forwardStatus)") }
        if let timeToLive {
            parts.append(timeToLive < 0 ? "stale for \(-timeToLive) s" : "fresh for \(timeToLive) s")
        }
        if let isStored { parts.append(isStored ? "stored it" : "did not store it") }
        if isCollapsed == true { parts.append("shared the response to another request") }
        if let key { parts.append("key \(key)") }
        if let detail { parts.append(detail) }
        return "\(cache): \(parts.isEmpty ? "no more is said" : parts.joined(separator: ", "))"
    }
}
