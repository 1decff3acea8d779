@testable import LATRealtime

/// The parser of the HTML standard, in the steps of its text (§9.2.5 and §9.2.6): over a whole text, character by
/// character, and not optimized. It shares no code with the parser of the library.
struct ReferenceParser {
    private(set) var events: [ServerSentEvent] = []
    private(set) var lastEventID = ""
    private(set) var retry: Int?

    init(_ bytes: [UInt8]) {
        var characters = Array(String(decoding: bytes, as: UTF8.self).unicodeScalars)
        if characters.first == "\u{FEFF}" { characters.removeFirst() }
        var lines: [String] = []
        var line = String.UnicodeScalarView()
        var index = 0
        while index < characters.count {
            switch characters[index] {
            case "\r":
                if index + 1 < characters.count, characters[index + 1] == "\n" { index += 1 }
                fallthrough
            case "\n":
                lines.append(String(line))
                line = String.UnicodeScalarView()
            default:
                line.append(characters[index])
            }
            index += 1
        }
        // What is left has no end of line: it is dropped.
        var (data, type, id) = ("", "", "")
        for line in lines {
            if line.isEmpty {
                lastEventID = id
                if !data.isEmpty {
                    data.unicodeScalars.removeLast()
                    events.append(ServerSentEvent(type: type.isEmpty ? "message" : type, data: data, id: id))
                }
                (data, type) = ("", "")
                continue
            }
            let scalars = line.unicodeScalars
            if scalars.first == ":" { continue }
            var (name, value) = (line, "")
            if let colon = scalars.firstIndex(of: ":") {
                name = String(scalars[..<colon])
                var rest = scalars[scalars.index(after: colon)...]
                if rest.first == " " { rest.removeFirst() }
                value = String(rest)
            }
            switch name {
            case "event": type = value
            case "data": data.unicodeScalars.append(contentsOf: (value + "\n").unicodeScalars)
            case "id": if !value.unicodeScalars.contains("\0") { id = value }
            case "retry":
                if !value.isEmpty, value.unicodeScalars.allSatisfy({ ("0"..."9").contains($0) }) {
                    retry = Int(value) ?? .max
                }
            default: break
            }
        }
    }
}
