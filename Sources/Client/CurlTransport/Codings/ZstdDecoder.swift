import CZlib
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
    typealias IsError = @convention(c) (Int) -> CUnsignedInt
    typealias ErrorName = @convention(c) (Int) -> UnsafePointer<CChar>?

    let create: Create
    let free: Free
    let decode: Decode
    let isError: IsError
    let errorName: ErrorName

    private init?() {
        guard let library = DynamicLibrary("libzstd.so.1"),
            let create = library.function("ZSTD_createDStream", as: Create.self),
            let free = library.function("ZSTD_freeDStream", as: Free.self),
            let decode = library.function("ZSTD_decompressStream", as: Decode.self),
            let isError = library.function("ZSTD_isError", as: IsError.self),
            let errorName = library.function("ZSTD_getErrorName", as: ErrorName.self)
        else { return nil }
        self.create = create
        self.free = free
        self.decode = decode
        self.isError = isError
        self.errorName = errorName
    }
}

/// Decodes `zstd` with all its frames (RFC 8878 §3).
final class ZstdDecoder: BufferDecoder {
    private let library: ZstdLibrary
    private let stream: OpaquePointer
    /// Whether the last byte ended a frame, or there was none.
    private(set) var isComplete = true
    /// Whether the last output was full, so that libzstd may hold more.
    private var mayHoldOutput = false

    /// Makes a decoder; `nil` when memory is short.
    init?(_ library: ZstdLibrary) {
        guard let stream = library.create() else { return nil }
        self.library = library
        self.stream = stream
    }

    deinit { _ = library.free(stream) }

    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        var target = lat_zstd_output(bytes: output.baseAddress, size: output.count, position: 0)
        // After the end of a frame, a call without input would begin the next one.
        while target.position < output.count, !input.isEmpty || mayHoldOutput {
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
            mayHoldOutput = left > 0 && target.position == output.count
        }
        return target.position
    }
}
