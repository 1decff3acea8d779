import Cryptography
import FoundationEssentials
import HTTPCore

/// A multipart upload of S3 and of the stores that are compatible with it.
struct S3Upload: UploadDialect {
    private let file: UploadedContent

    init(_ file: UploadedContent) { self.file = file }

    func message(for step: UploadPlan.Step, _ plan: UploadPlan) -> UploadMessage {
        let upload = "uploadId=\((plan.upload ?? "").percentEncodedComponent)"
        switch step {
        case .begin:
            var message = UploadMessage("POST", url("uploads="))
            message.headers["Content-Type"] = file.contentType
            if file.sendsChecksums { message.headers["x-amz-checksum-algorithm"] = "SHA256" }
            message.role = .creation
            message.content = .data(Data())
            return message
        case .list(let number):
            return UploadMessage("GET", url("\(upload)&max-parts=1000&part-number-marker=\(number)"))
        case .send(let lane, let range):
            var message = UploadMessage("PUT", url("partNumber=\(lane + 1)&\(upload)"))
            message.content = range.isEmpty ? .data(Data()) : .file(range)
            if file.sendsChecksums {
                message.checksums = [.init(field: Self.checksum, algorithm: .sha256, range: range, form: .plain)]
            }
            return message
        case .complete:
            let parts = plan.lanes.enumerated().map { index, lane in
                let checksum =
                    lane.part?.checksum.map { "<ChecksumSHA256>\(XMLText.escaped($0))</ChecksumSHA256>" } ?? ""
                return
                    "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(XMLText.escaped(lane.part?.tag ?? ""))</ETag>"
                    + "\(checksum)</Part>"
            }
            let text =
                "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                + parts.joined() + "</CompleteMultipartUpload>"
            var message = UploadMessage(
                "POST", url(upload), ["Content-Type": "application/xml"], .data(Data(text.utf8)))
            message.role = .completion
            return message
        case .verify, .probe, .create, .ask:
            return UploadMessage("HEAD", file.url, ["x-amz-checksum-mode": "ENABLED"])
        }
    }

    private static let checksum = "x-amz-checksum-sha256"

    private func url(_ query: String) -> String { file.url + (file.url.contains("?") ? "&" : "?") + query }

    func answer(to step: UploadPlan.Step, _ response: HTTPResponse, _ plan: UploadPlan) -> UploadPlan.Answer {
        let text = String(decoding: response.body.data ?? Data(), as: UTF8.self)
        switch (step, response.status) {
        case (.begin, 200...299):
            return XMLText.value(of: "UploadId", in: text).map { .created($0, stored: nil) } ?? .refused
        case (.list, 200...299): return parts(text)
        case (.send, 200...299):
            guard let tag = response.headers["ETag"] else { return .refused }
            return .stored(UploadPlan.Part(tag: tag, checksum: response.headers[Self.checksum]))
        // The status is sent before the parts are put together, so the failure of that is in the body.
        case (.complete, 200...299):
            if let code = XMLText.value(of: "Code", in: text), XMLText.has("Error", in: text) {
                return failure(code, response)
            }
            return text.contains("<CompleteMultipartUploadResult") ? .finished : .unrepeated
        case (.verify, 200...299):
            return isResult(response, of: plan).map { $0 ? .finished : .gone } ?? .violation(Self.doubt)
        case (.verify, 404): return .gone
        // Whoever may write an object need not be allowed to read it.
        case (.verify, 403): return .violation(Self.doubt)
        default: return failure(XMLText.value(of: "Code", in: text) ?? "", response)
        }
    }

    private static let doubt =
        "the store does not tell whether it has made the object of the upload: it may be complete. Look at the object; with "
        + "resumesEarlierRun = false the file is sent again"

    private func failure(_ code: String, _ response: HTTPResponse) -> UploadPlan.Answer {
        switch code {
        case "NoSuchUpload": .gone
        case "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch": .again(.corrupt)
        case "EntityTooSmall":
            .unusable(
                "the store takes no parts as small as those of this upload, which is removed; set partSize to "
                    + "\(ResumableUpload.smallestPartOfS3) or more")
        case "InvalidPart", "InvalidPartOrder": .again(.conflict)
        case "InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "OperationAborted": .again(.busy)
        default: file.refusal(response)
        }
    }

