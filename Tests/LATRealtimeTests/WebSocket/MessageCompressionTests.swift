import Testing

@testable import LATRealtime

/// What one side compresses (RFC 7692 §7.2), the other opens, and nothing that is cut.
@Suite struct MessageCompressionTests {
    private func opened(_ pieces: [[UInt8]]) throws -> (Inflater.Outcome, String) {
        let inflater = try #require(Inflater(resetsEachMessage: false))
        var (outcome, output) = (Inflater.Outcome.done, [UInt8]())
        for (index, piece) in pieces.enumerated() where outcome == .done {
            outcome = piece.withUnsafeBufferPointer {
                inflater.inflate($0, isEnd: index == pieces.count - 1, into: &output, upTo: 1 << 20)
            }
        }
        return (outcome, String(decoding: output, as: UTF8.self))
    }

    @Test(arguments: [1, 7, 1_000]) func messageIsCompressedInPieces(_ size: Int) throws {
        let text = String(repeating: "a message, and another one; ", count: 100)
        let deflater = try #require(Deflater(window: 15, resetsEachMessage: false, largestPiece: size))
        let bytes = try #require(Array(text.utf8).withUnsafeBytes { deflater.deflate($0) })
        let (outcome, output) = try opened([bytes])
        #expect(outcome == .done && output == text)
    }

    @Test func finalBlockKeepsTheWindow() throws {
        let text = String(repeating: "a message, and another one; ", count: 100)
        let deflater = try #require(Deflater(window: 15, resetsEachMessage: false))
        let inflater = try #require(Inflater(resetsEachMessage: false))
        for number in 0..<3 {
            var bytes = try #require(Array(text.utf8).withUnsafeBytes { deflater.deflate($0) })
            // The later ones refer to the first one.
            #expect(number == 0 || bytes.count < 50)
            bytes += [0x00, 0x00, 0xFF, 0xFF, 0x01, 0x00, 0x00, 0xFF, 0xFF, 0x00]
            var output: [UInt8] = []
            let outcome = bytes.withUnsafeBufferPointer {
                inflater.inflate($0, isEnd: true, into: &output, upTo: 1 << 20)
            }
            #expect(outcome == .done && String(decoding: output, as: UTF8.self) == text)
        }
    }

    @Test func compressedMessageThatIsCutIsRefused() throws {
        let text = String((0..<400).map { Character(Unicode.Scalar(UInt8(0x61 + ($0 * $0 / 7) % 26))) })
        let deflater = try #require(Deflater(window: 15, resetsEachMessage: false))
        let bytes = try #require(Array(text.utf8).withUnsafeBytes { deflater.deflate($0) })
        #expect(try opened([bytes]) == (.done, text))
        #expect(try opened([Array(bytes[..<50]), Array(bytes[50...])]) == (.done, text))
        for count in [1, 10, bytes.count / 2, bytes.count - 2] {
            #expect(try opened([Array(bytes[..<count])]).0 == .broken, "\(count) of \(bytes.count)")
        }
        // A last block, with and without the byte that RFC 7692 §7.2.3.4 adds.
        let last: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]
        #expect(try opened([last + [0]]) == (.done, "Hello"))
        #expect(try opened([last]) == (.done, "Hello"))
    }
}
