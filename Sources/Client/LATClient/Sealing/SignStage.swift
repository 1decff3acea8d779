import Cryptography
import CurlTransport
import FoundationEssentials
import HTTPCore
import LATSealing
import Platform

/// Signs requests in their final form. A body that would be encoded while it is sent is encoded here, so that exactly
/// the signed bytes are sent.
struct SignStage: Stage {
    let signer: any RequestSigner

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        var request = request
        do {
            // The signature must cover the compressed body.
            request = try BodyCoding.applied(to: request, chain.call.bodyHandler)
            let digest = try Self.digest(of: &request)
            let signature = try await signer.sign(request, bodyDigest: digest)
            request.headers.merge(signature)
            request.context.signatureFields = Set(signature.fields.map { $0.name.lowercased() })
        } catch let error as NetworkError {
            throw error.attaching(request)
        } catch {
            guard !(error is CancellationError) else { throw error }
            throw NetworkError(
                .provider, message: "the signer threw: \(error); this attempt was not sent", request: request,
                underlying: error)
        }
        // The signature is valid for this URL only.
        if request.redirects == .automatic { request.redirects = .none }
        return try await chain.proceed(request)
    }

    private static func digest(of request: inout HTTPRequest) throws -> String? {
        let data: Data
        switch request.body?.content {
        case nil: data = Data()
        case .data(let bytes): data = bytes
        case .parameters(let encoding): data = encoding == .json ? Data("{}".utf8) : Data()
        case .encoded(let encoder):
            data = try encoder.encode()
            request.body?.content = .data(data)
        case .file(let path):
            // Opening a pipe would wait for its other end.
            _ = try UploadedFile.size(of: path)
            return try FileDigest.hexadecimal(path, .sha256, failure: Self.failure)
        case .stream, .multipart: return nil
        }
        return MessageDigest.hexadecimal(try MessageDigest.of(data, .sha256))
    }

    private static func failure(_ path: String) -> NetworkError {
        NetworkError(.requestBody, message: "the file \"\(path)\" cannot be signed: \(SystemError().text)")
    }
}
