import Cryptography
internal import HTTPCore

/// Compares a body, piece by piece, with the digest fields of its response (RFC 9530). Used by one thread at a time.
///
/// `Content-Digest` is that of the bytes on the wire, in their coding. `Repr-Digest` is that of the whole representation, which
/// is the same unless the response has a part of it (206). nginx, Caddy and Envoy compress responses and leave the digest of
/// the plain content, so a coded body may agree with either.
final class BodyDigest {
    /// The functions over the same bytes.
    private struct Functions: ~Copyable {
        var sha256: MessageDigest?
        var sha512: MessageDigest?

        mutating func update(_ bytes: UnsafeRawBufferPointer) {
            sha256?.update(bytes)
            sha512?.update(bytes)
        }

        /// Without libcrypto's function nothing can be said.
        mutating func take() -> [RequestOptions.Digests.Algorithm: [UInt8]] {
            var found: [RequestOptions.Digests.Algorithm: [UInt8]] = [:]
            if let digest = sha256.take() { found[.sha256] = try? digest.finalize() }
            if let digest = sha512.take() { found[.sha512] = try? digest.finalize() }
            return found
        }
    }

    /// The fields that concern the body.
    private let names: [String]
    private let fields: HTTPHeaders
    private var wire = Functions()
    private var plain = Functions()
    private(set) var byteCount: Int64 = 0
    /// Whether a function of the head's fields is known, so that a body that was cut does not agree.
    let isKnown: Bool
    /// The head's `Content-Digest`, after ``fault(trailers:)`` has found that the body agrees with it; `nil` without one.
    private(set) var compared: String?

    /// `nil` if no field can be compared.
    ///
    /// - Parameter isDecoded: Whether the body is also given without its coding.
    init?(_ fields: HTTPHeaders, status: Int, isDecoded: Bool) {
        names = status == 206 ? ["Content-Digest"] : ["Content-Digest", "Repr-Digest"]
        self.fields = fields
        let announced = fields[values: "Trailer"].flatMap { FieldList.names($0) }
        // Which function a trailer uses is known only at the end.
        let comesLater = names.contains { announced.contains($0.lowercased()) }
        let known = Set(names.flatMap { RequestOptions.Digests.digests(in: fields[values: $0]).keys })
        isKnown = !known.isEmpty
        guard comesLater || isKnown else { return nil }
        if comesLater || known.contains(.sha256) {
            wire.sha256 = MessageDigest(.sha256)
            if isDecoded { plain.sha256 = MessageDigest(.sha256) }
        }
        if comesLater || known.contains(.sha512) {
            wire.sha512 = MessageDigest(.sha512)
            if isDecoded { plain.sha512 = MessageDigest(.sha512) }
        }
    }

    func update(_ bytes: UnsafeRawBufferPointer) {
        byteCount += Int64(bytes.count)
        wire.update(bytes)
    }

    /// The same bytes without their coding.
    func updatePlain(_ bytes: UnsafeRawBufferPointer) { plain.update(bytes) }

    /// The field and function that the whole body does not agree with; `nil` if it agrees with all.
    func fault(trailers: HTTPHeaders) -> String? {
        let (wire, plain) = (wire.take(), plain.take())
        let values = fields[values: "Content-Digest"]
        let digests = RequestOptions.Digests.digests(in: values)
        if !digests.isEmpty, digests.allSatisfy({ wire[$0] == $1 || plain[$0] == $1 }) {
            compared = values.joined(separator: ", ")
        }
        for name in names {
            for values in [fields[values: name], trailers[values: name]] {
                for (algorithm, digest) in RequestOptions.Digests.digests(in: values)
                where wire[algorithm].map({ $0 != digest }) == true && plain[algorithm] != digest {
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
