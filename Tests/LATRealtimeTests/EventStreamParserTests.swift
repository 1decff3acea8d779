import Glibc
import TestSupport
import Testing

@testable import LATRealtime

@Suite struct EventStreamParserTests {
    /// A stream, and the events that it is.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let stream: [UInt8]
        let events: [ServerSentEvent]
        var retry: Int?
        var id = ""

        init(_ name: String, _ stream: String, _ events: ServerSentEvent..., retry: Int? = nil, id: String? = nil) {
            self.init(name, Array(stream.utf8), events, retry: retry, id: id)
        }

        init(_ name: String, _ stream: [UInt8], _ events: [ServerSentEvent], retry: Int? = nil, id: String? = nil) {
            testDescription = name
            self.stream = stream
            self.events = events
            self.retry = retry
            self.id = id ?? events.last?.id ?? ""
        }
    }

    private static func event(_ data: String, _ type: String = "message", id: String = "") -> ServerSentEvent {
        ServerSentEvent(type: type, data: data, id: id)
    }

    static let cases: [Case] = [
        // Data.
        Case("one line of data", "data: hello\n\n", event("hello")),
        Case("two lines of data", "data: a\ndata: b\n\n", event("a\nb")),
        Case("many lines of data", "data: 1\ndata: 2\ndata: 3\ndata: 4\n\n", event("1\n2\n3\n4")),
        Case("no space after the colon", "data:hello\n\n", event("hello")),
        Case("only one space is dropped", "data:  hello\n\n", event(" hello")),
        Case("space at the end is kept", "data: hello \n\n", event("hello ")),
        Case("a tab is kept", "data:\thello\n\n", event("\thello")),
        Case("colons in the value", "data: a:b: c\n\n", event("a:b: c")),
        Case("an empty data field is an event", "data:\n\n", event("")),
        Case("a data field without a colon is an event", "data\n\n", event("")),
        Case("two empty data fields", "data\ndata\n\n", event("\n")),
        Case("an empty line of data in the middle", "data: a\ndata:\ndata: b\n\n", event("a\n\nb")),
        Case("empty lines of data at the end", "data: a\ndata:\ndata\n\n", event("a\n\n")),
        Case("JSON", "data: {\"a\": [1, 2],\ndata: \"b\": \"\"}\n\n", event("{\"a\": [1, 2],\n\"b\": \"\"}")),
        Case(
            "the example of the standard", "data: test\n\ndata\n\ndata\ndata\n\ndata:", event("test"), event(""),
            event("\n")),
        Case(
            "the stocks of the standard", "data: YHOO\ndata: +2\ndata: 10\n\n", event("YHOO\n+2\n10")),
        Case("a NUL in data", "data: a\0b\n\n", event("a\0b")),
        Case("U+2028 ends no line", "data: a\u{2028}b\n\n", event("a\u{2028}b")),
        Case("vertical tab and form feed end no line", "data: a\u{B}b\u{C}c\u{85}d\n\n", event("a\u{B}b\u{C}c\u{85}d")),
        // Ends of lines.
        Case("CR", "data: a\rdata: b\r\r", event("a\nb")),
        Case("CRLF", "data: a\r\ndata: b\r\n\r\n", event("a\nb")),
        Case("mixed ends", "data: a\ndata: b\r\ndata: c\r\n\rdata: d\n\r\n", event("a\nb\nc"), event("d")),
        Case("CR LF CR is two ends", "data: a\r\n\rdata: b\r\n\r", event("a"), event("b")),
        Case("LF CR is two ends", "data: a\n\rdata: b\n\n", event("a"), event("b")),
        Case("several blank lines", "\n\n\ndata: a\n\n\n\ndata: b\n\n\n", event("a"), event("b")),
        Case("blank lines of CRLF", "\r\n\r\ndata: a\r\n\r\n\r\n", event("a")),
        // Types.
        Case("a type", "event: greeting\ndata: hello\n\n", event("hello", "greeting")),
        Case("a type after the data", "data: hello\nevent: greeting\n\n", event("hello", "greeting")),
        Case("the last type counts", "event: a\nevent: b\ndata: x\n\n", event("x", "b")),
        Case("an empty type is message", "event: a\nevent:\ndata: x\n\n", event("x")),
        Case("a type is for one event", "event: a\ndata: x\n\ndata: y\n\n", event("x", "a"), event("y")),
        Case("a type without data is no event", "event: a\n\ndata: y\n\n", event("y")),
        Case("a type with spaces", "event: a b \ndata: x\n\n", event("x", "a b ")),
        // Ids.
        Case("an id", "id: 1\ndata: x\n\n", event("x", id: "1")),
        Case("an id after the data", "data: x\nid: 1\n\n", event("x", id: "1")),
        Case("an id sticks", "id: 1\ndata: x\n\ndata: y\n\n", event("x", id: "1"), event("y", id: "1")),
        Case("an id changes", "id: 1\ndata: x\n\nid: 2\ndata: y\n\n", event("x", id: "1"), event("y", id: "2")),
        Case("an empty id clears", "id: 1\ndata: x\n\nid\ndata: y\n\n", event("x", id: "1"), event("y")),
        Case("an empty id with a colon clears", "id: 1\ndata: x\n\nid:\ndata: y\n\n", event("x", id: "1"), event("y")),
        Case(
            "an id with NUL is ignored", "id: 1\ndata: x\n\nid: 2\u{0}\ndata: y\n\n", event("x", id: "1"),
            event("y", id: "1")),
        Case("an id without data counts", "id: 7\n\ndata: x\n\n", event("x", id: "7")),
        Case("an id alone", "id: 7\n\n", id: "7"),
        Case("an id of an unfinished event does not count", "id: 1\ndata: x\n\nid: 2\ndata: y\n", event("x", id: "1")),
        Case("an id with spaces and letters", "id:  ä b \ndata: x\n\n", event("x", id: " ä b ")),
        // Retry.
        Case("retry", "retry: 1500\n\n", retry: 1_500),
        Case("retry beside data", "retry: 10\ndata: x\n\n", event("x"), retry: 10),
        Case("the last retry counts", "retry: 1\nretry: 2\n\n", retry: 2),
        Case("retry counts without a blank line", "retry: 1\n", retry: 1),
        Case("retry with a letter is ignored", "retry: 1s\n\n"),
        Case("retry with a sign is ignored", "retry: -1\nretry: +1\n\n"),
        Case("retry with a point is ignored", "retry: 1.5\n\n"),
        Case("empty retry is ignored", "retry\nretry:\n\n"),
        Case("retry with two spaces is ignored", "retry:  1\n\n"),
        Case("retry with other digits is ignored", "retry: ١٢\n\n"),
        Case("zero is a retry", "retry: 0\n\n", retry: 0),
        Case("retry with zeros before", "retry: 007\n\n", retry: 7),
        Case("retry beyond any number", "retry: 99999999999999999999999\n\n", retry: .max),
        // Comments and other lines.
        Case("a comment", ": hello\n\ndata: x\n\n", event("x")),
        Case("a comment in an event", "data: a\n: no\ndata: b\n\n", event("a\nb")),
        Case("an empty comment", ":\n:\n\ndata: x\n:\n\n", event("x")),
        Case("a comment that looks like data", ":data: no\n\n"),
        Case("a field with another name", "unknown: x\ndata: y\nfoo\n\n", event("y")),
        Case("names are compared with case", "Data: x\nDATA: x\ndata: y\nEvent: z\nID: 1\n\n", event("y")),
        Case("a space before the name", " data: x\n\n"),
        Case("a space after the name", "data : x\n\n"),
        Case("a name that begins like data", "dat: x\ndatas: x\n\n"),
        Case("an empty stream", ""),
        Case("only blank lines", "\n\r\r\n\n"),
        // The beginning and the end.
        Case("a byte order mark", "\u{FEFF}data: x\n\n", event("x")),
        Case("two byte order marks", "\u{FEFF}\u{FEFF}data: x\n\n"),
        Case("a byte order mark later", "data: x\n\n\u{FEFF}data: y\n\n", event("x")),
        Case("part of a byte order mark", [0xEF, 0xBB] + Array("data: x\n\ndata: y\n\n".utf8), [event("y")]),
        Case("no blank line at the end", "data: x\n\ndata: y\n", event("x")),
        Case("no end of line at the end", "data: x\n\ndata: y", event("x")),
        // Characters.
        Case("letters of several bytes", "data: fünf 🎉 漢字\n\n", event("fünf 🎉 漢字")),
        Case("a byte that is no UTF-8", Array("data: a".utf8) + [0xFF] + Array("b\n\n".utf8), [event("a\u{FFFD}b")]),
        Case(
            "a character that is cut off", Array("data: a".utf8) + [0xE2, 0x82] + Array("\n\n".utf8),
            [event("a\u{FFFD}")]),
        Case(
            "a type that is no UTF-8", Array("event: ".utf8) + [0xC0] + Array("\ndata: x\n\n".utf8),
            [event("x", "\u{FFFD}")]),
    ]

    private func parse(_ bytes: [UInt8], splits: [Int]) throws -> (events: [ServerSentEvent], id: String, retry: Int?) {
        var parser = EventStreamParser(eventLimit: 1 << 20)
        var events: [ServerSentEvent] = []
        var start = 0
        for end in splits + [bytes.count] {
            parser.append(bytes[start..<end])
            while let event = try parser.next() { events.append(event) }
            start = end
        }
        return (events, parser.lastEventID, parser.retry)
    }

    @Test(arguments: Self.cases) func streamHasItsEvents(_ example: Case) throws {
        let whole = try parse(example.stream, splits: [])
        #expect(whole.events == example.events)
        #expect(whole.id == example.id)
        #expect(whole.retry == example.retry)
        // Byte by byte.
        let pieces = try parse(example.stream, splits: Array(0..<example.stream.count))
        #expect(pieces.events == example.events)
        #expect(pieces.id == example.id && pieces.retry == example.retry)
    }

    @Test(arguments: Self.cases) func referenceHasTheSameEvents(_ example: Case) {
        let reference = ReferenceParser(example.stream)
        #expect(reference.events == example.events)
        #expect(reference.lastEventID == example.id)
        #expect(reference.retry == example.retry)
    }

    /// Random streams of the pieces that matter, split at random places, each read as the reference reads it.
    @Test func splitsDoNotMatter() throws {
        var random = SeededGenerator(seed: 20_261_122)
        let pieces: [[UInt8]] =
            [
                "data: x", "data:", "data", "data: ü🎉", ":", ": c", "id: 1", "id: a\0", "id", "event: e", "event",
                "retry: 5", "retry: x", "other: y", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\n\r", "\u{FEFF}", " ",
                "da",
                "ta: z",
            ].map { Array($0.utf8) } + [[0xEF], [0xBB], [0xBF], [0xFF], [0xE2, 0x82], [0]]
        for number in 0..<10_000 {
            var bytes: [UInt8] = []
            for _ in 0..<random.next(upTo: 24) { bytes += pieces[random.next(upTo: pieces.count)] }
            let splits = (0..<random.next(upTo: 8)).map { _ in random.next(upTo: bytes.count + 1) }.sorted()
            let reference = ReferenceParser(bytes)
            let result = try parse(bytes, splits: splits)
            guard result.events == reference.events, result.id == reference.lastEventID, result.retry == reference.retry
            else {
                Issue.record("stream \(number): \(bytes) split at \(splits) gave \(result), not \(reference)")
                return
            }
        }
    }

    @Test func idOfTheResumptionIsKept() throws {
        var parser = EventStreamParser(lastEventID: "41", eventLimit: 100)
        parser.append(Array("data: x\n\n".utf8))
        #expect(try parser.next()?.id == "41")
        #expect(parser.lastEventID == "41")
    }

    // MARK: Limits

    @Test func eventOfTheLimitIsReadAndALargerOneIsNot() throws {
        for (stream, isFine) in [
            ("data: 0123456789\n\n", true), ("data: 0123456789a\n\n", false), ("data: 01234\ndata: 6789\n\n", true),
            ("data: 01234\ndata: 67890\n\n", false), ("event: 0123456789\ndata: x\n\n", true),
            ("event: 0123456789a\ndata: x\n\n", false), ("id: 0123456789a\ndata: x\n\n", false),
        ] {
            for splits in [[], Array(0..<stream.utf8.count)] {
                var parser = EventStreamParser(eventLimit: 10)
                var events = 0
                let bytes = Array(stream.utf8)
                let read = {
                    var start = 0
                    for end in splits + [bytes.count] {
                        parser.append(bytes[start..<end])
                        while try parser.next() != nil { events += 1 }
                        start = end
                    }
                }
                if isFine {
                    try read()
                    #expect(events == 1, "\(stream)")
                } else {
                    #expect(throws: EventStreamParser.TooLarge(limit: 10), "\(stream)") { try read() }
                }
            }
        }
    }

    @Test func lineWithoutEndIsLimitedAndCommentIsNot() throws {
        var parser = EventStreamParser(eventLimit: 1_000)
        parser.append(Array("data: ".utf8))
        #expect(throws: EventStreamParser.TooLarge(limit: 1_000)) {
            for _ in 0..<100 {
                parser.append([UInt8](repeating: 0x61, count: 100))
                _ = try parser.next()
            }
        }
        var quiet = EventStreamParser(eventLimit: 1_000)
        quiet.append(Array(": ".utf8))
        for _ in 0..<100 {
            quiet.append([UInt8](repeating: 0x61, count: 1_000))
            #expect(try quiet.next() == nil)
        }
        quiet.append(Array("\ndata: x\n\n".utf8))
        #expect(try quiet.next()?.data == "x")
    }

    /// A line in many small chunks is searched for its end once, not once for each chunk.
    ///
    /// Measures the time that this thread computes, which does not depend on what else the machine does.
    @Test func longLineInManyChunksIsReadInLinearTime() throws {
        func time(_ count: Int) throws -> Int {
            var parser = EventStreamParser(eventLimit: 1 << 24)
            parser.append(Array("data: ".utf8))
            let start = Self.computingTime
            for _ in 0..<count {
                parser.append([0x61])
                _ = try parser.next()
            }
            return Self.computingTime - start
        }
        _ = try time(4_000)
        let (short, long) = (try time(8_000), try time(128_000))
        // Quadratic would be 256 times as long.
        #expect(long < short * 100)
    }

    /// The nanoseconds that this thread has computed.
    private static var computingTime: Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}

extension SeededGenerator {
    fileprivate mutating func next(upTo bound: Int) -> Int { Int(next() % UInt64(bound)) }
}
