import Cryptography
import FoundationEssentials
import HTTPCore

/// What makes two requests the same: method, address, parameters, the headers of their own, the body, and the settings
/// that change the answer. Hashed, so that no body is kept.
struct DuplicateKey: Hashable, Sendable {
    private let digest: [UInt8]

    /// Fields that differ from one request to the next although the answer does not.
    private static let volatileFields = ["traceparent", "tracestate", "idempotency-key", "x-request-id", "date"]

    /// `nil` for a request whose body cannot be read twice, and so not be compared, and for one that is answered twice.
    init?(_ request: HTTPRequest) {
        var parts = Parts()
        let context = request.context
        // What is cached is delivered to each caller by itself, so these are not shared.
        guard context.deliversCached == nil else { return nil }
        parts.add("\(request.sealing)")
        parts.add(request.method.rawValue)
        parts.add(request.url)
        for address in context.addresses { parts.add(address) }
        let fields = request.headers.fields.map { ($0.name.lowercased(), $0.value) }
            .filter { !Self.volatileFields.contains($0.0) }
        // Sorted by name alone: fields of one name keep their order, which matters.
        for (name, value) in fields.enumerated().sorted(by: { ($0.element.0, $0.offset) < ($1.element.0, $1.offset) })
            .map(\.element)
        {
            parts.add(name)
            parts.add(value ?? "")
            parts.add("\(value != nil)")
        }
        parts.add("\(context.replacesGlobalHeaders)")
        if let content = context.content {
            parts.add(content.encoding.rawValue)
            guard parts.add(content.members), parts.add(content.files), parts.add(content.body) else { return nil }
        }
        guard parts.add(request.body) else { return nil }
        parts.add("\(request.timeout as Duration?) \(request.redirects) \(request.decompresses)")
        parts.add("\(request.authentication as Authentication?) \(request.cachePolicy as CachePolicy?)")
        parts.add("\(request.maxBodySize as Int64?) \(request.proxy as ProxyPolicy?) \(request.version)")
        parts.add("\(request.unixSocketPath as String?) \(request.pinnedPublicKeys) \(request.flow.authenticates)")
        parts.add(context.simulation.map { "\($0)" } ?? "")
        guard let digest = parts.digest() else { return nil }
        self.digest = digest
    }

    /// Parts one after the other, each with its length before it, so that no two lists of parts give the same bytes.
    private struct Parts {
        private var bytes = Data()

        mutating func add(_ text: String) { add(Data(text.utf8)) }

        mutating func add(_ data: Data) {
            withUnsafeBytes(of: UInt64(data.count)) { bytes.append(contentsOf: $0) }
            bytes.append(data)
        }

        mutating func add(_ members: [String: JSONValue]?) -> Bool {
            guard let members else { return true }
            guard let data = try? JSONValue.object(members).data() else { return false }
            add(data)
            return true
        }

        mutating func add(_ body: HTTPBody?) -> Bool {
            guard let body else { return true }
            add(body.contentType ?? "")
            switch body.content {
            case .parameters(let encoding): add(encoding.rawValue)
            case .data(let data): add(data)
            case .encoded(let encoder):
                guard let data = try? encoder.encode() else { return false }
                add(data)
            case .file(let path): add(path)
            case .multipart(let files): return add(files)
            case .stream: return false
            }
            return true
        }

        mutating func add(_ files: [UploadFile]) -> Bool {
            for file in files {
                add("\(file.name)\n\(file.fileName ?? "")\n\(file.contentType ?? "")")
                switch file.source {
                case .data(let data): add(data)
                case .path(let path): add(path)
                case .stream: return false
                }
            }
            return true
        }

        consuming func digest() -> [UInt8]? {
            var digest = MessageDigest(.sha256)
            digest.update(bytes)
            return try? digest.finalize()
        }
    }
}
