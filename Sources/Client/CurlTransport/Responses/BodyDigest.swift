import Cryptography
internal import HTTPCore

/// Compares a body, piece by piece, with the digest fields of its response (RFC 9530). Used by one thread at a time.
///
/// `Content-Digest` is that of the bytes on the wire, in their coding. `Repr-Digest` is that of the whole representation, which
/// is the same unless the response has a part of it (206).
final class BodyDigest {
    /// The fields that concern the body.
    private let names: [String]
    private let fields: HTTPHeaders
    private var sha256: MessageDigest?
    private var sha512: MessageDigest?
    private(set) var byteCount: Int64 = 0

    /// `nil` if no field can be compared.
    init?(_ fields: HTTPHeaders, status: Int) {
        names = status == 206 ? ["Content-Digest"] : ["Content-Digest", "Repr-Digest"]
        self.fields = fields
        let announced = fields[values: "Trailer"].flatMap { FieldList.names($0) }
        // Which function a trailer uses is known only at the end.
        let comesLater = names.contains { announced.contains($0.lowercased()) }
        let known = Set(names.flatMap { RequestOptions.Digests.digests(in: fields[values: $0]).keys })
        if comesLater || known.contains(.sha256) { sha256 = MessageDigest(.sha256) }
        if comesLater || known.contains(.sha512) { sha512 = MessageDigest(.sha512) }
        guard comesLater || !known.isEmpty else { return nil }
    }

    func update(_ bytes: UnsafeRawBufferPointer) {
        byteCount += Int64(bytes.count)
        sha256?.update(bytes)
        sha512?.update(bytes)
    }

    /// The field and function that the whole body does not agree with; `nil` if it agrees with all.
    func fault(trailers: HTTPHeaders) -> String? {
        var found: [RequestOptions.Digests.Algorithm: [UInt8]] = [:]
        // Without libcrypto's function nothing can be said.
        if let digest = sha256.take() { found[.sha256] = try? digest.finalize() }
        if let digest = sha512.take() { found[.sha512] = try? digest.finalize() }
        for name in names {
            for values in [fields[values: name], trailers[values: name]] {
                for (algorithm, digest) in RequestOptions.Digests.digests(in: values)
                where found[algorithm].map({ $0 != digest }) == true {
                    return "\(name) (\(algorithm.rawValue))"
                }
            }
        }
        return nil
    }
}

extension RequestOptions.Digests.Algorithm {
    package var function: MessageDigest.Algorithm {
        switch self {
        case .sha256: .sha256
        case .sha512: .sha512
        }
    }
}
