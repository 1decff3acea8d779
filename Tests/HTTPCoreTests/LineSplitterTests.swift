import FoundationEssentials
import Testing

@testable import HTTPCore

@Suite struct LineSplitterTests {
    private func split(_ chunks: [[UInt8]], limit: Int = 1 << 20) throws -> [String] {
        var splitter = LineSplitter(limit: limit)
        var lines: [String] = []
        for chunk in chunks {
            splitter.append(Data(chunk))
            while let line = try splitter.next() { lines.append(line) }
        }
        if let rest = splitter.rest() { lines.append(rest) }
        #expect(splitter.rest() == nil)
        return lines
    }

    @Test func everyChunkingGivesTheSameLines() throws {
        let bytes = Array("a\r\nü\n\n\r\nz\r".utf8)
        let expected = ["a", "ü", "", "", "z\r"]
        for first in 0...bytes.count {
            for second in first...bytes.count {
                let chunks = [Array(bytes[..<first]), Array(bytes[first..<second]), Array(bytes[second...])]
                #expect(try split(chunks) == expected)
            }
        }
    }

    @Test func invalidUTF8IsReplaced() throws {
        #expect(try split([[0x61, 0xFF, 0x62, 0x0A, 0xC3]]) == ["a\u{FFFD}b", "\u{FFFD}"])
    }

    @Test func limitDoesNotDependOnChunking() {
        let bytes = Array("0123456789\n".utf8)
        for split in 0...bytes.count {
            #expect(throws: NetworkError.self, "\(split)") {
                try self.split([Array(bytes[..<split]), Array(bytes[split...])], limit: 9)
            }
            #expect(throws: Never.self, "\(split)") {
                try self.split([Array(bytes[..<split]), Array(bytes[split...])], limit: 10)
            }
        }
    }

    @Test func carriageReturnDoesNotCount() throws {
        let bytes = Array("0123456789\r\nabc".utf8)
        for place in 0...bytes.count {
            #expect(try split([Array(bytes[..<place]), Array(bytes[place...])], limit: 10) == ["0123456789", "abc"])
        }
        // A carriage return inside a line counts.
        #expect(throws: NetworkError.self) { try split([Array("0123456789\rx".utf8)], limit: 10) }
    }

    @Test func chunkMayBeASlice() throws {
        var splitter = LineSplitter(limit: 100)
        splitter.append(Data("xxone\ntwoyy".utf8).dropFirst(2).dropLast(2))
        #expect(try splitter.next() == "one")
        #expect(try splitter.next() == nil)
        #expect(splitter.rest() == "two")
    }
}
