internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Platform

/// The entries of HAR 1.2 for a record: one for each exchange, or one for a call that had none.
///
/// Chrome rejects a whole file in which one number is missing, so every number is always written.
struct HAREntry {
    let record: CallRecord

    /// The entries as JSON, in the order of time.
    var entries: [JSONValue] {
        guard !record.exchanges.isEmpty else { return [entryWithoutExchange] }
        var entries = record.exchanges.map(entry)
        let messages = socketMessages
        if !messages.isEmpty { entries[entries.count - 1]["_webSocketMessages"] = .array(messages) }
        if !messages.isEmpty, record.messages.count < record.messageCount {
            entries[entries.count - 1]["comment"] = .string(
                "only the newest \(record.messages.count) of \(record.messageCount) messages were kept")
        }
        return entries
    }

    /// The messages of a WebSocket in the notation of Chrome, which shows them.
    private var socketMessages: [JSONValue] {
        record.messages.compactMap { message in
            guard message.kind == .text || message.kind == .binary else { return nil }
            let time = record.startTime.timeIntervalSince1970 + message.time.inSeconds
            return [
                "type": message.isSent ? "send" : "receive", "time": .double(time),
                "opcode": .int(message.kind == .text ? 1 : 2), "data": .string(message.text),
            ]
        }
    }

    // MARK: Entries

    private func entry(_ exchange: CallRecord.Exchange) -> JSONValue {
        var members = common(
            exchange.request, at: exchange.start, exchange.stages ?? CallRecord.Stages(), exchange.response,
            exchange.failure)
        members["_attempt"] = .int(Int64(exchange.attempt))
        members["_hop"] = .int(Int64(exchange.hop))
        if let connection = exchange.response?.connection ?? exchange.failure?.connection {
            if !connection.remoteAddress.isEmpty { members["serverIPAddress"] = .string(connection.remoteAddress) }
            let id = connection.id.map(String.init) ?? (connection.localPort > 0 ? "\(connection.localPort)" : nil)
            if let id {
                members["connection"] = .string(id)
                members["_connectionId"] = .string(id)
            }
        }
        if let decision = record.cache.last(where: { $0.hop == exchange.hop }) {
            members["_cacheDecision"] = .string(
                decision.reason.map { "\(decision.action.rawValue): \($0)" } ?? decision.action.rawValue)
        }
        return .object(members)
    }

    /// A call that got its response from the cache, a simulation or another call, or that failed before anything was sent.
    private var entryWithoutExchange: JSONValue {
        var failure: CallRecord.Failure?
        if case .failure(let error) = record.outcome { failure = error }
        var stages = CallRecord.Stages()
        stages.wait = record.duration ?? .zero
        var members = common(record.request, at: .zero, stages, record.response, failure)
        switch record.response?.source {
        case .memoryCache: members["_fromCache"] = "memory"
        case .diskCache: members["_fromCache"] = "disk"
        // Chrome knows only the two above, and ignores others.
        case .remoteCache: members["_fromCache"] = "remote"
        case .stale: members["_fromCache"] = "stale"
        default: break
        }
        return .object(members)
    }

    private func common(
        _ request: CallRecord.Request, at start: Duration, _ stages: CallRecord.Stages,
        _ response: CallRecord.Response?, _ failure: CallRecord.Failure?
    ) -> [String: JSONValue] {
        let (timings, time) = Self.timings(stages)
        var members: [String: JSONValue] = [
            "startedDateTime": .string(
                record.startTime.addingTimeInterval(start.inSeconds).iso8601WithMilliseconds),
            "request": Self.request(request, version: response?.version ?? ""),
            "cache": .object([:]), "_resourceType": "fetch", "timings": timings, "time": time,
        ]
        var shown = Self.response(response ?? failure?.response)
        if let failure { shown["_error"] = .string("\(failure.kind): \(failure.message)") }
        shown["_transferSize"] = .int(response.map(Self.transferSize) ?? 0)
        members["response"] = .object(shown)
        if let tag = record.tag { members["_tag"] = .string(tag) }
        if let row = record.row { members["_row"] = .string(row.name) }
        return members
    }

    // MARK: Timings

    /// In milliseconds. `connect` includes `ssl`, so that `time` is the sum of all but `ssl`.
    static func timings(_ stages: CallRecord.Stages) -> (JSONValue, time: JSONValue) {
        let connect = stages.connect.map { $0.wholeMicroseconds + (stages.tls?.wholeMicroseconds ?? 0) }
        let parts: [(String, Int64?)] = [
            ("blocked", stages.blocked.wholeMicroseconds), ("dns", stages.nameLookup?.wholeMicroseconds),
            ("connect", connect), ("send", 0), ("wait", stages.wait.wholeMicroseconds),
            ("receive", stages.receive.wholeMicroseconds),
        ]
        var members: [String: JSONValue] = ["ssl": number(stages.tls?.wholeMicroseconds)]
        for (name, value) in parts { members[name] = number(value) }
        return (.object(members), number(parts.reduce(0) { $0 + ($1.1 ?? 0) }))
    }

    /// Milliseconds; -1 for a stage that did not take place.
    private static func number(_ microseconds: Int64?) -> JSONValue {
        guard let microseconds else { return .int(-1) }
        return microseconds % 1_000 == 0 ? .int(microseconds / 1_000) : .double(Double(microseconds) / 1_000)
    }

