import FoundationEssentials
import TestSupport
import Testing

@testable import CurlTransport

/// The decoders by values: any cut into pieces gives the same bytes, and a part is never whole.
@Suite struct ContentDecoderTests {
    /// A body of ``Codings/text``, as one member or frame.
    struct Sample: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let codings: [String]
        let bytes: [UInt8]

        init(_ name: String, _ codings: String..., bytes: Data) {
            testDescription = name
            self.codings = codings
            self.bytes = [UInt8](bytes)
        }

        init(_ name: String, _ codings: String..., base64: String) {
            testDescription = name
            self.codings = codings
            bytes = [UInt8](Data(base64Encoded: base64) ?? Data())
        }
    }

    private static let zlib = "eNoLyUhVKCzNTM5WSCrKL89TSMuv0FMIGRUcTIIAlVWTlQ=="
    private static let raw = "C8lIVSgszUzOVkgqyi/PU0jLr9BTCBkVHEyCAA=="

    private static let always: [Sample] = [
        Sample("gzip", "gzip", bytes: Codings.gzip), Sample("x-gzip", "X-GZIP", bytes: Codings.gzip),
        Sample(
            "gzip with all fields of its header", "gzip",
            base64: "H4sIHgAAAAAAAwQAQUJDRG5hbWUAY29tbWVudAAjRwvJSFUoLM1MzlZIKsovz1NIy6/QUwgZFRxMggBPe1LxpAEAAA=="),
        Sample("zlib", "deflate", base64: zlib), Sample("raw DEFLATE", "deflate", base64: raw),
        Sample("zlib, called gzip", "gzip", base64: zlib),
        Sample("gzip twice", "gzip, gzip", bytes: packed(Codings.gzip)),
        Sample("gzip twice, in two fields", "gzip", "identity", "x-gzip", bytes: packed(Codings.gzip)),
        Sample("zlib in gzip", "deflate", "gzip", bytes: packed(Data(base64Encoded: zlib) ?? Data())),
    ]

    private static let loaded: [Sample] = [
        Sample("brotli", "br", base64: "G6MBAATqZKleSFoSko1JflOoUQisKuOdnE0iVjeU3gA="),
        Sample("brotli, uncompressed", "br", bytes: Codings.brotli(Codings.text)),
        Sample("brotli in gzip", "br, gzip", bytes: packed(Codings.brotli(Codings.text))),
        Sample("zstd", "zstd", base64: "KLUv/QRY5QAAqFRoZSBxdWljayBicm93biBmb3guIAEAGVGdTIP6kvA="),
        Sample("zstd, uncompressed", "zstd", bytes: Codings.zstd(Codings.text)),
        Sample("zstd in gzip", "zstd", "gzip", bytes: packed(Codings.zstd(Codings.text))),
    ]

    static let samples =
        always
        + loaded.filter { sample in
            ["br", "zstd"].allSatisfy { name in
                Codings.known.contains(name) || !sample.codings.contains { $0.contains(name) }
            }
        }

    private static func packed(_ data: Data) -> Data { ZlibEncoder.gzip(data) }

    private func decode(
        _ codings: [String], _ bytes: some Collection<UInt8>, inPiecesOf size: Int = .max, room: Int = 1000
    ) throws -> (text: String, decoder: BodyDecoder) {
        let decoder = try #require(BodyDecoder(codings))
        var output: [UInt8] = []
        var rest = Array(bytes)[...]
        repeat {
            let piece = rest.prefix(size)
            rest = rest.dropFirst(piece.count)
            output += try Self.decode(Array(piece), decoder, room)
        } while !rest.isEmpty
        return (String(decoding: output, as: UTF8.self), decoder)
    }

    private static func decode(_ piece: [UInt8], _ decoder: BodyDecoder, _ room: Int) throws -> [UInt8] {
        var output: [UInt8] = []
        try piece.withUnsafeBytes { bytes in
            var input = bytes
            try withUnsafeTemporaryAllocation(byteCount: room, alignment: 1) { place in
                while true {
                    let count = try decoder.decode(&input, into: place)
                    output += place[..<count]
                    guard count == room else { break }
                }
            }
            #expect(input.isEmpty, "\(input.count) bytes were left")
        }
        return output
    }

    @Test(arguments: samples) func anyPiecesGiveTheWholeBody(sample: Sample) throws {
        for (size, room) in [(1, 1000), (1, 1), (2, 7), (3, 420), (.max, 1), (.max, 420), (.max, 1000)] {
            let (text, decoder) = try decode(sample.codings, sample.bytes, inPiecesOf: size, room: room)
            #expect(text == Codings.text && decoder.isComplete, "pieces of \(size), room for \(room)")
            #expect(decoder.codedByteCount == sample.bytes.count && decoder.byteCount == text.utf8.count)
        }
    }

    @Test(arguments: samples) func noPartIsWhole(sample: Sample) throws {
        #expect(sample.bytes.count > 20)
        for length in 1..<sample.bytes.count {
            let (text, decoder) = try decode(sample.codings, sample.bytes[..<length])
            #expect(!decoder.isComplete, "the first \(length) of \(sample.bytes.count) bytes are whole")
            #expect(Codings.text.hasPrefix(text))
        }
    }

    @Test(arguments: samples.map(\.codings) + [["deflate64"]]) func noBytesAreAnEmptyBody(codings: [String]) throws {
        let decoder = try #require(BodyDecoder(codings))
        #expect(decoder.isComplete && decoder.byteCount == 0)
    }

    @Test func membersFramesAndPaddingAreDecoded() throws {
        let member = [UInt8](Codings.gzip)
        let zeros = [UInt8](repeating: 0, count: 512)
        let empty = [UInt8](Self.packed(Data()))
        for (bytes, times) in [
            (member + member, 2), (member + zeros, 1), (member + zeros + member, 2), (empty + member + empty, 1),
        ] {
            for size in [1, 5, .max] {
                let (text, decoder) = try decode(["gzip"], bytes, inPiecesOf: size, room: 420)
                #expect(text == String(repeating: Codings.text, count: times) && decoder.isComplete)
            }
        }
        for length in 1..<member.count {
            #expect(try !decode(["gzip"], member + member[..<length]).decoder.isComplete, "\(length) of the second")
        }
        guard Codings.known.contains("zstd") else { return }
        let frame = [UInt8](Codings.zstd(Codings.text))
        #expect(try decode(["zstd"], frame + frame).text == Codings.text + Codings.text)
        #expect(try !decode(["zstd"], frame + frame.dropLast()).decoder.isComplete)
    }

    /// Padding and empty members take a thousandth of their size in the next coding, and no room in the body.
    @Test(.timeLimit(.minutes(1)), arguments: ["padding", "members"]) func hollowCodingsAreRefused(kind: String) throws
    {
        let empty = kind == "padding" ? Data([0]) : Self.packed(Data())
        let block = Data(repeatElement(empty, count: (64 << 10) / empty.count).joined())
        func hollow(_ byteCount: Int) -> Data {
            (0...byteCount / block.count).reduce(into: Codings.gzip) { data, _ in data.append(block) }
        }
        #expect(try decode(["gzip, gzip"], Self.packed(hollow(2 << 20))).text == Codings.text)
        let bomb = Self.packed(hollow(17 << 20))
        #expect(throws: CodingFault.hollow(CodingSurplus.limit)) { try decode(["gzip, gzip"], bomb) }
        // With one more coding it is some 2 KB.
        #expect(throws: CodingFault.hollow(CodingSurplus.limit)) { try decode(["gzip, gzip, gzip"], Self.packed(bomb)) }
    }

    /// Bytes that do not get smaller are no surplus.
    @Test func longBodyInTwoCodingsIsWhole() throws {
        var random = SeededGenerator(seed: 5)
        let piece = Data((0..<(64 << 10)).map { _ in UInt8.random(in: 0...255, using: &random) })
        let text = (0..<300).reduce(into: Data()) { data, _ in data.append(piece) }
        let decoder = try #require(BodyDecoder(["gzip, gzip"]))
        let output = try Self.decode([UInt8](Self.packed(Self.packed(text))), decoder, 32 << 10)
        #expect(Data(output) == text && decoder.isComplete)
    }

    /// Some servers send a checksum after raw DEFLATE.
    @Test func fourBytesMayFollowRawDeflate() throws {
        let bytes = [UInt8](Data(base64Encoded: Self.raw) ?? Data())
        #expect(try decode(["deflate"], bytes + [1, 2, 3, 4], inPiecesOf: 1).text == Codings.text)
        #expect(throws: CodingFault.self) { try decode(["deflate"], bytes + [1, 2, 3, 4, 5]) }
    }

    @Test(arguments: samples) func damageIsFound(sample: Sample) throws {
        // Neither brotli nor these zstd frames of raw blocks have a checksum.
        if sample.codings.contains("gzip") || sample.testDescription == "zlib" || sample.testDescription == "zstd" {
            var bytes = sample.bytes
            // The last four bytes of gzip are the size, of zlib and zstd the checksum.
            bytes[bytes.count - 3] ^= 0x40
            #expect(throws: CodingFault.self) { try decode(sample.codings, bytes) }
        }
        if sample.testDescription != "raw DEFLATE" {
            #expect(throws: CodingFault.self) { try decode(sample.codings, sample.bytes + [0x78, 1, 2, 3, 4]) }
        }
        #expect(throws: CodingFault.self) { try decode(sample.codings, "<html>not coded</html>".utf8) }
    }

    @Test func unknownCodingsThrowAtTheFirstByte() throws {
        #expect(BodyDecoder(["identity"]) == nil && BodyDecoder(["", "none, identity"]) == nil)
        #expect(throws: CodingFault.unknown("deflate64", hint: nil)) { try decode(["gzip, deflate64"], [1]) }
        #expect(throws: CodingFault.tooMany(5)) { try decode(["gzip, gzip, gzip, gzip, gzip, gzip"], [1]) }
        #expect(try decode(["Identity", "GZip"], Codings.gzip).text == Codings.text)
        let long = String(repeating: "a", count: 50_000)
        let (cut, many) = (String(repeating: "a", count: 32), String(repeating: "a,", count: 50_000))
        let names = [BodyDecoder(["b, \(long)"])?.name, BodyDecoder([many])?.name]
        #expect(names == ["b, \(cut)", "a, a, a, a, a, a"])
    }
}
