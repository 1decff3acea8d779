import Cryptography
public import FoundationEssentials
public import HTTPCore
import Synchronization

extension MockServer {
    /// A server of resumable uploads for HTTP (draft-ietf-httpbis-resumable-upload-11, interop version 8) below a path.
    ///
    /// ```swift
    /// let uploads = server.resumableUploads(path: "/files")
    /// uploads.cutNext(afterBytes: 100_000)                  // the connection breaks within the body
    /// print(uploads.contents.count, uploads.unfinished.count)
    /// ```
    ///
    /// A request to the path creates an upload, and its bytes are stored as they arrive. Queued replies
    /// (``MockServer/enqueue(_:)-(MockReply...)``) come first, so a server that fails can be had, too.
    ///
    /// - Parameters:
    ///   - path: The path to upload to. The uploads are below it.
    ///   - settings: What the server offers. Default: everything, without limits.
    @discardableResult
    public func resumableUploads(path: String = "/files", _ settings: Uploads.Settings = Uploads.Settings()) -> Uploads
    {
        let uploads = Uploads(path: path, settings)
        addReceiver(uploads)
        return uploads
    }

    /// The uploads of ``MockServer/resumableUploads(path:_:)``.
    public final class Uploads: Sendable {
        /// What the server offers.
        public struct Settings: Sendable {
            /// The interop version; requests with another one are ordinary uploads. Default 8.
            public var interopVersion = 8
            /// Whether 104 is sent. Default `true`.
            public var sendsInterim = true
            /// Whether `OPTIONS` tells the limits. Default `true`.
            public var answersOptions = true
            /// The limits of `Upload-Limit` by key, such as `max-append-size`. Default none.
            public var limits: [String: Int64] = [:]
            /// Whether the server wants digests (RFC 9530 §4), and compares them. Default `false`.
            public var wantsDigests = false
            /// Whether content and files beyond the limits are refused with 413. Default `true`.
            public var refusesTooLarge = true
            /// The status of the answer to complete content. Default 200.
            public var status = 200
            /// Whether the result of a complete upload is sent again to who asks for it. Default `true`.
            public var repeatsResult = true

            /// Makes the default settings.
            public init() {}
        }

        private struct State {
            var resources: [String: UploadResource] = [:]
            var contents: [Data] = []
            var cuts: [Int64] = []
            var received: Int64 = 0
            var count = 0
            /// The resource and the beginning of the request that each connection sends.
            var sessions: [Int: Session] = [:]
        }

        private struct Session {
            var resource: String?
            var plain = Data()
            var start: Int64 = 0
            var left: Int64?
            var refusal: MockReply?
        }

        let path: String
        private let settings: Settings
        private let state = Mutex(State())

        init(path: String, _ settings: Settings) {
            self.path = path.hasSuffix("/") ? String(path.dropLast()) : path
            self.settings = settings
        }

        /// The contents of complete uploads, in the order of their completion.
        public var contents: [Data] { state.withLock(\.contents) }
        /// The contents of uploads that are not complete.
        public var unfinished: [Data] {
            state.withLock { $0.resources.values.filter { !$0.isComplete }.map(\.content) }
        }
        /// How many bytes of content arrived.
        public var receivedBytes: Int64 { state.withLock(\.received) }
        /// The fields of the requests that created the uploads that there are.
        public var creations: [HTTPHeaders] { state.withLock { $0.resources.values.map(\.fields) } }

        /// Breaks the connection of the next request with content after so many bytes of it: with a reset, or with an end
        /// that lets the client read the interim responses before it. Each call is for one request.
        public func cutNext(afterBytes count: Int64) { state.withLock { $0.cuts.append(max(0, count)) } }

        /// Forgets all uploads, as a server does whose uploads expire.
        public func forgetAll() { state.withLock { $0.resources = [:] } }
    }
}

/// Receives the bodies of requests as they arrive, and answers the requests, on the thread of the server.
protocol BodyReceiver: Sendable {
    func takes(_ path: String) -> Bool
    func begin(_ request: RecordedRequest) -> BodyAction
    func receive(_ piece: ArraySlice<UInt8>, of request: RecordedRequest) -> BodyAction
    func end(_ request: RecordedRequest) -> MockReply
    /// The body ended early, or another reply is sent.
    func abandon(_ request: RecordedRequest)
}

/// What the server does before a body has ended.
enum BodyAction {
    case proceed
    case interim(Int, HTTPHeaders)
    /// Breaks the connection.
    case cut
}

/// An upload resource.
private struct UploadResource {
    var content = Data()
    var length: Int64?
    var isComplete = false
    var fields: HTTPHeaders
    /// The connection that appends; a request on another one ends it.
    var writer: Int?
}

// MARK: - Receiving

extension MockServer.Uploads: BodyReceiver {
    func takes(_ path: String) -> Bool { path == self.path || path.hasPrefix(self.path + "/") }

