import FoundationEssentials
import LATNetworking

/// Shows a body on a terminal.
struct TerminalBody {
    /// JSON is laid out up to this size; what is longer is shown as it comes.
    private static let layoutLimit = 4 << 20

    private let console: Console
    private var held: Data?
    private var lastByte = UInt8(ascii: "\n")
    private(set) var isBinary = false

    init(_ response: HTTPResponse, _ console: Console) {
        self.console = console
        let type = (response.headers["Content-Type"] ?? "").lowercased()
        held = type.contains("json") && !type.contains("seq") && !type.contains("ndjson") ? Data() : nil
    }

    /// Takes a chunk. After one that ``isBinary`` nothing more is shown.
    mutating func write(_ chunk: Data) throws(Output.Failure) {
        if chunk.contains(0) { isBinary = true }
        guard !isBinary else { return }
        guard var held else { return try show(chunk) }
        held.append(chunk)
        self.held = held
        if held.count > Self.layoutLimit {
            self.held = nil
            try show(held)
        }
    }

    /// The body is over, whole or not.
    mutating func finish() throws(Output.Failure) {
        guard !isBinary else { return }
        if let held, !held.isEmpty {
            if let text = JSONLayout.text(of: held, style: console.outStyle) {
                try console.print(text)
                return
            }
            try show(held)
        }
        // The prompt belongs on a line of its own.
        if lastByte != UInt8(ascii: "\n") { try console.print("") }
    }

    private mutating func show(_ bytes: Data) throws(Output.Failure) {
        try console.out.write(bytes)
        lastByte = bytes.last ?? lastByte
    }
}
