import CZlib
internal import HTTPCore
import Platform

/// The functions of libzstd, which is loaded like ``BrotliLibrary``.
struct ZstdLibrary: Sendable {
    /// Debian's package.
    static let package = "libzstd1"
    /// `nil` where the library is missing.
    static let shared = ZstdLibrary()

    typealias Create = @convention(c) () -> OpaquePointer?
    typealias Free = @convention(c) (OpaquePointer?) -> Int
    typealias Decode =
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<lat_zstd_output>, UnsafeMutablePointer<lat_zstd_input>
        ) -> Int
    typealias RefersTo = @convention(c) (OpaquePointer?, UnsafeRawPointer?, Int) -> Int
    typealias SetParameter = @convention(c) (OpaquePointer?, CInt, CInt) -> Int
    typealias IsError = @convention(c) (Int) -> CUnsignedInt
    typealias ErrorName = @convention(c) (Int) -> UnsafePointer<CChar>?

    let create: Create
    let free: Free
    let decode: Decode
    let refersTo: RefersTo
    let setParameter: SetParameter
    let isError: IsError
    let errorName: ErrorName

    private init?() {
        guard let library = DynamicLibrary("libzstd.so.1"),
            let create = library.function("ZSTD_createDStream", as: Create.self),
            let free = library.function("ZSTD_freeDStream", as: Free.self),
            let decode = library.function("ZSTD_decompressStream", as: Decode.self),
            let refersTo = library.function("ZSTD_DCtx_refPrefix", as: RefersTo.self),
            let setParameter = library.function("ZSTD_DCtx_setParameter", as: SetParameter.self),
            let isError = library.function("ZSTD_isError", as: IsError.self),
            let errorName = library.function("ZSTD_getErrorName", as: ErrorName.self)
        else { return nil }
        self.create = create
        self.free = free
        self.decode = decode
        self.refersTo = refersTo
        self.setParameter = setParameter
        self.isError = isError
        self.errorName = errorName
    }
}

/// Decodes `zstd` with all its frames (RFC 8878 §3).
final class ZstdDecoder: BufferDecoder {
    private let library: ZstdLibrary
    private let stream: OpaquePointer
    /// What all frames may refer to, as raw content.
    private let dictionary: CompressionDictionary?
    /// Whether at least one frame has ended.
    private(set) var hasFrame = false
    /// Whether the last byte ended a frame, or there was none.
    private(set) var isComplete = true
    /// Whether the last output was full, so that libzstd may hold more.
    private var mayHoldOutput = false

    /// Makes a decoder; `nil` when memory is short.
    init?(_ library: ZstdLibrary, dictionary: CompressionDictionary? = nil) {
        guard let stream = library.create() else { return nil }
        self.library = library
        self.stream = stream
        self.dictionary = dictionary
        // ZSTD_d_windowLogMax.
        if let dictionary { _ = library.setParameter(stream, 100, CInt(Self.windowBits(dictionary.bytes.count))) }
    }

    /// The bits of the largest window for a dictionary of this size (RFC 9842 §5): 8 MiB or 1.25 times the dictionary, rounded up
    /// to a power of two, at most 128 MiB.
    static func windowBits(_ byteCount: Int) -> Int {
        let wanted = byteCount + byteCount / 4
        return (23..<27).first { 1 << $0 >= wanted } ?? 27
    }

    deinit { _ = library.free(stream) }

    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        var target = lat_zstd_output(bytes: output.baseAddress, size: output.count, position: 0)
        // After the end of a frame, a call without input would begin the next one.
        while target.position < output.count, !input.isEmpty || mayHoldOutput {
            // A reference lasts for one frame.
            if isComplete, let dictionary {
                let code = library.refersTo(stream, dictionary.bytes.baseAddress, dictionary.bytes.count)
                guard library.isError(code) == 0 else { throw .noMemory }
            }
            var source = lat_zstd_input(bytes: input.baseAddress, size: input.count, position: 0)
            let before = target.position
            let left = library.decode(stream, &target, &source)
            guard library.isError(left) == 0 else {
                throw .invalid("zstd", library.errorName(left).map { String(cString: $0) } ?? "libzstd gives no reason")
            }
            guard source.position > 0 || target.position > before || input.isEmpty else {
                throw .invalid("zstd", "libzstd does not go on")
            }
            input = UnsafeRawBufferPointer(rebasing: input.dropFirst(source.position))
            isComplete = left == 0
            hasFrame = hasFrame || isComplete
            mayHoldOutput = left > 0 && target.position == output.count
        }
        return target.position
    }
}