    func begin(_ request: RecordedRequest) -> BodyAction {
        state.withLock { state in
            var session = Session()
            defer { state.sessions[request.connection] = session }
            if ["POST", "PUT", "PATCH"].contains(request.method), !state.cuts.isEmpty,
                (request.headers["Content-Length"].flatMap { Int64($0) } ?? 1) > 0
            {
                session.left = state.cuts.removeFirst()
            }
            guard request.path == path else {
                session.refusal = beginAppend(request, &state, &session)
                return .proceed
            }
            guard let completes = completes(request.headers), matches(request.headers) else { return .proceed }
            let size = request.headers["Content-Length"].flatMap { Int64($0) }
            let told = request.headers["Upload-Length"].flatMap { Int64($0) }
            if let told, completes, let size, told != size {
                session.refusal = problem(400, "inconsistent-upload-length", "the length is \(told) and \(size)")
                return .proceed
            }
            let length = told ?? (completes ? size : nil)
            session.refusal = limited(size, length)
            if session.refusal != nil || (length ?? 0) < settings.limits["min-size"] ?? 0 { return .proceed }
            state.count += 1
            let name = "\(path)/\(state.count)"
            state.resources[name] = UploadResource(length: length, fields: request.headers, writer: request.connection)
            session.resource = name
            guard settings.sendsInterim else { return .proceed }
            let fields: HTTPHeaders = ["Location": name, "Upload-Draft-Interop-Version": version]
            return .interim(104, fields.merging(limits))
        }
    }

    private func beginAppend(_ request: RecordedRequest, _ state: inout State, _ session: inout Session) -> MockReply? {
        guard request.method == "PATCH" else { return nil }
        guard var resource = state.resources[request.path] else { return .status(404) }
        guard completes(request.headers) != nil, matches(request.headers) else { return .status(400) }
        if settings.interopVersion >= 6, request.headers["Content-Type"] != "application/partial-upload" {
            return .status(415)
        }
        let offset = request.headers["Upload-Offset"].flatMap { Int64($0) }
        guard offset == Int64(resource.content.count) else {
            return problem(
                409, "mismatching-upload-offset", "the offset is \(resource.content.count)",
                ["expected-offset": resource.content.count, "provided-offset": Int(offset ?? -1)]
            )
            .header("Upload-Offset", "\(resource.content.count)")
        }
        if resource.isComplete {
            return settings.repeatsResult ? result(of: resource) : problem(400, "completed-upload", "it is complete")
        }
        let size = request.headers["Content-Length"].flatMap { Int64($0) }
        if let refusal = limited(size, resource.length) { return refusal }
        resource.writer = request.connection
        state.resources[request.path] = resource
        session.resource = request.path
        session.start = offset ?? 0
        return nil
    }

    func receive(_ piece: ArraySlice<UInt8>, of request: RecordedRequest) -> BodyAction {
        state.withLock { state in
            guard var session = state.sessions[request.connection], session.refusal == nil else { return .proceed }
            defer { state.sessions[request.connection] = session }
            let kept = session.left.map { piece.prefix(Int(min($0, Int64(piece.count)))) } ?? piece
            session.left = session.left.map { $0 - Int64(kept.count) }
            state.received += Int64(kept.count)
            if let name = session.resource {
                // A later request for the same upload has taken over.
                guard state.resources[name]?.writer == request.connection else { return .cut }
                state.resources[name]?.content.append(contentsOf: kept)
            } else {
                session.plain.append(contentsOf: kept)
            }
            if session.left == 0 { return .cut }
            guard settings.sendsInterim, let name = session.resource, let resource = state.resources[name] else {
                return .proceed
            }
            return .interim(
                104, ["Upload-Offset": "\(resource.content.count)", "Upload-Draft-Interop-Version": version])
        }
    }

    func end(_ request: RecordedRequest) -> MockReply {
        state.withLock { state in
            guard let session = state.sessions.removeValue(forKey: request.connection) else { return .status(500) }
            if let refusal = session.refusal { return refusal }
            if let name = session.resource, let resource = state.resources[name] {
                return finish(request, session, name, resource, &state)
            }
            guard request.path == path else { return answer(request, &state) }
            switch request.method {
            case "OPTIONS":
                guard settings.answersOptions else { return .status(405) }
                let fields: HTTPHeaders = ["Accept-Patch": "application/partial-upload"]
                return MockReply(status: 204, headers: fields.merging(named).merging(limits).merging(wants))
            case "POST", "PUT", "PATCH":
                state.contents.append(session.plain)
                return MockReply.status(settings.status)
            default: return .status(405)
            }
        }
    }

    func abandon(_ request: RecordedRequest) {
        state.withLock { state in
            guard let session = state.sessions.removeValue(forKey: request.connection), let name = session.resource,
                request.headers["Content-Digest"] != nil, state.resources[name]?.writer == request.connection
            else { return }
            // Content that cannot be compared with its digest is not kept.
            state.resources[name]?.content.removeSubrange(Int(session.start)...)
        }
    }

