import Foundation
import Testing

@testable import HTTPCore

@Suite struct JSONRecordsTests {
    /// What a body gives: its values or what is wrong with them, and the problem that ends it.
    private struct Outcome: Equatable {
        var records: [String] = []
        var problem: JSONRecords.Problem?
    }

    private func read(
        _ chunks: [ArraySlice<UInt8>], _ format: HTTPBody.ValueFormat? = nil, limit: Int = 1 << 20
    ) -> Outcome {
        var (records, outcome) = (JSONRecords(format, limit: limit), Outcome())
        func take() {
            while let record = records.next() {
                switch record.document {
                case .success(let document): outcome.records.append("\(record.number) \(document.value)")
                case .failure(let failure):
                    outcome.records.append("\(record.number) ! \(records.error(failure, in: record))")
                }
            }
        }
        do throws(JSONRecords.Problem) {
            for chunk in chunks {
                try records.append(chunk)
                take()
            }
            try records.end()
            take()
        } catch {
            outcome.problem = error
        }
        return outcome
    }

    private func read(_ text: String, _ format: HTTPBody.ValueFormat? = nil, limit: Int = 1 << 20) -> Outcome {
        read([Array(text.utf8)[...]], format, limit: limit)
    }

    private static let lines = """
        \u{FEFF}
        {"a": "é\\u00e9", "b": [1, {"c": null}]}\r
        \r

          "text"
        12.5
        not json
        {"open":
        {"a": 1} {"b": 2}
        [[], {}, true, 12345678901234567890]
        {"last": "𝕊"}
        """

    private static let sequence =
        "\u{1E}{\"a\": 1}\n\u{1E}\u{1E}[\n 1,\n 2\n]\n\u{1E}12\u{1E}{\"cut\": \u{1E}\"é\"\n\u{1E}true\n\u{1E}null\u{1E}\n"
        + "\u{1E}{\"b\":\n{}}\n"

    @Test(arguments: [lines, lines + "\n", sequence], [0, 1])
    func randomCutsGiveTheSameValues(text: String, half: Int) {
        let bytes = Array(text.utf8)
        let whole = read([bytes[...]])
        #expect(whole.records.count == 8 && whole.problem == nil)
        var random = SplitMix64(state: UInt64(half))
        // Six cases of 1,700 cuts.
        for _ in 0..<1_700 {
            let cuts = (0..<Int.random(in: 0...8, using: &random)).map { _ in
                Int.random(in: 0...bytes.count, using: &random)
            }
            let ends = cuts.sorted() + [bytes.count]
            let chunks = zip([0] + ends, ends).map { bytes[$0..<$1] }
            guard read(chunks) == whole else {
                Issue.record("\(ends): \(read(chunks)) is not \(whole)")
                return
            }
        }
        #expect(read(bytes.indices.map { bytes[$0...$0] }) == whole)
    }

    @Test func numbersAreThoseOfTheLines() {
        let records = read(Self.lines).records
        #expect(records.map { $0.prefix { $0 != " " } } == ["2", "5", "6", "7", "8", "9", "10", "11"].map { $0[...] })
        #expect(records[3] == "7 ! line 1, column 1: expected a value, found \"n\"")
        #expect(records[5] == "9 ! line 1, column 10: expected the end of the document, found \"{\"")
    }

    @Test func sequenceDropsNothingSilently() {
        let records = read(Self.sequence).records
        #expect(records[0] == #"1 {"a":1}"# && records[1] == "3 [1,2]" && records[4] == #"6 "é""#)
        #expect(records[2].hasPrefix("4 ! ") && records[2].contains("RFC 7464 §2.4"))
        #expect(records[3].hasPrefix("5 ! ") && records[6].hasPrefix("8 ! "))
        let lines = read("{}\n{}\n", .jsonSequence)
        #expect(lines.records.count == 1 && lines.records[0].contains("are these JSON lines?"))
        #expect(read("\u{1E}{}\n").records == ["1 {}"] && read(" \n", .jsonSequence).records.isEmpty)
    }

    /// Each place at which a text can be cut, but those where it is whole.
    @Test func everyCutLastLineIsFound() {
        let last = #"{"t": [true, false, null, -1.5e3], "u": "a\"\u00e9é"}"#
        let bytes = Array(last.utf8)
        for end in 1..<bytes.count {
            for start in ["", "{}\n", "\u{1E}{}\n\u{1E}"] {
                let outcome = read([Array(start.utf8)[...], bytes[..<end]])
                #expect(outcome.problem == .cut(text: Array(bytes[..<end])), "\(start) \(end)")
            }
        }
        #expect(read(last).records.count == 1)
        for number in ["1", "-", "12.", "0.5", "1e"] {
            #expect(read("{}\n" + number).problem == .cut(text: Array(number.utf8)))
        }
        #expect(read("1\n2\n").records == ["1 1", "2 2"] && read("1\n2 ").problem == nil)
        // This is wrong, not cut.
        #expect(read("{}\n{]").problem == nil && read("x y").records.count == 1)
    }

    @Test func longTextsEnd() {
        #expect(read("\"aaaa\"\n\"aaaaaaaa\"\n", limit: 8).problem == .tooLong)
        #expect(
            read("\"aaaaaa", limit: 6).problem == .tooLong && read("\u{1E}\"aaaaaa\"", limit: 6).problem == .tooLong)
        var records = JSONRecords(limit: 10)
        // Blanks before the first text are not kept.
        for _ in 0..<1_000 { #expect(throws: Never.self) { try records.append(Array(" \n".utf8)) } }
        #expect(throws: Never.self) { try records.append(Array("{}\n".utf8)) }
        #expect(records.next()?.number == 1_001)
    }
}
