import Cryptography
import FoundationEssentials
import HTTPCore

/// Resumable uploads for HTTP, by draft-ietf-httpbis-resumable-upload-11 (interop version 8) and the versions 3 to 7 before it.
struct DraftUpload: UploadDialect {
    private let file: UploadedContent

    init(_ file: UploadedContent) { self.file = file }

    func message(for step: UploadPlan.Step, _ plan: UploadPlan) -> UploadMessage {
        let address = plan.lanes[0].address ?? file.url
        switch step {
        case .create(_, let content):
            let isWhole = Int64(content.count) == plan.total
            var message = own(file.method, file.url, plan, isLast: isWhole)
            message.headers["Upload-Length"] = "\(plan.total)"
            message.headers["Content-Type"] = file.contentType
            message.headers["Content-Disposition"] = ContentDisposition.inline(file.fileName)
            message.role = .creation
            add(content, to: &message, plan)
            if file.sendsChecksums, let algorithm = plan.facts.wholeChecksum {
                message.checksums.append(Self.digest("Repr-Digest", algorithm, of: 0..<plan.total))
            }
            return message
        case .send(_, let range): return patch(range, at: address, plan)
        // The server may repeat the result of a complete upload (§4.4.2).
        case .complete: return patch(plan.total..<plan.total, at: address, plan)
        case .ask, .verify: return own("HEAD", address, plan)
        case .probe, .begin, .list: return own("OPTIONS", file.url, plan)
        }
    }

    private func patch(_ range: Range<Int64>, at address: String, _ plan: UploadPlan) -> UploadMessage {
        var message = own("PATCH", address, plan, isLast: range.upperBound == plan.total)
        message.headers["Upload-Offset"] = "\(range.lowerBound)"
        if plan.version >= 6 { message.headers["Content-Type"] = "application/partial-upload" }
        add(range, to: &message, plan)
        return message
    }

    private func own(
        _ method: HTTPMethod, _ url: String, _ plan: UploadPlan, isLast: Bool? = nil
    ) -> UploadMessage {
        var message = UploadMessage(method, url)
        message.headers["Upload-Draft-Interop-Version"] = "\(plan.version)"
        guard let isLast else { return message }
        // Version 3 has a field with the opposite meaning.
        if plan.version > 3 {
            message.headers["Upload-Complete"] = isLast ? "?1" : "?0"
        } else {
            message.headers["Upload-Incomplete"] = isLast ? "?0" : "?1"
        }
        return message
    }

    private func add(_ range: Range<Int64>, to message: inout UploadMessage, _ plan: UploadPlan) {
        message.content = range.isEmpty ? .data(Data()) : .file(range)
        guard file.sendsChecksums, let algorithm = plan.facts.checksum, !range.isEmpty else { return }
        message.checksums.append(Self.digest("Content-Digest", algorithm, of: range))
    }

    private static func digest(
        _ field: String, _ algorithm: MessageDigest.Algorithm, of range: Range<Int64>
    ) -> UploadMessage.Checksum {
        .init(
            field: field, algorithm: algorithm, range: range,
            form: .structured(algorithm == .sha512 ? .sha512 : .sha256))
    }

