import FoundationEssentials
import LATTesting
import Testing

@testable import LATRealtime

/// The public list of Autobahn's cases, repeated here: as bytes for the reader, in any split, and over a connection, where
/// the client echoes messages as Autobahn wants it.
@Suite(.timeLimit(.minutes(5))) struct AutobahnTests {
    @Test(arguments: AutobahnCase.frames + AutobahnCase.texts) func readerFindsTheEvents(_ item: AutobahnCase) {
        var random = SystemRandomNumberGenerator()
        let step = max(1, item.wire.count / 400)
        for size in [item.wire.count, step, step * 3] {
            #expect(Outcome(of: item.wire, inPiecesOf: { max(1, size) }) == Outcome(item), "pieces of \(size)")
        }
        let largest = max(1, min(item.wire.count, 5_000))
        #expect(Outcome(of: item.wire) { .random(in: 1...largest, using: &random) } == Outcome(item))
    }

    @Test(arguments: AutobahnCase.limits) func readerFindsLargeMessages(_ item: AutobahnCase) {
        #expect(Outcome(of: item.wire, inPiecesOf: { 60_000 }) == Outcome(item))
    }

    /// A text is refused at its first bad byte.
    @Test func badTextFailsAtOnce() throws {
        for item in AutobahnCase.texts where item.id.hasPrefix("6.4.") {
            var reader = MessageReader(limit: 1 << 20)
            for byte in item.wire.dropLast() where item.id != "6.4.1" && item.id != "6.4.3" {
                reader.append([byte])
                #expect(try reader.next() == nil, "\(item.id)")
            }
        }
    }

    @Test(arguments: AutobahnCase.frames + AutobahnCase.texts) func clientEchoes(_ item: AutobahnCase) async throws {
        try await run(item)
    }

    @Test func clientEchoesLargeMessages() async throws {
        // Those of 8 MiB and more take long in a debug build; the reader's test has them.
        for item in AutobahnCase.limits where item.wire.count <= 4_300_000 { try await run(item) }
    }

    private func run(_ item: AutobahnCase) async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        let messages = item.events.compactMap { if case .message(let message) = $0 { message } else { nil } }
        var steps: [MockReply.SocketStep] = [.bytes(Data(item.wire))]
        switch item.end {
        case .open: steps += [.receive(messages.count), .close(1000)]
        case .closed, .fails: steps.append(.receive(.max))
        }
        server.enqueue(.webSocket(steps))
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(compresses: false, closeTimeout: .seconds(30)))
        var received: [WebSocket.Message] = []
        var error: NetworkError?
        do {
            for try await message in socket.messages {
                received.append(message)
                // An echo cannot be sent once the connection has failed.
                if case .open = item.end { try await socket.send(message) }
            }
        } catch let failure as NetworkError {
            error = failure
        }
        #expect(received == messages, "\(item.id)")
        let pongs = item.events.compactMap { if case .ping(let payload) = $0 { Data(payload) } else { nil } }
        switch item.end {
        case .open:
            #expect(error == nil, "\(item.id): \(String(describing: error))")
            #expect(server.socketMessages.filter { $0.kind == .pong }.map(\.data) == pongs, "\(item.id)")
            let echoes = server.socketMessages.filter { $0.kind == .text || $0.kind == .data }
            #expect(echoes.map(\.data) == messages.map(\.data), "\(item.id)")
        case .closed(let code):
            #expect(error == nil, "\(item.id): \(String(describing: error))")
            #expect(socket.closing?.code.rawValue == code ?? 1005, "\(item.id)")
            try await server.waitForSocketMessages(1)
            #expect(server.socketMessages.last?.kind == .close(code: code.map(Int.init)), "\(item.id)")
        case .fails(let code):
            #expect(error?.kind == .protocolViolation, "\(item.id)")
            #expect(socket.closing?.code.rawValue == code, "\(item.id)")
            try await server.waitForSocketMessages(1)
            #expect(server.socketMessages.last?.kind == .close(code: Int(code)), "\(item.id)")
        }
        server.stop()
        await manager.shutdown()
    }
}

/// What a reader makes of bytes.
private struct Outcome: Equatable {
    var events: [AutobahnCase.Event] = []
    var end = AutobahnCase.End.open

    init(_ item: AutobahnCase) { (events, end) = (item.events, item.end) }

    init(of wire: [UInt8], inPiecesOf size: () -> Int) {
        var reader = MessageReader(limit: 16 << 20)
        var rest = wire[...]
        do throws(WebSocketViolation) {
            while !rest.isEmpty {
                let count = size()
                reader.append(rest.prefix(count))
                rest = rest.dropFirst(count)
                while let event = try reader.next() { note(event) }
            }
        } catch {
            end = .fails(error.code)
        }
    }

    private mutating func note(_ event: MessageReader.Event) {
        switch event {
        case .message(let message): events.append(.message(message))
        case .ping(let payload): events.append(.ping(payload))
        case .pong: break
        case .close(let code, _): end = .closed(code)
        }
    }
}
