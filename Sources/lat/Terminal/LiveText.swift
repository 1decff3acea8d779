import FoundationEssentials
import Glibc
import LATNetworking

/// The common texts of lines about events and messages.
enum LiveText {
    /// The local time of day, with milliseconds.
    static func clock(_ date: Date) -> String {
        let milliseconds = Int64((date.timeIntervalSince1970 * 1_000).rounded(.down))
        var seconds = time_t(milliseconds / 1_000)
        var parts = tm()
        localtime_r(&seconds, &parts)
        func padded(_ number: Int64, _ width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        return [parts.tm_hour, parts.tm_min, parts.tm_sec].map { padded(Int64($0), 2) }.joined(separator: ":") + "."
            + padded(milliseconds % 1_000, 3)
    }

    /// The time for programs.
    static func time(_ date: Date) -> JSONValue {
        .string(Date.ISO8601FormatStyle(includingFractionalSeconds: true).format(date))
    }

    /// A text in one line, which is cut at `room` characters. JSON is coloured.
    static func content(_ text: String, _ style: Style, room: Int) -> String {
        let bytes = Data(text.utf8)
        let folded = JSONLayout.text(of: bytes, style: .plain).map(folded)
        let plain = folded ?? SafeText.line(text)
        guard plain.count <= room else { return plain.prefix(room - 1) + style.sign("…", ".") }
        guard folded != nil, let coloured = JSONLayout.text(of: bytes, style: style) else { return plain }
        return Self.folded(coloured)
    }

    /// The lines of a JSON document as one. A line end inside a string is written as `\n` there.
    private static func folded(_ document: String) -> String {
        document.split(separator: "\n").map { $0.drop { $0 == " " } }.joined(separator: " ")
    }
}
