import FoundationEssentials
internal import HTTPCore
import Platform

extension BrotliLibrary {
    /// The functions of libbrotlienc, which is in the same package.
    struct Encoding: Sendable {
        static let shared = Encoding()

        typealias SetParameter = @convention(c) (OpaquePointer?, CInt, UInt32) -> CInt
        typealias Encode =
            @convention(c) (
                OpaquePointer?, CInt, UnsafeMutablePointer<Int>, UnsafeMutablePointer<UnsafeRawPointer?>,
                UnsafeMutablePointer<Int>, UnsafeMutablePointer<UnsafeMutableRawPointer?>, UnsafeMutablePointer<Int>?
            ) -> CInt
        typealias TakeOutput = @convention(c) (OpaquePointer?, UnsafeMutablePointer<Int>) -> UnsafeRawPointer?

        let create: Create
        let destroy: Destroy
        let setParameter: SetParameter
        let encode: Encode
        let takeOutput: TakeOutput

        private init?() {
            guard let library = DynamicLibrary("libbrotlienc.so.1"),
                let create = library.function("BrotliEncoderCreateInstance", as: Create.self),
                let destroy = library.function("BrotliEncoderDestroyInstance", as: Destroy.self),
                let setParameter = library.function("BrotliEncoderSetParameter", as: SetParameter.self),
                let encode = library.function("BrotliEncoderCompressStream", as: Encode.self),
                let takeOutput = library.function("BrotliEncoderTakeOutput", as: TakeOutput.self)
            else { return nil }
            self.create = create
            self.destroy = destroy
            self.setParameter = setParameter
            self.encode = encode
            self.takeOutput = takeOutput
        }
    }
}

/// Writes `br` (RFC 7932).
final class BrotliEncoder: ContentCoding.Encoder {
    /// `BrotliEncoderOperation`.
    private enum Operation: CInt { case process, flush, finish }

    private let library: BrotliLibrary.Encoding
    private let state: OpaquePointer

    /// Makes an encoder; `nil` when memory is short.
    init?(_ library: BrotliLibrary.Encoding) {
        guard let state = library.create(nil, nil, nil) else { return nil }
        self.library = library
        self.state = state
        // BROTLI_PARAM_QUALITY: 11, the default, is for files that are coded once; 5 is as fast as gzip.
        _ = library.setParameter(state, 1, 5)
    }

    deinit { library.destroy(state) }

    func encode(_ piece: Data, flushes: Bool) throws -> Data { try encode(piece, flushes ? .flush : .process) }

    func finish() throws -> Data { try encode(Data(), .finish) }

    private func encode(_ piece: Data, _ operation: Operation) throws -> Data {
        var output = Data()
        try piece.withUnsafeBytes { bytes in
            var (count, next) = (bytes.count, bytes.baseAddress)
            var (room, buffer): (Int, UnsafeMutableRawPointer?) = (0, nil)
            while true {
                guard library.encode(state, operation.rawValue, &count, &next, &room, &buffer, nil) != 0 else {
                    throw EngineFailure.noResources("memory to encode a body")
                }
                var size = 0
                guard let coded = library.takeOutput(state, &size), size > 0 else {
                    if count == 0 { return }
                    continue
                }
                output.append(contentsOf: UnsafeRawBufferPointer(start: coded, count: size))
            }
        }
        return output
    }
}
