import FoundationEssentials
import Testing

@testable import lat

@Suite struct TerminalTextTests {
    private let coloured = Style(isColoured: true, isUnicode: true)

    @Test func sizesHaveThreeSignificantDigits() {
        let texts = [0, 1_023, 1_024, 10_240, 102_400, 1_023_000, 4 << 20, 1 << 30, 5 << 40].map { Quantity.bytes($0) }
        #expect(
            texts == [
                "0 B", "1023 B", "1.00 KiB", "10.0 KiB", "100 KiB", "999 KiB", "4.00 MiB", "1.00 GiB", "5.00 TiB",
            ])
        #expect(Quantity.bytes(1_023_500) == "0.98 MiB")
    }

    @Test func durationsHaveTheirUnit() {
        let durations: [Duration] = [
            .microseconds(40), .microseconds(1_230), .milliseconds(45), .microseconds(999_900), .milliseconds(1_523),
            .milliseconds(59_960), .seconds(125), .milliseconds(3_599_700), .seconds(3_600 * 3 + 420),
        ]
        #expect(
            durations.map { Quantity.duration($0) } == [
                "40 µs", "1.23 ms", "45.0 ms", "1.00 s", "1.52 s", "1 m 00 s", "2 m 05 s", "1 h 00 m", "3 h 07 m",
            ])
        #expect([0, 999, 1_000, 1_234_567].map { Quantity.grouped($0) } == ["0", "999", "1,000", "1,234,567"])
    }

    @Test func barShowsPercentAmountRateAndTimeLeft() {
        let bar = ProgressBar(label: "a.iso", completed: 1 << 20, total: 4 << 20, rate: 1_048_576)
        let line = bar.line(columns: 80, style: Style(isColoured: false, isUnicode: false))
        #expect(line == "a.iso  [######.....................]   25%  1.00/4.00 MiB  1.00 MiB/s  3 s left ")
        let unicode = bar.line(columns: 60, style: .plain)
        #expect(unicode.contains("━╌") && unicode.contains("25%"))
    }

    @Test(arguments: 0...200)
    func barIsNeverWiderThanItsTerminal(columns: Int) {
        for total in [nil, 0, 5_000_000] as [Int64?] {
            for completed in [0, 17, 4_999_999, 5_000_000, 9_000_000] as [Int64] {
                let bar = ProgressBar(label: "a-rather-long-name.tar", completed: completed, total: total, rate: 12_345)
                #expect(bar.line(columns: columns, style: .plain).count <= columns)
            }
        }
    }

    @Test func rateFollowsTheTransfer() {
        var rate = TransferRate()
        rate.note(0, at: .zero)
        rate.note(4_000_000, at: .milliseconds(100))
        rate.note(4_000_000, at: .milliseconds(200))
        #expect(rate.bytesPerSecond == nil)
        for second in 1...10 { rate.note(4_000_000 + Int64(second) * 1_000, at: .seconds(second)) }
        #expect(abs((rate.bytesPerSecond ?? 0) - 1_000) < 20)
    }

    @Test func formattedJSONKeepsItsOrder() {
        let document = #"{"b":1.50,"a":[true,null,{}, [ ] ],"c":"x\"]","d":{"e":12345678901234567890}}"#
        let text = JSONLayout.text(of: Data(document.utf8), style: .plain)
        #expect(
            text == """
                {
                  "b": 1.50,
                  "a": [
                    true,
                    null,
                    {},
                    []
                  ],
                  "c": "x\\"]",
                  "d": {
                    "e": 12345678901234567890
                  }
                }
                """)
        #expect(JSONLayout.text(of: Data("{nope".utf8), style: .plain) == nil)
        #expect(JSONLayout.text(of: Data(" 7 ".utf8), style: .plain) == "7")
    }

    @Test(
        arguments: [
            (#""\u4e16\u754c""#, #""世界""#), (#""\ud83d\ude00!""#, #""😀!""#), (#""a\u00e9\\u00e9""#, #""aé\\u00e9""#),
            // Half a pair, a control character, and what changes the direction of the line stay escaped.
            (#""\ud83d\u0041""#, #""\ud83d\u0041""#), (#""\ud83d""#, #""\ud83d""#), (#""\u009b""#, #""\u009b""#),
            (#""\u0041\n\"""#, #""\u0041\n\"""#), (#""\u12""#, nil),
        ] as [(String, String?)])
    func escapesBeyondASCIIAreShown(_ written: String, _ shown: String?) {
        #expect(JSONLayout.text(of: Data(written.utf8), style: .plain) == shown)
        let ascii = Style(isColoured: false, isUnicode: false)
        if shown != nil { #expect(JSONLayout.text(of: Data(written.utf8), style: ascii) == written) }
    }

    @Test func invalidJSONHasNoLayout() {
        #expect(JSONLayout.text(of: Data("{nope".utf8), style: .plain) == nil)
        #expect(JSONLayout.text(of: Data(" 7 ".utf8), style: .plain) == "7")
    }

    @Test func jsonNamesAndValuesAreColoured() {
        let text = JSONLayout.text(of: Data(#"{"a":"b"}"#.utf8), style: coloured)
        #expect(text == "{\n  \(coloured.name("\"a\"")): \(coloured.green("\"b\""))\n}")
    }

    @Test func untrustedTextCannotMoveTheCursor() {
        #expect(SafeText.line("a\u{1B}[2J\r\nb\u{9B}c") == "a\\u{1b}[2J\\r\\nb\\u{9b}c")
        #expect(SafeText.line("Grüße 👋") == "Grüße 👋")
        #expect(JSONLayout.text(of: Data("\"a\u{9B}\"".utf8), style: .plain) == "\"a\\u009b\"")
    }

    @Test func coloursNeedACapableTerminal() {
        func terminal(_ environment: [String: String], isTerminal: Bool = true) -> Terminal {
            Terminal(isTerminal: isTerminal, environment: environment)
        }
        #expect(terminal(["TERM": "xterm"]).hasColour)
        #expect(!terminal(["TERM": "xterm"], isTerminal: false).hasColour)
        #expect(!terminal(["TERM": "xterm", "NO_COLOR": "1"]).hasColour)
        #expect(terminal(["TERM": "xterm", "NO_COLOR": "1"]).canRedraw)
        #expect(terminal(["TERM": "xterm", "NO_COLOR": ""]).hasColour)
        #expect(!terminal(["TERM": "dumb"]).hasColour && !terminal(["TERM": "dumb"]).canRedraw)
        #expect(!terminal([:]).hasColour)
        #expect(terminal(["LANG": "de_DE.UTF-8"]).isUnicode)
        #expect(!terminal(["LC_ALL": "C", "LANG": "de_DE.UTF-8"]).isUnicode)
    }
}
