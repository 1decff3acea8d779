import FoundationEssentials

/// Parses an event stream as the HTML standard describes it (§9.2.6, "Interpreting an event stream"): bytes in, events
/// out.
///
/// The caller appends chunks as they arrive, and takes events until there is none. Where the chunks are split does not
/// matter.
///
/// An incomplete event at the end of the stream is dropped together with its id.
struct EventStreamParser {
    /// An event or a line is larger than the limit, in bytes.
    struct TooLarge: Error, Equatable {
        var limit: Int
    }

    /// The value for `Last-Event-ID`. It changes when an event ends, not before.
    private(set) var lastEventID: String
    /// The wait before the next connection that the server last asked for, in milliseconds.
    private(set) var retry: Int?

    private let eventLimit: Int
    /// The largest size of a line: that of its value, and room for the name before it.
    private let lineLimit: Int
    private var buffer: [UInt8] = []
    /// Where the line that is read now begins.
    private var start = 0
    /// Up to where that line was searched for its end.
    private var searched = 0
    private var isAtStart = true
    /// Whether the last line ended with CR, so that an LF that follows belongs to it.
    private var endedWithCR = false
    /// Whether the line that is read now is a comment, of which no byte is kept.
    private var isInComment = false

    private var type = ""
    private var data: [UInt8] = []
    private var hasData = false
    private var id: String

    /// - Parameters:
    ///   - lastEventID: the id that the connection was resumed with.
    ///   - eventLimit: the largest size of an event's data, and of the value of a line, in bytes.
    init(lastEventID: String = "", eventLimit: Int) {
        self.lastEventID = lastEventID
        self.eventLimit = eventLimit
        lineLimit = eventLimit.addingReportingOverflow(64).overflow ? .max : eventLimit + 64
        id = lastEventID
    }

    mutating func append(_ chunk: some Collection<UInt8>) {
        if start == buffer.count {
            buffer.removeAll(keepingCapacity: true)
        } else if start > 0 {
            buffer.removeFirst(start)
        }
        searched -= start
        start = 0
        buffer.append(contentsOf: chunk)
    }

    /// Returns the next whole event; `nil` when more bytes are needed.
    mutating func next() throws(TooLarge) -> ServerSentEvent? {
        guard skipByteOrderMark() else { return nil }
        while let line = nextLine() {
            if !line.isEmpty {
                try read(line)
            } else if let event = endEvent() {
                return event
            }
        }
        guard buffer.count - start <= lineLimit else { throw TooLarge(limit: eventLimit) }
        return nil
    }

    // MARK: Lines

    /// Returns whether the start of the stream is known.
    private mutating func skipByteOrderMark() -> Bool {
        guard isAtStart else { return true }
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let head = buffer.prefix(mark.count)
        if head.elementsEqual(mark.prefix(head.count)) {
            guard head.count == mark.count else { return false }
            start = mark.count
            searched = start
        }
        isAtStart = false
        return true
    }

    /// Returns where the next line is, without its end; `nil` when it has not arrived whole.
    private mutating func nextLine() -> Range<Int>? {
        while true {
            skipLineFeed()
            guard start < buffer.count else { return nil }
            if buffer[start] == UInt8(ascii: ":"), searched == start { isInComment = true }
            guard let end = lineEnd(from: searched) else {
                // The text of a comment is not read, so it may be of any length.
                if isInComment { start = buffer.count }
                searched = buffer.count
                return nil
            }
            let line = start..<end
            endedWithCR = buffer[end] == UInt8(ascii: "\r")
            start = end + 1
            searched = start
            guard isInComment else { return line }
            isInComment = false
        }
    }

    private mutating func skipLineFeed() {
        guard endedWithCR, start < buffer.count else { return }
        endedWithCR = false
        guard buffer[start] == UInt8(ascii: "\n") else { return }
        start += 1
        searched = start
    }

    private func lineEnd(from index: Int) -> Int? {
        buffer.withUnsafeBufferPointer { bytes in
            var index = index
            while index < bytes.count {
                if bytes[index] == UInt8(ascii: "\n") || bytes[index] == UInt8(ascii: "\r") { return index }
                index += 1
            }
            return nil
        }
    }

    /// The data of an event that the empty line after it does not end yet, with an unfinished last line; `nil` without
    /// data. Only an end marker counts without that line, because nothing can follow it.
    var unfinishedData: String? {
        var rest = self
        rest.append(Data("\n\n".utf8))
        return (try? rest.next())?.data
    }

    // MARK: Fields

    private enum Field { case data, event, id, retry, other }

    private mutating func read(_ line: Range<Int>) throws(TooLarge) {
        guard line.count <= lineLimit else { throw TooLarge(limit: eventLimit) }
        let (field, value) = parts(of: line)
        guard value.count <= eventLimit else { throw TooLarge(limit: eventLimit) }
        switch field {
        case .data:
            guard data.count + (hasData ? 1 : 0) + value.count <= eventLimit else { throw TooLarge(limit: eventLimit) }
            if hasData { data.append(UInt8(ascii: "\n")) }
            data.append(contentsOf: buffer[value])
            hasData = true
        case .event:
            type = text(value)
        case .id:
            if !buffer[value].contains(0) { id = text(value) }
        case .retry:
            guard !value.isEmpty, buffer[value].allSatisfy({ (0x30...0x39).contains($0) }) else { return }
            // A number that does not fit in an Int is longer than any wait.
            retry = Int(text(value)) ?? .max
        case .other:
            break
        }
    }

    /// The field of a line and where its value is. A line without a colon is a name with an empty value. One space
    /// after the colon is not part of the value.
    private func parts(of line: Range<Int>) -> (Field, Range<Int>) {
        buffer.withUnsafeBufferPointer { bytes in
            let colon = line.first { bytes[$0] == UInt8(ascii: ":") } ?? line.upperBound
            var start = min(colon + 1, line.upperBound)
            if start < line.upperBound, bytes[start] == UInt8(ascii: " ") { start += 1 }
            let name = UnsafeBufferPointer(rebasing: bytes[line.lowerBound..<colon])
            let field: Field =
                switch name.count {
                case 4 where name.elementsEqual("data".utf8): .data
                case 5 where name.elementsEqual("event".utf8): .event
                case 2 where name.elementsEqual("id".utf8): .id
                case 5 where name.elementsEqual("retry".utf8): .retry
                default: .other
                }
            return (field, start..<line.upperBound)
        }
    }

    private func text(_ range: Range<Int>) -> String {
        buffer.withUnsafeBufferPointer { String(decoding: UnsafeBufferPointer(rebasing: $0[range]), as: UTF8.self) }
    }

    /// Ends the event that was read. Its id counts also when it has no data.
    private mutating func endEvent() -> ServerSentEvent? {
        if lastEventID != id { lastEventID = id }
        defer {
            type = ""
            data.removeAll(keepingCapacity: true)
            hasData = false
        }
        guard hasData else { return nil }
        return ServerSentEvent(
            type: type.isEmpty ? "message" : type, data: String(decoding: data, as: UTF8.self), id: id)
    }
}
