/// The content codings that are decoded (RFC 9110 §8.4.1, RFC 8878, RFC 7932).
enum ContentCodings {
    /// The codings that `Accept-Encoding` names, the best known first; those whose library is missing are left out. `deflate` is
    /// decoded and not named: servers disagree on what it is (RFC 9110 §8.4.1.2).
    static let accepted =
        ["gzip"] + (BrotliLibrary.shared == nil ? [] : ["br"]) + (ZstdLibrary.shared == nil ? [] : ["zstd"])

    /// Whether a name, in lower case, says that nothing was coded. libcurl knows `none`, too.
    static func isIdentity(_ name: String) -> Bool { name == "identity" || name == "none" }

    /// Makes the decoder of a coding.
    ///
    /// - Parameter name: in lower case.
    static func decoder(for name: String) throws(CodingFault) -> any ContentDecoder {
        let decoder: (any ContentDecoder)?
        switch name {
        case "gzip", "x-gzip": decoder = ZlibDecoder(.gzip)
        case "deflate": decoder = ZlibDecoder(.deflate)
        case "br":
            guard let library = BrotliLibrary.shared else { throw .unknown(name, hint: missing(BrotliLibrary.package)) }
            decoder = BrotliDecoder(library)
        case "zstd":
            guard let library = ZstdLibrary.shared else { throw .unknown(name, hint: missing(ZstdLibrary.package)) }
            decoder = ZstdDecoder(library)
        default: throw .unknown(name, hint: nil)
        }
        guard let decoder else { throw .noMemory }
        return decoder
    }

    private static func missing(_ package: String) -> String { "install its library (Debian: \(package)), " }
}
