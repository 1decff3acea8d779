import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform

/// An upload that can go on as it was requested, and the means to run it.
struct UploadOrder: Sendable {
    /// The request with the body that the caller gave.
    var request: HTTPRequest
    var upload: ResumableUpload
    /// Why the request could not be made; the upload fails with it.
    var failure: NetworkError?
    /// How failures are repeated, if the request does not say.
    var policy: RetryPolicy
    /// What repetitions are paid from.
    var budget: RetryBudget
    /// The limit of connections per host for other requests.
    var maxConnectionsPerHost: Int
    /// Whether the content is sealed. Sealed content is one message.
    var isSealed = false
    /// Supplies another address in place of one that the server refuses.
    var refreshURL: LinkRefresh?
    /// Whether the resolver wants the upload to continue after a failure, given how often it already did.
    var isReplayed: @Sendable (NetworkError, Int) async throws -> Bool
    var send: @Sendable (HTTPRequest, BodyHandler?, InterimHandler?) async throws -> HTTPResponse
    /// Sends a request that cleans up, also after the call was cancelled.
    var sendAfter: @Sendable (HTTPRequest) async throws -> HTTPResponse

    var retryPolicy: RetryPolicy { request.retryPolicy ?? policy }
    var retries: Int { request.retries ?? retryPolicy.retries }

    /// Whether a request that has had its effect may be sent again, as ``RetryPolicy/repeatsOnlyIdempotent`` says.
    var repeatsEffects: Bool {
        upload.style == .s3 || request.idempotencyKey != nil || !retryPolicy.repeatsOnlyIdempotent
            || (upload.style == .standard && request.method.isIdempotent)
    }

    /// The path of the file; empty for a body of another kind, which ``check()`` refuses.
    var path: String {
        guard case .file(let path)? = request.body?.content else { return "" }
        return path
    }

    func check() throws(NetworkError) {
        if let failure { throw failure }
        try upload.check()
        guard case .file? = request.body?.content else {
            throw .invalidRequest(
                "an upload that can go on needs one file as the whole body; write body: .file(path), or leave out "
                    + "`resumable`")
        }
        if isSealed {
            throw .invalidRequest("sealed content is one message and cannot be sent in parts; leave out `resumable`")
        }
        if upload.style == .s3, let size = upload.partSize, size < ResumableUpload.smallestPartOfS3,
            ResumableUpload.isAmazon(request.url),
            try UploadedFile.version(of: path).size > size
        {
            throw .invalidRequest(
                "parts of \(size) bytes are smaller than S3 takes; set partSize to \(ResumableUpload.smallestPartOfS3) "
                    + "or more")
        }
        if request.url.contains("#") {
            throw .invalidRequest("the URL of an upload has a fragment; remove it")
        }
    }

    /// Whether a new address may help. Only the requests to the address that the caller named carry its signature.
    func mayRenew(after response: HTTPResponse, to step: UploadPlan.Step) -> Bool {
        guard refreshURL != nil, [401, 403].contains(response.status) else { return false }
        if upload.style == .s3 { return true }
        return switch step {
        case .probe, .create, .complete: upload.style == .tus || step != .complete
        case .begin, .list, .ask, .send, .verify: false
        }
    }

    private var fileName: String { path.split(separator: "/").last.map(String.init) ?? path }

    private var contentType: String {
        request.headers["Content-Type"] ?? request.body?.contentType ?? MediaType.forFileName(fileName)
            ?? "application/octet-stream"
    }

    /// What tells this upload of the file from others of it: what the caller says, or else all that the server gets to know
    /// when the upload is created. A server keeps that, so an upload of another type or for another effect is not continued.
    var identity: [String] {
        if let identity = upload.identity { return [identity] }
        let fields = request.headers.fields.filter { !Self.belongs($0.name, to: .part, upload.style) }
        return ["\(request.method) \(request.url)", contentType, request.idempotencyKey ?? ""]
            + fields.map { "\($0.name.lowercased()): \($0.value ?? "")" }.sorted()
            + upload.metadata.map { "\($0.key)=\($0.value)" }.sorted()
    }

    var content: UploadedContent {
        UploadedContent(
            method: request.method, url: request.url, fileName: fileName, contentType: contentType,
            metadata: upload.metadata, sendsChecksums: upload.sendsChecksums, busy: retryPolicy.statuses)
    }

