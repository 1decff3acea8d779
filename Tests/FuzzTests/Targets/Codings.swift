import FoundationEssentials

@testable import CurlTransport

/// A body that is decoded at once, byte by byte and in pieces gives the same bytes, is whole or not alike, and no output is
/// larger than its place. No beginning of what was compressed from the input is whole, and the whole is the input again.
@Sendable func fuzzCodings(_ bytes: [UInt8]) throws {
    guard let first = bytes.first else { return }
    let codings = ["gzip", "deflate", "br", "zstd", "gzip, gzip", "br, gzip", "deflate, zstd", "zstd, br"]
    let content = Array(bytes.dropFirst())
    try fuzzDecoder(codings[Int(first) % codings.count], content)
    try fuzzEnds(content)
}

private func fuzzDecoder(_ coding: String, _ bytes: [UInt8]) throws {
    let whole = try DecodedBody(coding, bytes, inPiecesOf: bytes.count)
    for size in [1, 3, 64] {
        let pieces = try DecodedBody(coding, bytes, inPiecesOf: size)
        // Of a bomb, and before invalid bytes are found, the pieces decide how much is decoded. libzstd allows a small frame
        // that is there at once a window that it refuses otherwise.
        if whole.isBomb || pieces.isBomb || coding.contains("zstd") && !(whole.isComplete && pieces.isComplete) {
            continue
        }
        try expect(
            pieces.isComplete == whole.isComplete && pieces.isValid == whole.isValid
                && (!whole.isValid || pieces.bytes == whole.bytes),
            "\(coding): at once \(whole), in pieces of \(size) \(pieces)")
    }
}

/// Compresses the bytes, and cuts the result.
private func fuzzEnds(_ bytes: [UInt8]) throws {
    guard !bytes.isEmpty, bytes.count <= 4096 else { return }
    let packed = ZlibEncoder.gzip(Data(bytes))
    let twice = ZlibEncoder.gzip(packed)
    for (coding, packed) in [("gzip", [UInt8](packed)), ("gzip, gzip", [UInt8](twice)), ("zstd", storedFrame(bytes))] {
        if coding == "zstd", ZstdLibrary.shared == nil { continue }
        let whole = try DecodedBody(coding, packed, inPiecesOf: 7)
        try expect(whole.isComplete && whole.bytes == bytes, "\(coding): the body does not become the input")
        for length in stride(from: 1, to: packed.count, by: max(1, packed.count / 64)) + [packed.count - 1] {
            let part = try DecodedBody(coding, Array(packed[..<length]), inPiecesOf: length)
            try expect(!part.isComplete && part.isValid, "\(coding): \(length) of \(packed.count) bytes are \(part)")
        }
    }
}

/// A frame with one raw block (RFC 8878 §3.1.1.2).
private func storedFrame(_ bytes: [UInt8]) -> [UInt8] {
    let header = UInt32(bytes.count) << 3 | 1
    return [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58, UInt8(header & 0xFF), UInt8(header >> 8 & 0xFF), 0] + bytes
}

private struct DecodedBody: CustomStringConvertible {
    static let limit = 1 << 20
    static let room = 4096
    var bytes: [UInt8] = []
    var isComplete = false
    var isValid = true
    var isBomb = false

    var description: String { "\(bytes.count) bytes, \(isValid ? isComplete ? "whole" : "cut" : "invalid")" }

    init(_ coding: String, _ coded: [UInt8], inPiecesOf size: Int) throws {
        guard let decoder = BodyDecoder([coding]) else { return }
        var rest = coded[...]
        do throws(CodingFault) {
            while !rest.isEmpty, bytes.count < Self.limit {
                let piece = Array(rest.prefix(size))
                rest = rest.dropFirst(piece.count)
                try decode(piece, decoder)
            }
        } catch {
            isValid = false
        }
        isBomb = bytes.count >= Self.limit
        try expect(bytes.count < Self.limit + Self.room, "\(bytes.count) bytes are above the limit")
        try expect(decoder.byteCount >= bytes.count && decoder.codedByteCount <= coded.count, "wrong counts")
        isComplete = isValid && !isBomb && decoder.isComplete
    }

    private mutating func decode(_ piece: [UInt8], _ decoder: BodyDecoder) throws(CodingFault) {
        let place = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.room, alignment: 16)
        defer { place.deallocate() }
        var fault: CodingFault?
        piece.withUnsafeBytes { whole in
            var input = whole
            do throws(CodingFault) {
                while bytes.count < Self.limit {
                    let count = try decoder.decode(&input, into: place)
                    bytes += place[..<count]
                    guard count == place.count else { break }
                }
            } catch {
                fault = error
            }
        }
        if let fault { throw fault }
    }
}
