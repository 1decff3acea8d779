import Cryptography
import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// Signs requests in their final form. A body that would be encoded while it is sent is encoded here, so that exactly
/// the signed bytes are sent.
struct SignRoom: Room {
    let signer: any RequestSigner

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        var request = request
        do {
            // The signature must cover the compressed body.
            request = try BodyCompression.applied(to: request, chain.call.bodyHandler)
            let digest = try Self.digest(of: &request)
            request.headers.merge(try await signer.sign(request, bodyDigest: digest))
        } catch let error as NetworkError {
            throw error.attaching(request)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "the signer threw: \(error); nothing was sent", request: request, underlying: error)
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
        case .file(let path): return try digest(ofFileAt: path)
        case .stream, .multipart: return nil
        }
        return MessageDigest.hexadecimal(try MessageDigest.of(data, .sha256))
    }

    private static func digest(ofFileAt path: String) throws -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
        var digest = MessageDigest(.sha256)
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(path) }
            if count == 0 { return MessageDigest.hexadecimal(try digest.finalize()) }
            buffer.withUnsafeBytes { digest.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
    }

    private static func failure(_ path: String) -> NetworkError {
        NetworkError(
            .requestBody, message: "the file \"\(path)\" cannot be signed: \(SystemError().text)")
    }
}