    /// Removes what a server has, and repeats that as the retry policy says, but at most three times.
    ///
    /// - Parameter remainder: The request that succeeds while something is left.
    /// - Returns: Whether it is gone, or the server has no way to remove it. Then it expires there.
    func remove(_ message: UploadMessage, _ remainder: UploadMessage?) async -> Bool {
        // Not paid: what stays on the server may cost money.
        var backoff = UploadBackoff(self, atMost: 3, isPaid: false)
        while true {
            let status = await answer(message)
            switch status {
            case 200...299:
                guard let remainder else { return true }
                let status = await answer(remainder)
                if (400...499).contains(status), !retryPolicy.statuses.contains(status) { return true }
            case 404, 405, 410, 501: return true
            // Who sends the next run may be allowed to.
            case 400...499 where !retryPolicy.statuses.contains(status): return false
            default: break
            }
            guard let pause = backoff.next(), (try? await Task.sleep(for: pause)) != nil else { return false }
        }
    }

    /// The status of the response; 0 without one.
    private func answer(_ message: UploadMessage) async -> Int {
        guard var request = try? request(for: message) else { return 0 }
        request.timeout = .seconds(10)
        return (try? await sendAfter(request).status) ?? 0
    }

    /// The failure of an address that a server has named without encryption for an upload with it.
    func refusal(of address: String) -> NetworkError? {
        guard URLReference.origin(of: request.url)?.hasPrefix("https:") == true,
            URLReference.origin(of: address)?.hasPrefix("https:") != true
        else { return nil }
        return NetworkError(
            .protocolViolation,
            message:
                "the server named an address for the upload that is not encrypted (\(URLParts.redacted(address))); it has "
                + "to name one with https", request: request)
    }

    /// The request for a message, without its body and checksums.
    ///
    /// - Throws: ``NetworkError/Kind/protocolViolation`` if the server has named an address without encryption.
    func request(for message: UploadMessage) throws(NetworkError) -> HTTPRequest {
        if let failure = refusal(of: message.url) { throw failure }
        var request = request
        request.method = message.method
        request.url = message.url
        request.body = nil
        request.deadline = nil
        request.streamsBody = false
        request.cachePolicy = .networkOnly
        // The job repeats requests itself, because it asks the server first what it has.
        request.retries = 0
        // The offsets count the bytes of the file.
        request.contentCoding = ContentCoding.identity
        request.trailers = nil
        if message.role == .part { request.idempotencyKey = nil }
        request.headers.removeAll { !Self.belongs($0, to: message.role, upload.style) }
        if upload.parallel > 1 {
            request.maxConnectionsPerHost = max(
                request.maxConnectionsPerHost ?? maxConnectionsPerHost, upload.parallel)
        }
        for field in message.headers.fields { request.headers[field.name] = field.value }
        return request
    }

    /// Whether a field of the caller's belongs to a request. Those about the whole file, such as its type and its digest, go
    /// with the creation, conditions on the object of S3 with its completion, and the key of its encryption, the payer and the
    /// owner with every request. A checksum of the whole object has no place in an upload of parts.
    static func belongs(_ name: String, to role: UploadMessage.Role, _ style: ResumableUpload.Style) -> Bool {
        let name = name.lowercased()
        if name.hasPrefix("if-") { return role == (style == .s3 ? .completion : .creation) }
        if style == .s3 {
            if name.hasPrefix("x-amz-server-side-encryption-customer-")
                || ["x-amz-request-payer", "x-amz-expected-bucket-owner", "x-amz-security-token"].contains(name)
            {
                return true
            }
            if name.hasPrefix("x-amz-checksum-") || ["content-md5", "x-amz-sdk-checksum-algorithm"].contains(name) {
                return false
            }
            if name.hasPrefix("x-amz-") || ["cache-control", "expires"].contains(name) { return role == .creation }
        }
        let describes =
            name.hasPrefix("content-")
            || ["repr-digest", "want-repr-digest", "upload-metadata", "digest"].contains(name)
        return !describes || role == .creation
    }
}

extension HTTPBody {
    /// A part of a file, which the engine reads while it sends it.
    static func slice(_ slice: FileSlice) -> HTTPBody {
        .stream(
            made: BodyStream(length: Int64(slice.range.count), isReplayable: true, slice: slice) {
                // For whoever reads the body in place of the engine, such as a recording.
                var offset = slice.range.lowerBound
                return {
                    guard offset < slice.range.upperBound else { return nil }
                    let descriptor = open(slice.path, O_RDONLY | O_CLOEXEC)
                    guard descriptor >= 0 else { throw DownloadFiles.system("read", slice.path) }
                    defer { close(descriptor) }
                    var buffer = [UInt8](repeating: 0, count: Int(min(256 << 10, slice.range.upperBound - offset)))
                    let count = pread(descriptor, &buffer, buffer.count, off_t(offset))
                    guard count > 0 else { throw DownloadFiles.system("read", slice.path, count == 0 ? EIO : errno) }
                    offset += Int64(count)
                    return Data(buffer[..<count])
                }
            }, contentType: nil)
    }
}
