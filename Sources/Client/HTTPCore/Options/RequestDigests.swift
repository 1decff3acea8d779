extension RequestOptions {
    /// What is done with digest fields (RFC 9530).
    ///
    ///     request.digests.sends = .sha256            // Content-Digest: sha-256=:…:
    ///     request.digests.checks = false             // for a server whose digests are wrong
    ///
    /// A digest is that of the bytes on the wire, in the body's coding. `Repr-Digest` is that of the whole file, so a download
    /// in parts is compared with it when its parts are joined.
    public struct Digests: Hashable, Sendable {
        /// A hash function, by its name in the fields.
        public enum Algorithm: String, CaseIterable, Sendable {
            case sha256 = "sha-256"
            case sha512 = "sha-512"
        }

        /// Whether a body is compared with the `Content-Digest` and `Repr-Digest` of its response, also when they come as
        /// trailers that `Trailer` announces. Another body is ``NetworkError/Kind/integrity``, and nothing of it is stored;
        /// a stream throws at its end. Values that cannot be read and other functions are ignored. Default `nil`: the row's
        /// choice, else yes.
        public var checks: Bool?
        /// The function of the `Content-Digest` that is sent with a body. A body that is read while it is sent, as a stream or
        /// multipart, is refused with ``NetworkError/Kind/invalidRequest``. A field of the request's own is kept. Default
        /// `nil`: the row's choice, else none.
        public var sends: Algorithm?
        /// Asks the server for a digest by this function (`Want-Repr-Digest`). Default `nil`: the row's choice, else not.
        public var wants: Algorithm?

        /// Makes settings; those that are left out come from the row.
        public init(checks: Bool? = nil, sends: Algorithm? = nil, wants: Algorithm? = nil) {
            (self.checks, self.sends, self.wants) = (checks, sends, wants)
        }
    }
}

extension RequestOptions.Digests: Setting {
    package var isSet: Bool { checks != nil || sends != nil || wants != nil }

    package func over(_ broader: Self) -> Self {
        Self(checks: checks ?? broader.checks, sends: sends ?? broader.sends, wants: wants ?? broader.wants)
    }
}

// How digest fields are written (RFC 9530 §2).
extension RequestOptions.Digests {
    /// The digests in the values of a digest field, by the functions that are known here. A field that cannot be read has
    /// none.
    package static func digests(in values: [String]) -> [Algorithm: [UInt8]] {
        let members = values.isEmpty ? nil : StructuredField.dictionary(values.joined(separator: ", "))
        var digests: [Algorithm: [UInt8]] = [:]
        for algorithm in Algorithm.allCases {
            if case .bytes(let digest) = members?[algorithm.rawValue]?.value { digests[algorithm] = digest }
        }
        return digests
    }

    /// The value of a digest field with one digest.
    package static func field(_ algorithm: Algorithm, _ digest: some Sequence<UInt8>) -> String {
        var members = StructuredField.Keyed<StructuredField.Member>()
        members[algorithm.rawValue] = StructuredField.Member(.bytes(Array(digest)))
        return StructuredField.text(members) ?? ""
    }
}
