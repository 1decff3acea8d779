import Cryptography
import CurlTransport
import FoundationEssentials
import HTTPCore

/// A protocol of uploads that can go on: makes the requests of the steps of an ``UploadPlan``, and reads the responses. A pure
/// value.
protocol UploadDialect: Sendable {
    init(_ file: UploadedContent)

    func message(for step: UploadPlan.Step, _ plan: UploadPlan) -> UploadMessage

    func answer(to step: UploadPlan.Step, _ response: HTTPResponse, _ plan: UploadPlan) -> UploadPlan.Answer

    /// What the fields of a response say about the server and the upload.
    func facts(_ headers: HTTPHeaders) -> UploadPlan.Facts

    /// Whether an interim response tells of the upload, with its address in `Location` and facts.
    func isAnnouncement(_ status: Int, _ headers: HTTPHeaders, _ plan: UploadPlan) -> Bool

    /// The requests that remove what the server has of an upload.
    func removal(of plan: UploadPlan) -> [UploadMessage]

    /// The request that succeeds while something is left after the removal; `nil` if the removal is final.
    func remainder(of plan: UploadPlan) -> UploadMessage?
}

extension UploadDialect {
    func facts(_ headers: HTTPHeaders) -> UploadPlan.Facts { UploadPlan.Facts() }

    func isAnnouncement(_ status: Int, _ headers: HTTPHeaders, _ plan: UploadPlan) -> Bool { false }

    func remainder(of plan: UploadPlan) -> UploadMessage? { nil }
}

/// What is uploaded, and where to.
struct UploadedContent: Sendable {
    /// The method and the address that the caller named.
    let method: HTTPMethod
    var url: String
    let fileName: String
    let contentType: String
    let metadata: [String: String]
    let sendsChecksums: Bool
    /// The statuses after which a request is repeated.
    let busy: Set<Int>

    /// The dialect of a protocol, for uploads at an address.
    func dialect(_ style: ResumableUpload.Style, at url: String) -> any UploadDialect {
        var content = self
        content.url = url
        return switch style {
        case .tus: TusUpload(content)
        case .standard: DraftUpload(content)
        case .s3: S3Upload(content)
        }
    }

    /// The answer for a response that no rule of a dialect names.
    func refusal(_ response: HTTPResponse) -> UploadPlan.Answer {
        busy.contains(response.status) ? .again(.busy) : .refused
    }
}

/// A request as a dialect describes it.
struct UploadMessage: Hashable, Sendable {
    enum Content: Hashable, Sendable {
        case none
        case data(Data)
        case file(Range<Int64>)
    }

    /// A checksum that is computed before the request is sent.
    struct Checksum: Hashable, Sendable {
        enum Form: Hashable, Sendable {
            /// `sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=` (tus).
            case named
            /// `sha-256=:d435Qo+nKZ+gLcUHn7GQtQ72hiBVAgqoLsZnZPiTGPk=:` (RFC 9530).
            case structured(RequestOptions.Digests.Algorithm)
            /// The bytes in base64 (S3).
            case plain
        }

        let field: String
        let algorithm: MessageDigest.Algorithm
        let range: Range<Int64>
        let form: Form

        func text(_ digest: [UInt8]) -> String {
            let text = Data(digest).base64EncodedString()
            return switch form {
            case .named: "\(algorithm.rawValue) \(text)"
            case .structured(let name): RequestOptions.Digests.field(name, digest)
            case .plain: text
            }
        }
    }

    enum Role: Hashable, Sendable {
        /// Takes the fields that describe the file, and the idempotency key.
        case creation
        /// Takes the conditions on the object of S3, or the idempotency key of uploads that are joined.
        case completion
        case part
    }

    let method: HTTPMethod
    let url: String
    var headers: HTTPHeaders
    var content: Content
    /// Which of the caller's fields belong to the request, beside those of all requests.
    var role = Role.part
    var checksums: [Checksum] = []

    init(_ method: HTTPMethod, _ url: String, _ headers: HTTPHeaders = [:], _ content: Content = .none) {
        self.method = method
        self.url = url
        self.headers = headers
        self.content = content
    }
}

extension HTTPResponse {
    /// The absolute URL in the field `Location`.
    var createdURL: String? { headers["Location"].flatMap { URLReference.link($0, at: url) } }
}

extension HTTPHeaders {
    /// A field that is a number without a sign.
    func number(_ name: String) -> Int64? {
        guard let text = self[name]?.trimmingFieldWhitespace, text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else {
            return nil
        }
        return Int64(text)
    }

    /// A field that is a Boolean (RFC 9651 §3.3.6).
    func boolean(_ name: String) -> Bool? {
        guard let text = self[name], case .boolean(let value)? = StructuredField.item(text)?.value else { return nil }
        return value
    }
}
