import FoundationEssentials
import LATInspect
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import HTTPCore

/// A replay equals the recording in all that a program sees, whatever the exchange is. The seeds are fixed.
@Suite(.timeLimit(.minutes(2))) struct CassetteRoundTripTests {
    /// What a server does, which is all made of the generator.
    private struct Answer {
        var status = 200
        var reason = ""
        var headers: HTTPHeaders = [:]
        var trailers: HTTPHeaders = [:]
        var pieces: [Data] = []
        var failure: NetworkError?

        init(_ secret: String, _ random: inout SeededGenerator) {
            let json = JSONValue.string(secret).description
            let (url, value) = (secret.percentEncodedComponent, Self.json(secret, 3, &random).description)
            let texts = [
                ("application/json", value), ("application/json", "[\(json), \(value)]"),
                ("application/x-www-form-urlencoded", "a=1&token=\(url)&b=\(url)"),
                ("text/plain", "é \(secret)\n\(json) \(url)"),
                ("text/event-stream", "id: 1\ndata: \(value)\n\nevent: x\ndata: \(secret)\n\n"),
                ("text/event-stream", "data:\(Self.lines(of: value, &random))\n\ndata: \(json)\n\n"),
                ("application/x-ndjson", "\(value)\n\(value)\n"),
                ("text/html", "<a href='https://h/?token=\(url)'>\(secret)</a>"),
            ]
            let (type, text) = texts.randomElement(using: &random) ?? texts[0]
            var body = Data(text.utf8)
            if Int.random(in: 0..<5, using: &random) == 0 { body = Data([0xFF, 0]) + body }
            status = [200, 201, 404, 500].randomElement(using: &random) ?? 200
            reason = ["", "Fine", "no \(secret)"].randomElement(using: &random) ?? ""
            headers = ["Content-Type": type, "X-Echo": "<\(secret)>", "X-Next": "/x?token=\(url)&a=1"]
            trailers = Bool.random(using: &random) ? ["X-Trailer": "t \(secret)"] : [:]
            while !body.isEmpty {
                let piece = body.prefix(Int.random(in: 1...40, using: &random))
                pieces.append(Data(piece))
                body = body.dropFirst(piece.count)
            }
            if Int.random(in: 0..<4, using: &random) == 0 {
                failure = NetworkError(.connectionLost, message: "lost after \(secret)")
            }
        }

        /// JSON in several lines `data:` of one event, with other lines between them.
        private static func lines(of json: String, _ random: inout SeededGenerator) -> String {
            let end = ["\n", "\r\n"].randomElement(using: &random) ?? "\n"
            var (isInString, isEscaped, lines) = (false, false, "")
            for scalar in json.unicodeScalars {
                lines.unicodeScalars.append(scalar)
                if scalar == "\"", !isEscaped { isInString.toggle() }
                isEscaped = scalar == "\\" && !isEscaped
                guard !isInString, ":,{[".unicodeScalars.contains(scalar), Bool.random(using: &random) else { continue }
                let others = scalar == ":" ? ["", "id: 7\(end)", "event: x\(end)", ": hello\(end)"] : [""]
                lines += "\(end)\(others.randomElement(using: &random) ?? "")data: "
            }
            return lines
        }

        private static func json(_ secret: String, _ depth: Int, _ random: inout SeededGenerator) -> JSONValue {
            switch Int.random(in: 0..<(depth > 0 ? 9 : 6), using: &random) {
            case 0: return .string(secret)
            case 1: return .string("x \(secret) y \u{1F600}\"\\\n")
            case 2: return .int(Int64.random(in: -9...9, using: &random))
            case 3: return .null
            case 4: return .string("/a/b?q=1&token=\(secret.percentEncodedComponent)")
            case 5: return .bool(Bool.random(using: &random))
            case 6: return .array((0..<3).map { _ in json(secret, depth - 1, &random) })
            default:
                // A secret that only the server knows gets a stand-in, so the values of secret names are the client's.
                var members: [String: JSONValue] = Bool.random(using: &random) ? ["token": .string(secret)] : [:]
                for name in ["code", "name", "é", "a b", "user"] where Bool.random(using: &random) {
                    members[name] = json(secret, depth - 1, &random)
                }
                return .object(members)
            }
        }
    }

    private struct Server: Transport {
        let answer: Answer

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            var response = HTTPResponse(
                status: answer.status, reason: answer.reason, headers: answer.headers, trailers: answer.trailers,
                url: request.url)
            guard request.streamsBody == true else {
                response.body = ResponseBody(answer.pieces.reduce(into: Data()) { $0 += $1 })
                if let failure = answer.failure {
                    throw NetworkError(failure.kind, message: failure.message, request: request, response: response)
                }
                return response
            }
            response.body = ResponseBody(Pieces(answer))
            return response
        }
    }

    private final class Pieces: ResponseBody.Source {
        private let rest: Mutex<[Data]>
        private let failure: NetworkError?

        init(_ answer: Answer) {
            rest = Mutex(answer.pieces.reversed())
            failure = answer.failure
        }

        func next() async throws -> Data? {
            if let piece = rest.withLock({ $0.popLast() }) { return piece }
            if let failure { throw failure }
            return nil
        }
    }

    /// All that a program sees, as text.
    private func run(_ cassette: Cassette, _ secret: String, isStream: Bool) async throws -> [String] {
        var request = HTTPRequest("POST", "http://a.test/x?token=\(secret.percentEncodedComponent)")
        request.headers = ["Authorization": "Bearer \(secret)"]
        request.body = .json(["password": secret, "a": "1"])
        request.streamsBody = isStream
        func seen(_ response: HTTPResponse?) -> [String] {
            guard let response else { return [] }
            return ["\(response.status) \(response.reason)"] + response.headers.map { "\($0): \($1)" }
                + response.trailers.map { "\($0): \($1)" }
        }
        do {
            let response = try await cassette.send(request)
            var all = seen(response)
            do {
                for try await piece in response.body { all.append(piece.base64EncodedString()) }
            } catch let error as NetworkError { all.append("\(error.kind) \(error.message)") }
            return all
        } catch let error as NetworkError {
            return seen(error.response) + [
                "\(error.kind) \(error.message)", "\(error.response?.data.base64EncodedString() ?? "")",
            ]
        }
    }

    @Test(arguments: 0..<200) func replayEqualsTheRecording(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let canary = Canary.all[Int(seed % 2)]
        let answer = Answer(canary.text, &random)
        let isStream = Bool.random(using: &random)
        let folder = try TemporaryDirectory()
        let recording = try Cassette("calls", in: folder.path, mode: .all, transport: Server(answer: answer))
        let first = try await run(recording, canary.text, isStream: isStream)
        try recording.eject()
        let file = folder.read("calls.yaml") ?? Data()
        #expect(!file.isEmpty && !Canary.isFound(in: file), "seed \(seed): \(String(decoding: file, as: UTF8.self))")
        let replayed = try await run(Cassette("calls", in: folder.path, mode: .none), canary.text, isStream: isStream)
        #expect(replayed == first, "seed \(seed): \(String(decoding: file, as: UTF8.self))")
    }

    @Test func removedNameIsNoSecretOfTheCassette() async throws {
        let folder = try TemporaryDirectory()
        let server = try MockServer()
        server.fallback { _ in .json(#"{"token": "shown-4711", "password": "hidden-4711"}"#) }
        let cassette = try Cassette("calls", in: folder.path, mode: .all)
        let manager = try CentralRequestManager.make {
            $0.transport = cassette
            $0.secrets.remove(parameter: "token")
        }
        _ = try await manager.startRequest("GET", server.url("/x"))
        try cassette.eject()
        let text = String(decoding: folder.read("calls.yaml") ?? Data(), as: UTF8.self)
        #expect(text.contains("shown-4711") && !text.contains("hidden-4711"))
    }
}
