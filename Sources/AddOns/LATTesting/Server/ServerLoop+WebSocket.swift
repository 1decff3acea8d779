import Cryptography
import FoundationEssentials
import Glibc
import HTTPCore
import Platform

// Connections that have become WebSockets.
extension ServerLoop {
    /// The reply with the fields of the handshake that depend on the request; a refusal of one that is no handshake (RFC 6455
    /// §4.2.1).
    static func upgrading(_ reply: MockReply, _ head: RequestHead) -> MockReply {
        guard reply.socket != nil else { return reply }
        func has(_ name: String, _ option: String) -> Bool {
            head.headers[values: name].contains { FieldList.names($0).contains(option) }
        }
        let key = head.headers["Sec-WebSocket-Key"] ?? ""
        guard head.method == "GET", head.minorVersion > 0, has("Upgrade", "websocket"), has("Connection", "upgrade"),
            Data(base64Encoded: key)?.count == 16
        else { return .text("the request is no handshake of a WebSocket\n", status: 400) }
        guard head.headers["Sec-WebSocket-Version"] == "13" else {
            return .status(426).header("Upgrade", "websocket").header("Sec-WebSocket-Version", "13")
        }
        guard !reply.headers.contains("Sec-WebSocket-Accept") else { return reply }
        return reply.header("Sec-WebSocket-Accept", MessageDigest.webSocketAccept(key))
    }

    func receiveSocket(_ connection: Connection) {
        guard let bytes = receivedBytes(of: connection) else { return }
        feedSocket(connection, bytes)
        playSocket(connection)
    }

    func feedSocket(_ connection: Connection, _ bytes: ArraySlice<UInt8>) {
        guard let received = connection.player?.receive(bytes, connection: connection.id, at: .now), !received.isEmpty
        else { return }
        shared.update { contents in
            contents.socketMessageCount += received.count
            if contents.settings.recordsRequests { contents.socketMessages += received }
        }
    }

    /// Performs the script until it waits.
    func playSocket(_ connection: Connection) {
        guard var player = connection.player else { return }
        // Removed while it changes, so that its bytes are not copied.
        connection.player = nil
        defer { if case .webSocket = connection.phase { connection.player = player } }
        var budget = Self.sendBudget
        while true {
            switch player.next(at: .now) {
            case .send(let bytes):
                guard let count = connection.send(.bytes(bytes)) else { return close(connection) }
                player.didSend(count)
                if count > 0 { shared.update { $0.sentBytes += Int64(count) } }
                budget -= count
                if count == 0 || budget <= 0 {
                    connection.phase = .webSocket(.room, reads: player.reads)
                    return
                }
            case .wait(let time):
                schedule(connection, at: time)
                connection.phase = .webSocket(.time, reads: true)
                return
            case .receive:
                connection.phase = .webSocket(.none, reads: true)
                return
            case .stall:
                connection.phase = .webSocket(.stall, reads: false)
                return
            case .close: return closeGracefully(connection)
            case .reset:
                connection.phase = .resetting(until: .now + Self.lingerTime)
                return resetWhenReceived(connection)
            }
        }
    }
}