    private func parts(_ text: String) -> UploadPlan.Answer {
        var parts: [Int: UploadPlan.Part] = [:]
        for element in XMLText.elements("Part", in: text) {
            guard let number = XMLText.value(of: "PartNumber", in: element).flatMap({ Int($0) }),
                (1...Int(UploadPlan.maxParts)).contains(number),
                let tag = XMLText.value(of: "ETag", in: element)
            else { continue }
            parts[number] = UploadPlan.Part(
                tag: tag, checksum: XMLText.value(of: "ChecksumSHA256", in: element),
                size: XMLText.value(of: "Size", in: element).flatMap { Int64($0) })
        }
        let isCut = XMLText.value(of: "IsTruncated", in: text) == "true"
        let marker = XMLText.value(of: "NextPartNumberMarker", in: text).flatMap { Int($0) }
        let next = isCut ? marker ?? parts.keys.max() ?? 0 : nil
        return .listed(parts, next: next)
    }

    /// Whether the object is the one that the parts make; `nil` if it cannot be told. Its checksum is that of their checksums,
    /// and its tag the MD5 of their MD5s, unless the store encrypts, each with the number of parts.
    private func isResult(_ response: HTTPResponse, of plan: UploadPlan) -> Bool? {
        if let size = response.headers.number("Content-Length"), size != plan.total { return false }
        let sums = plan.lanes.compactMap { lane in lane.part?.checksum.flatMap { Data(base64Encoded: $0) } }
        if let sum = response.headers[Self.checksum], sum.contains("-"), sums.count == plan.lanes.count,
            let digest = try? MessageDigest.of(Data(sums.joined()), .sha256)
        {
            return sum == "\(Data(digest).base64EncodedString())-\(plan.lanes.count)"
        }
        let digests = plan.lanes.compactMap { Self.bytes(ofHexadecimal: $0.part?.tag ?? "") }
        guard digests.count == plan.lanes.count, let tag = response.headers["ETag"]?.filter({ $0 != "\"" }),
            let digest = try? MessageDigest.of(Data(digests.joined()), .md5)
        else { return nil }
        // The tags of encrypted objects look like MD5s, but are none.
        let isEncrypted =
            response.headers["x-amz-server-side-encryption"]?.hasPrefix("aws:kms") == true
            || response.headers["x-amz-server-side-encryption-customer-algorithm"] != nil
        return tag == "\(MessageDigest.hexadecimal(digest))-\(plan.lanes.count)" ? true : isEncrypted ? nil : false
    }

    private static func bytes(ofHexadecimal tag: String) -> [UInt8]? {
        let digits = Array(tag.utf8.filter { $0 != UInt8(ascii: "\"") })
        guard digits.count == 32 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: 32, by: 2) {
            guard let byte = UInt8(String(decoding: digits[index...(index + 1)], as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(byte)
        }
        return bytes
    }

    func removal(of plan: UploadPlan) -> [UploadMessage] {
        guard let upload = plan.upload else { return [] }
        return [UploadMessage("DELETE", url("uploadId=\(upload.percentEncodedComponent)"))]
    }

    /// A part that was on its way may be stored after the removal.
    func remainder(of plan: UploadPlan) -> UploadMessage? {
        plan.upload == nil ? nil : message(for: .list(after: 0), plan)
    }
}

/// Finds elements in the flat documents of S3, which have no attributes of interest, no sections and no nested equal names.
enum XMLText {
    /// The texts between the tags of the elements with a name.
    static func elements(_ name: String, in text: String) -> [String] {
        var found: [String] = []
        var rest = text[...]
        while let opening = rest.firstRange(of: "<\(name)>"),
            let closing = rest[opening.upperBound...].firstRange(of: "</\(name)>")
        {
            found.append(String(rest[opening.upperBound..<closing.lowerBound]))
            rest = rest[closing.upperBound...]
        }
        return found
    }

    static func has(_ name: String, in text: String) -> Bool { text.contains("<\(name)>") }

    /// The text of the first element with a name.
    static func value(of name: String, in text: String) -> String? {
        elements(name, in: text).first.map(unescaped)
    }

    private static let entities = [("&quot;", "\""), ("&#34;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&apos;", "'")]

    private static func unescaped(_ text: String) -> String {
        guard text.contains("&") else { return text }
        return entities.reduce(text) { $0.replacing($1.0, with: $1.1) }.replacing("&amp;", with: "&")
    }

    static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;")
    }
}
