import FoundationEssentials
import Testing

import LATTesting

@Suite struct MockPatternTests {
    @Test func pieceIsDeterminedByItsOffset() {
        let start = MockPattern.period * 3 - 10
        let piece = MockPattern.bytes(in: start..<(start + 600_000))
        #expect(piece.count == 600_000)
        #expect(piece.first == MockPattern.byte(at: start))
        #expect(piece.last == MockPattern.byte(at: start + 599_999))
        #expect(MockPattern.firstMismatch(in: piece, at: start) == nil)
    }

    @Test func wrongByteIsFound() {
        var piece = MockPattern.bytes(in: 7..<400_007)
        piece[300_000] ^= 1
        #expect(MockPattern.firstMismatch(in: piece, at: 7) == 300_007)
        #expect(MockPattern.firstMismatch(in: Array(piece), at: 7) == 300_007)
    }

    @Test func misplacedPieceIsFound() {
        let piece = MockPattern.bytes(in: 0..<1_000)
        #expect(MockPattern.firstMismatch(in: piece, at: 65_536) != nil)
        #expect(MockPattern.firstMismatch(in: Data(), at: 5) == nil)
    }
}
