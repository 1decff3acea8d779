import Cryptography
import CurlTransport
import FoundationEssentials
import HTTPCore
import LATSealing
import Platform

/// Signs requests in their final form, and adds the digest of their body (RFC 9530). A body that would be encoded while it is sent is encoded here, so that exactly
/// the signed bytes are sent.
struct SignStage: Stage {
    let standard: (any RequestSigner)?
    let named: [String: any RequestSigner]

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        if case .named(let name) = request.signer, named[name] == nil {
            throw NetworkError.missing("signer", name, in: named, request)
        }
        let signer = request.context.hasLeftOrigin ? nil : signer(for: request)
        var request = request
        if let wanted = request.digests.wants, !request.headers.contains("Want-Repr-Digest") {
            request.headers["Want-Repr-Digest"] = "\(wanted.rawValue)=10"
        }
        guard signer != nil || request.digests.sends != nil && request.body != nil else {
            return try await chain.proceed(request)
        }
        do {
            // The signature must cover the compressed body.
            request = try BodyCoding.applied(to: request, chain.call.bodyHandler)
            let body = try Self.bytes(of: &request)
            if let function = request.digests.sends, request.body != nil, !request.headers.contains("Content-Digest") {
                request.headers["Content-Digest"] = try body.contentDigest(function)
            }
            if let signer {
                let signature = try await signer.sign(request, body: body)
                request.headers.merge(signature)
                request.context.signatureFields = Set(signature.fields.map { $0.name.lowercased() })
                for name in request.context.signatureFields.subtracting(Self.shownFields) {
                    request.context.rowSecrets.insert(header: name)
                }
            }
        } catch let error as NetworkError {
            throw error.attaching(request)
        } catch {
            guard !error.endsTask, signer != nil else { throw error }
            throw NetworkError(
                .provider, message: "the signer threw: \(error); this attempt was not sent", request: request,
                underlying: error)
        }
        return try await chain.proceed(request)
    }

    /// The signer of a request; `nil` for none, and for a name that there is not.
    func signer(for request: HTTPRequest) -> (any RequestSigner)? {
        switch request.signer {
        case .automatic: standard
        case .off: nil
        case .named(let name): named[name]
        }
    }

    /// The fields of signers that hold no signature. All others are shown nowhere.
    private static let shownFields: Set<String> = [
        "content-digest", "digest", "date", "signature-input", "webhook-id", "webhook-timestamp",
        "x-amz-content-sha256",
        "x-amz-date", "x-signature-body", "x-signature-fields", "x-signature-key", "x-signature-nonce",
        "x-signature-time",
    ]

    private static func bytes(of request: inout HTTPRequest) throws -> HTTPBody.Bytes {
        switch request.body?.content {
        case nil: return HTTPBody.Bytes(Data())
        case .data(let bytes): return HTTPBody.Bytes(bytes)
        case .parameters(let encoding): return HTTPBody.Bytes(encoding == .json ? Data("{}".utf8) : Data())
        case .encoded(let encoder):
            let data = try encoder.encode()
            request.body?.content = .data(data)
            return HTTPBody.Bytes(data)
        case .file(let path):
            // Opening a pipe would wait for its other end.
            _ = try UploadedFile.size(of: path)
            return HTTPBody.Bytes(
                .file(path: path) { algorithm in
                    try FileDigest.bytes(path, algorithm, failure: Self.failure)
                })
        case .stream(let stream):
            guard let slice = stream.slice else { return HTTPBody.Bytes(.unknown) }
            return HTTPBody.Bytes(
                .slice { algorithm in
                    if algorithm == .sha256, let digest = slice.sha256 { return digest }
                    return try FileDigest.bytes(slice.path, algorithm, in: slice.range, failure: Self.failure)
                })
        case .multipart: return HTTPBody.Bytes(.unknown)
        }
    }

    private static func failure(_ path: String) -> NetworkError {
        NetworkError(.requestBody, message: "the file \"\(path)\" cannot be read for its digest: \(SystemError().text)")
    }
}