    func answer(to step: UploadPlan.Step, _ response: HTTPResponse, _ plan: UploadPlan) -> UploadPlan.Answer {
        let headers = response.headers
        // What was asked for after 303 is another resource (RFC 9110 §15.4.4).
        let isMoved = response.redirects.contains { $0.status == 303 }
        let isComplete = isMoved ? nil : Self.isComplete(headers)
        switch (step, response.status) {
        // Without an answer that tells more, the file goes as an ordinary upload.
        case (.probe, let status): return file.busy.contains(status) ? .again(.busy) : .probed
        case (.send, 400...499) where hasProblem("completed-upload", response),
            (.complete, 400...499) where hasProblem("completed-upload", response):
            return .unrepeated
        // The result of processing the content, whatever its status, ends the upload.
        case (.create, _) where isComplete == true, (.send, _) where isComplete == true,
            (.complete, _) where isComplete == true:
            return response.isSuccess ? result(response, of: step, plan) : .failed
        case (.create(_, let content), 200...299):
            let stored = headers.number("Upload-Offset")
            if Int64(content.count) == plan.total, isComplete == nil {
                // A server that has told of the upload also says that it is complete.
                guard plan.lanes[0].address != nil, plan.version >= 6 || isMoved else {
                    return result(response, of: step, plan)
                }
                return isMoved ? .again(.conflict) : .unconfirmed
            }
            // A server that does not know the draft has taken the content for the whole file.
            guard plan.lanes[0].address != nil || isComplete == false else {
                return .violation(
                    "the server took \(content.count) of the \(plan.total) bytes without saying that more may follow; "
                        + "upload the file without `resumable`")
            }
            guard let address = response.createdURL ?? plan.lanes[0].address else { return .refused }
            return .created(address, stored: stored ?? Int64(content.count))
        case (.ask, 200...299):
            let length = headers.number("Upload-Length")
            guard length == nil || length == plan.total else { return .again(.conflict) }
            if isComplete == true { return whole(response, plan) ?? .whole }
            return headers.number("Upload-Offset").map { .offset($0) } ?? .again(.conflict)
        case (.ask, 404), (.ask, 410): return .gone
        case (.verify, 200...299) where isComplete == true: return whole(response, plan) ?? .finished
        case (.verify, 404), (.verify, 410): return .gone
        case (.send(_, let range), 200...299):
            if isMoved { return .again(.conflict) }
            if range.upperBound == plan.total, isComplete == nil {
                return plan.version >= 6 ? .unconfirmed : result(response, of: step, plan)
            }
            return .offset(headers.number("Upload-Offset") ?? range.upperBound)
        case (.complete, 200...299):
            if isMoved { return .unrepeated }
            guard isComplete == nil else { return .again(.conflict) }
            return plan.version >= 6 ? .unconfirmed : .finished
        // The server has said that the upload is complete, and need not take another request for it.
        case (.complete, 400...499)
        where ![401, 403, 408, 429].contains(response.status) && file.refusal(response) == .refused:
            return .unrepeated
        case (.send, 409): return offset(response).map { .offset($0) } ?? .again(.conflict)
        case (.send, 403), (.send, 404), (.send, 410), (.send, 423): return .again(.conflict)
        case (.send, 413), (.create, 413): return .tooLarge(facts(headers).maxPart)
        default:
            // The server may have stored bytes of an upload that it told of, also before it failed.
            if (500...599).contains(response.status), plan.lanes[0].address != nil { return .again(.busy) }
            return file.refusal(response)
        }
    }

    /// The answer for a response to the whole file, all of which must have been sent and stored.
    private func result(
        _ response: HTTPResponse, of step: UploadPlan.Step, _ plan: UploadPlan
    ) -> UploadPlan.Answer {
        let sent =
            switch step {
            case .create(_, let range), .send(_, let range): range.upperBound
            case .probe, .begin, .list, .ask, .complete, .verify: plan.total
            }
        let stored = min(sent, response.headers.number("Upload-Offset") ?? sent)
        guard stored == plan.total else {
            return .violation(
                "the server says that the upload is complete, but has \(stored) of the \(plan.total) bytes; report it "
                    + "there")
        }
        return .finished
    }

    /// The answer for a complete upload that cannot be of the whole file, such as one that the server ended with a failure;
    /// `nil` otherwise. A server that does not say how much it has must have been sent everything.
    private func whole(_ response: HTTPResponse, _ plan: UploadPlan) -> UploadPlan.Answer? {
        let stored = response.headers.number("Upload-Offset")
        guard stored != plan.total, stored != nil || !plan.mayBeComplete else { return nil }
        return .unusable(
            "the server has ended the upload with \(stored.map { "\($0)" } ?? "an unknown number") of the \(plan.total) "
                + "bytes, so it is removed; look there for the reason, and upload the file again")
    }

