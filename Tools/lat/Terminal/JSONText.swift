import FoundationEssentials
import LATNetworking

/// The text of a JSON document, of which parts are shown as they are written: with their members in order, and all digits of
/// their numbers.
struct JSONText {
    private let bytes: [UInt8]

    /// Returns `nil` for data that is not JSON.
    init?(_ data: Data) {
        guard (try? JSONValue(parsing: data)) != nil else { return nil }
        bytes = Array(data)
    }

    // The document is valid JSON, so its first bytes say what each value is.

    /// The document, without a byte order mark.
    var whole: Range<Int> { skipSpace(bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0)..<bytes.count }

    /// The value in one line without white space.
    func compact(_ value: Range<Int>) -> String {
        var kept: [UInt8] = []
        var index = value.lowerBound
        while index < value.upperBound {
            let end = bytes[index] == UInt8(ascii: "\"") ? endOfString(index) : index + 1
            if !Self.isSpace(bytes[index]) { kept += bytes[index..<end] }
            index = end
        }
        return String(decoding: kept, as: UTF8.self)
    }

    /// The value at a path: the member with the whole path as its name, else the nested one; the empty path is the document.
    func value(at path: String) -> Range<Int>? {
        if path.isEmpty { return whole }
        if let member = member(path, of: whole) { return member }
        return path.split(separator: ".").reduce(Optional(whole)) { value, name in
            value.flatMap { member(String(name), of: $0) }
        }
    }

    /// The elements of an array; `nil` for any other value.
    func elements(of value: Range<Int>) -> [Range<Int>]? {
        guard bytes[value.lowerBound] == UInt8(ascii: "[") else { return nil }
        return parts(of: value)
    }

    /// The last member of this name.
    private func member(_ name: String, of value: Range<Int>) -> Range<Int>? {
        guard bytes[value.lowerBound] == UInt8(ascii: "{") else { return nil }
        let parts = parts(of: value)
        return stride(from: parts.count - 2, through: 0, by: -2).first { index in
            (try? JSONValue(parsing: Data(bytes[parts[index]])))?.string == name
        }.map { parts[$0 + 1] }
    }

    /// The elements of an array, or the names and values of an object.
    private func parts(of value: Range<Int>) -> [Range<Int>] {
        var parts: [Range<Int>] = []
        var index = skipSpace(value.lowerBound + 1)
        while bytes[index] != UInt8(ascii: "]"), bytes[index] != UInt8(ascii: "}") {
            let end = end(of: index)
            parts.append(index..<end)
            index = skipSpace(end)
            if bytes[index] == UInt8(ascii: ",") || bytes[index] == UInt8(ascii: ":") { index = skipSpace(index + 1) }
        }
        return parts
    }

    private func end(of start: Int) -> Int {
        var (index, depth) = (start, 0)
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""): index = endOfString(index) - 1
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                if depth == 0 { return index }
                depth -= 1
            case UInt8(ascii: ","), UInt8(ascii: ":"), 0x20, 0x09, 0x0A, 0x0D:
                if depth == 0 { return index }
            default: break
            }
            index += 1
            if depth == 0, [UInt8(ascii: "\""), UInt8(ascii: "]"), UInt8(ascii: "}")].contains(bytes[index - 1]) {
                return index
            }
        }
        return index
    }

    private func endOfString(_ start: Int) -> Int {
        var index = start + 1
        while bytes[index] != UInt8(ascii: "\"") { index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1 }
        return index + 1
    }

    private func skipSpace(_ start: Int) -> Int {
        var index = start
        while index < bytes.count, Self.isSpace(bytes[index]) { index += 1 }
        return index
    }

    private static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
}
