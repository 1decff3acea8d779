/// Values that are found in a text in one pass, however many they are: a server can send thousands of them.
struct SecretValues: Sendable {
    /// The shortest value, in bytes. A value such as `1` or `yes` would be found everywhere.
    static let shortest = 6
    /// Beyond this number, values are removed by name only.
    private static let limit = 32_768
    private static let mask: UInt64 = (1 << (8 * UInt64(shortest))) - 1

    /// The values by their first bytes, sorted.
    private var byPrefix: [UInt64: [[UInt8]]] = [:]
    private var count = 0
    /// What is shown in place of a value, if that is not the placeholder.
    private var marks: [[UInt8]: String] = [:]
    /// For each byte, whether a value begins with it. Most bytes of a text begin no value, and need no look-up.
    private var firstBytes = [Bool](repeating: false, count: 256)

    var isEmpty: Bool { count == 0 }

    /// Adds a value, unless it is too short.
    mutating func insert(_ text: String, shownAs mark: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= Self.shortest, count < Self.limit else { return }
        let prefix = bytes[..<Self.shortest].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        var list = byPrefix[prefix] ?? []
        let place = bytes.withUnsafeBytes { Self.place(after: $0, in: list) }
        guard place == 0 || list[place - 1] != bytes else { return }
        byPrefix[prefix] = nil
        list.insert(bytes, at: place)
        byPrefix[prefix] = list
        firstBytes[Int(bytes[0])] = true
        count += 1
        if mark != Secrets.placeholder { marks[bytes] = mark }
    }

    /// The bytes with a placeholder for each value; `nil` if they contain none. Overlapping values are removed as one.
    func removed(from bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        guard count > 0, bytes.count >= Self.shortest else { return nil }
        var output: [UInt8] = []
        var copied = 0
        var found: Range<Int>?
        func takeOut(_ range: Range<Int>) {
            output += bytes[copied..<range.lowerBound]
            output += Array((marks[Array(bytes[range])] ?? Secrets.placeholder).utf8)
            copied = range.upperBound
        }
        var prefix: UInt64 = 0
        for index in bytes.indices {
            prefix = (prefix << 8 | UInt64(bytes[index])) & Self.mask
            let start = index - Self.shortest + 1
            guard start >= 0, firstBytes[Int(bytes[start])], let list = byPrefix[prefix],
                let length = Self.longest(of: list, in: UnsafeRawBufferPointer(rebasing: bytes[start...]))
            else { continue }
            let end = start + length
            if let last = found, start < last.upperBound {
                found = last.lowerBound..<max(last.upperBound, end)
            } else {
                if let last = found { takeOut(last) }
                found = start..<end
            }
        }
        guard let last = found else { return nil }
        takeOut(last)
        return output + bytes[copied...]
    }

    /// The length of the longest value that a text begins with.
    private static func longest(of sorted: [[UInt8]], in text: UnsafeRawBufferPointer) -> Int? {
        var text = text
        while true {
            let place = place(after: text, in: sorted)
            guard place > 0 else { return nil }
            let value = sorted[place - 1]
            var common = 0
            while common < min(value.count, text.count), value[common] == text[common] { common += 1 }
            if common == value.count { return common }
            // A shorter value that the text begins with is the beginning of this one, too.
            guard common >= shortest else { return nil }
            text = UnsafeRawBufferPointer(rebasing: text[..<common])
        }
    }

    /// The index after the last value that is not greater than a text.
    private static func place(after text: UnsafeRawBufferPointer, in sorted: [[UInt8]]) -> Int {
        var range = sorted.indices
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            if text.lexicographicallyPrecedes(sorted[middle]) {
                range = range.lowerBound..<middle
            } else {
                range = (middle + 1)..<range.upperBound
            }
        }
        return range.lowerBound
    }
}
