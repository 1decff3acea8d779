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
        for line in data.split(separator: 0x0A, omittingEmptySubsequences: false) {
            let start = line.starts(with: Data("data:".utf8)) ? line.startIndex + 5 : line.startIndex
            let content = Data(line[start...])
            let first = content.first { $0 != 0x20 }
            guard first == UInt8(ascii: "{") || first == UInt8(ascii: "["), (try? JSONValue(parsing: content)) != nil
            else {
                plain.append(line)
                continue
            }
            endPlain()
            pieces.append(line[..<start] + changed(json: content, by: change, number: number))
        }
        endPlain()
        return Data(pieces.joined(separator: [0x0A]))
    }
}
