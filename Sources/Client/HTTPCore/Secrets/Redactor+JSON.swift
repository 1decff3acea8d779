package import FoundationEssentials

// Changes of JSON that keep its form, for recordings.
extension Redactor {
    /// JSON with other strings and numbers. White space and all else stay.
    ///
    /// - Parameter number: Changes a number, as it is written.
    package static func changed(
        json data: Data, by change: (String) -> String, number: (String) -> String = { $0 }
    ) -> Data {
        var shown = Data()
        let bytes = Array(data)
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "\"") {
                let end = SecretScanner.endOfString(bytes, index)
                let literal = Data(bytes[index..<end])
                let plain = (try? JSONValue(parsing: literal))?.string
                let text = plain.map(change)
                shown += text == plain ? literal : Data(JSONValue.string(text ?? "").description.utf8)
                index = end
            } else if (0x30...0x39).contains(bytes[index]) {
                let end = bytes[index...].firstIndex { !(0x30...0x39).contains($0) } ?? bytes.count
                shown += Data(number(String(decoding: bytes[index..<end], as: UTF8.self)).utf8)
                index = end
            } else {
                shown.append(bytes[index])
                index += 1
            }
        }
        return shown
    }

    /// A body whose lines, or whose events, may be JSON each. Lines of other bytes are changed together.
    package static func changed(
        lines data: Data, by change: (String) -> String, number: (String) -> String = { $0 }, other: (Data) -> Data
    ) -> Data {
        var pieces: [Data] = []
        var plain: [Data] = []
        func endPlain() {
            guard !plain.isEmpty else { return }
            pieces.append(other(Data(plain.joined(separator: [0x0A]))))
            plain = []
        }
        let lines = data.split(separator: 0x0A, omittingEmptySubsequences: false)
        for (line, isJSON) in zip(lines, linesOfJSON(lines)) {
            guard isJSON else {
                plain.append(line)
                continue
            }
            endPlain()
            let start = line.count - content(of: line).count + line.startIndex
            pieces.append(line[..<start] + changed(json: Data(line[start...]), by: change, number: number))
        }
        endPlain()
        return Data(pieces.joined(separator: [0x0A]))
    }

    /// For each line, whether it is JSON, or one of the lines `data:` of an event whose data is. A string of JSON has no line
    /// end, so that each of these lines can be changed by itself.
    private static func linesOfJSON(_ lines: [Data]) -> [Bool] {
        var isJSON = lines.map { isDocument(content(of: $0)) }
        var event: [Int] = []
        for index in lines.indices {
            if lines[index].starts(with: dataField) { event.append(index) }
            let endsEvent = lines[index].isEmpty || lines[index].elementsEqual([0x0D]) || index == lines.count - 1
            guard endsEvent else { continue }
            if event.count > 1, !event.allSatisfy({ isJSON[$0] }),
                isDocument(Data(event.map { content(of: lines[$0]) }.joined(separator: [0x0A])))
            {
                for index in event { isJSON[index] = true }
            }
            event = []
        }
        return isJSON
    }

    private static let dataField = Data("data:".utf8)

    private static func content(of line: Data) -> Data {
        line.starts(with: dataField) ? line.dropFirst(dataField.count) : line
    }

    private static func isDocument(_ content: Data) -> Bool {
        let first = content.first { $0 != 0x20 }
        guard first == UInt8(ascii: "{") || first == UInt8(ascii: "[") else { return false }
        return (try? JSONValue(parsing: Data(content))) != nil
    }
}
