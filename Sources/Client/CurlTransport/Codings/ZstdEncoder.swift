import CZlib
import FoundationEssentials
internal import HTTPCore
import Platform

extension ZstdLibrary {
    /// The functions that compress.
    struct Encoding: Sendable {
        static let shared = Encoding()

        typealias Encode =
            @convention(c) (
                OpaquePointer?, UnsafeMutablePointer<lat_zstd_output>, UnsafeMutablePointer<lat_zstd_input>, CInt
            ) -> Int

        let create: Create
        let free: Free
        let encode: Encode
        let isError: IsError

        private init?() {
            guard let library = DynamicLibrary("libzstd.so.1"),
                let create = library.function("ZSTD_createCStream", as: Create.self),
                let free = library.function("ZSTD_freeCStream", as: Free.self),
                let encode = library.function("ZSTD_compressStream2", as: Encode.self),
                let isError = library.function("ZSTD_isError", as: IsError.self)
            else { return nil }
            self.create = create
            self.free = free
            self.encode = encode
            self.isError = isError
        }
    }
}

/// Writes `zstd` (RFC 8878), one frame.
final class ZstdEncoder: ContentCoding.Encoder {
    /// `ZSTD_EndDirective`.
    private enum Directive: CInt { case proceed, flush, end }

    private let library: ZstdLibrary.Encoding
    private let stream: OpaquePointer
    private static let bufferSize = 32 << 10

    /// Makes an encoder; `nil` when memory is short.
    init?(_ library: ZstdLibrary.Encoding) {
        guard let stream = library.create() else { return nil }
        self.library = library
        self.stream = stream
    }

    deinit { _ = library.free(stream) }

    func encode(_ piece: Data, flushes: Bool) throws -> Data { try encode(piece, flushes ? .flush : .proceed) }

    func finish() throws -> Data { try encode(Data(), .end) }

    private func encode(_ piece: Data, _ directive: Directive) throws -> Data {
        var output = Data()
        try piece.withUnsafeBytes { bytes in
            var input = lat_zstd_input(bytes: bytes.baseAddress, size: bytes.count, position: 0)
            try withUnsafeTemporaryAllocation(byteCount: Self.bufferSize, alignment: 16) { buffer in
                var left: Int
                repeat {
                    var piece = lat_zstd_output(bytes: buffer.baseAddress, size: buffer.count, position: 0)
                    left = library.encode(stream, &piece, &input, directive.rawValue)
                    guard library.isError(left) == 0 else { throw EngineFailure.noResources("memory to encode a body") }
                    output.append(contentsOf: UnsafeRawBufferPointer(rebasing: buffer[..<piece.position]))
                    // The number is what is left to write, or with more to come only a hint.
                } while directive == .proceed ? input.position < input.size : left != 0
            }
        }
        return output
    }
}