    // MARK: Request

    private static func request(_ request: CallRecord.Request, version: String) -> JSONValue {
        var members: [String: JSONValue] = [
            "method": .string(request.method), "url": .string(String(request.url.prefix { $0 != "#" })),
            "httpVersion": .string(version.isEmpty ? "HTTP/1.1" : version), "cookies": [], "headersSize": .int(-1),
            "headers": fields(request.headers), "queryString": query(request.url), "bodySize": .int(0),
        ]
        guard let body = request.body else { return .object(members) }
        members["bodySize"] = .int(body.size ?? body.wireSize ?? -1)
        members["postData"] = postData(body)
        return .object(members)
    }

    private static func fields(_ fields: [CallRecord.Field]) -> JSONValue {
        .array(fields.map { .object(["name": .string($0.name), "value": .string($0.value)]) })
    }

    private static func query(_ url: String) -> JSONValue {
        guard let mark = url.firstIndex(of: "?") else { return [] }
        return parameters(url[url.index(after: mark)...].prefix { $0 != "#" })
    }

    private static func parameters(_ text: Substring) -> JSONValue {
        .array(text.formItems.map { .object(["name": .string($0.name), "value": .string($0.value)]) })
    }

    /// Always has a text, because browsers show nothing for `params` alone.
    private static func postData(_ body: CallRecord.Body) -> JSONValue {
        var members: [String: JSONValue] = ["mimeType": .string(body.contentType ?? ""), "params": [], "text": ""]
        switch body.content {
        case .text(let text):
            members["text"] = .string(text)
            if MediaType.plainEssence(of: body.contentType) == "application/x-www-form-urlencoded" {
                members["params"] = parameters(text[...])
            }
        case .bytes(let data):
            // HAR 1.2 has no field for the encoding of a request's body.
            members["text"] = .string(data.base64EncodedString())
            members["_encoding"] = "base64"
        case .parts(let parts):
            members["params"] = .array(parts.map { .object($0.members) })
            members["text"] = .string(
                parts.map { "\($0.name)=\($0.fileName.map { "@\($0) " } ?? "")\($0.text ?? "")" }.joined(
                    separator: "\n"))
        case .omitted(let reason): members["comment"] = .string("not kept: \(reason)")
        }
        if body.isTruncated { members["comment"] = .string("only the beginning was kept") }
        return .object(members)
    }

    // MARK: Response

    private static func response(_ response: CallRecord.Response?) -> [String: JSONValue] {
        guard let response else {
            return [
                "status": 0, "statusText": "", "httpVersion": "", "cookies": [], "headers": [], "redirectURL": "",
                "headersSize": -1, "bodySize": -1,
                "content": .object(["size": 0, "mimeType": "x-unknown"]),
            ]
        }
        let isFromNetwork = response.source == .network && response.status != 304
        return [
            "status": .int(Int64(response.status)), "statusText": .string(response.reason),
            "httpVersion": .string(response.version), "cookies": [], "headers": fields(response.headers),
            "content": content(response), "redirectURL": .string(response.header("Location") ?? ""),
            "headersSize": .int(response.version.hasPrefix("HTTP/1") ? Int64(response.connection?.headSize ?? -1) : -1),
            "bodySize": .int(isFromNetwork ? response.body.map { $0.wireSize ?? -1 } ?? 0 : 0),
        ]
    }

    /// The bytes that went over the wire.
    private static func transferSize(_ response: CallRecord.Response) -> Int64 {
        guard response.source == .network else { return 0 }
        return Int64(response.connection?.headSize ?? 0) + (response.body?.wireSize ?? response.body?.size ?? 0)
    }

    private static func content(_ response: CallRecord.Response) -> JSONValue {
        let type = response.header("Content-Type") ?? "x-unknown"
        guard let body = response.body else {
            return .object(["size": 0, "mimeType": .string(type), "text": ""])
        }
        var members: [String: JSONValue] = ["size": .int(body.size ?? 0), "mimeType": .string(type)]
        if let size = body.size, let wire = body.wireSize, wire > 0, size > wire {
            members["compression"] = .int(size - wire)
        }
        switch body.content {
        case .text(let text): members["text"] = .string(text)
        case .bytes(let data):
            members["text"] = .string(data.base64EncodedString())
            members["encoding"] = "base64"
        case .parts: break
        case .omitted(let reason): members["comment"] = .string("not kept: \(reason)")
        }
        if body.isTruncated { members["comment"] = .string("only the beginning was kept") }
        return .object(members)
    }
}

extension CallRecord.Part {
    fileprivate var members: [String: JSONValue] {
        var members: [String: JSONValue] = ["name": .string(name)]
        if let text { members["value"] = .string(text) }
        if let fileName { members["fileName"] = .string(fileName) }
        if let contentType { members["contentType"] = .string(contentType) }
        return members
    }
}

extension Duration {
    /// Microseconds, at least 0.
    var wholeMicroseconds: Int64 { Int64(wholeNanoseconds / 1_000) }
}

extension Date {
    /// `2026-03-01T09:30:00.123Z`.
    var iso8601WithMilliseconds: String {
        formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
}