    /// Takes the content of a request that has ended.
    private func finish(
        _ request: RecordedRequest, _ session: Session, _ name: String, _ resource: UploadResource, _ state: inout State
    ) -> MockReply {
        var resource = resource
        if let digest = request.headers["Content-Digest"],
            digest != Self.digest(resource.content.dropFirst(Int(session.start)))
        {
            resource.content.removeSubrange(Int(session.start)...)
            state.resources[name] = resource
            return .status(400).header("Upload-Complete", "?0")
        }
        if let length = resource.length, Int64(resource.content.count) > length {
            state.resources[name] = nil
            return .status(400)
        }
        let isLast = completes(request.headers) == true
        if isLast, let length = resource.length, Int64(resource.content.count) < length {
            return .status(400).header("Upload-Complete", "?0")
        }
        resource.isComplete = isLast
        state.resources[name] = resource
        if isLast {
            state.contents.append(resource.content)
            return result(of: resource).header("Location", name)
        }
        let isNew = request.path == path
        var reply = MockReply(status: isNew ? 201 : 204, headers: isNew ? limits : [:])
        if isNew { reply.headers["Location"] = name }
        if settings.interopVersion < 7 { reply.headers["Upload-Offset"] = "\(resource.content.count)" }
        return completeness(false, reply)
    }

    private func answer(_ request: RecordedRequest, _ state: inout State) -> MockReply {
        guard let resource = state.resources[request.path] else { return .status(404) }
        switch request.method {
        case "HEAD", "GET":
            state.resources[request.path]?.writer = nil
            var reply = MockReply(status: 204, headers: limits)
            reply.headers["Upload-Offset"] = "\(resource.content.count)"
            reply.headers["Upload-Length"] = resource.length.map { "\($0)" }
            reply.headers["Cache-Control"] = "no-store"
            return completeness(resource.isComplete, reply)
        case "DELETE":
            state.resources[request.path] = nil
            return .status(204)
        default: return .status(405)
        }
    }

    private func result(of resource: UploadResource) -> MockReply {
        if let digest = resource.fields["Repr-Digest"], digest != Self.digest(resource.content) {
            return completeness(true, .status(400))
        }
        return completeness(true, .json("{\"size\": \(resource.content.count)}", status: settings.status))
    }
}

// MARK: - Fields

extension MockServer.Uploads {
    private var version: String { "\(settings.interopVersion)" }

    private var named: HTTPHeaders { ["Upload-Draft-Interop-Version": version] }

    private func matches(_ headers: HTTPHeaders) -> Bool { headers["Upload-Draft-Interop-Version"] == version }

    /// Whether a request completes the upload; `nil` if it does not say so.
    private func completes(_ headers: HTTPHeaders) -> Bool? {
        if settings.interopVersion > 3 { return headers["Upload-Complete"].map { $0 == "?1" } }
        return headers["Upload-Incomplete"].map { $0 == "?0" }
    }

    private func completeness(_ isComplete: Bool, _ reply: MockReply) -> MockReply {
        settings.interopVersion > 3
            ? reply.header("Upload-Complete", isComplete ? "?1" : "?0")
            : reply.header("Upload-Incomplete", isComplete ? "?0" : "?1")
    }

    private var limits: HTTPHeaders {
        let limits = settings.limits.isEmpty ? ["min-size": 0] : settings.limits
        return ["Upload-Limit": limits.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: ", ")]
    }

    private var wants: HTTPHeaders {
        settings.wantsDigests ? ["Want-Content-Digest": "sha-256=1", "Want-Repr-Digest": "sha-256=1"] : [:]
    }

    private func limited(_ size: Int64?, _ length: Int64?) -> MockReply? {
        guard settings.refusesTooLarge else { return nil }
        let isTooLarge =
            (size ?? 0) > settings.limits["max-append-size"] ?? .max
            || (length ?? 0) > settings.limits["max-size"] ?? .max
        return isTooLarge ? MockReply(status: 413, headers: named.merging(limits)) : nil
    }

    private func problem(
        _ status: Int, _ type: String, _ title: String, _ members: [String: Int] = [:]
    ) -> MockReply {
        let rest = members.sorted { $0.key < $1.key }.map { ", \"\($0)\": \($1)" }.joined()
        let text =
            "{\"type\": \"https://iana.org/assignments/http-problem-types#\(type)\", \"title\": \"\(title)\"\(rest)}"
        var reply = MockReply.json(text, status: status)
        reply.headers["Content-Type"] = "application/problem+json"
        return completeness(false, reply)
    }

    private static func digest(_ bytes: some ContiguousBytes) -> String {
        "sha-256=:\(Data((try? MessageDigest.of(bytes, .sha256)) ?? []).base64EncodedString()):"
    }
}
