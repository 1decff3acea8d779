import Platform

/// The functions of libbrotlidec.
///
/// It is loaded when first needed instead of linked, so that an app needs no package more to be built. Debian's libcurl has
/// loaded it already.
struct BrotliLibrary: Sendable {
    /// Debian's package.
    static let package = "libbrotli1"
    /// `nil` where the library is missing.
    static let shared = BrotliLibrary()

    typealias Create = @convention(c) (OpaquePointer?, OpaquePointer?, OpaquePointer?) -> OpaquePointer?
    typealias Destroy = @convention(c) (OpaquePointer?) -> Void
    typealias Decode =
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<Int>, UnsafeMutablePointer<UnsafeRawPointer?>,
            UnsafeMutablePointer<Int>, UnsafeMutablePointer<UnsafeMutableRawPointer?>, UnsafeMutablePointer<Int>?
        ) -> CInt
    typealias ErrorCode = @convention(c) (OpaquePointer?) -> CInt
    typealias ErrorText = @convention(c) (CInt) -> UnsafePointer<CChar>?

    let create: Create
    let destroy: Destroy
    let decode: Decode
    let errorCode: ErrorCode
    let errorText: ErrorText

    private init?() {
        guard let library = DynamicLibrary("libbrotlidec.so.1"),
            let create = library.function("BrotliDecoderCreateInstance", as: Create.self),
            let destroy = library.function("BrotliDecoderDestroyInstance", as: Destroy.self),
            let decode = library.function("BrotliDecoderDecompressStream", as: Decode.self),
            let errorCode = library.function("BrotliDecoderGetErrorCode", as: ErrorCode.self),
            let errorText = library.function("BrotliDecoderErrorString", as: ErrorText.self)
        else { return nil }
        self.create = create
        self.destroy = destroy
        self.decode = decode
        self.errorCode = errorCode
        self.errorText = errorText
    }
}

/// Decodes `br` (RFC 7932).
final class BrotliDecoder: BufferDecoder {
    private let library: BrotliLibrary
    private let state: OpaquePointer
    private var hasBegun = false
    private var hasEnded = false

    /// Makes a decoder; `nil` when memory is short.
    init?(_ library: BrotliLibrary) {
        guard let state = library.create(nil, nil, nil) else { return nil }
        self.library = library
        self.state = state
    }

    deinit { library.destroy(state) }

    var isComplete: Bool { !hasBegun || hasEnded }

    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        if hasEnded {
            guard input.isEmpty else { throw .invalid("br", "other bytes follow its end") }
            return 0
        }
        guard !input.isEmpty || hasBegun else { return 0 }
        hasBegun = true
        var (left, next) = (input.count, input.baseAddress)
        var (room, place) = (output.count, output.baseAddress)
        let result = library.decode(state, &left, &next, &room, &place, nil)
        input = UnsafeRawBufferPointer(rebasing: input.dropFirst(input.count - left))
        switch result {
        case 0:  // BROTLI_DECODER_RESULT_ERROR
            let text = library.errorText(library.errorCode(state)).map { String(cString: $0) }
            throw .invalid("br", text ?? "libbrotlidec gives no reason")
        case 1:  // BROTLI_DECODER_RESULT_SUCCESS
            hasEnded = true
            guard input.isEmpty else { throw .invalid("br", "other bytes follow its end") }
        default: break
        }
        return output.count - room
    }
}
