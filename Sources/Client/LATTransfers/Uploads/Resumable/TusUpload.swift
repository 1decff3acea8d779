import Cryptography
import FoundationEssentials
import HTTPCore

/// tus 1.0 (https://tus.io/protocols/resumable-upload) with its extensions.
struct TusUpload: UploadDialect {
    private let file: UploadedContent

    init(_ file: UploadedContent) { self.file = file }

    private static let version = "1.0.0"
    private static let contentType = "application/offset+octet-stream"
    /// The functions of checksums, the best one first.
    private static let algorithms: [MessageDigest.Algorithm] = [.sha256, .sha512, .sha1, .md5]

    func message(for step: UploadPlan.Step, _ plan: UploadPlan) -> UploadMessage {
        switch step {
        case .create(let index, let content):
            var message = creation(["Upload-Length": "\(plan.lanes[index].range.count)"])
            if plan.shape == .joined {
                message.headers["Upload-Concat"] = "partial"
                message.role = .part
            }
            if !content.isEmpty { add(content, to: &message, plan) }
            return message
        case .ask(let index): return own("HEAD", plan.lanes[index].address)
        case .send(let index, let range):
            var message = own("PATCH", plan.lanes[index].address)
            message.headers["Upload-Offset"] = "\(range.lowerBound - plan.lanes[index].range.lowerBound)"
            add(range, to: &message, plan)
            return message
        case .complete:
            let addresses = plan.lanes.compactMap(\.address)
            return creation(["Upload-Concat": "final;" + addresses.joined(separator: " ")])
        case .probe, .begin, .list, .verify: return UploadMessage("OPTIONS", file.url)
        }
    }

    private func creation(_ headers: HTTPHeaders) -> UploadMessage {
        var message = own("POST", file.url)
        message.headers.merge(headers)
        message.headers["Upload-Metadata"] = metadata
        message.role = .creation
        return message
    }

    private func own(_ method: HTTPMethod, _ address: String?) -> UploadMessage {
        UploadMessage(method, address ?? file.url, ["Tus-Resumable": Self.version])
    }

    private func add(_ range: Range<Int64>, to message: inout UploadMessage, _ plan: UploadPlan) {
        message.content = .file(range)
        message.headers["Content-Type"] = Self.contentType
        guard file.sendsChecksums, let algorithm = plan.facts.checksum else { return }
        message.checksums = [.init(field: "Upload-Checksum", algorithm: algorithm, range: range, form: .named)]
    }

    /// Servers such as tuspyserver continue only uploads that have a `filename` and a `filetype`.
    private var metadata: String {
        let standard = ["filename": file.fileName, "filetype": file.contentType]
        return file.metadata.merging(standard) { own, _ in own }.sorted { $0.key < $1.key }
            .map { "\($0.key) \(Data($0.value.utf8).base64EncodedString())" }.joined(separator: ",")
    }

    func answer(to step: UploadPlan.Step, _ response: HTTPResponse, _ plan: UploadPlan) -> UploadPlan.Answer {
        let headers = response.headers
        switch (step, response.status) {
        // A server need not answer to OPTIONS, and then has the extension creation at the most.
        case (.probe, let status): return file.busy.contains(status) ? .again(.busy) : .probed
        case (.create(_, let content), 200...299):
            guard let address = response.createdURL else { return .refused }
            let stored = headers.number("Upload-Offset") ?? (content.isEmpty ? 0 : nil)
            return .created(address, stored: stored)
        case (.ask(let index), 200...299):
            let length = headers.number("Upload-Length")
            guard let offset = headers.number("Upload-Offset"),
                length == nil || length == Int64(plan.lanes[index].range.count)
            else { return .again(.conflict) }
            return .offset(offset)
        case (.ask, 404), (.ask, 410): return .gone
        case (.send, 200...299): return headers.number("Upload-Offset").map { .offset($0) } ?? .again(.conflict)
        // Whether the upload is gone is found out by asking: a refused request may have stored its bytes.
        case (.send, 403), (.send, 404), (.send, 409), (.send, 410), (_, 423): return .again(.conflict)
        case (.send, 413): return .tooLarge(nil)
        case (_, 460): return .again(.corrupt)
        case (.complete, 200...299): return .finished
        case (.complete, 404), (.complete, 410): return .gone
        default: return file.refusal(response)
        }
    }

    func facts(_ headers: HTTPHeaders) -> UploadPlan.Facts {
        var facts = UploadPlan.Facts()
        let extensions = FieldList.names(headers["Tus-Extension"] ?? "")
        facts.canJoin = extensions.contains("concatenation")
        facts.createsWithContent = extensions.contains("creation-with-upload")
        facts.maxSize = headers.number("Tus-Max-Size")
        if extensions.contains("checksum") {
            let names = FieldList.names(headers["Tus-Checksum-Algorithm"] ?? "")
            facts.checksum = Self.algorithms.first { names.contains($0.rawValue) }
        }
        return facts
    }

    func removal(of plan: UploadPlan) -> [UploadMessage] {
        plan.lanes.compactMap(\.address).map { own("DELETE", $0) }
    }
}
