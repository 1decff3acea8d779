internal import FoundationEssentials
internal import LATNetworking

// Answers to the page's requests for single calls.
extension InspectedCalls {
    /// Answers `/calls/ID`, `/calls/ID/body?side=…&entry=…` and `/calls/ID/copy?as=…`.
    func answer(_ request: LoopbackServer.Request) -> LoopbackServer.Response {
        let parts = request.path.split(separator: "/")
        guard (2...3).contains(parts.count), let id = UInt64(parts[1]) else { return .unknown }
        guard let record = record(id)?.record else {
            return LoopbackServer.Response(
                status: 404, "The program no longer keeps this call: newer ones took its place.")
        }
        switch parts.count == 3 ? parts[2] : "" {
        case "": return .json(WireDetails(record))
        case "body": return Self.body(request, record)
        case "copy":
            guard let form = request.copyForm else { return .unknown }
            return LoopbackServer.Response("text/plain; charset=utf-8", Data(CopyText(record).text(as: form).utf8))
        default: return .unknown
        }
    }

    private static func body(_ request: LoopbackServer.Request, _ record: CallRecord) -> LoopbackServer.Response {
        let messages = record.conversation
        let index = request.parameter("entry").flatMap { Int($0) } ?? 0
        let message = messages.indices.contains(index) ? messages[index] : nil
        let body = request.parameter("side") == "request" ? message?.request.body : message?.response?.body
        let shown: (bytes: Data, type: String?, note: String?) = body?.shown ?? (Data(), nil, nil)
        var response = LoopbackServer.Response("application/octet-stream", shown.bytes)
        response.headers["Content-Disposition"] = "attachment"
        response.headers["X-Body-Size"] = "\(body?.size ?? Int64(shown.bytes.count))"
        // Without bytes that are not allowed in a field value.
        response.headers["X-Body-Type"] = shown.type.map { type in
            String(decoding: type.utf8.filter { (0x20..<0x7F).contains($0) }, as: UTF8.self)
        }
        response.headers["X-Note"] = shown.note?.percentEncodedComponent
        return response
    }

    /// Answers `/har`, with the identifiers of the calls in the body.
    func har(_ request: LoopbackServer.Request) -> LoopbackServer.Response {
        guard let ids = try? JSONDecoder().decode([UInt64].self, from: request.body) else {
            return LoopbackServer.Response(status: 400, "The body has to be a JSON list of the identifiers of calls.")
        }
        return LoopbackServer.Response("application/json", PageHAR.data(of: ids, self))
    }
}

extension CopyText {
    /// The last request of a call.
    init(_ record: CallRecord) {
        let sent = record.conversation.last?.request ?? record.request
        var request = HTTPRequest(sent.method, sent.url)
        for field in sent.headers { request.headers.append(field.name, field.value) }
        var note: String?
        if let body = sent.body {
            let shown = body.shown
            note = shown.note
            if case .parts(let parts) = body.content {
                request.body = .multipart(
                    parts.map { UploadFile($0.name, $0.text, fileName: $0.fileName, contentType: $0.contentType) })
            } else if !shown.bytes.isEmpty {
                request.body = .data(shown.bytes, contentType: shown.type)
            }
        }
        self.init(request, server: record.row?.server, note: note)
    }

    /// Answers `/copy`, with a request of a HAR entry in the body.
    static func answer(_ request: LoopbackServer.Request) -> LoopbackServer.Response {
        guard let form = request.copyForm, let entry = try? JSONValue(parsing: request.body),
            let method = entry["method"].string, let url = entry["url"].string
        else { return LoopbackServer.Response(status: 400, "This entry has no method or no URL.") }
        var copied = HTTPRequest(method, url)
        for field in entry["headers"].array ?? [] {
            guard let name = field["name"].string, let value = field["value"].string else { continue }
            copied.headers.append(name, value)
        }
        let posted = entry["postData"]
        copied.body = posted.flatMap(body)
        let text = CopyText(copied, note: posted["comment"].string.map { "The file says of this body: \($0)." })
        return LoopbackServer.Response("text/plain; charset=utf-8", Data(text.text(as: form).utf8))
    }

