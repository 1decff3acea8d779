import FoundationEssentials

@testable import Cryptography
@testable import HTTPCore
@testable import LATClient
@testable import LATRealtime

/// Reading a server's frames at once, byte by byte and in pieces gives the same messages, none of them above the limit. A
/// client's frames can be read again. The answer to a handshake is checked without a crash.
@Sendable func fuzzFrames(_ bytes: [UInt8]) throws {
    guard let first = bytes.first else { return }
    let compression = first & 1 == 0 ? nil : WebSocketHandshake.Compression(serverResets: first & 2 != 0)
    let wire = bytes.dropFirst()
    let whole = MessageRun(of: wire, inPiecesOf: wire.count, compression)
    for size in [1, 3, 64] {
        let pieces = MessageRun(of: wire, inPiecesOf: size, compression)
        // A large piece of a compressed message may exceed the limit before its invalid text is found.
        let isSame =
            compression == nil
            ? whole.violation == pieces.violation : (whole.violation == nil) == (pieces.violation == nil)
        try expect(isSame && whole.events == pieces.events, "at once \(whole), in pieces of \(size) \(pieces)")
    }
    try expectReadAgain(Array(wire))
    try fuzzAnswer(Array(wire))
}

private struct MessageRun {
    static let limit = 100_000
    var events: [MessageReader.Event] = []
    var violation: WebSocketViolation?

    init(of wire: ArraySlice<UInt8>, inPiecesOf size: Int, _ compression: WebSocketHandshake.Compression?) {
        var reader = MessageReader(limit: Self.limit, compression: compression)
        var rest = wire
        do throws(WebSocketViolation) {
            while !rest.isEmpty {
                reader.append(rest.prefix(size))
                rest = rest.dropFirst(size)
                while let event = try reader.next() {
                    events.append(event)
                    if case .message(let message) = event, message.byteCount > Self.limit {
                        throw .tooLarge("\(message.byteCount) bytes are above the limit")
                    }
                }
            }
        } catch {
            violation = error
        }
    }
}

/// A client's frame is the payload again when its mask is taken off.
private func expectReadAgain(_ payload: [UInt8]) throws {
    var frames: [UInt8] = []
    var writer = FrameWriter()
    payload.withUnsafeBytes { writer.append(.data, $0, to: &frames) }
    let head = payload.count < 126 ? 2 : payload.count < 65_536 ? 4 : 10
    try expect(frames.count == head + 4 + payload.count && frames[1] & 0x80 != 0, "\(frames.count) bytes")
    let mask = Array(frames[head..<(head + 4)])
    let plain = frames[(head + 4)...].enumerated().map { $1 ^ mask[$0 & 3] }
    try expect(plain == payload, "the mask does not come off")
    // Without the mask it is a server's frame.
    var reader = MessageReader(limit: .max)
    reader.append([frames[0], frames[1] & 0x7F] + frames[2..<head] + payload)
    let event = try? reader.next()
    try expect(event == .message(.data(Data(payload))), "read again as \(String(describing: event))")
}

/// The answer to a handshake with these fields agrees only on what was offered, within the limits of the RFC.
private func fuzzAnswer(_ bytes: [UInt8]) throws {
    let handshake = WebSocketHandshake(
        protocols: ["v1", "v2"], offersCompression: true, key: [UInt8](repeating: 0, count: 16))
    var headers = HTTPHeaders(wireHead: bytes)
    headers["Upgrade"] = "websocket"
    headers["Connection"] = "Upgrade"
    headers["Sec-WebSocket-Accept"] = MessageDigest.webSocketAccept(handshake.key)
    guard let agreement = try? handshake.agreement(headers) else { return }
    try expect(agreement.subprotocol.map { ["v1", "v2"].contains($0) } ?? true, "\(agreement)")
    try expect(agreement.compression.map { (8...15).contains($0.clientWindow) } ?? true, "\(agreement)")
}
