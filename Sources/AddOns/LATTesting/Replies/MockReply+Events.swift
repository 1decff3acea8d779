import FoundationEssentials
import HTTPCore

/// Replies that are event streams (`text/event-stream`), written as a script.
extension MockReply {
    /// A step of an event stream.
    public enum EventStep: Sendable {
        /// An event with this data, each line in its own field.
        case event(_ data: String, type: String? = nil, id: String? = nil)
        /// A comment, which keeps the connection alive.
        case comment(_ text: String = "")
        /// A field that asks the client to wait this long before its next connection.
        case retry(milliseconds: Int)
        /// UTF-8 in its own chunk, sent unchanged, such as a part of an event.
        case text(_ text: String)
        /// Steps, repeated in one chunk, such as a flood of events. Steps among them that send nothing are left out.
        case repeated(_ steps: [EventStep], count: Int)
        /// A wait.
        case wait(_ duration: Duration)
        /// Nothing more; the connection stays open until the client closes it.
        case stall
        /// The end of the connection in the middle of the body.
        case cut
        /// A reset of the connection.
        case reset

        fileprivate var bytes: Data {
            switch self {
            case .event(let data, let type, let id):
                var text = ""
                if let type { text += "event: \(type)\n" }
                if let id { text += "id: \(id)\n" }
                // The client ends a line at each of them.
                let ends: Set<Character> = ["\n", "\r", "\r\n"]
                for line in data.split(omittingEmptySubsequences: false, whereSeparator: ends.contains) {
                    text += "data: \(line)\n"
                }
                return Data((text + "\n").utf8)
            case .comment(let text): return Data(":\(text)\n\n".utf8)
            case .retry(let milliseconds): return Data("retry: \(milliseconds)\n\n".utf8)
            case .text(let text): return Data(text.utf8)
            case .repeated(let steps, let count):
                let once = steps.reduce(into: Data()) { $0.append($1.bytes) }
                var all = Data(capacity: once.count * max(0, count))
                for _ in 0..<max(0, count) { all.append(once) }
                return all
            case .wait, .stall, .cut, .reset: return Data()
            }
        }
    }

    /// Makes an event stream. Each step is a chunk, and after the last one the stream ends.
    ///
    /// ```swift
    /// server.enqueue(.events(.event("one", id: "1"), .wait(.milliseconds(50)), .comment(), .event("two"), .cut))
    /// ```
    public static func events(_ steps: EventStep...) -> MockReply { events(steps) }

    /// Makes an event stream from a list of steps. What follows ``EventStep/cut`` or ``EventStep/reset`` is not sent.
    public static func events(_ steps: [EventStep]) -> MockReply {
        var chunks: [Data] = []
        var sent: Int64 = 0
        var pauses: [Pause] = []
        var last: EventStep?
        steps: for step in steps {
            switch step {
            case .wait(let duration): pauses.append(Pause(point: .afterBodyBytes(sent), duration: duration))
            case .stall: pauses.append(Pause(point: .afterBodyBytes(sent), duration: nil))
            case .cut, .reset:
                last = step
                break steps
            case .event, .comment, .retry, .text, .repeated:
                let bytes = step.bytes
                chunks.append(bytes)
                sent += Int64(bytes.count)
            }
        }
        var reply = MockReply.chunked(chunks, contentType: "text/event-stream")
        reply.pauses = pauses
        guard let end = last else { return reply }
        // With a length that is never reached, the end of the connection is not the end of the body.
        reply = reply.header("Content-Length", "\(Int64(1) << 40)").droppingConnection()
        if case .reset = end { reply = reply.resetting(afterBytes: .max) }
        return reply
    }
}