    private static func body(of posted: JSONValue) -> HTTPBody? {
        let (type, text) = (posted["mimeType"].string, posted["text"].string)
        let parts = (posted["params"].array ?? []).map { part in
            UploadFile(
                part["name"].string ?? "", part["value"].string, fileName: part["fileName"].string,
                contentType: part["contentType"].string)
        }
        // The text of a form of parts has its bytes, which begin with the boundary, or only sums the parts up.
        let isForm = MediaType.plainEssence(of: type) == "multipart/form-data"
        if isForm, !parts.isEmpty, text?.hasPrefix("--") != true { return .multipart(parts) }
        // In HAR 1.2 a form has `params` in place of the text.
        guard let text = text ?? (parts.isEmpty ? nil : parts.formText) else { return nil }
        // Our own files have `_encoding`, because HAR 1.2 has no field for it here. Other programs write `encoding`.
        let encoding = posted["_encoding"].string ?? posted["encoding"].string
        let data = encoding == "base64" ? Data(base64Encoded: text) : nil
        return .data(data ?? Data(text.utf8), contentType: type)
    }
}

extension UploadFile {
    /// A part of a copied form: a file whose content is not kept is read by its name.
    fileprivate init(_ name: String, _ text: String?, fileName: String?, contentType: String?) {
        if let text {
            self.init(name: name, fileName: fileName, data: Data(text.utf8), contentType: contentType)
        } else {
            self.init(name: name, fileName: fileName, path: fileName ?? name, contentType: contentType)
        }
    }
}

extension [UploadFile] {
    /// The parts as `application/x-www-form-urlencoded`.
    fileprivate var formText: String {
        map { part in
            let value = if case .data(let data) = part.source { String(decoding: data, as: UTF8.self) } else { "" }
            return "\(part.name.percentEncodedComponent)=\(value.percentEncodedComponent)"
        }.joined(separator: "&")
    }
}

extension LoopbackServer.Request {
    func parameter(_ name: String) -> String? {
        for item in query.split(separator: "&") where item.hasPrefix("\(name)=") {
            return item.dropFirst(name.count + 1).percentDecoded()
        }
        return nil
    }

    fileprivate var copyForm: CopyText.Form? { parameter("as").flatMap(CopyText.Form.init) }
}

/// The HAR file that the page saves: the entries of the records, each with `_call`, which groups them and has all else that the
/// page shows, so that the file looks the same when it is opened again.
enum PageHAR {
    static func data(of ids: [UInt64], _ calls: InspectedCalls, comment: String? = nil) -> Data {
        let entries = ids.flatMap { id -> [JSONValue] in
            guard let (record, number) = calls.record(id) else { return [] }
            let call = about(record, number, calls.program(of: id))
            return HAREntry(record: record).entries.map { entry in
                var entry = entry
                entry["_call"] = call
                return entry
            }
        }
        let creator: JSONValue = ["name": "LATInspect", "version": .string(CurlTransport.version)]
        var log: JSONValue = ["version": "1.2", "creator": creator, "entries": .array(entries)]
        if let comment { log["comment"] = .string(comment) }
        return (try? (["log": log] as JSONValue).data()) ?? Data()
    }

    private static func about(_ record: CallRecord, _ number: UInt64, _ program: String?) -> JSONValue {
        func value(_ part: some Encodable) -> JSONValue? {
            (try? JSONEncoder().encode(part)).flatMap { try? JSONValue(parsing: $0) }
        }
        let line = value(WireCall(record, number: number, program: program))
        var call = line ?? ["id": .int(Int64(clamping: record.id))]
        let sources = WireDetails(record).headerSources.map { source -> JSONValue in
            ["name": .string(source.name), "source": .string(source.source)]
        }
        call["headerSources"] = .array(sources)
        if !record.messages.isEmpty { call["messages"] = value(WireDetails(record).messages) }
        return call
    }
}
