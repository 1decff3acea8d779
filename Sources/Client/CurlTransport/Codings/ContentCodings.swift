import FoundationEssentials
internal import HTTPCore

/// The encoders and decoders of content codings (RFC 9110 §8.4.1, RFC 8878, RFC 7932).
enum ContentCodings {
    /// The names of `Accept-Encoding` for the codings that responses may have; those whose library is missing are left out.
    static func accepted(_ codings: [ContentCoding]) -> [String] {
        codings.filter { $0.decoder != nil || hasDecoder($0.name) }.map(\.name)
    }

    /// Whether the SDK has a decoder of this name.
    static func hasDecoder(_ name: String) -> Bool {
        switch name {
        case "gzip", "deflate": true
        case "br": BrotliLibrary.shared != nil
        case "zstd": ZstdLibrary.shared != nil
        default: false
        }
    }

    /// Whether a name, in lower case, says that nothing was coded. libcurl knows `none`, too.
    static func isIdentity(_ name: String) -> Bool { name == "identity" || name == "none" }

    /// Makes the decoder of a coding.
    ///
    /// - Parameters:
    ///   - name: in lower case.
    ///   - own: codings of the app, which take precedence.
    ///   - dictionary: the one that the request offered.
    static func decoder(
        for name: String, _ own: [ContentCoding], _ dictionary: CompressionDictionary? = nil
    ) throws(CodingFault) -> any BufferDecoder {
        if let make = own.first(where: { $0.name == name })?.decoder { return try OwnDecoder(name, make) }
        let decoder: (any BufferDecoder)?
        switch name {
        case "gzip", "x-gzip": decoder = ZlibDecoder(.gzip)
        case "deflate": decoder = ZlibDecoder(.deflate)
        case "br":
            guard let library = BrotliLibrary.shared else { throw .unknown(name, hint: missing(BrotliLibrary.package)) }
            decoder = BrotliDecoder(library)
        case "zstd":
            guard let library = ZstdLibrary.shared else { throw .unknown(name, hint: missing(ZstdLibrary.package)) }
            decoder = ZstdDecoder(library)
        case DictionaryDecoder.name:
            guard let dictionary else { throw .unknown(name, hint: nil) }
            guard let library = ZstdLibrary.shared else { throw .unknown(name, hint: missing(ZstdLibrary.package)) }
            decoder = DictionaryDecoder(library, dictionary)
        default: throw .unknown(name, hint: nil)
        }
        guard let decoder else { throw .noMemory }
        return decoder
    }

    private static func missing(_ package: String) -> String { "install its library (Debian: \(package)), " }

    /// Makes the encoder of a coding.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a coding without an encoder, or whose library is missing.
    static func encoder(for coding: ContentCoding) throws -> any ContentCoding.Encoder {
        if let make = coding.encoder { return try make() }
        func refusal(_ advice: String) -> NetworkError {
            .invalidRequest("contentCoding is \(coding.name), which cannot be encoded here; \(advice)")
        }
        let encoder: (any ContentCoding.Encoder)?
        switch coding.name {
        case "gzip": encoder = ZlibEncoder(.gzip)
        case "deflate": encoder = ZlibEncoder(.deflate)
        case "br":
            guard let library = BrotliLibrary.Encoding.shared else {
                throw refusal(missing(BrotliLibrary.package) + "or use .gzip")
            }
            encoder = BrotliEncoder(library)
        case "zstd":
            guard let library = ZstdLibrary.Encoding.shared else {
                throw refusal(missing(ZstdLibrary.package) + "or use .gzip")
            }
            encoder = ZstdEncoder(library)
        default: throw refusal("make it with an encoder: ContentCoding(\"\(coding.name)\", encoder: …)")
        }
        guard let encoder else { throw EngineFailure.noResources("memory to encode a body") }
        return encoder
    }
}

/// A decoder of the app.
private final class OwnDecoder: BufferDecoder {
    private let name: String
    private let decoder: any ContentCoding.Decoder
    /// What was decoded and did not fit into the last output.
    private var rest = Data()

    init(_ name: String, _ make: @Sendable () throws -> any ContentCoding.Decoder) throws(CodingFault) {
        self.name = name
        do { decoder = try make() } catch { throw .invalid(name, "\(error)") }
    }

    var isComplete: Bool { rest.isEmpty && decoder.isComplete }

    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        if !input.isEmpty {
            let piece = Data(input)
            input = UnsafeRawBufferPointer(rebasing: input.dropFirst(input.count))
            do { rest.append(try decoder.decode(piece)) } catch { throw .invalid(name, "\(error)") }
        }
        let count = min(rest.count, output.count)
        output.copyBytes(from: rest.prefix(count))
        // A slice, because copying what is left for each output would cost the square of its length.
        rest = count < rest.count ? rest.dropFirst(count) : Data()
        return count
    }
}
