import Cryptography
import FoundationEssentials
import HTTPCore
import Synchronization
import Testing

@testable import CurlTransport

/// `dcz` (RFC 9842 §5) by values. The frames are those of python-zstandard.
@Suite(.enabled(if: Codings.known.contains("zstd"), "needs libzstd")) struct DictionaryDecoderTests {
    private static let content = String(repeating: "The quick brown fox jumps over the lazy dog. ", count: 20)
    private static let text = String(repeating: "The quick brown fox jumps over the lazy cat. ", count: 20)
    /// The text, and its first half, each referring to the content.
    private static let frame = bytes("KLUv/WSEAn0AADBUY2F0LiACAFRBpWCp2KykmaY=")
    private static let half = bytes("KLUv/WTCAH0AADBUY2F0LiACAJJAVbBUbFvpsh4=")
    private static let magic: [UInt8] = [0x5E, 0x2A, 0x4D, 0x18, 0x20, 0, 0, 0]

    private static func bytes(_ base64: String) -> [UInt8] { [UInt8](Data(base64Encoded: base64) ?? Data()) }

    /// What the decoders have told a dictionary.
    private final class Saved: Sendable {
        let counts = Mutex<[(count: Int, isFirst: Bool)]>([])
    }

    private static func dictionary(_ content: Data = Data(content.utf8), _ saved: Saved = Saved()) throws
        -> CompressionDictionary
    {
        let digest = try MessageDigest.of(content, .sha256)
        return CompressionDictionary(content, digest: digest, of: "https://a.example/") { count, isFirst in
            saved.counts.withLock { $0.append((count, isFirst)) }
        }
    }

    private struct Decoded {
        var text = ""
        var isComplete = false
        var fault: CodingFault?
    }

    private func decode(
        _ bytes: [UInt8], _ dictionary: CompressionDictionary?, codings: [String] = ["dcz"],
        inPiecesOf size: Int = .max,
        room: Int = 100
    ) throws -> Decoded {
        let decoder = try #require(BodyDecoder(codings, [], dictionary))
        var (output, result, rest): ([UInt8], Decoded, ArraySlice<UInt8>) = ([], Decoded(), bytes[...])
        do throws(CodingFault) {
            while !rest.isEmpty {
                let piece = Array(rest.prefix(size))
                rest = rest.dropFirst(piece.count)
                try Self.decode(piece, decoder, room, &output)
            }
        } catch {
            result.fault = error
        }
        (result.text, result.isComplete) = (String(decoding: output, as: UTF8.self), decoder.isComplete)
        return result
    }

    private static func decode(
        _ piece: [UInt8], _ decoder: BodyDecoder, _ room: Int, _ output: inout [UInt8]
    ) throws(CodingFault) {
        let place = UnsafeMutableRawBufferPointer.allocate(byteCount: room, alignment: 16)
        defer { place.deallocate() }
        let input = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, piece.count), alignment: 16)
        defer { input.deallocate() }
        input.copyBytes(from: piece)
        var rest = UnsafeRawBufferPointer(rebasing: input[..<piece.count])
        while true {
            let count = try decoder.decode(&rest, into: place)
            output += place[..<count]
            guard count == room else { return }
        }
    }

    @Test(arguments: [1, 3, 39, 40, 41, .max], [1, 7, 2_000])
    func bodyReferringToDictionaryIsDecoded(size: Int, room: Int) throws {
        let saved = Saved()
        let dictionary = try Self.dictionary(Data(Self.content.utf8), saved)
        let head = Self.magic + dictionary.digest
        let one = try decode(head + Self.frame, dictionary, inPiecesOf: size, room: room)
        #expect(one.text == Self.text && one.isComplete && one.fault == nil)
        #expect(
            saved.counts.withLock { $0.reduce(0) { $0 + $1.count } } == Self.text.utf8.count - 40 - Self.frame.count)
        #expect(saved.counts.withLock { $0.filter(\.isFirst).count } == 1)
        // Each frame may refer to the dictionary, and a skippable one (RFC 8878 §3.1.2) does not use it up.
        let skippable: [UInt8] = [0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 9, 9]
        let several = try decode(head + Self.half + skippable + Self.half, dictionary, inPiecesOf: size, room: room)
        #expect(several.text == Self.text && several.isComplete && several.fault == nil)
        #expect(!dictionary.hasFailed)
    }

    @Test func noPartIsWhole() throws {
        let dictionary = try Self.dictionary()
        let body = Self.magic + dictionary.digest + Self.frame
        for length in 1..<body.count {
            let part = try decode(Array(body[..<length]), dictionary)
            #expect(!part.isComplete && part.fault == nil && Self.text.hasPrefix(part.text), "\(length) bytes")
        }
        #expect(!dictionary.hasFailed)
    }

    @Test func bodyForAnotherDictionaryIsRefused() throws {
        for place in [8, 20, 39] {
            let dictionary = try Self.dictionary()
            var body = Self.magic + dictionary.digest + Self.frame
            body[place] ^= 1
            let result = try decode(body, dictionary, inPiecesOf: 5)
            #expect(result.fault == .otherDictionary && result.text.isEmpty && !result.isComplete)
            #expect(dictionary.hasFailed)
        }
        // The head agrees, and the frame refers to something else: the checksum tells.
        let other = try Self.dictionary(Data(Self.content.replacing("quick", with: "slow!").utf8))
        let result = try decode(Self.magic + other.digest + Self.frame, other)
        guard case .invalid("dcz", _)? = result.fault else {
            Issue.record("\(result)")
            return
        }
        #expect(!result.isComplete && other.hasFailed)
    }

    @Test func bodyWithoutHeadOrDictionaryIsRefused() throws {
        let dictionary = try Self.dictionary()
        #expect(
            try decode(Self.frame, dictionary).fault == .invalid("dcz", "it does not begin with its signature"))
        #expect(try decode(Self.magic + dictionary.digest + Self.frame, nil).fault == .unknown("dcz", hint: nil))
        guard case .invalid("dcz", _)? = try decode(Self.magic + dictionary.digest + [1, 2, 3, 4, 5], dictionary).fault
        else {
            Issue.record("bytes that are no frame are taken")
            return
        }
    }

    @Test func severalCodingsAreDecoded() throws {
        let dictionary = try Self.dictionary()
        let packed = [UInt8](ZlibEncoder.gzip(Data(Self.magic + dictionary.digest + Self.frame)))
        for codings in [["dcz, gzip"], ["dcz", "gzip"], ["DCZ, identity, x-gzip"]] {
            let result = try decode(packed, dictionary, codings: codings, inPiecesOf: 9)
            #expect(result.text == Self.text && result.isComplete)
        }
    }

    /// A content that begins like a dictionary with tables (RFC 8878 §5) is raw content too.
    @Test func contentIsAlwaysRaw() throws {
        let content = Data([0x37, 0xA4, 0x30, 0xEC]) + Data(Self.content.utf8)
        let dictionary = try Self.dictionary(content)
        let result = try decode(
            Self.magic + dictionary.digest + Self.bytes("KLUv/WCJAlUAABA3IQEAhBdXQgg="), dictionary)
        #expect(result.isComplete && result.text.hasSuffix(Self.content + "!"))
    }

    @Test func windowIsLimitedByDictionary() throws {
        #expect(ZstdDecoder.windowBits(0) == 23 && ZstdDecoder.windowBits(6_710_886) == 23)
        #expect(ZstdDecoder.windowBits(6_710_888) == 24 && ZstdDecoder.windowBits(100 << 20) == 27)
        #expect(ZstdDecoder.windowBits(1 << 40) == 27)
        // A window of 2^bits bytes, and one raw block.
        func frame(_ bits: UInt8) -> [UInt8] {
            [0x28, 0xB5, 0x2F, 0xFD, 0, (bits - 10) << 3, 3 << 3 | 1, 0, 0] + Array("abc".utf8)
        }
        let dictionary = try Self.dictionary()
        let head = Self.magic + dictionary.digest
        #expect(try decode(head + frame(23), dictionary).text == "abc")
        for bits: UInt8 in [24, 27, 31, 41] {
            let result = try decode(head + frame(bits), dictionary)
            guard case .invalid("dcz", _)? = result.fault else {
                Issue.record("a window of 2^\(bits) bytes gives \(result)")
                continue
            }
        }
        let large = try Self.dictionary(Data(count: 12 << 20))
        #expect(try decode(Self.magic + large.digest + frame(24), large).text == "abc")
    }

    /// What repeats the dictionary is no bomb, and more is.
    @Test func sourceOfBodyIncludesDictionary() throws {
        let dictionary = try Self.dictionary()
        let decoder = try #require(BodyDecoder(["dcz"], [], dictionary))
        var output: [UInt8] = []
        try Self.decode(Self.magic + dictionary.digest + Self.frame, decoder, 4_096, &output)
        #expect(decoder.codedByteCount == Int64(40 + Self.frame.count))
        #expect(decoder.sourceByteCount == decoder.codedByteCount + Int64(dictionary.bytes.count))
        #expect(try #require(BodyDecoder(["gzip"], [], dictionary)).sourceByteCount == 0)
    }
}
