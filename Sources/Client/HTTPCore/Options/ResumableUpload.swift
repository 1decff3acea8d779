/// How a file is uploaded in several requests, so that the upload goes on after a lost connection, a crash or `kill -9`.
///
/// ```swift
/// let upload = central.upload("https://api.example.org/files/", body: .file("/tmp/backup.tar"), resumable: .tus)
/// let object = central.upload("https://b.s3.eu-west-1.amazonaws.com/a.iso", body: .file("a.iso"), resumable: .s3)
/// ```
///
/// A journal keeps the address of the upload on the server, so that the same call continues where the last one ended. It is
/// one file beside the uploaded file or in ``journalFolder``, and only the user can read it. A row of the table says the same
/// with `uploads`.
public struct ResumableUpload: Sendable, Hashable {
    /// The protocols.
    package enum Style: String, Sendable, Hashable, CaseIterable {
        case tus, standard, s3
    }

    package let style: Style
    /// The largest number of bytes of one request, and so the most that is sent again after a failure of it. Default `nil`: a
    /// hundredth of the file, at least 4 MiB and at most 64 MiB; for S3 at least 8 MiB. S3 has at most 10,000 parts, all but
    /// the last of at least 5 MiB. A lower limit of the server counts.
    public var partSize: Int64?
    /// The number of parts that are sent side by side. Default 4 for S3, otherwise 1. With tus, the file is divided into as
    /// many uploads, which the server joins (concatenation); if it cannot, they are sent one after the other.
    /// ``standard`` sends one part at a time.
    public var parallel: Int
    /// What the server gets to know about the file with tus (`Upload-Metadata`), in addition to `filename` and `filetype`.
    /// Default none.
    public var metadata: [String: String] = [:]
    /// Whether checksums are sent where the server takes them: `Upload-Checksum` with tus, `Content-Digest` and `Repr-Digest`
    /// (RFC 9530) with ``standard``, `x-amz-checksum-sha256` with S3. Each byte is then read twice. Default `true`.
    public var sendsChecksums = true
    /// The folder of the journal, which must exist. Default `nil`: the folder of the uploaded file.
    public var journalFolder: String?
    /// The identity of the upload in the journal, beside the user of the request's ``Authentication`` and its cache partition.
    /// Default `nil`: method, URL, idempotency key, ``metadata``, and the fields that describe the content. Set one when they
    /// differ each time for the same upload, as the URLs of signed links do.
    public var identity: String?
    /// Whether to continue an earlier run that a journal tells of. Default `true`. If `false`, what the server has of it is
    /// removed first.
    public var resumesEarlierRun = true

    package init(_ style: Style, partSize: Int64? = nil, parallel: Int? = nil, metadata: [String: String] = [:]) {
        self.style = style
        self.partSize = partSize
        self.parallel = parallel ?? (style == .s3 ? 4 : 1)
        self.metadata = metadata
    }

    /// tus 1.0 (https://tus.io/protocols/resumable-upload) with the extensions creation, creation-with-upload, expiration,
    /// checksum, termination and concatenation, as far as the server has them.
    public static var tus: ResumableUpload { ResumableUpload(.tus) }

    /// tus 1.0 with settings.
    public static func tus(
        partSize: Int64? = nil, parallel: Int = 1, metadata: [String: String] = [:]
    ) -> ResumableUpload {
        ResumableUpload(.tus, partSize: partSize, parallel: parallel, metadata: metadata)
    }

    /// Resumable uploads for HTTP (draft-ietf-httpbis-resumable-upload, interop version 8, and the versions 7 to 3 of servers
    /// that do not know it). A server without them gets an ordinary upload, which starts over when it breaks off.
    public static var standard: ResumableUpload { ResumableUpload(.standard) }

    /// Resumable uploads for HTTP with settings.
    public static func standard(partSize: Int64? = nil) -> ResumableUpload {
        ResumableUpload(.standard, partSize: partSize)
    }

    /// A multipart upload of S3 and of compatible stores to the URL of the object. The manager or the request needs a signer.
    public static var s3: ResumableUpload { ResumableUpload(.s3) }

    /// A multipart upload of S3 with settings.
    public static func s3(partSize: Int64? = nil, parallel: Int = 4) -> ResumableUpload {
        ResumableUpload(.s3, partSize: partSize, parallel: parallel)
    }

    /// The largest numbers that make sense: S3 has no larger parts.
    package static let limits = (partSize: 1...(5 << 30), parallel: 1...64)
    /// The smallest part of S3 but for the last one. Compatible stores may take smaller ones.
    package static let smallestPartOfS3: Int64 = 5 << 20

    /// Whether a URL is that of Amazon's own S3.
    package static func isAmazon(_ url: String) -> Bool {
        URLParts(url).host?.lowercased().hasSuffix(".amazonaws.com") == true
    }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a number out of range.
    package func check() throws(NetworkError) {
        if let partSize, !Self.limits.partSize.contains(Int(partSize)) {
            throw .invalidRequest(
                "the upload has a partSize of \(partSize) bytes; give 1 to \(Self.limits.partSize.upperBound)")
        }
        guard Self.limits.parallel.contains(parallel) else {
            throw .invalidRequest(
                "the upload has \(parallel) parallel parts; give 1 to \(Self.limits.parallel.upperBound)")
        }
        for name in metadata.keys
        where name.isEmpty || !name.utf8.allSatisfy({ (0x21..<0x7F).contains($0) && $0 != UInt8(ascii: ",") }) {
            throw .invalidRequest(
                "the name \"\(URLText.visible(name))\" in the upload's metadata is empty, or has other than visible ASCII "
                    + "characters or a comma; rename it")
        }
    }
}