    private func hasProblem(_ name: String, _ response: HTTPResponse) -> Bool {
        response.problem?.type == "https://iana.org/assignments/http-problem-types#\(name)"
    }

    /// The offset that the server expects, by the field or by the problem's member.
    private func offset(_ response: HTTPResponse) -> Int64? {
        if let offset = response.headers.number("Upload-Offset") { return offset }
        guard hasProblem("mismatching-upload-offset", response) else { return nil }
        return response.problem?.members["expected-offset"]?.int64.flatMap { $0 >= 0 ? $0 : nil }
    }

    func isAnnouncement(_ status: Int, _ headers: HTTPHeaders, _ plan: UploadPlan) -> Bool {
        status == 104 && headers.number("Upload-Draft-Interop-Version") == Int64(plan.version)
    }

    func removal(of plan: UploadPlan) -> [UploadMessage] {
        plan.lanes.compactMap(\.address).map { own("DELETE", $0, plan) }
    }

    /// Whether the server says that the upload is complete; `nil` if it does not say.
    private static func isComplete(_ headers: HTTPHeaders) -> Bool? {
        headers.boolean("Upload-Complete") ?? headers.boolean("Upload-Incomplete").map { !$0 }
    }

    /// The limits, and the digests that the server wants (RFC 9530 §4). A field with a known key of another type is ignored.
    func facts(_ headers: HTTPHeaders) -> UploadPlan.Facts {
        var facts = UploadPlan.Facts()
        facts.checksum = Self.wanted("Want-Content-Digest", headers)
        facts.wholeChecksum = Self.wanted("Want-Repr-Digest", headers)
        facts.version = headers.number("Upload-Draft-Interop-Version").map(Int.init(clamping:))
        let text = headers[values: "Upload-Limit"].joined(separator: ", ")
        guard !text.isEmpty, let limits = StructuredField.dictionary(text) else { return facts }
        var numbers: [String: Int64] = [:]
        for key in ["max-size", "min-size", "max-append-size", "min-append-size", "max-age"] {
            guard let member = limits[key] else { continue }
            guard case .integer(let number)? = member.value, number >= 0 else { return facts }
            numbers[key] = number
        }
        facts.maxSize = numbers["max-size"]
        facts.minSize = numbers["min-size"]
        facts.maxPart = numbers["max-append-size"].flatMap { $0 > 0 ? $0 : nil }
        facts.minPart = numbers["min-append-size"]
        return facts
    }

    private static func wanted(_ field: String, _ headers: HTTPHeaders) -> MessageDigest.Algorithm? {
        let text = headers[values: field].joined(separator: ", ")
        guard !text.isEmpty, let wanted = StructuredField.dictionary(text) else { return nil }
        return RequestOptions.Digests.Algorithm.allCases.compactMap { name -> (MessageDigest.Algorithm, Int64)? in
            guard case .integer(let weight)? = wanted[name.rawValue]?.value, weight > 0 else { return nil }
            return (name.function, weight)
        }.max { ($0.1, $1.0.rawValue) < ($1.1, $0.0.rawValue) }?.0
    }
}

/// The field `Content-Disposition` of a file that is sent (RFC 6266).
enum ContentDisposition {
    static func inline(_ fileName: String) -> String {
        let plain = String(
            fileName.unicodeScalars.map { scalar -> Character in
                let isPlain = scalar.isASCII && scalar.value >= 0x20 && scalar.value != 0x7F
                return isPlain && scalar != "\"" && scalar != "\\" && scalar != "%" ? Character(scalar) : "_"
            })
        let text = "inline; filename=\"\(plain)\""
        return plain == fileName
            ? text : text + "; filename*=UTF-8''\(Array(fileName.utf8).percentEncodedComponent)"
    }
}
