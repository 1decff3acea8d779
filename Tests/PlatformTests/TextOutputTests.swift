import FoundationEssentials
import Glibc
import Platform
import Testing

/// Lines that change, and what is written meanwhile.
@Suite struct TextOutputTests {
    @Test func writtenTextReplacesAChangingLine() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let (reader, writer) = (ends[0], ends[1])
        func written() -> String {
            var bytes = [UInt8](repeating: 0, count: 4_096)
            let count = read(reader, &bytes, bytes.count)
            return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
        let clear = "\r\u{1B}[K"
        TextOutput.show(line: "⠋ working", on: writer)
        #expect(written() == clear + "⠋ working")
        TextOutput.write("a log line\n", to: writer)
        #expect(written() == clear + "a log line\n")
        TextOutput.write("another\n", to: writer)
        #expect(written() == "another\n")
        TextOutput.show(line: "⠙", on: writer)
        TextOutput.show(line: nil, on: writer)
        #expect(written() == clear + "⠙" + clear)
        TextOutput.write("end\n", to: writer)
        #expect(written() == "end\n")
    }
}
