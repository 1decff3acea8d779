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
    /// The limit of connections per host for other requests.
    var maxConnectionsPerHost: Int
    /// Whether the content is sealed. Sealed content is one message.
    var isSealed = false
    /// Whether the resolver wants the upload to continue after a failure, given how often it already did.
    var isReplayed: @Sendable (NetworkError, Int) async throws -> Bool
    var send: @Sendable (HTTPRequest, BodyHandler?, InterimHandler?) async throws -> HTTPResponse
    /// Sends a request that cleans up, also after the call was cancelled.
    var sendAfter: @Sendable (HTTPRequest) async throws -> HTTPResponse

    var retryPolicy: RetryPolicy { request.retryPolicy ?? policy }
    var retries: Int { request.retries ?? retryPolicy.retries }

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
        if request.url.contains("#") {
            throw .invalidRequest("the URL of an upload has a fragment; remove it")
        }
    }

    func content(_ version: FileVersion) -> UploadedContent {
        let name = path.split(separator: "/").last.map(String.init) ?? path
        return UploadedContent(
            method: request.method, url: request.url, fileName: name,
            contentType: request.headers["Content-Type"] ?? request.body?.contentType ?? MediaType.forFileName(name)
                ?? "application/octet-stream",
            metadata: upload.metadata, sendsChecksums: upload.sendsChecksums, busy: retryPolicy.statuses)
    }

    /// The request for a message, without its body and checksums.
    func request(for message: UploadMessage) -> HTTPRequest {
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
        if !message.describesFile {
            request.idempotencyKey = nil
            request.headers.removeAll { Self.describesFile($0) }
        }
        if upload.parallel > 1 {
            request.maxConnectionsPerHost = max(
                request.maxConnectionsPerHost ?? maxConnectionsPerHost, upload.parallel)
        }
        for field in message.headers.fields { request.headers[field.name] = field.value }
        return request
    }

    /// Whether a field of the caller's is about the whole file, and not about each request: its type, its digest, conditions,
    /// and what S3 keeps with an object. The keys for S3's encryption belong to each request.
    private static func describesFile(_ name: String) -> Bool {
        let name = name.lowercased()
        if name.hasPrefix("x-amz-server-side-encryption-customer-") { return false }
        return name.hasPrefix("content-") || name.hasPrefix("x-amz-") || name.hasPrefix("if-")
            || ["repr-digest", "want-repr-digest", "upload-metadata", "digest"].contains(name)
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
