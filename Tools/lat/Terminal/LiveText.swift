import FoundationEssentials
import Glibc
import LATNetworking

/// The parts that lines about events and messages have in common.
enum LiveText {
    /// The local time of day, with milliseconds.
    static func clock(_ date: Date) -> String {
        let milliseconds = Int64((date.timeIntervalSince1970 * 1_000).rounded(.down))
        var seconds = time_t(milliseconds / 1_000)
        var parts = tm()
        localtime_r(&seconds, &parts)
        let numbers = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { "\($0)".padded(toStart: 2, with: "0") }
        return numbers.joined(separator: ":") + "." + "\(milliseconds % 1_000)".padded(toStart: 3, with: "0")
    }

    /// The time for programs.
    static func time(_ date: Date) -> JSONValue {
        .string(Date.ISO8601FormatStyle(includingFractionalSeconds: true).format(date))
    }

    /// The width that lines keep to. `nil` for whole lines: on request, and when the output is not a terminal.
    static func columns(_ console: Console, showsAll: Bool) -> Int? {
        console.outTerminal.isTerminal && !showsAll ? console.out.columns : nil
    }

    /// A text in one line, which is cut to `room` columns. JSON is coloured.
    static func content(_ text: String, _ style: Style, room: Int) -> String {
        let line = JSONLayout.text(of: Data(text.utf8), style: style).map(folded) ?? SafeText.line(text)
        guard room < .max else { return line }
        return line.prefix(columns: room, ending: style.sign("…", "."))
    }

    /// Joins the lines of a JSON document. No string is broken, because JSON writes a line end in a string as `\n`.
    private static func folded(_ document: String) -> String {
        document.split(separator: "\n").map { $0.drop { $0 == " " } }.joined(separator: " ")
    }
}

// Texts in the columns of a terminal, where East Asian characters and emoji take two.
extension String {
    /// The text if it fits into the columns, otherwise its beginning and a sign of one column. Colour sequences take no
    /// columns. A cut text resets its colours before the sign.
    func prefix(columns: Int, ending sign: String) -> String {
        var (begin, used) = (startIndex, 0)
        var (isSequence, hasColour) = (false, false)
        for index in indices {
            let character = self[index]
            if isSequence {
                isSequence = !character.isLetter
            } else if character == "\u{1B}" {
                (isSequence, hasColour) = (true, true)
            } else {
                used += character.columns
                if used > columns { return String(self[..<begin]) + (hasColour ? "\u{1B}[0m" : "") + sign }
                // If the text is cut, it is cut here, so that the sign has room.
                if used < columns { begin = self.index(after: index) }
            }
        }
        return self
    }

    /// The longest end of the text that fits into the columns.
    func suffix(columns: Int) -> Substring {
        var used = 0
        let end = indices.reversed().first { index in
            used += self[index].columns
            return used > columns
        }
        return self[(end.map { index(after: $0) } ?? startIndex)...]
    }
}

extension Character {
    /// How many columns of a terminal it takes (Unicode Standard Annex 11).
    var columns: Int {
        guard let first = unicodeScalars.first, first.value >= 0x1100 else { return 1 }
        switch first.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97C, 0xAC00...0xD7A3, 0xF900...0xFAFF,
            0xFE30...0xFE6F, 0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x2_0000...0x3_FFFD:
            return 2
        default: return first.properties.isEmojiPresentation || unicodeScalars.contains("\u{FE0F}") ? 2 : 1
        }
    }
}
