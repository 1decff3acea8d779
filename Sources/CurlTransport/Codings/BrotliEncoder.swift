import FoundationEssentials
import Glibc
internal import HTTPCore

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
            guard let library = dlopen("libbrotlienc.so.1", RTLD_NOW | RTLD_LOCAL),
                let create = dlsym(library, "BrotliEncoderCreateInstance"),
                let destroy = dlsym(library, "BrotliEncoderDestroyInstance"),
                let setParameter = dlsym(library, "BrotliEncoderSetParameter"),
                let encode = dlsym(library, "BrotliEncoderCompressStream"),
                let takeOutput = dlsym(library, "BrotliEncoderTakeOutput")
            else { return nil }
            self.create = unsafeBitCast(create, to: Create.self)
            self.destroy = unsafeBitCast(destroy, to: Destroy.self)
            self.setParameter = unsafeBitCast(setParameter, to: SetParameter.self)
            self.encode = unsafeBitCast(encode, to: Encode.self)
            self.takeOutput = unsafeBitCast(takeOutput, to: TakeOutput.self)
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
